import Primitives
import TransportAPI

/// The WebSocket protocol (RFC 6455) for both roles: opening handshake, messages, pings, closing handshake. It is a
/// value that does no I/O. ``ProtocolCore`` describes the contract with its driver.
///
/// | phase | next phase | when |
/// |---|---|---|
/// | idle | handshaking | started |
/// | handshaking | open | the handshake was accepted |
/// | | ending | closed by this side, which needs no close frame yet; or a page was the answer |
/// | open | closing | this side sent its close frame first |
/// | | awaitingEnd | the peer sent its close frame first, and was answered |
/// | closing | awaitingEnd | the peer's close frame arrived |
/// | | ending | it did not arrive in time |
/// | awaitingEnd | ending | the connection did not end in time |
/// | ending | ended | `closed` was reported |
///
/// Only clients wait for the end of the connection, within ``WebSocketConfiguration/closeTimeout``. A server reports
/// `closed` as soon as both close frames are sent, so that the server ends the TCP connection first (section 7.1.1). In
/// every phase, the end of the input and any error other than those of `send` and `ping` lead to `ended`.
package struct WebSocketCore: PackageCore {
    enum Phase: Sendable, Hashable {
        case idle, handshaking, open, closing, awaitingEnd, ending, ended
    }

    /// The side that this core plays.
    package let role: CoreRole
    /// The negotiated subprotocol, once the connection is open.
    package internal(set) var subprotocol: String?
    /// The address to which the server redirects this client, if the configuration allows redirects.
    package internal(set) var redirection: Redirection?

    package var cookies: CookieHeader?
    package private(set) var receivedCookies: [SetCookie] = []

    /// The identity from this server's decision, once the connection is open.
    package private(set) var identity: Identity?

    /// Whether the client of this server connects from this machine; `false` by default. It is set before
    /// ``start(_:)``. See ``WebSocketConfiguration/allowedHosts``.
    package var isPeerLocal = false
    package var clientCertificate: TLSCertificate?

    let configuration: WebSocketConfiguration
    var phase = Phase.idle
    var reader: FrameReader
    var liveness = Liveness()
    /// Compresses messages, if that was negotiated.
    var deflation: Deflation?

    /// Whether the server of this client seems to expect STOMP.
    var stomp = STOMPSigns.none

    /// When the opening or closing handshake has taken too long.
    var phaseDeadline: Instant?
    /// Why the connection ended, once that is known.
    var ending = CloseReason.user

    var head: HTTPHeadReader
    /// The key that this client has sent.
    var key = ""

    /// Creates a core for one connection.
    ///
    /// - Throws: `.invalidConfiguration` that names the key.
    package init(_ role: CoreRole, _ configuration: WebSocketConfiguration) throws(TransportError) {
        try self.init(role, configuration, givesParts: false)
    }

    /// - Parameter givesParts: whether messages are reported in parts, as they arrive (``FrameReader/givesParts``).
    init(_ role: CoreRole, _ configuration: WebSocketConfiguration, givesParts: Bool) throws(TransportError) {
        try configuration.validate()
        var configuration = configuration
        configuration.maximumMessageSize = min(configuration.maximumMessageSize, WebSocketConfiguration.largestMessage)
        self.role = role
        self.configuration = configuration
        reader = FrameReader(
            mustBeMasked: role == .server,
            maximumMessageSize: configuration.maximumMessageSize,
            maximumFragments: configuration.maximumFragments,
            givesParts: givesParts
        )
        head = HTTPHeadReader(
            maximumBytes: configuration.maximumHeaderBytes,
            maximumCount: configuration.maximumHeaderCount,
            skipsEmptyLines: role == .server
        )
    }

    /// WebSocket has no acknowledgements of messages.
    package var acknowledges: Bool { false }

    /// The transport is reliable and ordered, has a ping of its own, and distinguishes text from binary messages.
    package var capabilities: Capabilities {
        Capabilities(distinguishesText: true, maximumMessageSize: configuration.maximumMessageSize)
    }

    /// The memory of the message under assembly and of compression.
    package var bufferedBytes: Int {
        mutating get { reader.bufferedBytes + (deflation?.bufferedBytes ?? 0) }
    }

    /// Opens the connection.
    package mutating func start(_ context: inout CoreContext) {
        guard phase == .idle else { return }
        phase = .handshaking
        phaseDeadline = context.now.advanced(by: configuration.handshakeTimeout)
        guard role == .client else { return }
        key = HandshakeKey.generate(&context.random)
        ClientHandshake.writeRequest(configuration, key: key, cookies: cookies, to: &context.output)
    }

    /// Reads until there is something to report.
    ///
    /// - Throws: `.protocolViolation`, `.invalidText` or `.messageTooLarge` after the matching close frame is
    ///   written; `.tooManyRequests` for a message in too many frames; the reason why the handshake failed.
    package mutating func next(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        switch phase {
        case .open, .closing:
            return try readFrames(&input, &context)
        case .idle:
            return nil
        case .handshaking:
            return try readHandshake(&input, &context)
        case .awaitingEnd, .ended:
            // Input after the peer's close frame is ignored (section 1.4).
            input.removeAll()
            return nil
        case .ending:
            input.removeAll()
            return closed()
        }
    }

    /// Ends the connection cleanly.
    mutating func closed() -> CoreEvent {
        phase = .ended
        phaseDeadline = nil
        liveness = Liveness()
        dropMessages()
        return .closed(ending)
    }

    /// Drops the message under assembly and the memory of compression. Nothing needs them any more, and a connection
    /// that lingers for its last bytes is no longer counted for the memory limits.
    mutating func dropMessages() {
        reader.discardMessages()
        deflation = nil
    }

    /// Drops the message under assembly and the memory of compression.
    package mutating func connectionEnded() {
        dropMessages()
    }

    /// Handles the end of the connection by the peer: the last step of the closing handshake, or a lost connection.
    ///
    /// - Throws: `.connectionLost` if there was no closing handshake.
    package mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        switch phase {
        case .idle, .handshaking:
            throw end(TransportError(.connectionLost, .handshake, "the connection ended within the handshake"))
        case .open:
            throw end(.webSocketClose(CloseCode.abnormal))
        case .closing, .awaitingEnd, .ending, .ended:
            return closed()
        }
    }

    package var lateHandshake: String { "the server did not answer the handshake in time" }

    /// When the opening or closing handshake times out, or a delayed pong is tried again.
    package var deadline: Instant? {
        mutating get {
            guard let pong = liveness.pongDue else { return phaseDeadline }
            return phaseDeadline.map { min($0, pong) } ?? pong
        }
    }

    /// Ends a handshake or a close that has taken too long, and tries a delayed pong again.
    ///
    /// - Throws: `.timedOut` for the opening handshake. A server has written status 408 then.
    package mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {
        writeDelayedPong(&context)
        guard let phaseDeadline, phaseDeadline <= context.now else { return }
        self.phaseDeadline = nil
        switch phase {
        case .handshaking where role == .server:
            throw refuse(.init(status: 408, reason: "no request came in time"), &context)
        case .handshaking:
            throw end(TransportError(.timedOut, .handshake, lateHandshake))
        case .closing, .awaitingEnd:
            // The peer may still be reading the output before the close frame.
            let extended = context.outputMoved.advanced(by: configuration.closeTimeout)
            if extended > context.now { self.phaseDeadline = extended } else { phase = .ending }
        case .idle, .open, .ending, .ended:
            break
        }
    }
}

