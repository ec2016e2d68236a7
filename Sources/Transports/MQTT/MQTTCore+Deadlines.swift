import TransportAPI

/// When a link was last heard and last used, and what keep alive makes of it (MQTT 3.1.1, section 3.1.2.10).
struct MQTTKeepAlive: Sendable {
    var lastSent = Instant.zero
    var lastReceived = Instant.zero
    /// Nanoseconds; 0 while keep alive is off. Client: of not sending, until PINGREQ. Server: of not hearing, until the end.
    var interval: Int64 = 0
    /// Client: nanoseconds of not hearing after a keep-alive PINGREQ, until the end.
    var timeout: Int64 = 0
    /// When the keep-alive PINGREQ was sent that is not answered yet. There is one at a time.
    var pingSent: Instant?
    /// How many PINGRESP come before the one that answers it.
    var pongsBefore = 0
    /// The user's pings that are not answered yet.
    var userPings = 0

    /// The most pings of the user that may be unanswered at a time.
    static let maximumUserPings = 1024
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
        switch state {
        case .idle, .closing, .closed: return nil
        case .connecting, .subscribing: return handshakeDeadline
        case .open: break
        }
        guard let keepAliveDeadline else { return acknowledgementDeadline }
        return min(keepAliveDeadline, acknowledgementDeadline ?? keepAliveDeadline)
    }

    private var keepAliveDeadline: Instant? {
        guard keepAlive.interval > 0 else { return nil }
        guard isClient else { return keepAlive.lastReceived.advanced(byNanoseconds: keepAlive.interval) }
        guard let sent = keepAlive.pingSent else {
            return keepAlive.lastSent.advanced(byNanoseconds: keepAlive.interval)
        }
        return max(sent, keepAlive.lastReceived).advanced(byNanoseconds: keepAlive.timeout)
    }

    package mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {
        guard let deadline, deadline <= context.now else { return }
        guard state == .open else {
            let missing = isClient ? (state == .connecting ? "CONNACK" : "SUBACK") : "CONNECT"
            throw TransportError(.timedOut, .handshake, "no \(missing) came in time")
        }
        if let due = acknowledgementDeadline, due <= context.now { try acknowledgementOverdue(context.now) }
        if let due = keepAliveDeadline, due <= context.now { try keepAliveDue(&context) }
    }

    private mutating func keepAliveDue(_ context: inout CoreContext) throws(TransportError) {
        guard isClient else {
            throw TransportError(.keepaliveTimeout, .open, "no packet came in one and a half times the keep alive")
        }
        guard keepAlive.pingSent == nil else {
            throw TransportError(.keepaliveTimeout, .open, "no PINGRESP came in time")
        }
        keepAlive.pingSent = context.now
        keepAlive.pongsBefore = keepAlive.userPings
        write(.pingreq, &context)
    }

    /// The deadline was set for an entry that may be gone: looks for the oldest that is left.
    private mutating func acknowledgementOverdue(_ now: Instant) throws(TransportError) {
        acknowledgementDeadline = inFlight.oldest?.advanced(byNanoseconds: acknowledgementTimeout)
        guard let due = acknowledgementDeadline, due <= now else { return }
        throw TransportError(.acknowledgementTimeout, .open, "a packet was not acknowledged in time")
    }

    package mutating func ping(_ context: inout CoreContext) throws(TransportError) {
        guard isClient else { throw TransportError(.unsupported, .open, "an MQTT server has no ping (section 3.12)") }
        try checkOpen()
        guard keepAlive.userPings < MQTTKeepAlive.maximumUserPings else {
            throw TransportError(.wouldBlock, .open, "\(keepAlive.userPings) pings are not answered yet")
        }
        keepAlive.userPings += 1
        write(.pingreq, &context)
    }

    /// Which ping a PINGRESP answers: the answers come in order, and those to keep-alive pings are nobody's business.
    mutating func receivePong() throws(TransportError) -> CoreEvent? {
        if keepAlive.pingSent != nil {
            guard keepAlive.pongsBefore > 0 else {
                keepAlive.pingSent = nil
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

    mutating func expectAcknowledgement(_ now: Instant) {
        guard acknowledgementDeadline == nil else { return }
        acknowledgementDeadline = now.advanced(byNanoseconds: acknowledgementTimeout)
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
