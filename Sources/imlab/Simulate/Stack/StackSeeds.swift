import CSocketIO
import CommandSupport
import Foundation
import Measuring
import Reporting
import SocketIO

/// Runs schedules of the whole stack, one seed after the other, on threads that share nothing.
enum StackSeeds {
    /// One schedule in `repeatEvery` runs twice, and both runs must give the same trace.
    private static let repeatEvery: UInt64 = 100

    /// Runs all seeds on this thread, which must not be a thread of the Swift runtime.
    ///
    /// - Parameters:
    ///   - stopsAtFailure: whether the first broken rule ends the run.
    ///   - begins: called with each seed before it runs.
    static func run(
        _ seeds: some Sequence<UInt64>,
        comparesTraces: Bool,
        stopsAtFailure: Bool = false,
        isCancelled: () -> Bool = { false },
        begins: (UInt64) -> Void = { _ in }
    ) -> SimulationResult {
        var result = SimulationResult()
        for seed in seeds {
            if isCancelled() || stopsAtFailure && result.failed > 0 { break }
            begins(seed)
            let outcome = StackRun.run(seed: seed)
            result.seeds += 1
            result.events += outcome.steps
            result.faults += outcome.plan.faults.count
            result.hash &+= outcome.digest
            if let violation = outcome.violation {
                result.fail(seed, violation)
            } else if comparesTraces, seed % repeatEvery == 0 {
                result.repeated += 1
                if StackRun.run(seed: seed).digest != outcome.digest {
                    result.fail(seed, "two runs gave different traces")
                }
            }
        }
        return result
    }

    /// Runs all seeds of a range on the number of threads in the options.
    static func run(
        _ seeds: Range<UInt64>,
        _ options: SimulateOptions,
        comparesTraces: Bool
    ) throws(SystemFailure) -> SimulationResult {
        let (watch, stopsAtFailure) = (SeedWatch(), options.stopsAtFailure)
        try watch.start()
        return try SimulationResult.run(seeds, threads: options.threads, stopsAtFailure: stopsAtFailure) {
            thread,
            part,
            isCancelled in
            defer { watch.ends(thread) }
            return run(part, comparesTraces: comparesTraces, stopsAtFailure: stopsAtFailure, isCancelled: isCancelled) {
                watch.begins($0, on: thread)
            }
        }
    }
}

/// Runs one schedule.
///
/// - Parameter print: receives every event immediately, so none is missing if the program traps.
func replayStack(
    _ seed: UInt64,
    print: (@Sendable (String) -> Void)?
) throws(SystemFailure) -> ReplayedWorld {
    let result = Locked(ReplayedWorld())
    let worker = try WorkerThread {
        let outcome = StackRun.run(seed: seed, print: print)
        let world = ReplayedWorld(
            plan: outcome.plan.summary,
            events: outcome.steps,
            hash: outcome.digest,
            violation: outcome.violation
        )
        result.withLock { $0 = world }
    }
    worker.join()
    return result.withLock { $0 }
}

/// Starts this program again with the same arguments and with hash seeds that are the same in each run. Otherwise Swift seeds
/// each set and dictionary differently, and their order differs between two runs of a schedule.
///
/// - Returns: whether the hash seeds are the same in each run. It does not return if the program starts again.
func restartWithEqualHashing() -> Bool {
    let name = "SWIFT_DETERMINISTIC_HASHING"
    if getenv(name) != nil { return true }
    guard setenv(name, "1", 1) == 0 else { return false }
    var arguments = CommandLine.arguments.map { strdup($0) } + [nil]
    execv("/proc/self/exe", &arguments)
    return false
}

/// Ends the program if a schedule takes too long in real time, because an endless iteration cannot be stopped from within.
private final class SeedWatch: Sendable {
    private struct Entry {
        var seed: UInt64
        var start: Int64
    }

    private static let limit: Int64 = 60_000_000_000
    private let entries = Locked<[Int: Entry]>([:])

    func begins(_ seed: UInt64, on thread: Int) {
        entries.withLock { $0[thread] = Entry(seed: seed, start: Clocks.monotonic()) }
    }

    func ends(_ thread: Int) {
        _ = entries.withLock { $0.removeValue(forKey: thread) }
    }

    func start() throws(SystemFailure) {
        _ = try WorkerThread {
            while true {
                sleep(1)
                let now = Clocks.monotonic()
                let late = self.entries.withLock { entries in entries.values.first { now - $0.start > Self.limit } }
                guard let late else { continue }
                print(
                    "seed \(late.seed): an iteration does not end\n  imlab simulate --stack --seed \(late.seed) --verbose"
                )
                fflush(nil)
                _exit(ExitStatus.failed)
            }
        }
    }
}