// The opening handshake, read as it arrives. The bytes after the head stay in the input for the frame reader.
extension WebSocketCore {
    mutating func readHandshake(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        let isOpen = role == .client ? try readResponse(&input, context) : try readRequest(&input, &context)
        if phase == .ending { return closed() }
        guard isOpen else { return nil }
        phase = .open
        phaseDeadline = nil
        if role == .client, subprotocol == nil { stomp = .undecided(sent: 0) }
        return .opened
    }

    private mutating func readResponse(
        _ input: inout ByteBuffer,
        _ context: borrowing CoreContext
    ) throws(TransportError) -> Bool {
        let (unixTime, isEncrypted) = (context.unixTime, context.isEncrypted)
        do throws(TransportError) {
            while let response = try readResponseHead(&input, isEncrypted: isEncrypted) {
                redirection = configuration.redirects > 0 ? try ClientHandshake.redirection(response) : nil
                if redirection != nil { receivedCookies = ClientHandshake.cookies(response, unixTime: unixTime) }
                let answer = try ClientHandshake.verify(
                    response,
                    key: key,
                    configuration,
                    unixTime: unixTime,
                    isEncrypted: isEncrypted
                )
                if case .accepted(let chosen, let agreement) = answer {
                    receivedCookies = ClientHandshake.cookies(response, unixTime: unixTime)
                    subprotocol = chosen
                    compress(agreement)
                    return true
                }
            }
            return false
        } catch {
            throw end(error)
        }
    }

