/// Finds out whether the far side of one link is still there: asks after a silence, and gives up if nothing at all comes back.
/// Both sides of a link run one.
package struct Keepalive: Sendable {
    /// What is to be done now.
    package enum Verdict: Sendable, Hashable {
        case wait
        /// Ask for a sign of life.
        case probe
        /// Nothing has come since the probe: the link is dead.
        case dead
    }

    private let configuration: KeepaliveConfiguration
    /// The interval now; `nil`: none.
    package var interval: Duration?
    /// Whether probes are answered, so that silence after one means something.
    private let isAnswered: Bool
    /// How long a probe is waited for before it is sent again, on a link that may have lost it; `nil`: never.
    private let repetition: Duration?
    private var lastReceived: Instant
    private var lastProbe: Instant
    /// When the probe that has not been answered was sent.
    package private(set) var askedAt: Instant?
    /// Ask at once, whatever was received.
    private var isUrgent = false
    /// This side reads nothing now, or has no network: silence means nothing.
    private var isPaused = false
    private var receivedBytes: UInt64 = 0

    /// A link that has just opened.
    ///
    /// - Parameters:
    ///   - isAnswered: whether there is a probe at all, and whether it is answered.
    ///   - isReliable: whether what is sent arrives as long as the link lives; otherwise a probe is sent four times, because one
    ///     packet that is lost is no sign of death.
    package init(_ configuration: KeepaliveConfiguration, isAnswered: Bool, isReliable: Bool = true, at now: Instant) {
        self.configuration = configuration
        self.isAnswered = isAnswered
        repetition = isReliable ? nil : configuration.timeout / 4
        interval = configuration.interval
        lastReceived = now
        lastProbe = now
    }

    /// Something has arrived, whatever it is.
    package mutating func received(at now: Instant) {
        lastReceived = now
        askedAt = nil
    }

    /// The link has received so many bytes in all. Bytes of a message that is not complete answer a probe too; when they came
    /// is not known, so that they count from the probe on.
    package mutating func received(bytes: UInt64) {
        guard bytes > receivedBytes else { return }
        receivedBytes = bytes
        if let askedAt { received(at: askedAt) }
    }

    /// The far side should be heard soon; if it is not, it is asked.
    package mutating func hurry() {
        if askedAt == nil { isUrgent = true }
    }

    /// Silence means nothing until ``resume(at:)``.
    package mutating func pause() {
        isPaused = true
        askedAt = nil
    }

    package mutating func resume(at now: Instant) {
        guard isPaused else { return }
        isPaused = false
        lastReceived = now
    }

    /// When ``tick(at:)`` wants to be called.
    package var deadline: Instant? {
        guard !isPaused else { return nil }
        if let askedAt {
            let end = askedAt.advanced(by: configuration.timeout)
            return repetition.map { min(end, lastProbe.advanced(by: $0)) } ?? end
        }
        if isUrgent { return .zero }
        guard let interval else { return nil }
        return (configuration.isIdleOnly ? max(lastReceived, lastProbe) : lastProbe).advanced(by: interval)
    }

    /// What the time asks for.
    package mutating func tick(at now: Instant) -> Verdict {
        guard let deadline, deadline <= now else { return .wait }
        if let askedAt, askedAt.advanced(by: configuration.timeout) <= now { return .dead }
        isUrgent = false
        lastProbe = now
        if isAnswered, askedAt == nil { askedAt = now }
        return .probe
    }
}
