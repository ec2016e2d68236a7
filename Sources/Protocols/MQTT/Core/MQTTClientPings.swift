import TransportAPI

/// A client's PINGREQ packets that are not answered yet, and when the next one is due (MQTT 3.1.1, section 3.1.2.10).
///
/// PINGREQ has no identifier, but the answers arrive in the order of the packets.
struct MQTTClientPings: Sendable {
    /// The time without output or input until PINGREQ, in nanoseconds; 0 while the keep alive is off.
    let interval: Int64
    /// The time without input after a PINGREQ of the keep alive until the connection ends, in nanoseconds.
    private let timeout: Int64
    /// The numbers of the last PINGREQ and of the last one that is answered.
    private var lastPing: UInt64 = 0
    private var lastAnswered: UInt64 = 0
    /// The last PINGREQ of the keep alive; `nil` if it is answered.
    private var own: (number: UInt64, sent: Instant)?
    /// A PINGREQ that was sent because a packet was not acknowledged in time, and when that packet was sent. The
    /// acknowledgement must arrive before the answer.
    private var check: (number: UInt64, packetSentAt: Instant)?

    init(_ configuration: MQTTConfiguration) {
        interval = configuration.pingInterval
        timeout = min(configuration.pingTimeout.wholeNanoseconds, max(interval, 1))
    }

    /// When the next PINGREQ is due, which has two reasons. The broker has received nothing for the interval, or this
    /// side has received nothing. The second one detects a path that accepts everything and delivers nothing.
    ///
    /// While output is leaving, the broker receives it, and PINGREQ would only be queued after it. While a PINGREQ is
    /// unanswered, the silence of the broker does not cause another one.
    func due(_ times: PathTimes) -> Instant? {
        guard interval > 0 else { return nil }
        let unheard = max(times.lastSent, times.outputMoved)
        guard own == nil else { return unheard.advanced(byNanoseconds: interval) }
        let unread = max(times.lastReceived, times.unreadUntil, times.outputMoved)
        return min(unheard, unread).advanced(byNanoseconds: interval)
    }

    /// When the answer to the last PINGREQ is overdue; `nil` if none is expected.
    func answerDue(_ times: PathTimes) -> Instant? {
        guard interval > 0, let sent = own?.sent else { return nil }
        return max(sent, times.lastReceived, times.unreadUntil, times.outputMoved).advanced(byNanoseconds: timeout)
    }

    /// Whether an acknowledgement must arrive before the answer to a ping.
    var isChecking: Bool { check != nil }

    /// PINGREQ is written. Returns its number.
    mutating func next() -> UInt64 {
        lastPing += 1
        return lastPing
    }

    /// The keep alive has written PINGREQ.
    mutating func keepsAlive(_ now: Instant) {
        own = (next(), now)
    }

    /// PINGREQ is written because the packet that was sent at this time is not acknowledged.
    mutating func checks(packetSentAt since: Instant, _ now: Instant) {
        keepsAlive(now)
        check = (lastPing, since)
    }

    /// PINGRESP has arrived. Returns the number of the ping that it answers, and the time of the packet whose
    /// acknowledgement should have come before it, if there is one. Returns `nil` if it answers no ping.
    mutating func answered() -> (number: UInt64, packetSentAt: Instant?)? {
        guard lastAnswered < lastPing else { return nil }
        lastAnswered += 1
        if let own, own.number <= lastAnswered { self.own = nil }
        guard let check, check.number == lastAnswered else { return (lastAnswered, nil) }
        self.check = nil
        return (lastAnswered, check.packetSentAt)
    }
}
