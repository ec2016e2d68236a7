import TransportAPI

/// The times of the last bytes in each direction, and the pings, for the keep alive (MQTT 3.1.1, section 3.1.2.10).
struct MQTTKeepAlive: Sendable {
    var lastSent = Instant.zero
    var lastReceived = Instant.zero
    /// ``CoreContext/unreadUntil`` and ``CoreContext/outputMoved`` at the last deadline.
    var unreadUntil = Instant.zero
    var outputMoved = Instant.zero
    /// The interval in nanoseconds; 0 while the keep alive is off. Client: the time without output or input until
    /// PINGREQ. Server: the time without input until the connection ends.
    var interval: Int64 = 0
    /// Client: the time without input after a keep-alive PINGREQ until the connection ends, in nanoseconds.
    var timeout: Int64 = 0
    /// When the last keep-alive PINGREQ was sent; `nil` if all are answered.
    var pingSent: Instant?
    /// How many keep-alive PINGREQ are not answered yet. There is more than one only if an answer may stay unread for
    /// long, because the broker must receive something meanwhile.
    var ownPings = 0
    /// How many PINGRESP arrive before the one that answers the first of them. A ping of the user between two of them
    /// counts as if it was sent after the last.
    var pongsBefore = 0
    /// How many pings of the user are not answered yet.
    var userPings = 0
    /// Client: a packet sent at `since` was not acknowledged in time, and a PINGREQ was sent because of it. Of the next
    /// answers to keep-alive pings, its answer is number `pongs`. The acknowledgement must arrive before it.
    var overdue: (since: Instant, pongs: Int)?

    /// Server: when the client has been silent for too long. The time does not run while its bytes are not read.
    var silenceDue: Instant { max(lastReceived, unreadUntil).advanced(byNanoseconds: interval) }
    /// Client: when the next PINGREQ is due, which has two reasons. The broker has received nothing for the interval,
    /// or this side has received nothing. The second one detects a path that accepts everything and delivers nothing.
    ///
    /// While output is leaving, the broker receives it, and PINGREQ would only be queued after it. While a PINGREQ is
    /// unanswered, the silence of the broker does not cause another one.
    var pingDue: Instant {
        let unheard = max(lastSent, outputMoved)
        guard pingSent == nil else { return unheard.advanced(byNanoseconds: interval) }
        return min(unheard, max(lastReceived, unreadUntil, outputMoved)).advanced(byNanoseconds: interval)
    }
    /// Client: when the answer to the last PINGREQ is overdue; `nil` if none is expected.
    var answerDue: Instant? {
        guard let pingSent else { return nil }
        return max(pingSent, lastReceived, unreadUntil, outputMoved).advanced(byNanoseconds: timeout)
    }
}

extension Instant {
    /// This instant plus a number of nanoseconds. The sum saturates.
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
            case .connecting, .early: return handshakeDeadline
            // SUBACK may be queued after many messages of a session. Pings keep the connection alive meanwhile.
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
        guard awaitsFirstPacket else { return "no SUBACK came in time" }
        return "no CONNACK came in time"
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

    /// Sends a PINGREQ whose answer is not reported to the user.
    private mutating func askBroker(_ context: inout CoreContext) {
        if keepAlive.ownPings == 0 { keepAlive.pongsBefore = keepAlive.userPings }
        keepAlive.ownPings += 1
        keepAlive.pingSent = context.now
        write(.pingreq, &context)
    }

    /// Checks the oldest packet in flight, because the packet that set the deadline may have been acknowledged. Its
    /// time counts from the moment when its answer could arrive and be read.
    ///
    /// A broker answers in order, and an acknowledgement may be queued after other messages. So while bytes arrive, the
    /// client sends PINGREQ. The acknowledgement is missing if PINGRESP arrives before it.
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

    /// The answer to a keep-alive ping has arrived. Checks that the overdue packet was acknowledged before it.
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

    /// Finds the ping that a PINGRESP answers. The answers arrive in order, and those to keep-alive pings are not
    /// reported.
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

    /// Takes a free packet identifier and sets the deadline of its acknowledgement. Returns `nil` if the window is
    /// full.
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

    /// Sets the deadline of an acknowledgement, unless one is set. A server has none, because a client may process
    /// messages as slowly as it likes while it is alive (section 3.1.2.10). The messages that are queued for it are
    /// limited.
    mutating func expectAcknowledgement(_ since: Instant) {
        guard acknowledgementDeadline == nil, let acknowledgementTimeout else { return }
        acknowledgementDeadline = since.advanced(byNanoseconds: acknowledgementTimeout)
    }

    /// Releases a packet identifier for the acknowledgement `name`. Returns the id of its packet.
    mutating func finish(_ kind: InFlight.Kind, _ packetID: UInt16, _ name: String) throws(TransportError) -> UInt64 {
        guard let id = inFlight.end(kind, packetID) else {
            throw violation(
                "\(name) has packet identifier \(packetID), but no such packet is in flight (section 2.3.1)"
            )
        }
        if inFlight.count == 0 { acknowledgementDeadline = nil }
        return id
    }
}
