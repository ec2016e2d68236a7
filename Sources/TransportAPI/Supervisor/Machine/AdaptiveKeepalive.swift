/// Applies an ``AdaptiveInterval`` to one supervisor: which interval its link has, and which is on trial where.
package struct AdaptiveKeepalive: Sendable {
    /// A trial on a connection of its own.
    struct Trial: Sendable, Hashable {
        let number: Int
        let interval: Duration
        let network: String
    }

    /// How long to wait after a trial that told nothing; doubled with each further one.
    static let shortestPause = Duration.seconds(60)
    static let longestPause = Duration.seconds(3600)

    let configuration: AdaptiveKeepaliveConfiguration
    package internal(set) var intervals: AdaptiveInterval
    private(set) var trial: Trial?
    private var lastNumber = 0
    /// When the next trial may begin.
    private(set) var notBefore = Instant.zero
    private var pause = shortestPause
    /// The link has just died: the next one has the interval that is known to be good, until it has borne that once.
    private var isCautious = false

    init(_ configuration: AdaptiveKeepaliveConfiguration, knowing intervals: AdaptiveInterval?) {
        self.configuration = configuration
        self.intervals =
            intervals.map { AdaptiveInterval(configuration, knowing: $0) } ?? AdaptiveInterval(configuration)
    }

    /// The interval for the user's link.
    mutating func interval(on network: String) -> Duration {
        let good = intervals.current(on: network)
        if configuration.usesSpareConnection || isCautious { return good }
        return intervals.nextTrial(on: network) ?? good
    }

    /// No trial begins before the link has been there for a while: where all have lost their server, nobody should connect twice.
    mutating func opened(at now: Instant, stableAfter: Duration) {
        notBefore = max(notBefore, now.advanced(by: stableAfter))
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

    /// The spare connection was alive after the interval, or was found dead or ended after that time; or nothing can be said.
    mutating func ended(_ number: Int, _ outcome: TrialOutcome, at now: Instant) {
        guard let trial, trial.number == number else { return }
        self.trial = nil
        switch outcome {
        case .survived: intervals.succeeded(trial.interval, on: trial.network)
        case .died(let time): intervals.failed(min(time, trial.interval), on: trial.network)
        case .unclear:
            notBefore = now.advanced(by: pause)
            pause = min(pause * 2, Self.longestPause)
            return
        }
        pause = Self.shortestPause
    }

    /// The trial under way, if any, means nothing any more.
    mutating func abandonTrial() -> Int? {
        defer { trial = nil }
        return trial?.number
    }

    // MARK: On the user's link

    /// The link answered after it had been idle for `interval`.
    mutating func survived(_ interval: Duration, on network: String) {
        isCautious = false
        if !configuration.usesSpareConnection { intervals.succeeded(interval, on: network) }
    }

    /// The link was dead after it had been idle for `interval`.
    mutating func died(_ interval: Duration, on network: String) {
        isCautious = true
        if interval <= intervals.current(on: network) {
            intervals.lost(on: network)
        } else {
            intervals.failed(interval, on: network)
        }
    }
}

/// What a spare connection has shown.
package enum TrialOutcome: Sendable, Hashable {
    /// It answered after the interval.
    case survived
    /// It was dead after the interval, or ended by itself after that time.
    case died(Duration)
    /// It could not be made, or something came over it meanwhile.
    case unclear
}