    private mutating func readResponseHead(
        _ input: inout ByteBuffer,
        isEncrypted: Bool
    ) throws(TransportError) -> HTTPHead? {
        do throws(HTTPHeadError) {
            return try head.next(&input)
        } catch {
            let other = input.withUnsafeReadableBytes { ForeignProtocol($0) }
            throw other.error(
                insteadOf: TransportError(response: error),
                expected: spoken,
                by: role,
                isEncrypted: isEncrypted
            )
        }
    }

    package var expected: ForeignProtocol.Expected? { spoken }

    package func likelyMistake(isEncrypted: Bool) -> String? { stomp.mistake(isEncrypted: isEncrypted) }

    /// The protocol of the listener or of the client, for errors that name another one.
    private var spoken: ForeignProtocol.Expected {
        guard configuration.subprotocols.count == 1 else { return .webSocket }
        return WebSocketCarriage.named(configuration.subprotocols[0])?.expected ?? .webSocket
    }

    private mutating func readRequest(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> Bool {
        do throws(ServerHandshake.Refusal) {
            guard let head = try readRequestHead(&input) else { return false }
            if let page = try ServerHandshake.page(for: head, configuration, isPeerLocal: isPeerLocal) {
                let isHead = ServerHandshake.isHead(head.startLine)
                page.write(to: &context.output, withBody: !isHead, unixTime: context.unixTime)
                input.removeAll()
                ending = CloseReason(.user, text: "answered with the page \(page.path)")
                phase = .ending
                return false
            }
            let accepted = try ServerHandshake.evaluate(
                head,
                configuration,
                isPeerLocal: isPeerLocal,
                clientCertificate: clientCertificate
            )
            ServerHandshake.write(accepted, to: &context.output)
            subprotocol = accepted.subprotocol
            identity = accepted.identity
            compress(accepted.compression?.agreement)
            return true
        } catch {
            throw refuse(error, &context)
        }
    }

    /// Starts to compress and decompress as negotiated.
    private mutating func compress(_ agreement: DeflateAgreement?) {
        guard let agreement, let compression = configuration.compression else { return }
        let isClient = role == .client
        deflation = Deflation(compression, isClient ? agreement.client : agreement.server)
        reader.enable(Inflation(compression, isClient ? agreement.server : agreement.client))
    }

    private mutating func readRequestHead(_ input: inout ByteBuffer) throws(ServerHandshake.Refusal) -> HTTPHead? {
        do throws(HTTPHeadError) {
            return try head.next(&input)
        } catch {
            var refusal = ServerHandshake.Refusal(error)
            refusal.foreign = input.withUnsafeReadableBytes { ForeignProtocol($0) }
            throw refusal
        }
    }

    /// Writes an HTTP error response. Returns the error to throw.
    mutating func refuse(_ refusal: ServerHandshake.Refusal, _ context: inout CoreContext) -> TransportError {
        guard let foreign = refusal.foreign else {
            ServerHandshake.write(refusal, to: &context.output, unixTime: context.unixTime)
            return end(refusal.error)
        }
        // A client of TLS can read an alert, and the others recognize HTTP.
        if foreign == .tls {
            let (isEncrypted, time) = (context.isEncrypted, context.unixTime)
            foreign.answer(expected: spoken, isEncrypted: isEncrypted, to: &context.output, unixTime: time)
        } else {
            ServerHandshake.write(refusal, to: &context.output, unixTime: context.unixTime)
        }
        let isEncrypted = context.isEncrypted
        return end(foreign.error(insteadOf: refusal.error, expected: spoken, by: .server, isEncrypted: isEncrypted))
    }

    /// Ends the connection. Returns the error to throw.
    mutating func end(_ error: TransportError) -> TransportError {
        phase = .ended
        phaseDeadline = nil
        liveness = Liveness()
        dropMessages()
        ending = CloseReason(error)
        return error
    }
}

// Received frames: messages are reported, control frames are answered (RFC 6455, section 5.5).
extension WebSocketCore {
    mutating func readFrames(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        if liveness.pongDue != nil { writeDelayedPong(&context) }
        let incoming: FrameReader.Incoming?
        do throws(TransportError) {
            incoming = try reader.next(&input)
        } catch {
            return try fail(error, &context)
        }
        context.counters.controlWork &+= reader.takeEmptyFrames()
        switch incoming {
        case nil: return nil
        case .message(let payload):
            if stomp.awaitsAnswer { stomp.received(payload.bytes) }
            return .message(payload)
        case .part: return .progress
        case .control(let opcode, let payload):
            context.counters.controlFrames &+= 1
            switch opcode {
            case .ping:
                context.counters.controlWork &+= 1
                answerPing(payload, &context)
            case .pong:
                if let number = liveness.ping(answeredBy: payload) { return .pong(number) }
                context.counters.controlWork &+= 1
            default: return try readClose(payload, &input, &context)
            }
            return .progress
        }
    }

