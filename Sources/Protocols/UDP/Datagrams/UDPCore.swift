import TransportAPI

/// One session over UDP. Its datagrams can be lost, duplicated or reordered.
///
/// A client opens its session by a handshake of two round trips (Docs/reference/wire-formats.md): hello → retry with a
/// cookie → confirm with the cookie → accept with the connection id. ``UDPListenerCore`` creates a server's core when
/// the confirm arrives, and passes it that datagram and all others of its session.
///
/// A datagram that is not of this session is dropped and never ends it, because any peer can send one. Only a bye with
/// the connection id ends it, and only the two sides know that id. The core drops duplicates among the last 1024
/// sequence numbers, and delivers late messages when they arrive.
package struct UDPCore: PackageCore {
    enum Phase {
        /// The core has not started.
        case idle
        /// Client: the hello was sent. Server: the confirm was not read yet.
        case hello
        /// Client: the confirm was sent.
        case confirming
        /// In plain mode: `.opened` is still to be reported.
        case opening
        /// Messages can be sent and received.
        case open
        /// This side has closed the session, and `.closed` is still to be reported.
        case ended
        /// The end was reported.
        case done
    }

    /// Client or server.
    package let role: CoreRole
    let configuration: UDPConfiguration
    var phase = Phase.idle
    var reason = CloseReason.user
    var nonce: UInt64
    var cookie: UInt64 = 0
    /// The name of the session on the wire, whatever its address. It is random, and zero before the session is open.
    package internal(set) var connectionID: UInt64
    var timers = UDPTimers()
    /// The reliable mode, if both sides have agreed on it and the session is open.
    var reliable: ReliableSession?
    var nextSequence: UInt32 = 0
    var window = SequenceWindow()
    /// The token of the last ping. Tokens count up from 1.
    var lastPing: UInt64 = 0
    /// Client: how many datagrams came during the handshake that are not of this protocol, and how the first of them began.
    private var foreignDatagrams: (count: UInt32, start: UInt32) = (0, 0)

    /// Creates a client's core.
    ///
    /// - Throws: `.invalidConfiguration` that names the key.
    package init(client configuration: UDPConfiguration = UDPConfiguration()) throws(TransportError) {
        try configuration.validate()
        self.init(.client, configuration, connectionID: 0, nonce: 0)
    }

    /// Creates a core of either role. `request` has the terms of a client that requests the reliable mode from this
    /// server.
    init(
        _ role: CoreRole,
        _ configuration: UDPConfiguration,
        connectionID: UInt64,
        nonce: UInt64,
        request: ReliableTerms? = nil
    ) {
        reliable = request.map { ReliableSession(configuration.terms(isOrdered: $0.isOrdered), $0, configuration) }
        self.role = role
        self.configuration = configuration
        self.connectionID = connectionID
        self.nonce = nonce
    }

    /// The longest datagram that the configuration allows, in bytes.
    package var largestDatagram: Int { configuration.largestDatagram }

    /// The bytes of messages that a reliable session buffers: those that its user has not taken, and those that the
    /// peer has not acknowledged.
    package var bufferedBytes: Int {
        mutating get { reliable?.bufferedBytes ?? 0 }
    }

    /// The bytes of messages that a reliable session has sent or queued and that the peer has not acknowledged.
    package var unacknowledgedBytes: Int {
        mutating get { reliable?.sender.pieces.buffered ?? 0 }
    }

    /// `false`: a message counts as written when it was sent, in the reliable mode too.
    package var acknowledges: Bool { false }

    /// Neither reliable nor ordered unless the reliable mode is configured. There is a native ping unless datagrams are
    /// plain.
    package var capabilities: Capabilities {
        if let reliable { return .reliable(reliable.terms.isOrdered, reliable.maximumMessageSize) }
        if configuration.reliability != .off {
            return .reliable(configuration.reliability == .ordered, configuration.maximumReliableSize)
        }
        return Capabilities(
            isReliable: false,
            isOrdered: false,
            hasNativePing: !configuration.isPlain,
            maximumMessageSize: configuration.maximumPayloadSize
        )
    }

    /// Reads the datagram in `input` and reports its content.
    ///
    /// - Throws: `.serverUnavailable` if the server is full, `.connectionReset` if it does not know the session any
    ///   more. Also the errors of the reliable mode.
    package mutating func next(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        if phase != .open {
            guard phase != .opening else {
                phase = .open
                return .opened
            }
            guard phase != .ended else {
                phase = .done
                return .closed(reason)
            }
        }
        guard !input.isEmpty else { return phase == .open ? reliableEvent(&context) : nil }
        defer { input.removeAll() }
        switch phase {
        case .open where configuration.isPlain: return plainMessage(input, context.now)
        case .open: return try readOpen(input, &context) ?? reliableEvent(&context)
        case .hello, .confirming: return try readHandshake(input, &context)
        case .idle, .opening, .ended, .done: return nil
        }
    }

    /// Ends the session without an error, because the peer has ended the encryption below it (close_notify). Without
    /// encryption it is never called.
    ///
    /// - Throws: `.closedByPeer` if the session is not open yet.
    package mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        if phase == .open {
            reason = CloseReason(.peer)
            // The messages that have arrived are given out before the end.
            if reliable != nil {
                if reliable?.farewell == nil { reliable?.farewell = reason }
                return .progress
            }
        } else if phase == .hello || phase == .confirming {
            phase = .done
            throw TransportError(.closedByPeer, .handshake, "the peer ended the encryption before the session was open")
        }
        phase = .done
        return .closed(reason)
    }

    /// Writes one message as a datagram, or queues it in the reliable mode.
    ///
    /// - Throws: `.messageTooLarge`, or `.unsupported` for a topic, a retained message, or an empty message in plain mode.
    ///   `.wouldBlock` before the session is open, and `.closedByPeer` or `.closedByUser` after its end.
    package mutating func send(
        _ payload: Payload,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        guard phase == .open else { throw notOpen }
        guard payload.topic == nil, !payload.isRetained else {
            throw TransportError(.unsupported, .open, "UDP has no topics and retains nothing; send the message without")
        }
        let size = payload.bytes.count
        if reliable != nil { return try sendReliably(payload.bytes, id, &context) }
        guard size <= configuration.maximumPayloadSize else {
            let limit = configuration.maximumPayloadSize
            throw TransportError(
                .messageTooLarge,
                .open,
                "\(size) bytes are more than the limit of \(limit): set reliable=ordered, or send smaller messages"
            )
        }
        if configuration.isPlain {
            guard size > 0 else { throw TransportError(.unsupported, .open, "a plain datagram cannot be empty") }
        } else {
            appendDataHeader(roomFor: size, to: &context.output)
        }
        context.output.append(contentsOf: payload.bytes)
        context.endDatagram()
        return .written
    }

    /// Writes a ping.
    ///
    /// - Throws: `.unsupported` in plain mode, `.wouldBlock` before the session is open, and `.closedByPeer` or
    ///   `.closedByUser` after its end.
    @discardableResult
    package mutating func ping(_ context: inout CoreContext) throws(TransportError) -> UInt64 {
        guard !configuration.isPlain else {
            throw TransportError(.unsupported, .open, "plain datagrams have no ping")
        }
        guard phase == .open else { throw notOpen }
        writePing(&context)
        return lastPing
    }

    private mutating func writePing(_ context: inout CoreContext) {
        lastPing &+= 1
        write(.ping, connectionID, lastPing, &context)
        reliable?.pinged(again: false, context.now)
    }

    /// Sends a ping at once, so that the peer learns the new address of this side.
    package mutating func moved(_ context: inout CoreContext) {
        guard phase == .open, role == .client, !configuration.isPlain else { return }
        writePing(&context)
    }

    /// Closes the session with a bye. It is sent once and has no answer. In the reliable mode, acknowledgements are
    /// awaited first.
    ///
    /// If the bye is lost, a client gets the answer `gone` to its next datagram, and a server ends the session after
    /// the idle timeout.
    package mutating func close(_ reason: CloseReason, _ context: inout CoreContext) {
        guard phase != .ended, phase != .done else { return }
        if phase == .open, reliable != nil { return closeReliably(reason, &context) }
        if phase == .open { writeBye(reason, &context) }
        self.reason = reason
        phase = .ended
    }

    var notOpen: TransportError {
        switch phase {
        case .idle, .hello, .confirming, .opening:
            TransportError(.wouldBlock, .handshake, "the session is not open yet")
        case .open, .ended, .done:
            reason.initiator == .peer
                ? TransportError(.closedByPeer, .closing, "the peer has closed the session")
                : TransportError(.closedByUser, .closing, "the session is closed")
        }
    }
}

