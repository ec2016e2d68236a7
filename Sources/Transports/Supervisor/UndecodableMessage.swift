import Codecs
import SocketIO
import TransportAPI

/// A message that a ``MessageChannel`` or a ``SessionMessageChannel`` has received and that its codec cannot read.
public struct UndecodableMessage: Error, Sendable, Hashable {
    /// The message as it was received.
    public let payload: Payload
    /// The format of the channel; `nil` for one that this package does not have.
    public let expected: WireFormat?
    /// The error of the codec.
    public let error: CodecError

    /// The most likely format of the bytes, judged by their beginning. `nil` if no format fits, as for text that is neither JSON
    /// nor a message in XML.
    public var likelyFormat: WireFormat? {
        let bytes = payload.bytes
        let beginning = bytes.drop { [0x20, 0x09, 0x0a, 0x0d].contains($0) }
        if beginning.first == UInt8(ascii: "{") { return .json }
        // Other documents, such as HTML, are text.
        if beginning.starts(with: "<message".utf8) || beginning.starts(with: "<?xml".utf8) { return .xml }
        guard text == nil else { return nil }
        // The tag of a field: a number of at least 1 and one of the types that proto3 writes.
        guard let first = bytes.first, first >= 8, [0, 1, 2, 5].contains(first & 7) else { return nil }
        return .protobuf
    }

    /// The beginning of a message that is text: it was sent as text, or has printable characters only. Otherwise `nil`.
    private var text: Substring.UnicodeScalarView? {
        var beginning = payload.bytes.prefix(Self.judged)
        if beginning.count < payload.bytes.count {
            // The last character may be incomplete.
            while let last = beginning.last, last & 0xc0 == 0x80 { beginning.removeLast() }
            if let last = beginning.last, last >= 0xc0 { beginning.removeLast() }
        }
        let scalars = String(decoding: beginning, as: UTF8.self).unicodeScalars
        guard payload.kind == .text || isPrintable(scalars) else { return nil }
        return scalars.prefix(Self.quoted)
    }

    /// Whether all characters are printable. A message of protobuf often begins with a line feed, which is the tag of a text in
    /// its first field.
    private func isPrintable(_ scalars: String.UnicodeScalarView) -> Bool {
        guard let first = scalars.first, first.isPrintable else { return false }
        return scalars.allSatisfy { $0.isPrintable || $0 == "\t" || $0 == "\n" || $0 == "\r" }
    }

    /// How many bytes are judged, and how many characters of a text are shown.
    private static let (judged, quoted) = (1024, 32)
}

extension Unicode.Scalar {
    /// Whether the character can be shown anywhere. Marks of text direction cannot, and U+FFFD stands for bytes that are not
    /// UTF-8.
    fileprivate var isPrintable: Bool {
        switch value {
        case 0..<0x20, 0x7f..<0xa0, 0x2028...0x202e, 0x2066...0x2069, 0xfffd: false
        default: true
        }
    }
}

extension UndecodableMessage: CustomStringConvertible {
    /// The format that was expected, what the bytes look like, and the error of the codec.
    public var description: String {
        "expected \(title)\(found): \(hint)\(error)"
    }

    private var title: String { expected?.title ?? "the format of the channel" }

    /// Nothing if the codec says itself what it found. It knows what is content, which nobody wants in a log.
    private var found: String { error.problem == nil ? ", \(beginning)" : "" }

    private var beginning: String {
        guard let first = payload.bytes.first else { return "the message is empty" }
        if likelyFormat == nil, let text {
            let shown = String(String.UnicodeScalarView(text.map { $0.isPrintable ? $0 : "?" }))
            return "the message is text that begins with \(shown.debugDescription)"
                + (isOfOtherType ? "" : ", and not \(title)")
        }
        let digits = String(first, radix: 16)
        return "the first byte is 0x\(digits.utf8.count == 1 ? "0" : "")\(digits)"
    }

    /// Whether the message has the expected format, JSON or XML, and another type.
    private var isOfOtherType: Bool {
        expected == .json && error.code == .wrongType || expected == .xml && error.code == .wrongRoot
    }

    private var hint: String {
        if case .hello? = try? SessionFrame(payload) {
            return "it is the hello of a client in session mode; set the delivery mode of both sides. "
        }
        if case .request? = RequestEnvelope(payload) {
            return "it is a request; answer the requests of this session by onRequest. "
        }
        guard let likely = likelyFormat, likely != expected else { return "" }
        return
            "the sender may use \(likely.title); both sides need the same codec: the key codec of a client's configuration, "
            + "and the codec that a server gives to its channel. "
    }
}

extension WireFormat {
    fileprivate var title: String {
        switch self {
        case .json: "JSON"
        case .protobuf: "protobuf"
        case .xml: "XML"
        }
    }
}

/// Reports the messages that the codec of a channel cannot read. All copies of a ``MessageChannel`` share one, and all channels
/// of sessions share ``ofSessions``.
final class UndecodableReport: Sendable {
    private let count = Locked(0)
    private let write: @Sendable (String) -> Void

    /// - Parameter write: Writes the line for the first message.
    init(write: @escaping @Sendable (String) -> Void = writeToStandardError) {
        self.write = write
    }

    /// Reports a message to the observer. Without an observer, writes one line for the first message.
    func note(_ message: UndecodableMessage, of supervisor: Supervisor) {
        supervisor.report(.undecodable(bytes: message.payload.bytes.count, "\(message)"))
        guard isFirst(), !supervisor.isObserved else { return }
        write(message, "set an observer to see them")
    }

    /// The report of all sessions. Clients could otherwise fill the log of the server.
    static let ofSessions = UndecodableReport()

    /// Reports a message to the listeners of the session's events. Writes one line for the first message.
    func note(_ message: UndecodableMessage, of session: Session) {
        session.report(.undecodable(bytes: message.payload.bytes.count, "\(message)"))
        guard isFirst() else { return }
        write(message, "read the events of each session to see them")
    }

    private func isFirst() -> Bool {
        count.withLock { count in
            count += 1
            return count == 1
        }
    }

    private func write(_ message: UndecodableMessage, _ advice: String) {
        write(
            "a message of \(message.payload.bytes.count) bytes could not be decoded: \(message). Further ones are "
                + "not shown; \(advice)."
        )
    }
}

/// Writes a line to the standard error of the process. Ignores errors.
@Sendable
func writeToStandardError(_ line: String) {
    let bytes = Array("im-transports: \(line)\n".utf8)
    _ = bytes.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
}
