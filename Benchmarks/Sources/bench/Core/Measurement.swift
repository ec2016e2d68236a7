/// What became of one contender.
struct Measurement: Sendable {
    enum Outcome: Sendable, Equatable {
        case measured
        /// This machine lacks something that need not be there.
        case skipped(String)
        case failed(String)
    }

    var recipe: Recipe
    var outcome = Outcome.measured
    /// Repetition by repetition; of the regime that the run is judged by.
    var values: [Double] = []
    /// The same while cores may sleep, where that makes a difference and the run is judged by awake ones.
    var idleValues: [Double] = []
    /// How many cores this process kept busy meanwhile, repetition by repetition, where nothing else of it ran: in
    /// workloads that wait, while cores may sleep.
    var busyCores: [Double] = []

    var isMeasured: Bool { outcome == .measured }

    /// The processor time of one round trip, of both sides, in microseconds: what a core would have taken alone, as one
    /// follows the other without a pause.
    var processorTime: Double? {
        guard recipe.isInProcess, let cores = RepeatStatistics(busyCores)?.median,
            let time = RepeatStatistics(idleValues.isEmpty ? values : idleValues)?.median
        else { return nil }
        return cores * time
    }
}

/// How a comparison came out.
struct Verdict: Sendable {
    var comparison: Comparison
    var ours: Measurement
    var peer: Measurement?

    /// Ours in units of the peer's, side by side; without a peer, ours itself. `nil` if either was not measured.
    var ratio: RepeatStatistics? { statistics(\.values) }
    var idleRatio: RepeatStatistics? { statistics(\.idleValues) }

    /// `nil` where nothing is wanted or nothing was measured.
    var isMet: Bool? {
        guard let wanted = comparison.wanted, let ratio else { return nil }
        return wanted.isMet(by: ratio.median)
    }

    /// Why there is no ratio.
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