/// The timers of a session.
struct UDPTimers {
    /// The time until the first repetition of a hello. It doubles with each repetition.
    static let firstRetransmission = Duration.milliseconds(200)
    /// The longest time between two hellos.
    static let longestRetransmission = Duration.seconds(2)

    var retransmission = firstRetransmission
    var retransmitAt = Instant.zero
    var giveUpAt = Instant.zero
    /// When the last datagram of this session arrived.
    var lastHeard = Instant.zero
    /// When to check ``lastHeard`` again. It does not change with each datagram, which would set a timer each time.
    var idleCheckAt = Instant.zero
}

extension UDPCore {
    /// Writes a client's hello, or sets a server's deadline. A plain session is open at once.
    package mutating func start(_ context: inout CoreContext) {
        guard phase == .idle else { return }
        timers.lastHeard = context.now
        timers.idleCheckAt = context.now.advanced(by: configuration.idleTimeout)
        guard !configuration.isPlain else {
            phase = .opening
            return
        }
        phase = .hello
        guard role == .client else { return }
        nonce = context.random.next()
        timers.giveUpAt = context.now.advanced(by: configuration.handshakeTimeout)
        writeRequest(&context)
    }

    /// Client: the next repetition of its request, or the end of the handshake timeout. Server: the end of the idle
    /// timeout. An open session also has the deadline of the reliable mode.
    package var deadline: Instant? {
        mutating get {
            switch (phase, role) {
            case (.hello, .client), (.confirming, .client): min(timers.retransmitAt, timers.giveUpAt)
            case (.hello, .server), (.opening, .server): timers.idleCheckAt
            case (.open, .server): reliable?.deadline.map { min($0, timers.idleCheckAt) } ?? timers.idleCheckAt
            case (.open, .client): reliable?.deadline
            default: nil
            }
        }
    }

