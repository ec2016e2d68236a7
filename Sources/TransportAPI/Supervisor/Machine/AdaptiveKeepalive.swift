/// Applies an ``AdaptiveInterval`` to one supervisor: which interval its link has, and which is on trial where.
package struct AdaptiveKeepalive: Sendable {
    /// A trial on a connection of its own.
    struct Trial: Sendable, Hashable {
        let number: Int
        let interval: Duration
        let network: String
    }

    /// How long to wait after a trial that told nothing, because its connection could not be made.
    static let pause = Duration.seconds(60)

    let configuration: AdaptiveKeepaliveConfiguration
    package internal(set) var intervals: AdaptiveInterval
    private(set) var trial: Trial?
    private var lastNumber = 0
    /// When the next trial may begin.
    private(set) var notBefore = Instant.zero

    init(_ configuration: AdaptiveKeepaliveConfiguration, knowing intervals: AdaptiveInterval?) {
        self.configuration = configuration
        self.intervals = intervals ?? AdaptiveInterval(configuration)
    }

    /// The interval for the user's link.
    mutating func interval(on network: String) -> Duration {
        let good = intervals.current(on: network)
        guard !configuration.usesSpareConnection else { return good }
        return intervals.nextTrial(on: network) ?? good
    }

    // MARK: On a spare connection

    /// The trial that is to begin now, if there is one.
    mutating func nextTrial(on network: String, at now: Instant) -> Trial? {
        guard configuration.usesSpareConnection, trial == nil, now >= notBefore,
            let interval = intervals.nextTrial(on: network)
        else { return nil }
        lastNumber += 1
        trial = Trial(number: lastNumber, interval: interval, network: network)
        return trial
    }

    /// When ``nextTrial(on:at:)`` is worth asking again.
    func deadline(on network: String) -> Instant? {
        guard configuration.usesSpareConnection, trial == nil, intervals.nextTrial(on: network) != nil else {
            return nil
        }
        return notBefore
    }

    /// The spare connection was alive after the interval, or not, or could not tell.
    mutating func ended(_ number: Int, survived: Bool?, at now: Instant) {
        guard let trial, trial.number == number else { return }
        self.trial = nil
        switch survived {
        case true: intervals.succeeded(trial.interval, on: trial.network)
        case false: intervals.failed(trial.interval, on: trial.network)
        default: notBefore = now.advanced(by: Self.pause)
        }
    }

    /// The trial under way, if any, means nothing any more.
    mutating func abandonTrial() -> Int? {
        defer { trial = nil }
        return trial?.number
    }

    // MARK: On the user's link

    /// The link answered after it had been idle for `interval`.
    mutating func survived(_ interval: Duration, on network: String) {
        if !configuration.usesSpareConnection { intervals.succeeded(interval, on: network) }
    }

    /// The link was dead after it had been idle for `interval`.
    mutating func died(_ interval: Duration, on network: String) {
        if interval <= intervals.current(on: network) {
            intervals.lost(on: network)
        } else {
            intervals.failed(interval, on: network)
        }
    }
}
