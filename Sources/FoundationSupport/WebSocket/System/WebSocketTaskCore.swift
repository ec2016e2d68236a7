import Primitives
import Protocols
import TransportAPI

/// The core of a connection whose WebSocket the system speaks. It checks messages, and reports what its channel reports
/// (``TaskFrame``).
struct WebSocketTaskCore: PackageCore {
    private enum Phase {
        case opening
        case open
        /// This side has sent its close frame, for this reason.
        case closing(CloseReason)
        case ended
    }

    private let maximumMessageSize: Int
    private let subprotocols: [String]
    private let followsRedirects: Bool
    private var phase = Phase.opening
    private var lastPing: UInt64 = 0
    private(set) var redirection: Redirection?

    init(_ configuration: WebSocketConfiguration) {
        maximumMessageSize = configuration.maximumMessageSize
        subprotocols = configuration.subprotocols
        followsRedirects = configuration.redirects > 0
    }

    var capabilities: Capabilities {
        Capabilities(distinguishesText: true, maximumMessageSize: maximumMessageSize)
    }

    var acknowledges: Bool { false }

    var lateHandshake: String { "the system's WebSocket was not open in time" }

    /// The driver limits the time of the handshake and of the close.
    var deadline: Instant? { nil }

    mutating func start(_ context: inout CoreContext) {}

    mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {}

    mutating func next(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        let read = input.withUnsafeReadableBytes { bytes -> (event: Result<CoreEvent, TransportError>, count: Int)? in
            guard let (kind, body) = TaskFrame.first(bytes) else { return nil }
            let event = Result { () throws(TransportError) in try self.event(kind, body, &context) }
            return (event, TaskFrame.headerSize + body.count)
        }
        guard let read else { return nil }
        input.consume(read.count)
        return try read.event.get()
    }

    private mutating func event(
        _ kind: TaskFrame.Kind,
        _ body: UnsafeRawBufferPointer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent {
        switch (kind, phase) {
        case (.opened, .opening):
            let subprotocol = String(decoding: body, as: UTF8.self)
            guard subprotocol.isEmpty || subprotocols.contains(subprotocol) else {
                throw ClientHandshake.failed("the server chose a subprotocol that was not offered")
            }
            phase = .open
            return .opened
        case (.redirected, .opening):
            let (status, location) = TaskFrame.numberAndText(body)
            phase = .ended
            if followsRedirects { redirection = Redirection(status: Int(status), location: location) }
            throw .httpStatus(Int(status))
        case (.text, .open), (.binary, .open):
            guard body.count <= maximumMessageSize else { throw .receivedTooMuch(maximumMessageSize) }
            return .message(Payload([UInt8](body), kind: kind == .text ? .text : .binary))
        case (.pong, .open):
            context.counters.controlFrames += 1
            return .pong(TaskFrame.ping(body))
        case (.close, .open):
            let (code, text) = TaskFrame.numberAndText(body)
            phase = .ended
            return .closed(CloseReason(peerClosed: code, text: text))
        case (.close, .closing(let reason)):
            phase = .ended
            return .closed(reason)
        // What comes while this side closes is dropped, as with a WebSocket of this package.
        default: return .progress
        }
    }

    mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        switch phase {
        case .opening:
            throw TransportError(.connectionLost, .handshake, "the connection ended within the handshake")
        case .open: throw .webSocketClose(1006)
        case .closing(let reason):
            phase = .ended
            return .closed(reason)
        case .ended: return .closed(.user)
        }
    }

    mutating func send(
        _ payload: Payload,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        guard case .open = phase else { throw notOpen }
        try WebSocketConfiguration.admit(payload, atMost: maximumMessageSize)
        payload.bytes.withUnsafeBytes {
            TaskFrame.write(payload.kind == .text ? .text : .binary, $0, to: &context.output)
        }
        return .written
    }

    mutating func sendEncoded(_ bytes: UnsafeRawBufferPointer, _ context: inout CoreContext) {
        TaskFrame.write(.binary, bytes, to: &context.output)
    }

    mutating func ping(_ context: inout CoreContext) throws(TransportError) -> UInt64 {
        guard case .open = phase else { throw notOpen }
        lastPing += 1
        context.counters.controlFrames += 1
        TaskFrame.write(.ping, ping: lastPing, to: &context.output)
        return lastPing
    }

    mutating func close(_ reason: CloseReason, _ context: inout CoreContext) {
        switch phase {
        case .opening: phase = .ended
        case .open:
            phase = .closing(reason)
            let (code, text) = reason.closeFrame
            TaskFrame.write(.close, number: code, text, to: &context.output)
        case .closing, .ended: break
        }
    }

    private var notOpen: TransportError {
        if case .opening = phase { return TransportError(.wouldBlock, .handshake, "the handshake is not complete") }
        return TransportError(.closedByUser, .closing, "the connection is closed")
    }
}

extension TransportError {
    /// The error of a peer whose message is larger than allowed, as with a WebSocket of this package.
    static func receivedTooMuch(_ limit: Int) -> TransportError {
        TransportError(.messageTooLarge, .open, "a message is larger than the limit of \(limit) bytes", detail: 1009)
    }
}
