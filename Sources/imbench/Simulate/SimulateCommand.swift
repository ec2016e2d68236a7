import Foundation

/// The worlds that `imbench simulate` runs.
struct SimulateOptions: Sendable, Equatable {
    /// The number of seeds, and the first one.
    var count = 10_000
    var first: UInt64 = 1
    var threads = 2
    var isVerbose = false
    /// Whether the whole stack is simulated, and not the supervisor's machine alone.
    var isStack = false
    /// A defect that the simulation of the whole stack brings back.
    var defect: StackDefect?
}

/// `imbench simulate`: runs the supervisor's machine, or the whole stack, through simulated worlds and reports the broken rules,
/// or replays one world.
func simulate(_ options: Options) throws(SystemFailure) -> Int32 {
    let simulation = options.simulation
    let hasEqualHashing = simulation.isStack && restartWithEqualHashing()
    let target = try ReportTarget(path: options.output)
    if let seed = options.seed {
        let (text, isGood) = simulation.isStack ? try replayStack(seed, simulation) : replay(seed, simulation)
        try target.write(text)
        return isGood ? ExitStatus.good : ExitStatus.failed
    }
    let start = Clocks.monotonic()
    let seeds = simulation.first..<simulation.first + UInt64(simulation.count)
    let result =
        simulation.isStack
        ? try StackSeeds.run(seeds, simulation, comparesTraces: hasEqualHashing)
        : try SimulationRun.run(seeds, threads: simulation.threads)
    var results = SimulateResults(
        run: RunResults(of: options, seed: simulation.first),
        options: simulation,
        result: result,
        seconds: Double(max(1, Clocks.monotonic() - start)) / 1e9
    )
    results.run.wasCutShort = Interruption.isRequested
    try target.write(results.report, options.format)
    // A defect that was brought back must be found.
    return (result.failed == 0) == (simulation.defect == nil) ? ExitStatus.good : ExitStatus.failed
}

private func replay(_ seed: UInt64, _ options: SimulateOptions) -> (text: String, isGood: Bool) {
    var world = World(seed: seed, isVerbose: options.isVerbose)
    world.run()
    var lines = world.log.lines
    lines += ["events    \(world.events)", "hash      \(String(world.log.hash, radix: 16))"]
    if let violation = world.violation { lines.append("seed \(seed): \(violation.sentence)") }
    return (lines.map { $0 + "\n" }.joined(), world.violation == nil)
}

/// The results of `imbench simulate`.
struct SimulateResults: Sendable {
    /// Environment and options, without rows.
    var run: RunResults
    var options: SimulateOptions
    var result: SimulationResult
    var seconds: Double

    var report: Report {
        let seeds = Double(max(1, result.seeds))
        let table = Table(
            columns: [.number("seed", "seed"), .text("broken rule", "failure")],
            rows: result.failures.map { failure in
                let cells = [Table.Cell(Int(clamping: failure.seed)), Table.Cell(failure.text)]
                return Table.Row(cells: cells, isFailure: true)
            }
        )
        var notes = [verdict]
        if let seed = result.failures.first?.seed {
            let mode = (options.isStack ? " --stack" : "") + (options.defect.map { " --defect \($0.rawValue)" } ?? "")
            notes.insert("imbench simulate\(mode) --seed \(seed) --verbose", at: 0)
        }
        return Report(
            name: "imbench simulate",
            title: options.isStack
                ? "The whole stack in simulated worlds full of faults"
                : "The supervisor in simulated worlds full of faults",
            warnings: run.cutShort,
            facts: run.facts + [
                (
                    "seeds",
                    "\(result.seeds), from \(options.first)\(result.repeated > 0 ? ", \(result.repeated) twice" : "")"
                ),
                ("events", "\(result.events), \(fixed(Double(result.events) / seeds, 0)) per seed"),
                ("speed", "\(fixed(Double(result.seeds) / seconds, 0)) seeds per second, threads: \(options.threads)"),
                ("hash", String(result.hash, radix: 16)),
            ],
            sections: [Report.Section(table: result.failures.isEmpty ? nil : table, notes: notes)],
            records: table,
            data: run.envelope(
                results: table.members.map(JSONValue.object),
                more: [
                    ("seeds", .integer(result.seeds)), ("repeated", .integer(result.repeated)),
                    ("events", .integer(result.events)), ("hash", .string(String(result.hash, radix: 16))),
                    ("failed", .integer(result.failed)), ("seconds", .rounded(seconds)), ("verdict", .string(verdict)),
                ]
            )
        )
    }

    private var verdict: String {
        let worlds = "\(result.seeds) \(options.isStack ? "schedules" : "worlds")"
        if let defect = options.defect {
            return result.failed > 0
                ? "The checks find the defect \(defect.rawValue), after \(worlds)."
                : "The checks do not find the defect \(defect.rawValue) in \(worlds)."
        }
        return result.failed > 0 ? "\(result.failed) of \(worlds) break a rule." : "No rule is broken in \(worlds)."
    }
}
