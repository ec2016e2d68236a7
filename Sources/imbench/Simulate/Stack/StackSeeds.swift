import SocketIO

/// What a range of schedules has shown.
struct StackResult: Sendable, Equatable {
    struct Failure: Sendable, Equatable {
        var seed: UInt64
        var text: String
    }

    var schedules = 0
    var steps = 0
    /// How many of them ran twice.
    var repeated = 0
    var failures: [Failure] = []

    mutating func add(_ other: StackResult) {
        schedules += other.schedules
        steps += other.steps
        repeated += other.repeated
        failures = (failures + other.failures).sorted { $0.seed < $1.seed }
    }
}

/// Runs schedules, one seed after the other, on threads that share nothing.
enum StackSeeds {
    /// Every so many schedules, one runs twice, and both must give the same trace.
    static let repeatEvery: UInt64 = 100

    /// All seeds of a range, on this thread, which must be no thread of the Swift runtime.
    ///
    /// - Parameters:
    ///   - defect: a defect to bring back; the first failure ends the run then.
    ///   - begins: called with each seed before it runs.
    static func run(
        _ seeds: some Sequence<UInt64>,
        comparesTraces: Bool,
        defect: StackDefect? = nil,
        isCancelled: () -> Bool = { false },
        begins: (UInt64) -> Void = { _ in }
    ) -> StackResult {
        var result = StackResult()
        for seed in seeds where !isCancelled() {
            begins(seed)
            let outcome = StackRun.run(seed: seed, defect: defect)
            result.schedules += 1
            result.steps += outcome.steps
            if let violation = outcome.violation {
                result.failures.append(StackResult.Failure(seed: seed, text: violation))
                if defect != nil { break }
            } else if comparesTraces, seed % repeatEvery == 0 {
                result.repeated += 1
                if StackRun.run(seed: seed, defect: defect).digest != outcome.digest {
                    result.failures.append(StackResult.Failure(seed: seed, text: "two runs gave different traces"))
                }
            }
        }
        return result
    }
}
