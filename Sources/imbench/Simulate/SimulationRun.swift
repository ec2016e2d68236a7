import SocketIO

/// What a range of seeds has shown. The same for any number of threads.
struct SimulationResult: Sendable, Equatable {
    struct Failure: Sendable, Equatable {
        var seed: UInt64
        var violation: Violation
    }

    var seeds = 0
    var events = 0
    /// The hashes of all worlds together, in no order.
    var hash: UInt64 = 0
    /// Those of the lowest seeds first, ``SimulationRun/mostFailures`` at most.
    var failures: [Failure] = []
    /// How many worlds broke a rule.
    var failed = 0

    mutating func add(_ other: SimulationResult) {
        seeds += other.seeds
        events += other.events
        hash &+= other.hash
        failed += other.failed
        failures = Array((failures + other.failures).sorted { $0.seed < $1.seed }.prefix(SimulationRun.mostFailures))
    }
}

/// Runs worlds, one seed after the other.
enum SimulationRun {
    /// How many failures are kept.
    static let mostFailures = 20

    /// All seeds of a range, on this thread.
    ///
    /// - Parameter stopsAtFailure: whether the first broken rule ends the run.
    static func run(
        _ seeds: Range<UInt64>,
        mutation: Mutation? = nil,
        stopsAtFailure: Bool = false,
        isCancelled: () -> Bool = { false }
    ) -> SimulationResult {
        var result = SimulationResult()
        for seed in seeds {
            if isCancelled() { break }
            var world = World(seed: seed, mutation: mutation)
            world.run()
            result.seeds += 1
            result.events += world.events
            result.hash &+= world.log.hash
            guard let violation = world.violation else { continue }
            result.failed += 1
            if result.failures.count < mostFailures { result.failures.append(.init(seed: seed, violation: violation)) }
            if stopsAtFailure { break }
        }
        return result
    }

    /// All seeds of a range, cut into as many parts as there are threads.
    static func run(_ seeds: Range<UInt64>, threads: Int) throws(SystemFailure) -> SimulationResult {
        let total = Total()
        var workers: [WorkerThread] = []
        defer { for worker in workers { worker.join() } }
        let count = UInt64(max(1, threads))
        let share = UInt64(seeds.count) / count
        for index in 0..<count {
            let first = seeds.lowerBound + index * share
            let part = first..<(index + 1 == count ? seeds.upperBound : first + share)
            workers.append(
                try WorkerThread {
                    let result = run(part, isCancelled: { Interruption.isRequested })
                    total.value.withLock { $0.add(result) }
                }
            )
        }
        for worker in workers { worker.join() }
        workers = []
        return total.value.withLock { $0 }
    }

    private final class Total: Sendable {
        let value = Locked(SimulationResult())
    }
}
