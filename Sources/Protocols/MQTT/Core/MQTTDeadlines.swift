import TransportAPI

/// When a connection was last heard and last used, and what keep alive makes of it (MQTT 3.1.1, section 3.1.2.10).
struct MQTTKeepAlive: Sendable {
    var lastSent = Instant.zero
    var lastReceived = Instant.zero
    /// ``CoreContext/unreadUntil`` and ``CoreContext/outputMoved``, as of the last deadline.
    var unreadUntil = Instant.zero
    var outputMoved = Instant.zero
    /// Nanoseconds; 0 while keep alive is off. Client: of not sending or not hearing, until PINGREQ. Server: of not
    /// hearing, until the end.
    var interval: Int64 = 0
    /// Client: nanoseconds of not hearing after a keep-alive PINGREQ, until the end.
    var timeout: Int64 = 0
    /// When the last keep-alive PINGREQ was sent; `nil` when all are answered.
    var pingSent: Instant?
    /// How many of them are not answered yet. There is one at a time, but where its answer may lie unread for long: the broker
    /// is to hear of this side meanwhile.
    var ownPings = 0
    /// How many PINGRESP come before the one that answers the first of them. What the user asks between two of them counts as
    /// asked behind the last.
    var pongsBefore = 0
    /// The user's pings that are not answered yet.
    var userPings = 0
    /// Client: the acknowledgement of a packet sent at `since` is overdue, and a PINGREQ was sent for it. The answer is
    /// the next but `pongs` - 1 of those to keep-alive pings. The acknowledgement must come before it.
    var overdue: (since: Instant, pongs: Int)?

    /// Server: when the client has been silent for too long. While it is not read, its silence means nothing.
    var silenceDue: Instant { max(lastReceived, unreadUntil).advanced(byNanoseconds: interval) }
    /// Client: when the next PINGREQ is due: the broker has not heard of this side for the interval, or this side has
    /// not heard of the broker, so that a path that takes all and brings nothing is found. While output is leaving, the
    /// broker hears of this side, and PINGREQ would only be queued behind it. Of a broker that is asked already,
    /// silence is not asked about again.
    var pingDue: Instant {
        let unheard = max(lastSent, outputMoved)
        guard pingSent == nil else { return unheard.advanced(byNanoseconds: interval) }
        return min(unheard, max(lastReceived, unreadUntil, outputMoved)).advanced(byNanoseconds: interval)
    }
    /// Client: when the answer to the last PINGREQ is overdue, if one is awaited.
    var answerDue: Instant? {
        guard let pingSent else { return nil }
        return max(pingSent, lastReceived, unreadUntil, outputMoved).advanced(byNanoseconds: timeout)
    }
}

extension Instant {
    /// This instant moved by nanoseconds; saturates.
    fileprivate func advanced(byNanoseconds amount: Int64) -> Instant {
        let (sum, overflow) = nanoseconds.addingReportingOverflow(amount)
        return Instant(nanoseconds: overflow ? .max : sum)
    }
}

extension MQTTCore {
    package var deadline: Instant? {
        mutating get {
            switch state {
            case .idle, .closing, .closed: return nil
            case .connecting: return handshakeDeadline
            // SUBACK may be queued behind many messages of a session. Pings keep the connection alive meanwhile.
            case .subscribing: return min(handshakeDeadline, keepAliveDeadline ?? handshakeDeadline)
            case .open: break
            }
            guard let keepAliveDeadline else { return acknowledgementDeadline }
            return min(keepAliveDeadline, acknowledgementDeadline ?? keepAliveDeadline)
        }
    }

    private var keepAliveDeadline: Instant? {
        guard keepAlive.interval > 0 else { return nil }
        guard isClient else { return keepAlive.silenceDue }
        guard state == .open else { return keepAlive.pingDue }
        return min(keepAlive.pingDue, keepAlive.answerDue ?? keepAlive.pingDue)
    }

    package var lateHandshake: String {
        guard isClient else { return "no CONNECT came in time" }
        guard state == .connecting else { return "no SUBACK came in time" }
        return "no CONNACK came in time: the server may speak another protocol, so compare the scheme and the port"
    }

    package mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {
        guard let deadline, deadline <= context.now else { return }
        guard state == .open || handshakeDeadline > context.now else {
            throw TransportError(.timedOut, .handshake, lateHandshake)
        }
        keepAlive.unreadUntil = context.unreadUntil
        keepAlive.outputMoved = context.outputMoved
        if state == .open, let due = acknowledgementDeadline, due <= context.now {
            try acknowledgementOverdue(&context)
        }
        if let due = keepAliveDeadline, due <= context.now { try keepAliveDue(&context) }
    }

