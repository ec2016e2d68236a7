import Primitives
import TransportAPI

/// Messages over a TCP byte stream, each after its length. The format is either this package's own, with ping and close
/// frame, or a plain one for other servers (``TCPConfiguration/Framing-swift.enum``). Docs/reference/wire-formats.md
/// describes every byte.
///
/// Client and server behave alike and there is no handshake, so the first `next` returns ``CoreEvent/opened``.
///
/// A message that is complete in the input becomes one array. The parts of any other message are moved into the array
/// under assembly as they arrive. That array grows with the bytes that have arrived, not with the announced length.
package struct FramedTCPCore: PackageCore {
    enum Phase {
        /// `.opened` must still be reported.
        case opening
        /// Messages can be sent and received.
        case open
        /// This side has sent its close frame and waits for the peer's.
        case closing
        /// `.closed` must still be reported.
        case ended
        /// Nothing follows.
        case done
    }

    /// Announced lengths up to this many bytes are allocated before the bytes have arrived.
    static let trustedReservation = 16 << 10
    private static let controlBit: UInt32 = 0x8000_0000
    package static let textBit: UInt32 = 0x4000_0000

    let configuration: TCPConfiguration
    /// Client or server, for errors that name another protocol. Both speak alike.
    package var role = CoreRole.client
    /// The client that the server has authenticated. Only connections in memory have such a decision.
    package var identity: Identity?
    private let limit: Int
    var phase = Phase.opening
    var reason = CloseReason.user
    private var assembly: [UInt8] = []
    private var missing = 0
    /// Whether the message under assembly is text.
    private var isText = false
    /// Whether a part of a length has arrived, so that the input holds an incomplete length.
    private var hasPartOfLength = false
    /// Whether a frame or a message has begun to arrive. Before that, a mistake can be of another protocol.
    var hasReceived = false
    /// The token of the last ping. Tokens count up from 1.
    var lastPing: UInt64 = 0
    /// When to stop waiting for the peer's close frame.
    package private(set) var deadline: Instant?

    /// Creates a core for one connection. Both roles behave alike.
    ///
    /// - Throws: `.invalidConfiguration` that names the key.
    package init(_ configuration: TCPConfiguration = TCPConfiguration()) throws(TransportError) {
        try configuration.validate()
        self.configuration = configuration
        limit = configuration.effectiveLimit
    }

    /// The memory of the message under assembly.
    package var bufferedBytes: Int { assembly.capacity }

    /// The protocol that carries the stream, for errors; the stream itself by default.
    package var carrier = ForeignProtocol.Expected.framedTCP
    package var expected: ForeignProtocol.Expected? { carrier }

    var isFramed: Bool { configuration.framing == .framed }
    private var marksText: Bool { configuration.marksText && isFramed }

    /// TCP has no acknowledgements of messages.
    package var acknowledges: Bool { false }

    /// The transport is reliable and ordered. Only this package's own format has a ping.
    package var capabilities: Capabilities {
        Capabilities(hasNativePing: isFramed, distinguishesText: marksText, maximumMessageSize: limit)
    }

    /// Does nothing, because there is no handshake.
    package mutating func start(_ context: inout CoreContext) {}

    /// Returns the next message, the answer to a ping, or the end of the connection.
    ///
    /// - Throws: `.protocolViolation` or `.messageTooLarge`. In this package's own format, a close frame with the
    ///   reason was written before.
    package mutating func next(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        switch phase {
        case .open, .closing: break
        case .opening:
            phase = .open
            return .opened
        case .ended:
            end(.done)
            return .closed(reason)
        case .done:
            input.removeAll()
            return nil
        }
        if missing > 0 { return try checked(assemble(&input), &context) }
        if case .plain(let plain) = configuration.framing { return try nextPlain(plain, &input, &context) }
        if let word = input.integer(at: 0, as: UInt32.self) {
            guard word & Self.controlBit != 0 else {
                isText = marksText && word & Self.textBit != 0
                let size = Int(isText ? word & ~Self.textBit : word)
                guard size <= limit else { throw tooLarge(size, input, &context) }
                return try checked(message(size, behind: 4, &input), &context)
            }
            let size = Int(word & ~Self.controlBit)
            guard size <= ControlFrame.maximumSize else {
                throw foreign(input, &context) ?? violation("a control frame of \(size) bytes", &context)
            }
            guard input.count >= 4 + size else { return nil }
            let frame = input.withUnsafeReadableBytes { ControlFrame(.init(rebasing: $0[4..<4 + size])) }
            guard let frame else {
                throw foreign(input, &context) ?? violation("a malformed control frame", &context)
            }
            input.consume(4 + size)
            hasReceived = true
            return try handle(frame, &context) ?? .progress
        }
        return nil
    }

    /// Handles the end of the stream, which is clean in plain framing and after this side's close frame.
    ///
    /// - Throws: `.connectionLost` otherwise.
    package mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        defer { end(.done) }
        switch phase {
        case .closing, .ended, .done: return .closed(reason)
        case .opening, .open: break
        }
        guard missing == 0, !hasPartOfLength else {
            throw TransportError(.connectionLost, .open, "the connection ended in the middle of a message")
        }
        guard !isFramed else {
            throw TransportError(.connectionLost, .open, "the connection ended without a close frame")
        }
        return .closed(CloseReason(.peer))
    }

    /// Writes one message.
    ///
    /// - Throws: `.messageTooLarge`, `.unsupported` for a payload with a topic, `.wouldBlock` before the connection
    ///   is open, and `.closedByPeer` or `.closedByUser` after its end.
    package mutating func send(
        _ payload: Payload,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        guard phase == .open else { throw notOpen }
        guard payload.topic == nil, !payload.isRetained else {
            throw TransportError(.unsupported, .open, "TCP has no topics and retains nothing; send the message without")
        }
        let size = payload.bytes.count
        guard size <= limit else {
            throw TransportError(
                .messageTooLarge,
                .open,
                "\(size) bytes are more than the limit of \(limit): raise max-message on both sides"
            )
        }
        context.output.reserve(size &+ 5)
        if case .plain(let plain) = configuration.framing {
            plain.write(size, to: &context.output)
        } else {
            let mark = marksText && payload.kind == .text ? Self.textBit : 0
            context.output.append(integer: UInt32(truncatingIfNeeded: size) | mark)
        }
        context.output.append(contentsOf: payload.bytes)
        return .written
    }

    /// Writes a ping.
    ///
    /// - Throws: `.unsupported` in plain framing, and the errors of a connection that is not open, as
    ///   ``send(_:id:_:)`` does.
    @discardableResult
    package mutating func ping(_ context: inout CoreContext) throws(TransportError) -> UInt64 {
        guard isFramed else { throw TransportError(.unsupported, .open, "plain framing has no ping") }
        guard phase == .open else { throw notOpen }
        lastPing &+= 1
        write(.ping(lastPing), &context)
        return lastPing
    }

    /// Writes a close frame and waits for the peer's. In plain framing, the connection ends at once.
    package mutating func close(_ reason: CloseReason, _ context: inout CoreContext) {
        guard phase == .open || phase == .opening else { return }
        self.reason = reason
        guard isFramed, phase == .open else { return end(.ended) }
        write(.close(reason), &context)
        phase = .closing
        deadline = context.now.advanced(by: configuration.closeTimeout)
    }

    /// Ends the connection if the peer has not answered the close frame within the timeout since it last took bytes.
    /// The reason stays that of the close, with the error `.timedOut`.
    package mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {
        guard phase == .closing, let deadline, deadline <= context.now else { return }
        let extended = context.outputMoved.advanced(by: configuration.closeTimeout)
        guard extended <= context.now else { return self.deadline = extended }
        reason.error = TransportError(.timedOut, .closing, "the peer did not answer the close frame")
        end(.ended)
    }

    /// Drops the message under assembly.
    package mutating func connectionEnded() {
        assembly = []
    }

    mutating func end(_ phase: Phase) {
        self.phase = phase
        deadline = nil
    }

    private var notOpen: TransportError {
        switch phase {
        case .opening: TransportError(.wouldBlock, .open, "the connection is not open yet")
        case .open, .closing, .ended, .done:
            reason.initiator == .peer
                ? TransportError(.closedByPeer, .closing, "the peer has closed the connection")
                : TransportError(.closedByUser, .closing, "the connection is closed")
        }
    }
}