    /// Repeats the client's request, ends a silent session, and sends lost packets again.
    ///
    /// - Throws: `.timedOut` if the handshake took too long, `.keepaliveTimeout` if the session was silent for too
    ///   long. Also the errors of the reliable mode.
    package mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {
        guard let deadline, deadline <= context.now else { return }
        if role == .client, phase != .open { return try handshakeDeadline(&context) }
        if role == .server, timers.idleCheckAt <= context.now { try idleDeadline(&context) }
        if phase == .open { try reliableDeadline(&context) }
    }

    mutating func readHandshake(
        _ input: borrowing ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        guard let kind = Datagram.kind(of: input), Datagram.identifier(of: input) == nonce else {
            noteForeign(input)
            return nil
        }
        switch (role, kind) {
        case (.client, .retry): retry(Datagram.number(of: input), &context)
        case (.client, .accept):
            guard phase == .confirming, let identifier = Datagram.number(of: input) else { return nil }
            connectionID = identifier
            guard configuration.reliability == .off else { throw notReliable(&context) }
            context.counters.controlFrames &+= 1
            phase = .open
            return .opened
        case (.client, .welcome):
            guard phase == .confirming else { return nil }
            return try welcomed(input, &context)
        case (.client, .refusal):
            guard phase == .confirming, configuration.reliability != .off else { return nil }
            throw notReliable(&context)
        case (.client, .busy):
            phase = .done
            throw TransportError(.serverUnavailable, .handshake, "the server has no room for another session")
        case (.client, .hello), (.client, .confirm):
            // The nonce is this client's, so that the datagram comes from where its own went.
            phase = .done
            let sentence =
                "the server returned this client's own datagram: it has no sessions over UDP, so set plain=on"
            throw TransportError(.handshakeFailed, .handshake, sentence)
        case (.server, .confirm):
            context.counters.controlFrames &+= 1
            timers.lastHeard = context.now
            phase = .open
            writeAccept(&context)
            return .opened
        default: break
        }
        return nil
    }

    private mutating func noteForeign(_ input: borrowing ByteBuffer) {
        guard role == .client else { return }
        if foreignDatagrams.count == 0 { foreignDatagrams.start = input.integer(at: 0, as: UInt32.self) ?? 0 }
        foreignDatagrams.count &+= 1
    }

