/// By how much one number of two runs differs, and whether that is more than chance.
struct Difference: Sendable {
    enum Verdict: Sendable, Hashable {
        /// The whole interval lies beyond the noise.
        case better, worse
        case noise
        /// The repeats do not tell, and why.
        case unknown(String)

        /// Why the repeats do not tell.
        var reason: String? { if case .unknown(let reason) = self { reason } else { nil } }

        /// For JSON and CSV.
        var name: String {
            switch self {
            case .better: "better"
            case .worse: "worse"
            case .noise: "noise"
            case .unknown: "unknown"
            }
        }
    }

    var metric: RepeatedMetric
    /// The medians over the repeats.
    var before: Double?
    var after: Double?
    /// What the ratio of after to before is held to be.
    var interval: RatioInterval?
    var verdict: Verdict

    /// - Parameter noise: the share by which two runs of the same code may differ, such as 0.01.
    init(_ metric: RepeatedMetric, before: RecordedRow, after: RecordedRow, noise: Double) {
        let (first, second) = (before.repeats.known(metric), after.repeats.known(metric))
        self.metric = metric
        self.before = RepeatStatistics(first)?.median
        self.after = RepeatStatistics(second)?.median
        interval = RatioInterval(before: first, after: second)
        if let interval {
            let isMore = interval.low > 1 + noise
            let isLess = interval.high < 1 / (1 + noise)
            verdict = isMore || isLess ? (isMore == metric.isBetterWhenLarger ? .better : .worse) : .noise
        } else if before.repeats[metric] == nil || after.repeats[metric] == nil {
            verdict = .unknown("a report lacks the values of its repeats")
        } else if (first + second).contains(0) {
            verdict = .unknown("a value is 0")
        } else {
            verdict = .unknown("too few repeats have a value; it takes \(RatioInterval.neededRepeats) in each run")
        }
    }

    /// After to before.
    var ratio: Double? {
        guard let before, let after, before > 0 else { return nil }
        return after / before
    }

    var isReal: Bool { verdict == .better || verdict == .worse }
}