    /// Handles the peer's close frame, which comes first or answers this side's.
    private mutating func readClose(
        _ payload: [UInt8],
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        let frame: CloseFrame
        do throws(TransportError) {
            frame = try CloseFrame(payload)
        } catch {
            return try fail(error, &context)
        }
        if phase == .open {
            ending = frame.reason
            phaseDeadline = context.now.advanced(by: configuration.closeTimeout)
            writeClose(CloseFrame(code: frame.code), &context)
        }
        liveness = Liveness()
        dropMessages()
        input.removeAll()
        guard role == .server else {
            phase = .awaitingEnd
            return nil
        }
        return closed()
    }

    /// Writes a close frame for an error of the peer, and ends the connection. After this side's close frame, nothing
    /// more can be written, and the connection ends for the reason of that frame.
    private mutating func fail(
        _ error: TransportError,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent {
        guard phase == .open else { return closed() }
        writeClose(CloseFrame(code: CloseCode.forError(error), text: error.reason), &context)
        throw end(error)
    }

    /// Answers a ping at once. If the peer does not read enough of the output, only the latest ping is answered, and
    /// later.
    private mutating func answerPing(_ payload: [UInt8], _ context: inout CoreContext) {
        guard phase == .open else { return }
        if context.output.count < Liveness.outputBound {
            liveness.dropDelayedPong()
            writeControl(.pong, payload, &context)
        } else {
            liveness.delayPong(payload, now: context.now)
        }
    }

    /// Writes the delayed pong if there is room, or delays it again.
    mutating func writeDelayedPong(_ context: inout CoreContext) {
        guard let payload = liveness.delayedPong else { return }
        if context.output.count < Liveness.outputBound {
            liveness.dropDelayedPong()
            writeControl(.pong, payload, &context)
        } else if let due = liveness.pongDue, due <= context.now {
            liveness.delayPong(payload, now: context.now)
        }
    }
}

// Sent frames (RFC 6455, sections 5.2 to 5.5): none is sent before the handshake or after the close frame.
extension WebSocketCore {
    /// Writes one message as text or binary, by its kind, in one frame or in fragments. It is compressed if that was
    /// negotiated.
    ///
    /// - Throws: `.unsupported` if the payload has a topic or is retained, `.messageTooLarge`, or `.invalidText` for
    ///   text that is not UTF-8. Before the connection is open, it throws `.wouldBlock`, and afterwards the reason for
    ///   its end.
    package mutating func send(
        _ payload: Payload,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        guard phase == .open else { throw notOpen }
        try WebSocketConfiguration.admit(payload, atMost: configuration.maximumMessageSize)
        if stomp.watchesSending { stomp.sent(payload.bytes) }
        let opcode: Opcode = payload.kind == .text ? .text : .binary
        if deflation != nil, let compressed = payload.bytes.withUnsafeBytes({ deflation?.compress($0) }) {
            compressed.withUnsafeBytes { write($0, opcode, FrameHeader.compressed, &context) }
        } else {
            payload.bytes.withUnsafeBytes { write($0, opcode, 0, &context) }
        }
        return .written
    }