    package var lateHandshake: String {
        guard foreignDatagrams.count > 0 else { return "the server did not answer" }
        guard !DTLSRecord.begins(foreignDatagrams.start) else {
            return "the server speaks DTLS: use dtls://, or a port of the server without encryption"
        }
        let hexadecimal = String(foreignDatagrams.start, radix: 16)
        let start = String(repeating: "0", count: 8 - hexadecimal.utf8.count) + hexadecimal
        return
            "the server's datagrams are of another protocol (\(foreignDatagrams.count), the first begins with 0x\(start)): "
            + "compare the port, or set plain=on for datagrams without sessions"
    }

    /// Confirms the first cookie at once. A later one comes from a server that has restarted, or replaces a cookie that
    /// was too old. It waits for the next retransmission, so that no server can make this client send faster than its
    /// timer.
    private mutating func retry(_ offered: UInt64?, _ context: inout CoreContext) {
        guard let offered else { return }
        context.counters.controlFrames &+= 1
        cookie = offered
        guard phase == .hello else { return }
        phase = .confirming
        timers.retransmission = UDPTimers.firstRetransmission
        writeRequest(&context)
    }

    private mutating func writeRequest(_ context: inout CoreContext) {
        if phase == .hello {
            write(.hello, nonce, nil, &context)
        } else {
            writeConfirm(&context)
        }
        timers.retransmitAt = context.now.advanced(by: timers.retransmission)
        timers.retransmission = min(timers.retransmission * 2, UDPTimers.longestRetransmission)
    }

    private mutating func handshakeDeadline(_ context: inout CoreContext) throws(TransportError) {
        guard timers.giveUpAt > context.now else {
            phase = .done
            throw TransportError(.timedOut, .handshake, lateHandshake)
        }
        writeRequest(&context)
    }

    private mutating func idleDeadline(_ context: inout CoreContext) throws(TransportError) {
        let end = max(timers.lastHeard, context.unreadUntil).advanced(by: configuration.idleTimeout)
        guard end <= context.now else {
            timers.idleCheckAt = end
            return
        }
        let error = TransportError(.keepaliveTimeout, .open, "nothing arrived for \(configuration.idleTimeout)")
        if phase == .open {
            writeBye(CloseReason(.keepalive, code: ClosePayload.timedOut, text: error.reason), &context)
        }
        reason = CloseReason(error)
        phase = .done
        throw error
    }
}

// The datagrams of an open session.

extension UDPCore {
    mutating func plainMessage(_ input: borrowing ByteBuffer, _ now: Instant) -> CoreEvent? {
        guard input.count <= configuration.maximumPayloadSize else { return nil }
        timers.lastHeard = now
        return input.bytes(at: 0, count: input.count).map { .message(Payload($0)) }
    }

    mutating func readOpen(
        _ input: borrowing ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        guard let kind = Datagram.kind(of: input), let identifier = Datagram.identifier(of: input) else { return nil }
        guard identifier == connectionID else {
            // The accept was lost, and the client repeats its confirm.
            if kind == .confirm, role == .server, identifier == nonce { writeAccept(&context) }
            return nil
        }
        if kind == .data { return reliable == nil ? message(input, &context) : nil }
        if kind == .packet {
            try readPacket(input, &context)
            return nil
        }
        return try control(kind, input, &context)
    }

    private mutating func message(_ input: borrowing ByteBuffer, _ context: inout CoreContext) -> CoreEvent? {
        let size = input.count - Datagram.dataHeaderSize
        guard size <= configuration.maximumPayloadSize,
            let sequence = input.integer(at: Datagram.identifiedSize, as: UInt32.self)
        else { return nil }
        timers.lastHeard = context.now
        switch window.insert(sequence) {
        case .new: break
        case .late: context.counters.reordered &+= 1
        case .duplicate:
            context.counters.duplicates &+= 1
            return nil
        }
        return input.bytes(at: Datagram.dataHeaderSize, count: size).map { .message(Payload($0)) }
    }