    private mutating func keepAliveDue(_ context: inout CoreContext) throws(TransportError) {
        guard isClient else {
            throw TransportError(.keepaliveTimeout, .open, "no packet came in one and a half times the keep alive")
        }
        if state == .open, let due = keepAlive.answerDue, due <= context.now {
            throw TransportError(.keepaliveTimeout, .open, "no PINGRESP came in time")
        }
        askBroker(&context)
    }

    /// Sends a PINGREQ whose answer the user does not hear of.
    private mutating func askBroker(_ context: inout CoreContext) {
        if keepAlive.ownPings == 0 { keepAlive.pongsBefore = keepAlive.userPings }
        keepAlive.ownPings += 1
        keepAlive.pingSent = context.now
        write(.pingreq, &context)
    }

    /// The deadline was set for an entry that may be gone: looks for the oldest that is left. Its time counts from when
    /// its answer could come, and be read. A broker answers in order, and an acknowledgement may be queued behind other
    /// messages. While bytes come, the client therefore sends PINGREQ, and the acknowledgement is missing if PINGRESP
    /// comes first.
    private mutating func acknowledgementOverdue(_ context: inout CoreContext) throws(TransportError) {
        acknowledgementDeadline = nil
        guard let oldest = inFlight.oldest else { return }
        let since = keepAlive.overdue == nil ? oldest : keepAlive.lastReceived
        expectAcknowledgement(max(since, keepAlive.unreadUntil, keepAlive.outputMoved))
        guard let due = acknowledgementDeadline, due <= context.now else { return }
        acknowledgementDeadline = nil
        expectAcknowledgement(keepAlive.lastReceived)
        guard let due = acknowledgementDeadline, due > context.now, keepAlive.overdue == nil else {
            throw unacknowledged()
        }
        askBroker(&context)
        keepAlive.overdue = (oldest, keepAlive.ownPings)
    }

    /// An answer to a keep-alive ping has come: whether what was overdue has been acknowledged before it.
    private mutating func checkOverdue() throws(TransportError) {
        guard let overdue = keepAlive.overdue else { return }
        guard overdue.pongs == 1 else {
            keepAlive.overdue?.pongs -= 1
            return
        }
        keepAlive.overdue = nil
        acknowledgementDeadline = nil
        guard let oldest = inFlight.oldest else { return }
        guard oldest > overdue.since else { throw unacknowledged() }
        expectAcknowledgement(oldest)
    }

    private func unacknowledged() -> TransportError {
        TransportError(.acknowledgementTimeout, .open, "a packet was not acknowledged in time")
    }

    package mutating func ping(_ context: inout CoreContext) throws(TransportError) {
        guard isClient else { throw TransportError(.unsupported, .open, "an MQTT server has no ping (section 3.12)") }
        try checkOpen()
        keepAlive.userPings += 1
        write(.pingreq, &context)
    }

    /// Which ping a PINGRESP answers: the answers come in order, and those to keep-alive pings are nobody's business.
    mutating func receivePong() throws(TransportError) -> CoreEvent? {
        if keepAlive.ownPings > 0 {
            guard keepAlive.pongsBefore > 0 else {
                keepAlive.ownPings -= 1
                try checkOverdue()
                if keepAlive.ownPings == 0 { keepAlive.pingSent = nil }
                return nil
            }
            keepAlive.pongsBefore -= 1
        }
        guard keepAlive.userPings > 0 else { throw violation("PINGRESP answers no PINGREQ (MQTT-3.12.4-1)") }
        keepAlive.userPings -= 1
        return .pong
    }

    /// Gives out a packet identifier and minds the time; `nil` if the window is full.
    mutating func begin(
        _ kind: InFlight.Kind,
        id: UInt64,
        _ now: Instant,
        beyondWindow: Bool = false
    ) -> UInt16? {
        guard let packetID = inFlight.begin(kind, id: id, now: now, beyondWindow: beyondWindow) else { return nil }
        expectAcknowledgement(now)
        return packetID
    }

    /// Sets the time for an acknowledgement, unless one is awaited already. A server has none: a client may take what
    /// it gets as slowly as it likes, as long as it lives (section 3.1.2.10), and what waits for it meanwhile has a
    /// bound.
    mutating func expectAcknowledgement(_ since: Instant) {
        guard acknowledgementDeadline == nil, let acknowledgementTimeout else { return }
        acknowledgementDeadline = since.advanced(byNanoseconds: acknowledgementTimeout)
    }

    /// Takes a packet identifier back from the acknowledgement of this name.
    mutating func finish(_ kind: InFlight.Kind, _ packetID: UInt16, _ name: String) throws(TransportError) -> UInt64 {
        guard let id = inFlight.end(kind, packetID) else {
            throw violation(
                "\(name) has packet identifier \(packetID), under which nothing is in flight (section 2.3.1)"
            )
        }
        if inFlight.count == 0 { acknowledgementDeadline = nil }
        return id
    }
}
