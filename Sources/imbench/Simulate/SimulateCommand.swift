/// `imbench simulate`: runs the supervisor through simulated worlds and says which rules were broken, or replays one.
func simulate(_ options: Options) throws(SystemFailure) -> Int32 {
    if options.simulation.isStack { return try simulateStack(options) }
    let target = try ReportTarget(path: nil)
    if let seed = options.seed { return try replay(seed, isVerbose: options.simulation.isVerbose, to: target) }
    let first = options.simulation.first
    let start = Clocks.monotonic()
    let result = try SimulationRun.run(
        first..<first + UInt64(options.simulation.count),
        threads: options.simulation.threads
    )
    let seconds = Double(max(1, Clocks.monotonic() - start)) / 1e9
    var text = ""
    for failure in result.failures { text += line(failure.seed, failure.violation) }
    if result.failed > result.failures.count {
        text += "... and \(result.failed - result.failures.count) more\n"
    }
    text += "seeds     \(result.seeds), from \(first)\n"
    text += "events    \(result.events), \(fixed(Double(result.events) / Double(max(1, result.seeds)), 0)) a seed\n"
    text +=
        "speed     \(fixed(Double(result.seeds) / seconds, 0)) seeds a second, threads: \(options.simulation.threads)\n"
    text += "hash      \(String(result.hash, radix: 16))\n"
    text += "failures  \(result.failed)\n"
    if Interruption.isRequested {
        text += "CUT SHORT: interrupted after \(result.seeds) of \(options.simulation.count) seeds\n"
    }
    try target.write(text)
    return result.failed == 0 ? ExitStatus.good : ExitStatus.failed
}

private func replay(_ seed: UInt64, isVerbose: Bool, to target: borrowing ReportTarget) throws(SystemFailure) -> Int32 {
    var world = World(seed: seed, isVerbose: isVerbose)
    world.run()
    var text = ""
    for line in world.log.lines { text += line + "\n" }
    text += "events    \(world.events)\nhash      \(String(world.log.hash, radix: 16))\n"
    if let violation = world.violation { text += line(seed, violation) }
    try target.write(text)
    return world.violation == nil ? ExitStatus.good : ExitStatus.failed
}

private func line(_ seed: UInt64, _ violation: Violation) -> String {
    "seed \(seed): rule \(violation.rule.rawValue) (\(violation.rule)): \(violation.text)\n"
}

/// Which worlds `imbench simulate` runs.
struct SimulateOptions: Sendable, Equatable {
    /// How many, and the seed of the first.
    var count = 10_000
    var first: UInt64 = 1
    var threads = 2
    var isVerbose = false
    /// Whether the whole stack is simulated, and not the supervisor's machine alone.
    var isStack = false
    /// A defect that the whole stack is simulated with.
    var defect: StackDefect?
}