    private mutating func control(
        _ kind: Datagram.Kind,
        _ input: borrowing ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        switch kind {
        case .ping:
            guard let token = Datagram.number(of: input) else { return nil }
            heard(&context)
            context.counters.controlWork &+= 1
            if reliable != nil, reliable?.pingHeard == token {
                context.counters.repeatedBytes &+= UInt64(input.count)
            }
            reliable?.pingHeard = token
            write(.pong, connectionID, token, &context)
            return nil
        case .pong:
            guard let token = Datagram.number(of: input) else { return nil }
            heard(&context)
            return pong(token, &context)
        case .bye:
            let said = input.withUnsafeReadableBytes {
                ClosePayload.reason(UnsafeRawBufferPointer(rebasing: $0.dropFirst(Datagram.identifiedSize)))
            }
            guard let said else { return nil }
            heard(&context)
            guard reliable == nil else {
                reliable?.farewell = said
                return nil
            }
            reason = said
            phase = .done
            return .closed(said)
        case .gone:
            guard role == .client else { return nil }
            heard(&context)
            phase = .done
            throw TransportError(.connectionReset, .open, "the server does not know this session any more")
        case .hello, .retry, .confirm, .accept, .welcome, .refusal, .data, .packet, .busy:
            return nil
        }
    }

    private mutating func pong(_ token: UInt64, _ context: inout CoreContext) -> CoreEvent? {
        guard token > 0, token <= lastPing else {
            context.counters.controlWork &+= 1
            return nil
        }
        if token == lastPing { reliable?.ponged() }
        return .pong(token)
    }

    private mutating func heard(_ context: inout CoreContext) {
        timers.lastHeard = context.now
        context.counters.controlFrames &+= 1
    }
}

// The reliable mode: its handshake, and its effects on the session.

extension Capabilities {
    static func reliable(_ isOrdered: Bool, _ maximumMessageSize: Int) -> Capabilities {
        Capabilities(isReliable: true, isOrdered: isOrdered, maximumMessageSize: maximumMessageSize)
    }
}

// MARK: Handshake

extension UDPCore {
    func writeConfirm(_ context: inout CoreContext) {
        guard configuration.reliability != .off else { return write(.confirm, nonce, cookie, &context) }
        let start = context.output.count
        context.output.append(integer: Datagram.Kind.confirm.rawValue)
        context.output.append(integer: nonce)
        context.output.append(integer: cookie)
        configuration.terms(isOrdered: configuration.reliability == .ordered).append(to: &context.output)
        while context.output.count - start < Datagram.requestSize { context.output.append(0) }
        context.endDatagram()
        context.counters.controlFrames &+= 1
    }

    /// Accepts a client, in the reliable mode if it has requested that.
    func writeAccept(_ context: inout CoreContext) {
        guard let reliable else { return write(.accept, nonce, connectionID, &context) }
        context.output.append(integer: Datagram.Kind.welcome.rawValue)
        context.output.append(integer: nonce)
        context.output.append(integer: connectionID)
        reliable.terms.append(to: &context.output)
        context.endDatagram()
        context.counters.controlFrames &+= 1
    }

    mutating func welcomed(
        _ input: borrowing ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        guard let identifier = Datagram.number(of: input) else { return nil }
        connectionID = identifier
        context.counters.controlFrames &+= 1
        let isOrdered = configuration.reliability == .ordered
        guard configuration.reliability != .off, let terms = ReliableTerms(input, at: Datagram.pairSize),
            terms.isOrdered == isOrdered
        else { throw notReliable(&context) }
        reliable = ReliableSession(configuration.terms(isOrdered: isOrdered), terms, configuration)
        phase = .open
        return .opened
    }

    /// Ends the attempt, and the session if there is one, because the server does not offer the mode that this client
    /// requests.
    mutating func notReliable(_ context: inout CoreContext) -> TransportError {
        phase = .done
        if connectionID != 0 { writeBye(.user, &context) }
        return TransportError(
            .unsupported,
            .handshake,
            "the server does not carry messages with reliable=\(configuration.reliability.rawValue)"
        )
    }
}

// MARK: An open session

extension UDPCore {
    /// Whether receivers confirm each message that they have processed, so that a slow receiver stops the peer.
    package var confirmsReceipt: Bool {
        configuration.confirmsReceipt && (reliable != nil || role == .client && configuration.reliability != .off)
    }

    /// Makes room for another message.
    package mutating func confirmReceipt(_ context: inout CoreContext) {
        guard phase == .open else { return }
        reliable?.confirm(context.now)
        reliable?.transmit(connectionID, &context)
    }

    mutating func readPacket(_ input: borrowing ByteBuffer, _ context: inout CoreContext) throws(TransportError) {
        guard reliable != nil, reliable?.farewell == nil else { return }
        timers.lastHeard = context.now
        do throws(TransportError) {
            try reliable?.read(input, &context)
        } catch {
            throw ended(by: error, code: ClosePayload.protocolError, &context)
        }
        reliable?.transmit(connectionID, &context)
    }

