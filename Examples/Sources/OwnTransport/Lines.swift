import TransportAPI
import Transports

extension TransportDescriptor {
    /// Messages as lines over TCP: `lines://host:9500`.
    public static let lines = TransportDescriptor.stream("lines", defaultPort: 9500, settings: LinesSettings.list) {
        (_, _, settings) throws(TransportError) in
        LinesCore(limit: settings.limit)
    }
}

/// The options of `lines://`, besides those that all transports over TCP have.
struct LinesSettings: Sendable {
    /// The largest message in bytes.
    var limit = 64 << 10

    static let list = SettingList(LinesSettings(), [.maximumMessageSize(\.limit, atMost: 16 << 20)])
}

/// Each message is a line that ends with a newline. A newline in a message is written as `\n`, and a backslash as `\\`.
/// The protocol has no handshake, no ping and no close frame. Client and server use the same core.
struct LinesCore: ProtocolCore {
    private enum Phase {
        case opening, open, closing(CloseReason), ended
    }

    private static let (newline, backslash, letter) = (UInt8(ascii: "\n"), UInt8(ascii: "\\"), UInt8(ascii: "n"))

    /// The largest message in bytes.
    let limit: Int
    private var phase = Phase.opening
    /// How many bytes of the input are known to have no newline.
    private var searched = 0

    init(limit: Int) {
        self.limit = limit
    }

    var capabilities: Capabilities { Capabilities(hasNativePing: false, maximumMessageSize: limit) }
    var acknowledges: Bool { false }
    var deadline: Instant? { nil }

    mutating func start(_ context: inout CoreContext) {}

    mutating func next(_ input: inout ByteBuffer, _ context: inout CoreContext) throws(TransportError) -> CoreEvent? {
        switch phase {
        case .opening:
            phase = .open
            return .opened
        case .closing(let reason):
            phase = .ended
            return .closed(reason)
        case .ended:
            input.removeAll()
            return nil
        case .open:
            let end = input.withUnsafeReadableBytes { $0[searched...].firstIndex(of: Self.newline) }
            searched = end ?? input.count
            // In the worst case each byte was written as two.
            guard searched <= 2 * limit else { throw tooLarge(searched) }
            guard let end, let line = input.bytes(at: 0, count: end) else { return nil }
            input.consume(end + 1)
            searched = 0
            return .message(Payload(try message(of: line)))
        }
    }

    mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        guard searched == 0 else {
            throw TransportError(.connectionLost, .open, "the connection ended in the middle of a line")
        }
        phase = .ended
        return .closed(CloseReason(.peer))
    }

    mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {}

    mutating func send(
        _ payload: Payload,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        guard case .open = phase else { throw TransportError(.closedByUser, .closing, "the connection is closed") }
        guard payload.topic == nil, !payload.isRetained else {
            throw TransportError(.unsupported, .open, "lines have no topics, and nothing is retained")
        }
        guard payload.bytes.count <= limit else { throw tooLarge(payload.bytes.count) }
        for byte in payload.bytes {
            switch byte {
            case Self.newline: context.output.append(contentsOf: [Self.backslash, Self.letter])
            case Self.backslash: context.output.append(contentsOf: [Self.backslash, Self.backslash])
            default: context.output.append(byte)
            }
        }
        context.output.append(Self.newline)
        return .written
    }

    mutating func ping(_ context: inout CoreContext) throws(TransportError) -> UInt64 {
        throw TransportError(.unsupported, .open, "lines have no ping")
    }

    mutating func close(_ reason: CloseReason, _ context: inout CoreContext) {
        phase = .closing(reason)
    }

    /// The message that a line was written for.
    private func message(of line: [UInt8]) throws(TransportError) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(line.count)
        var rest = line[...]
        while let byte = rest.popFirst() {
            guard byte == Self.backslash else {
                bytes.append(byte)
                continue
            }
            switch rest.popFirst() {
            case Self.letter: bytes.append(Self.newline)
            case Self.backslash: bytes.append(Self.backslash)
            default: throw TransportError(.protocolViolation, .open, "a backslash is followed by neither n nor itself")
            }
        }
        guard bytes.count <= limit else { throw tooLarge(bytes.count) }
        return bytes
    }

    private func tooLarge(_ size: Int) -> TransportError {
        TransportError(.messageTooLarge, .open, "\(size) bytes are more than the limit of \(limit)")
    }
}