    /// `mutating`, because a closure that calls it would copy the core otherwise.
    @inline(__always)
    private mutating func write(
        _ bytes: UnsafeRawBufferPointer,
        _ opcode: Opcode,
        _ reservedBits: UInt8,
        _ context: inout CoreContext
    ) {
        if let size = configuration.fragmentSize, bytes.count > size {
            writeFragments(bytes, of: size, opcode, reservedBits, &context)
        } else {
            FrameWriter.write(
                opcode,
                reservedBits: reservedBits,
                bytes,
                maskKey: maskKey(&context),
                to: &context.output
            )
        }
    }

    /// Writes a ping. Its payload is its number, which distinguishes its pong from others.
    @discardableResult
    package mutating func ping(_ context: inout CoreContext) throws(TransportError) -> UInt64 {
        guard phase == .open else { throw notOpen }
        writeControl(.ping, liveness.nextPing(), &context)
        return liveness.lastPing
    }

    /// Begins the closing handshake (section 7.1.2). Messages that arrive afterwards are dropped.
    ///
    /// The close frame carries the reason's code, or the code for the initiator of the close. Its text is the reason's
    /// text, shortened to 123 bytes.
    package mutating func close(_ reason: CloseReason, _ context: inout CoreContext) {
        switch phase {
        case .idle, .handshaking:
            ending = reason
            phase = .ending
            phaseDeadline = nil
        case .open:
            ending = reason
            phase = .closing
            phaseDeadline = context.now.advanced(by: configuration.closeTimeout)
            dropMessages()
            liveness.dropDelayedPong()
            writeClose(CloseFrame(code: CloseCode.forReason(reason), text: reason.text), &context)
        case .closing, .awaitingEnd, .ending, .ended:
            break
        }
    }

    private var notOpen: TransportError {
        switch phase {
        case .idle, .handshaking:
            TransportError(.wouldBlock, .handshake, "the handshake is not complete")
        case .open, .closing, .awaitingEnd, .ending, .ended:
            ending.error
                ?? TransportError(
                    ending.initiator == .user ? .closedByUser : .closedByPeer,
                    .closing,
                    "the connection is closed or closing",
                    detail: ending.code.map(Int.init)
                )
        }
    }

    private func writeFragments(
        _ bytes: UnsafeRawBufferPointer,
        of size: Int,
        _ opcode: Opcode,
        _ reservedBits: UInt8,
        _ context: inout CoreContext
    ) {
        var start = 0
        while start < bytes.count {
            let end = start + min(size, bytes.count - start)
            FrameWriter.write(
                start == 0 ? opcode : .continuation,
                isFinal: end == bytes.count,
                reservedBits: start == 0 ? reservedBits : 0,
                UnsafeRawBufferPointer(rebasing: bytes[start..<end]),
                maskKey: maskKey(&context),
                to: &context.output
            )
            start = end
        }
    }

    func writeClose(_ frame: CloseFrame, _ context: inout CoreContext) {
        writeControl(.close, frame.payload, &context)
    }

    func writeControl(_ opcode: Opcode, _ payload: [UInt8], _ context: inout CoreContext) {
        context.counters.controlFrames &+= 1
        payload.withUnsafeBytes { bytes in
            FrameWriter.write(opcode, bytes, maskKey: maskKey(&context), to: &context.output)
        }
    }

    /// Returns a new random key for each frame of a client, and `nil` for a server.
    @inline(__always)
    private func maskKey(_ context: inout CoreContext) -> UInt32? {
        role == .client ? UInt32(truncatingIfNeeded: context.random.next()) : nil
    }
}
