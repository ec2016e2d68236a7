/// The attempts since the last stable connection: their number, the pauses between them, and the limits of both.
struct RetryBudget: Sendable {
    /// The attempts that have failed.
    private(set) var failures = 0
    /// How many of them may have failed because of the path. No limit counts these.
    private var disturbances = 0
    private var backoff: Backoff
    /// The pauses while the path is disturbed.
    private var disturbedBackoff: Backoff
    /// The time since which there has been no stable connection.
    private var lostAt: Instant?
    private let maximumAttempts: Int?
    private let maximumElapsed: Duration?

    init(_ configuration: SupervisorConfiguration) {
        backoff = Backoff(configuration.backoff)
        disturbedBackoff = Backoff(configuration.backoff.whileDisturbed)
        (maximumAttempts, maximumElapsed) = (configuration.maximumAttempts, configuration.maximumElapsed)
    }

    /// An attempt begins.
    mutating func begins(at now: Instant) {
        if lostAt == nil { lostAt = now }
    }

    /// The app is in the foreground again, so the time before does not count.
    mutating func resumed(at now: Instant) { lostAt = now }

    /// An attempt has failed, or a connection has ended.
    mutating func failed() { failures += 1 }

    /// The last failure may come from the path.
    mutating func wasDisturbed() { disturbances += 1 }

    /// The connection that has ended was stable.
    mutating func wasStable(at now: Instant) {
        backoff.reset()
        disturbedBackoff.reset()
        (failures, disturbances) = (0, 0)
        lostAt = now
    }

    /// The path is another one, whose disturbances are not known.
    mutating func pathChanged() { disturbedBackoff.reset() }

    /// Whether no attempt is left.
    var isUsedUp: Bool { maximumAttempts.map { failures - disturbances >= $0 } ?? false }

    /// Returns the pause before the next attempt; `nil` if the list of pauses is over.
    mutating func pause(isDisturbed: Bool, using random: inout RandomSource) -> Duration? {
        isDisturbed ? disturbedBackoff.next(using: &random) : backoff.next(using: &random)
    }

    /// Whether an attempt after `pause` is within the longest time.
    func allows(_ pause: Duration, at now: Instant) -> Bool {
        guard let maximumElapsed, let lostAt else { return true }
        return lostAt.duration(to: now.advanced(by: pause)) <= maximumElapsed
    }
}
