import Measuring

/// The result of one contender.
struct Measurement: Sendable {
    enum Outcome: Sendable, Equatable {
        case measured
        /// This machine lacks something optional.
        case skipped(String)
        case failed(String)
    }

    var recipe: Recipe
    var outcome = Outcome.measured
    /// The value of each repetition. With `--awake` it was measured while cores were kept awake.
    var values: [Double] = []
    /// With `--awake`, the same while cores may sleep, in workloads that wait.
    var idleValues: [Double] = []
    /// The number of cores that this process kept busy in each repetition. It is measured in workloads that wait, while
    /// cores may sleep, because nothing else of the process runs then.
    var busyCores: [Double] = []

    var isMeasured: Bool { outcome == .measured }

    /// The processor time of one round trip of both sides, in microseconds. Round trips follow each other without a
    /// pause.
    var processorTime: Double? {
        guard recipe.isInProcess, let cores = RepeatStatistics(busyCores)?.median,
            let time = RepeatStatistics(idleValues.isEmpty ? values : idleValues)?.median
        else { return nil }
        return cores * time
    }
}

/// The result of a comparison.
struct Verdict: Sendable {
    var comparison: Comparison
    var ours: Measurement
    var peer: Measurement?

    /// Our value divided by the peer's, repetition by repetition; without a peer, our value. `nil` if either was not
    /// measured.
    var ratio: RepeatStatistics? { statistics(\.values) }
    var idleRatio: RepeatStatistics? { statistics(\.idleValues) }

    /// Whether the ratio is within its limit; `nil` without a limit or a ratio.
    var isMet: Bool? {
        guard let wanted = comparison.wanted, let ratio else { return nil }
        return wanted.isMet(by: ratio.median)
    }

    /// The reason why there is no ratio.
    var reason: String? {
        for measurement in [ours, peer].compactMap({ $0 }) {
            switch measurement.outcome {
            case .measured: continue
            case .skipped(let why): return "skipped: \(why)"
            case .failed(let why): return "FAILED, \(measurement.recipe.name): \(why)"
            }
        }
        return nil
    }

    private func statistics(_ values: (Measurement) -> [Double]) -> RepeatStatistics? {
        guard ours.isMeasured, peer?.isMeasured != false else { return nil }
        guard let peer else { return RepeatStatistics(values(ours)) }
        return RepeatStatistics(RepeatStatistics.ratios(values(ours), to: values(peer)).compactMap { $0 })
    }
}
