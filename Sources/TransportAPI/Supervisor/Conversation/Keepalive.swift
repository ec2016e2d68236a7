/// Detects whether the peer of one connection is alive. It sends a probe after a silence, and gives up if no byte comes
/// back. Both sides of a connection run one.
///
/// A probe leaves after the output before it. On a slow path that can take longer than the timeout, so the time for the
/// answer begins again whenever some of that output has left. Output after the probe does not count. So a peer that
/// accepts everything and answers nothing is detected once the output before the probe is gone.
package struct Keepalive: Sendable {
    /// The action that is due now.
    package enum Verdict: Sendable, Hashable {
        /// No action is due.
        case wait
        /// Send a probe.
        case probe
        /// Nothing has arrived since the probe, so the connection is dead.
        case dead
    }

    /// A probe that is not answered yet.
    private struct Question: Sendable {
        /// When the probe was sent.
        let askedAt: Instant
        /// When the connection is dead, unless a sign of life comes.
        var due: Instant
        /// The signs of life at the last check. While a probe is unanswered, there is a check after each quarter of the
        /// timeout.
        var signs: SignsOfLife
        /// The value of ``SignsOfLife/bytesTaken`` once the last byte before the probe has left.
        let end: UInt64

        init(at now: Instant, _ signs: SignsOfLife, due: Instant) {
            askedAt = now
            self.due = due
            self.signs = signs
            end = signs.bytesTaken + signs.bytesLeft
        }
    }

    private let configuration: KeepaliveConfiguration
    /// The current interval, or `nil` if no probe is sent.
    package var interval: Duration?
    /// Whether probes are answered. Otherwise silence after a probe has no meaning.
    private let isAnswered: Bool
    /// Whether an unanswered probe is sent again at each check of the connection, because it may have been lost.
    private let isRepeated: Bool
    private var lastReceived: Instant
    private var lastProbe: Instant
    private var question: Question?
    private var lastLook: Instant
    private var grace = GracePeriod()
    /// Whether a probe is due at once, independent of what was received.
    private var isUrgent = false
    /// Whether this side reads. While it does not, silence has no meaning. Probes are still sent, because the peer
    /// receives nothing else from this side.
    private var isReading = true
    /// Whether there is no network.
    private var isOffline = false

    /// Creates the keepalive of a connection that has just opened.
    ///
    /// - Parameters:
    ///   - configuration: The settings.
    ///   - capabilities: The capabilities of the connection. They contain the interval that applies unless one is
    ///     configured. Over an unreliable connection a probe is sent four times, because a single lost packet does not
    ///     mean that the connection is dead.
    ///   - isAnswered: Whether there is a probe, and the peer answers it.
    ///   - now: The current time.
    package init(
        _ configuration: KeepaliveConfiguration,
        over capabilities: Capabilities,
        isAnswered: Bool,
        at now: Instant
    ) {
        self.configuration = configuration
        self.isAnswered = isAnswered
        isRepeated = !capabilities.isReliable
        interval = configuration.interval(over: capabilities)
        lastReceived = now
        lastProbe = now
        lastLook = now
    }

    /// The time at which the unanswered probe was sent.
    package var askedAt: Instant? { question?.askedAt }

    /// Records that something has arrived.
    package mutating func received(at now: Instant) {
        lastReceived = now
        question = nil
    }

    /// Records whether this side reads. While it does not, silence has no meaning.
    package mutating func reading(_ isReading: Bool, at now: Instant) {
        // A call that changes nothing is no sign of life.
        guard isReading != self.isReading else { return }
        self.isReading = isReading
        received(at: now)
    }

    /// Records whether there is a network. Without a network no probe is sent. When the network is back, a probe is
    /// sent at once.
    package mutating func online(_ isOnline: Bool, at now: Instant) {
        isOffline = !isOnline
        received(at: now)
        isUrgent = isOnline
    }

    /// The time at which ``deadlineReached(_:at:)`` is due, or `nil` for never. The getter is `mutating`, because
    /// reading through an optional would otherwise copy this value for each message.
    package var deadline: Instant? {
        mutating get {
            guard !isOffline else { return nil }
            if let question { return min(question.due, lastLook.advanced(by: configuration.timeout / 4)) }
            if isUrgent { return .zero }
            guard let interval else { return nil }
            let isIdleOnly = configuration.isIdleOnly && isReading
            return (isIdleOnly ? max(lastReceived, lastProbe) : lastProbe).advanced(by: interval)
        }
    }

    /// Returns the action that is due.
    ///
    /// - Parameters:
    ///   - signs: The signs of life until now. Everything that has arrived must be read before.
    ///   - now: The current time.
    package mutating func deadlineReached(_ signs: SignsOfLife, at now: Instant) -> Verdict {
        note(signs, at: now)
        guard let deadline, deadline <= now else { return .wait }
        lastLook = now
        // After a time in which this side did not run, the peer is asked again, and has the whole timeout to answer.
        if let question, !grace.give(deadline, lastReceived: lastReceived, at: now) {
            if question.due <= now { return .dead }
            guard isRepeated else { return .wait }
        } else {
            question = nil
        }
        isUrgent = false
        lastProbe = now
        if isAnswered, isReading, question == nil {
            question = Question(at: now, signs, due: now.advanced(by: configuration.timeout))
        }
        return .probe
    }

    /// Compares the signs of life with those at the last check.
    private mutating func note(_ signs: SignsOfLife, at now: Instant) {
        guard let question else { return }
        if signs.bytesReceived > question.signs.bytesReceived {
            // The time at which they arrived is not known, so the last check counts as that time.
            received(at: lastLook)
        } else if signs.bytesTaken > question.signs.bytesTaken, question.signs.bytesTaken < question.end {
            self.question?.signs = signs
            self.question?.due = now.advanced(by: configuration.timeout)
        }
    }
}
