import CommandSupport
import Measuring
import SocketIO

/// The results of a range of seeds, which do not depend on the number of threads.
struct SimulationResult: Sendable, Equatable {
    struct Failure: Sendable, Equatable {
        var seed: UInt64
        var text: String
    }

    /// How many failures are kept.
    private static let mostFailures = 20

    var seeds = 0
    var events = 0
    /// The faults that the schedules drew.
    var faults = 0
    /// The sum of the hashes of all worlds.
    var hash: UInt64 = 0
    /// How many seeds ran twice.
    var repeated = 0
    /// The failures of the lowest seeds, in ascending order.
    private(set) var failures: [Failure] = []
    /// How many seeds broke a rule.
    private(set) var failed = 0

    mutating func fail(_ seed: UInt64, _ text: String) {
        failed += 1
        if failures.count < Self.mostFailures { failures.append(Failure(seed: seed, text: text)) }
    }

    mutating func add(_ other: SimulationResult) {
        seeds += other.seeds
        events += other.events
        faults += other.faults
        hash &+= other.hash
        repeated += other.repeated
        failed += other.failed
        failures = Array((failures + other.failures).sorted { $0.seed < $1.seed }.prefix(Self.mostFailures))
    }

    /// Runs all seeds of a range. Each of the threads takes every n-th seed and calls `body` for its part.
    ///
    /// - Parameter stopsAtFailure: whether all threads stop after the first failure.
    static func run(
        _ seeds: Range<UInt64>,
        threads: Int,
        stopsAtFailure: Bool = false,
        _ body:
            @escaping @Sendable (_ thread: Int, _ part: StrideTo<UInt64>, _ isCancelled: () -> Bool) -> SimulationResult
    ) throws(SystemFailure) -> SimulationResult {
        let total = Locked(SimulationResult())
        var workers: [WorkerThread] = []
        defer { for worker in workers { worker.join() } }
        for thread in 0..<threads {
            let part = stride(from: seeds.lowerBound + UInt64(thread), to: seeds.upperBound, by: threads)
            let worker = try WorkerThread {
                let result = body(thread, part) {
                    Interruption.isRequested || stopsAtFailure && total.withLock { $0.failed > 0 }
                }
                total.withLock { $0.add(result) }
            }
            workers.append(worker)
        }
        for worker in workers { worker.join() }
        workers = []
        return total.withLock { $0 }
    }
}

/// Runs worlds of the supervisor's machine, one seed after the other.
enum SimulationRun {
    /// Runs all seeds on this thread.
    ///
    /// - Parameter stopsAtFailure: whether the first broken rule ends the run.
    static func run(
        _ seeds: some Sequence<UInt64>,
        mutation: Mutation? = nil,
        stopsAtFailure: Bool = false,
        isCancelled: () -> Bool = { false }
    ) -> SimulationResult {
        var result = SimulationResult()
        for seed in seeds {
            if isCancelled() || stopsAtFailure && result.failed > 0 { break }
            var world = World(seed: seed, mutation: mutation)
            world.run()
            result.seeds += 1
            result.events += world.clock.events
            result.faults += world.scenario.faults
            result.hash &+= world.record.log.hash
            if let violation = world.record.violation { result.fail(seed, violation.sentence) }
        }
        return result
    }

    /// Runs all seeds of a range on this number of threads.
    static func run(
        _ seeds: Range<UInt64>,
        threads: Int,
        stopsAtFailure: Bool = false
    ) throws(SystemFailure) -> SimulationResult {
        try SimulationResult.run(seeds, threads: threads, stopsAtFailure: stopsAtFailure) { _, part, isCancelled in
            run(part, stopsAtFailure: stopsAtFailure, isCancelled: isCancelled)
        }
    }
}