// Messages.
extension FramedTCPCore {
    private mutating func nextPlain(
        _ plain: TCPConfiguration.PlainFraming,
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        let length: PlainLength?
        do throws(TransportError) {
            length = try plain.read(input)
        } catch {
            end(.done)
            throw error
        }
        hasPartOfLength = length == nil && !input.isEmpty
        guard let length else { return nil }
        guard length.bodySize <= limit else {
            let error = foreign(input, &context) ?? tooLarge(length.bodySize)
            end(.done)
            throw error
        }
        return message(length.bodySize, behind: length.headerSize, &input)
    }

    /// Returns the event of a message that is complete. A text must be UTF-8.
    @inline(__always)
    private mutating func checked(
        _ event: CoreEvent?,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        guard isText, case .message(let payload) = event else { return event }
        return try text(payload, &context)
    }

    private mutating func text(_ payload: Payload, _ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        var payload = payload
        payload.kind = .text
        guard payload.bytes.withUnsafeBytes({ UTF8Validator.isValid($0) }) else {
            let error = TransportError(.invalidText, .open, "the peer sent a text that is not UTF-8")
            fail(ClosePayload.invalidText, error, &context)
            throw error
        }
        return .message(payload)
    }

    @inline(__always)
    private mutating func message(_ size: Int, behind headerSize: Int, _ input: inout ByteBuffer) -> CoreEvent? {
        hasReceived = true
        if let bytes = input.bytes(at: headerSize, count: size) {
            input.consume(headerSize + size)
            return .message(Payload(bytes))
        }
        input.consume(headerSize)
        missing = size
        assembly.reserveCapacity(min(size, Self.trustedReservation))
        return assemble(&input)
    }

