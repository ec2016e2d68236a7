import TransportAPI

/// A client's PINGREQ packets that are not answered yet, and when the next one is due (MQTT 3.1.1, section 3.1.2.10).
///
/// PINGREQ has no identifier, but the answers arrive in the order of the packets.
struct MQTTClientPings: Sendable {
    private enum Ping: Sendable {
        /// The user's, whose answer is reported.
        case user
        /// The keep alive's.
        case keepAlive
        /// A packet that was sent at this time was not acknowledged in time. The acknowledgement must arrive before the
        /// answer to this ping.
        case check(Instant)
    }

    enum Answer: Sendable {
        case user
        case keepAlive
        case check(Instant)
        /// No ping was sent.
        case unexpected
    }

    /// The time without output or input until PINGREQ, in nanoseconds; 0 while the keep alive is off.
    let interval: Int64
    /// The time without input after a PINGREQ of the keep alive until the connection ends, in nanoseconds.
    private let timeout: Int64
    /// There is more than one of the keep alive only if an answer may stay unread for long, because the broker must
    /// receive something meanwhile.
    private var unanswered: [Ping] = []
    /// When the last PINGREQ of the keep alive was sent; `nil` if all of them are answered.
    private var sent: Instant?

    init(_ configuration: MQTTConfiguration) {
        interval = configuration.pingInterval
        timeout = min(configuration.pingTimeout.wholeNanoseconds, max(interval, 1))
    }

    /// When the next PINGREQ is due, which has two reasons. The broker has received nothing for the interval, or this
    /// side has received nothing. The second one detects a path that accepts everything and delivers nothing.
    ///
    /// While output is leaving, the broker receives it, and PINGREQ would only be queued after it. While a PINGREQ is
    /// unanswered, the silence of the broker does not cause another one.
    func due(_ times: MQTTTimes) -> Instant? {
        guard interval > 0 else { return nil }
        let unheard = max(times.lastSent, times.outputMoved)
        guard sent == nil else { return unheard.advanced(byNanoseconds: interval) }
        let unread = max(times.lastReceived, times.unreadUntil, times.outputMoved)
        return min(unheard, unread).advanced(byNanoseconds: interval)
    }

    /// When the answer to the last PINGREQ is overdue; `nil` if none is expected.
    func answerDue(_ times: MQTTTimes) -> Instant? {
        guard interval > 0, let sent else { return nil }
        return max(sent, times.lastReceived, times.unreadUntil, times.outputMoved).advanced(byNanoseconds: timeout)
    }

    /// Whether an acknowledgement must arrive before the answer to a ping.
    var isChecking: Bool { unanswered.contains { if case .check = $0 { true } else { false } } }

    mutating func userPings() { unanswered.append(.user) }

    mutating func keepsAlive(_ now: Instant) {
        unanswered.append(.keepAlive)
        sent = now
    }

    mutating func checks(packetSentAt since: Instant, _ now: Instant) {
        unanswered.append(.check(since))
        sent = now
    }

    /// PINGRESP has arrived. Returns what it answers.
    mutating func answered() -> Answer {
        guard !unanswered.isEmpty else { return .unexpected }
        let answer: Answer
        switch unanswered.removeFirst() {
        case .user: return .user
        case .keepAlive: answer = .keepAlive
        case .check(let since): answer = .check(since)
        }
        if !unanswered.contains(where: { if case .user = $0 { false } else { true } }) { sent = nil }
        return answer
    }
}