    /// The next event of the reliable mode, including its end.
    mutating func reliableEvent(_ context: inout CoreContext) -> CoreEvent? {
        guard reliable != nil else { return nil }
        if let event = reliable?.nextEvent() {
            reliable?.transmit(connectionID, &context)
            return event
        }
        if let farewell = reliable?.farewell, reliable?.receiver.isEmpty == true || reliable?.isClosing == true {
            phase = .done
            reason = farewell
            return .closed(farewell)
        }
        guard reliable?.isReadyToEnd(context.now) == true else { return nil }
        writeBye(reason, &context)
        phase = .done
        return .closed(reason)
    }

    mutating func sendReliably(
        _ bytes: [UInt8],
        _ id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        guard let limit = reliable?.maximumMessageSize, reliable?.isClosing == false, reliable?.farewell == nil else {
            throw reliable?.farewell == nil
                ? TransportError(.closedByUser, .closing, "the session is closed")
                : TransportError(.closedByPeer, .closing, "the peer has closed the session")
        }
        guard bytes.count <= limit else {
            throw TransportError(
                .messageTooLarge,
                .open,
                "\(bytes.count) bytes are more than the limit of \(limit): raise max-message on both sides"
            )
        }
        let status = reliable?.send(bytes, id: id) ?? .blocked
        reliable?.transmit(connectionID, &context)
        return status
    }

    /// Sends the bye when all messages were acknowledged, or after the close timeout. If the reason is an error, the
    /// bye is sent at once.
    mutating func closeReliably(_ reason: CloseReason, _ context: inout CoreContext) {
        guard reliable?.isClosing == false else { return }
        self.reason = reason
        guard reliable?.sender.isIdle == false, reason.error == nil else {
            writeBye(reason, &context)
            phase = .ended
            return
        }
        reliable?.beginClose(context.now)
    }

    mutating func reliableDeadline(_ context: inout CoreContext) throws(TransportError) {
        do throws(TransportError) {
            try reliable?.deadlineReached(context.now)
        } catch {
            throw ended(by: error, code: ClosePayload.timedOut, &context)
        }
        if let pingAt = reliable?.pingAt, pingAt <= context.now {
            write(.ping, connectionID, lastPing, &context)
            reliable?.pinged(again: true, context.now)
            // The token is an old one, which moves no session to another address. The number of a packet is new.
            reliable?.sender.probe()
        }
        reliable?.transmit(connectionID, &context)
    }

    private mutating func ended(
        by error: TransportError,
        code: UInt16,
        _ context: inout CoreContext
    ) -> TransportError {
        reason = CloseReason(error)
        writeBye(CloseReason(reason.initiator, code: code, text: error.reason), &context)
        phase = .done
        return error
    }
}

// The output of a session. Nothing here allocates once the output has grown to its size.

extension UDPCore {
    mutating func appendDataHeader(roomFor size: Int, to output: inout ByteBuffer) {
        let (identifier, sequence) = (connectionID.bigEndian, nextSequence.bigEndian)
        nextSequence &+= 1
        _ = output.write(minimum: Datagram.dataHeaderSize &+ size) { target in
            target.storeBytes(of: Datagram.Kind.data.rawValue.bigEndian, as: UInt32.self)
            target.storeBytes(of: identifier, toByteOffset: Datagram.wordSize, as: UInt64.self)
            target.storeBytes(of: sequence, toByteOffset: Datagram.identifiedSize, as: UInt32.self)
            return Datagram.dataHeaderSize
        }
    }

    func write(_ kind: Datagram.Kind, _ identifier: UInt64, _ number: UInt64?, _ context: inout CoreContext) {
        Datagram.append(kind, identifier, number, to: &context.output)
        context.endDatagram()
        context.counters.controlFrames &+= 1
    }

    func writeBye(_ reason: CloseReason, _ context: inout CoreContext) {
        guard !configuration.isPlain else { return }
        Datagram.append(.bye, connectionID, to: &context.output)
        context.output.append(integer: reason.code ?? ClosePayload.normal)
        context.output.append(utf8: ClosePayload.shortened(reason.text))
        context.endDatagram()
        context.counters.controlFrames &+= 1
    }
}
