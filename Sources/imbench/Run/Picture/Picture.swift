import CommandSupport
import Measuring
import Protocols
import TransportAPI
import Transports
import Workloads

/// Where a picture goes while chat messages are measured. Each place is a row of its own.
enum PicturePlace: String, Sendable, Hashable, CaseIterable {
    case none
    /// The connection of the messages.
    case same
    /// Another connection of the same transport.
    case second

    /// For tables.
    var words: String {
        switch self {
        case .none: "none"
        case .same: "same connection"
        case .second: "second connection"
        }
    }
}

/// The picture of `--mix picture=SIZE`.
enum Picture {
    /// The sizes that the option allows, in bytes.
    static let sizes = 1024...1 << 30

    /// Reads the value of `--mix`.
    static func bytes(_ text: String) throws(UsageError) -> Int {
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, parts[0] == "picture" else {
            throw UsageError("--mix is \(text.debugDescription); allowed is picture=SIZE, as in picture=1MB")
        }
        do throws(TransportError) {
            return try SettingFormat.bytes(sizes).read(parts[1], key: "--mix picture")
        } catch {
            throw UsageError(error.reason)
        }
    }

    /// A number of bytes in the largest unit that divides it.
    static func text(_ bytes: Int) -> String {
        let units = [(1 << 20, "MiB"), (1_000_000, "MB"), (1 << 10, "KiB"), (1000, "kB")]
        guard let (size, name) = units.first(where: { bytes.isMultiple(of: $0.0) }) else { return "\(bytes) bytes" }
        return "\(bytes / size) \(name)"
    }

    /// Why a connection cannot carry a picture; `nil` if it can.
    static func obstacle(_ transport: String, _ capabilities: Capabilities) -> String? {
        guard capabilities.isReliable else {
            return
                "\(transport) does not send lost datagrams again, and has no flow control, so a picture would not arrive whole"
        }
        guard capabilities.maximumMessageSize > PictureSender.headerSize else {
            return "a piece of the picture has more than \(PictureSender.headerSize) bytes; "
                + "the limit of \(transport) is \(capabilities.maximumMessageSize)"
        }
        return nil
    }
}

/// The pictures of one row.
struct PictureFigures: Sendable {
    var place: PicturePlace
    /// The size of the picture.
    var bytes: Int
    /// The mean time of a picture in each repeat, in milliseconds, from its first piece until the last one is back.
    var repeats: [Double?] = []
    /// The median, the shortest and the longest time of the pictures of all repeats, in milliseconds.
    var median: Double?
    var minimum: Double?
    var maximum: Double?
    /// How many pictures were whole.
    var count = 0
    var pieces = DeliveryCounts()

    /// Megabits of pictures per second, in each direction.
    var megabitsPerSecond: Double? { median.flatMap { $0 > 0 ? Double(bytes) * 8 / 1000 / $0 : nil } }
}
