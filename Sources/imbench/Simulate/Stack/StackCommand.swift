import CSocketIO
import SocketIO

/// `imbench simulate --stack`: runs schedules of the whole stack in simulated worlds and says which invariants broke,
/// or replays one.
func simulateStack(_ options: Options) throws(SystemFailure) -> Int32 {
    let hashesAlike = restartWithEqualHashing()
    let target = try ReportTarget(path: nil)
    if let seed = options.seed { return try replay(seed, options.simulation, to: target) }
    let (first, count) = (options.simulation.first, UInt64(options.simulation.count))
    let threads = UInt64(max(1, options.simulation.threads))
    let start = Clocks.monotonic()
    let total = Total()
    let defect = options.simulation.defect
    let watch = SeedWatch()
    var workers: [WorkerThread] = []
    for index in 0..<threads {
        workers.append(
            try WorkerThread {
                let seeds = stride(from: first + index, to: first + count, by: Int(threads)).lazy.map { UInt64($0) }
                let result = StackSeeds.run(
                    seeds,
                    comparesTraces: hashesAlike && defect == nil,
                    defect: defect,
                    isCancelled: {
                        // Of a defect, the first schedule that shows it is enough.
                        Interruption.isRequested || defect != nil && total.value.withLock { !$0.failures.isEmpty }
                    },
                    begins: { watch.begins($0, on: Int(index)) }
                )
                watch.ends(Int(index))
                total.value.withLock { $0.add(result) }
            }
        )
    }
    try watch.start()
    for worker in workers { worker.join() }
    let result = total.value.withLock { $0 }
    let seconds = Double(max(1, Clocks.monotonic() - start)) / 1e9
    var text = ""
    for failure in result.failures.prefix(20) {
        text += "seed \(failure.seed): \(failure.text)\n  imbench simulate --stack --seed \(failure.seed) --verbose\n"
    }
    if result.failures.count > 20 { text += "... and \(result.failures.count - 20) more\n" }
    text += "schedules \(result.schedules), from \(first); \(result.repeated) of them twice\n"
    text += "steps     \(result.steps), \(result.steps / max(1, result.schedules)) a schedule\n"
    text += "speed     \(fixed(Double(result.schedules) / seconds, 1)) schedules a second, threads: \(threads)\n"
    text += "failures  \(result.failures.count)\n"
    try target.write(text)
    // A defect that was brought back must be found.
    return result.failures.isEmpty == (defect == nil) ? ExitStatus.good : ExitStatus.failed
}

private final class Total: Sendable {
    let value = Locked(StackResult())
}

private func replay(
    _ seed: UInt64,
    _ options: SimulateOptions,
    to target: borrowing ReportTarget
) throws(SystemFailure) -> Int32 {
    final class Replay: Sendable {
        let text = Locked("")
        let isFailed = Locked(false)
    }
    let replay = Replay()
    let worker = try WorkerThread {
        let outcome = StackRun.run(
            seed: seed,
            defect: options.defect,
            print: options.isVerbose ? { line in print(line) } : nil
        )
        var text = options.isVerbose ? "" : outcome.plan.summary + "\n"
        text += "steps     \(outcome.steps)\ndigest    \(String(outcome.digest, radix: 16))\n"
        if let violation = outcome.violation { text += "seed \(seed): \(violation)\n" }
        replay.text.withLock { $0 = text }
        replay.isFailed.withLock { $0 = outcome.violation != nil }
    }
    worker.join()
    try target.write(replay.text.withLock { $0 })
    return replay.isFailed.withLock { $0 } ? ExitStatus.failed : ExitStatus.good
}

/// Starts this program again with the same arguments and with hash seeds that are the same in each run. Swift seeds
/// each set and dictionary differently otherwise, and their order would differ between two runs of a schedule.
///
/// - Returns: whether the hash seeds are the same in each run; it does not return if the program starts again.
private func restartWithEqualHashing() -> Bool {
    let name = "SWIFT_DETERMINISTIC_HASHING"
    if getenv(name) != nil { return true }
    guard setenv(name, "1", 1) == 0 else { return false }
    var arguments = CommandLine.arguments.map { strdup($0) }
    arguments.append(nil)
    execv("/proc/self/exe", &arguments)
    return false
}

/// Ends the program if a schedule takes too long in real time: an iteration that never ends cannot be stopped from within.
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
                    "seed \(late.seed): an iteration does not end\n  imbench simulate --stack --seed \(late.seed) --verbose"
                )
                fflush(nil)
                _exit(ExitStatus.failed)
            }
        }
    }
}
