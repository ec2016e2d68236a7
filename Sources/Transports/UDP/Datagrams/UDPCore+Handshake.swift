import TransportAPI

/// What a session waits for.
struct UDPTimers {
    /// The first hello is repeated after this; each further time after twice as long.
    static let firstRetransmission = Duration.milliseconds(200)
    /// The longest pause between two hellos.
    static let longestRetransmission = Duration.seconds(2)

    var retransmission = firstRetransmission
    var retransmitAt = Instant.zero
    var giveUpAt = Instant.zero
    /// When the last datagram of this session arrived.
    var lastHeard = Instant.zero
    /// When to look at ``lastHeard`` again. Not moved with each datagram, which would set a timer each time.
    var idleCheckAt = Instant.zero
}

extension UDPCore {
    /// Writes a client's hello, or sets a server's deadline; a plain session is open at once.
    public mutating func start(_ context: inout CoreContext) {
        guard phase == .idle else { return }
        timers.lastHeard = context.now
        timers.idleCheckAt = context.now.advanced(by: configuration.idleTimeout)
        guard !configuration.isPlain else {
            phase = .opening
            return
        }
        phase = .greeting
        guard role == .client else { return }
        nonce = context.random.next()
        timers.giveUpAt = context.now.advanced(by: configuration.handshakeTimeout)
        writeRequest(&context)
    }

    /// Client: the next hello, or the end of the patience; server: when silence ends the session.
    public var deadline: Instant? {
        mutating get {
            switch (phase, role) {
            case (.greeting, .client), (.confirming, .client): min(timers.retransmitAt, timers.giveUpAt)
            case (.greeting, .server), (.opening, .server): timers.idleCheckAt
            case (.open, .server): reliable?.deadline.map { min($0, timers.idleCheckAt) } ?? timers.idleCheckAt
            case (.open, .client): reliable?.deadline
            default: nil
            }
        }
    }

    /// Repeats the hello or gives up with `.timedOut`; ends a silent session with `.keepaliveTimeout`; repeats what was lost.
    public mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {
        guard let deadline, deadline <= context.now else { return }
        if role == .client, phase != .open { return try handshakeDeadline(&context) }
        if role == .server, timers.idleCheckAt <= context.now { try idleDeadline(&context) }
        if phase == .open { try reliableDeadline(&context) }
    }

    mutating func readHandshake(
        _ input: borrowing ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        guard let kind = Datagram.kind(of: input), Datagram.identifier(of: input) == nonce else { return nil }
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

    /// The first cookie is confirmed at once. A later one (the server has restarted, or its cookie was too old) waits for
    /// the next retransmission, so that no server can make this client send faster than its timer.
    private mutating func retry(_ offered: UInt64?, _ context: inout CoreContext) {
        guard let offered else { return }
        context.counters.controlFrames &+= 1
        cookie = offered
        guard phase == .greeting else { return }
        phase = .confirming
        timers.retransmission = UDPTimers.firstRetransmission
        writeRequest(&context)
    }

    private mutating func writeRequest(_ context: inout CoreContext) {
        if phase == .greeting {
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
            throw TransportError(.timedOut, .handshake, "the server did not answer")
        }
        writeRequest(&context)
    }

    private mutating func idleDeadline(_ context: inout CoreContext) throws(TransportError) {
        let end = timers.lastHeard.advanced(by: configuration.idleTimeout)
        guard end <= context.now else {
            timers.idleCheckAt = end
            return
        }
        let error = TransportError(.keepaliveTimeout, .open, "nothing arrived for \(configuration.idleTimeout)")
        if phase == .open {
            writeBye(CloseReason(.keepalive, code: Goodbye.timedOut, text: error.reason), &context)
        }
        reason = CloseReason(error)
        phase = .done
        throw error
    }
}