    private mutating func assemble(_ input: inout ByteBuffer) -> CoreEvent? {
        let arrived = min(missing, input.count)
        let grown = assembly.count + arrived
        if grown > assembly.capacity {
            assembly.reserveCapacity(min(assembly.count + missing, max(grown, 2 * assembly.capacity)))
        }
        input.withUnsafeReadableBytes { assembly.append(contentsOf: UnsafeRawBufferPointer(rebasing: $0[..<arrived])) }
        input.consume(arrived)
        missing -= arrived
        guard missing == 0 else { return nil }
        defer { assembly = [] }
        return .message(Payload(assembly))
    }

    private mutating func tooLarge(
        _ size: Int,
        _ input: borrowing ByteBuffer,
        _ context: inout CoreContext
    ) -> TransportError {
        if let error = foreign(input, &context) { return error }
        let error = tooLarge(size)
        fail(ClosePayload.messageTooLarge, error, &context)
        return error
    }

    private func tooLarge(_ size: Int) -> TransportError {
        TransportError(.messageTooLarge, .open, "the peer sent \(size) bytes; the limit is \(limit)")
    }

    /// Ends the connection if its first bytes, which are at the front of `input`, are of another protocol.
    private mutating func foreign(_ input: borrowing ByteBuffer, _ context: inout CoreContext) -> TransportError? {
        guard !hasReceived, phase == .open else { return nil }
        let other = input.withUnsafeReadableBytes { ForeignProtocol($0) }
        guard other.isForeign(to: .framedTCP) else { return nil }
        let (isEncrypted, time) = (context.isEncrypted, context.unixTime)
        if role == .server {
            other.answer(expected: .framedTCP, isEncrypted: isEncrypted, to: &context.output, unixTime: time)
        }
        let error = other.foreignError(expected: .framedTCP, by: role, isEncrypted: isEncrypted)
        reason = CloseReason(error)
        end(.done)
        return error
    }
}
