import CommandSupport
import Foundation
import Reporting
import SocketIO
import Transports

/// The worlds that `imlab simulate` runs.
struct SimulateOptions: Sendable, Equatable {
    /// The number of seeds, and the first one.
    var count = 10_000
    var first: UInt64 = 1
    var threads = 2
    var isVerbose = false
    /// Whether the whole stack is simulated, and not the supervisor's machine alone.
    var isStack = false
    /// Whether the first broken rule ends the run.
    var stopsAtFailure = false
}

/// `imlab simulate`: runs the supervisor's machine, or the whole stack, through simulated worlds and reports the broken
/// rules, or replays one world.
struct SimulateCommand: RunnableCommand {
    static let command = Command(
        name: "simulate",
        summary: "check the supervisor, or the whole stack, in simulated worlds full of faults",
        examples: [
            .init("imlab simulate --seeds 100000", "the supervisor"),
            .init("imlab simulate --stack --seed 7 --verbose", "every event of one world"),
            .init("imlab simulate --stack --until-failure", "up to the first broken rule"),
        ]
    )

    var general = GeneralOptions()
    /// The only world that is run; `nil` for many.
    var seed: UInt64?
    var simulation = SimulateOptions()
    var report = ReportOptions()

    static func ownOptions(_: Vocabulary) -> OptionList<SimulateCommand> {
        var list = OptionList(SimulateCommand())
        list.add(
            .load,
            excludes: "seed",
            [
                Setting(
                    "seeds",
                    .integer(1...1_000_000_000),
                    \.simulation.count,
                    "number of worlds, one for each seed"
                ),
                Setting("from", .seed, \.simulation.first, "the first seed"),
                Setting(
                    "threads",
                    .integer(1...64),
                    \.simulation.threads,
                    "number of threads; the result is the same for any number"
                ),
                Setting("until-failure", .mark(), \.simulation.stopsAtFailure, "end after the first broken rule"),
            ]
        )
        list.add(
            .what,
            [
                Setting(
                    "seed",
                    SettingFormat.seed.orAbsent("the worlds of --from and --seeds"),
                    \.seed,
                    "run only the world of this seed"
                ),
                Setting(
                    "stack",
                    .mark(on: "yes"),
                    \.simulation.isStack,
                    "the whole stack: transports, TLS, supervisors and servers over a simulated kernel"
                ),
            ]
        )
        list.add(
            .report,
            requires: "seed",
            [
                Setting(
                    "verbose",
                    .mark(),
                    \.simulation.isVerbose,
                    "with --seed: print every event of that world"
                )
            ]
        )
        list.add(ReportOptions.list, at: \.report)
        return list
    }

    func run() throws -> Int32 { try simulate(self) }
}

private func simulate(_ options: SimulateCommand) throws -> Int32 {
    let simulation = options.simulation
    let hasEqualHashing = simulation.isStack && restartWithEqualHashing()
    let target = try options.report.target()
    if let seed = options.seed {
        let log = ReplayLog(isWrittenAtOnce: options.report.format == .table && options.report.output == nil)
        let world =
            simulation.isStack
            ? try replayStack(seed, print: simulation.isVerbose ? log.take : nil)
            : replay(seed, simulation.isVerbose ? log : nil)
        var results = SimulateResults(
            run: RunRecord(of: options, .laboratory, seed: seed),
            options: simulation,
            result: SimulationResult(seeds: 1, events: world.events, hash: world.hash),
            seconds: 0
        )
        if let violation = world.violation { results.result.fail(seed, violation) }
        (results.seed, results.plan, results.log) = (seed, world.plan, log.lines)
        try target.write(results.report, options.report)
        return results.status
    }
    let start = Clocks.monotonic()
    let seeds = simulation.first..<simulation.first + UInt64(simulation.count)
    let result =
        simulation.isStack
        ? try StackSeeds.run(seeds, simulation, comparesTraces: hasEqualHashing)
        : try SimulationRun.run(seeds, threads: simulation.threads, stopsAtFailure: simulation.stopsAtFailure)
    var results = SimulateResults(
        run: RunRecord(of: options, .laboratory, seed: simulation.first),
        options: simulation,
        result: result,
        seconds: Double(max(1, Clocks.monotonic() - start)) / 1e9
    )
    results.run.wasCutShort = Interruption.isRequested
    try target.write(results.report, options.report)
    return results.status
}

/// The result of one seed.
struct ReplayedWorld: Sendable {
    /// The parameters of the schedule, if the whole stack was simulated.
    var plan: String?
    var events = 0
    var hash: UInt64 = 0
    /// The broken rule.
    var violation: String?
}

private func replay(_ seed: UInt64, _ log: ReplayLog?) -> ReplayedWorld {
    var world = World(seed: seed, isVerbose: log != nil)
    world.run()
    for line in world.record.log.lines { log?.take(line) }
    return ReplayedWorld(
        events: world.clock.events,
        hash: world.record.log.hash,
        violation: world.record.violation?.sentence
    )
}

/// The events of one world: written to standard output immediately, or kept for the report.
private final class ReplayLog: Sendable {
    private let isWrittenAtOnce: Bool
    private let kept = Locked([String]())

    init(isWrittenAtOnce: Bool) {
        self.isWrittenAtOnce = isWrittenAtOnce
    }

    var lines: [String] { kept.withLock { $0 } }

    @Sendable func take(_ line: String) {
        guard isWrittenAtOnce else { return kept.withLock { $0.append(line) } }
        if !writeAll(STDOUT_FILENO, line + "\n"), errno == EPIPE { Interruption.endByBrokenPipe() }
    }
}

/// The results of `imlab simulate`.
struct SimulateResults: Sendable {
    var run: RunRecord
    var options: SimulateOptions
    var result: SimulationResult
    var seconds: Double
    /// The seed, if only one world was run.
    var seed: UInt64?
    var plan: String?
    /// The events of that world.
    var log: [String] = []

    var status: Int32 { result.failed == 0 ? ExitStatus.good : ExitStatus.failed }

    var report: Report {
        let table = Table(
            columns: [
                .number("seed", "seed", "the seed of the \(name)"),
                .text("broken rule", "failure", "the first rule that the \(name) breaks"),
            ],
            rows: result.failures.map { failure in
                let cells = [Table.Cell(Int(clamping: failure.seed)), Table.Cell(failure.text)]
                return Table.Row(cells: cells, isFailure: true)
            }
        )
        var sections: [Report.Section] = []
        if !result.failures.isEmpty || !log.isEmpty {
            let hasFailed = !result.failures.isEmpty
            sections.append(
                Report.Section(
                    question: hasFailed ? "Which rules are broken?" : "What happened in this \(name)?",
                    table: hasFailed ? table : nil,
                    drawing: log
                )
            )
        }
        if seed == nil, let seed = result.failures.first?.seed {
            let mode = options.isStack ? " --stack" : ""
            let line = "imlab simulate\(mode) --seed \(seed) --verbose"
            sections[0].next = [.init("To see every event of the first \(name)", line)]
            sections.append(Report.Section(notes: [line], media: .textOnly))
        }
        return Report(
            name: "imlab simulate",
            title: options.isStack
                ? "The whole stack in simulated schedules full of faults"
                : "The supervisor in simulated worlds full of faults",
            trust: .exact,
            warnings: run.cutShort,
            verdict: [verdict],
            facts: run.facts + facts,
            sections: sections,
            records: table,
            data: run.envelope(
                results: table.members.map(ReportValue.object),
                more: [
                    ("seeds", .integer(result.seeds)), ("repeated", .integer(result.repeated)),
                    ("events", .integer(result.events)), ("faults", .integer(result.faults)),
                    ("rules", .array(demands.map(ReportValue.string))),
                    ("hash", .string(String(result.hash, radix: 16))),
                    ("failed", .integer(result.failed)), ("seconds", .rounded(seconds)),
                ] + (log.isEmpty ? [] : [("log", .array(log.map(ReportValue.string)))])
            )
        )
    }

    private var facts: [(name: String, value: String)] {
        let hash = ("hash", String(result.hash, radix: 16))
        if seed != nil {
            return (plan.map { [("plan", $0)] } ?? []) + [("events", String(result.events)), hash]
        }
        let seeds = Double(max(1, result.seeds))
        let faults = "\(result.faults), \(fixed(Double(result.faults) / seeds, 1)) per seed"
        let repeated = "\(counted(result.repeated, name)) ran twice, to compare both traces"
        return [
            ("seeds", "\(result.seeds), from seed \(options.first) on"),
            ("events", "\(result.events), \(fixed(Double(result.events) / seeds, 0)) per seed"),
            ("faults", faults), ("rules", demands.joined(separator: "; ")),
            ("speed", "\(fixed(Double(result.seeds) / seconds, 0)) seeds per second, threads: \(options.threads)"),
        ] + (result.repeated > 0 ? [("repeated", repeated)] : []) + [hash]
    }

    /// The run of one seed.
    private var name: String { options.isStack ? "schedule" : "world" }

    /// What the rules demand.
    private var demands: [String] { options.isStack ? StackChecker.demands : Rule.allCases.map(\.demand) }

    private var verdict: String {
        let worlds = seed.map { "the \(name) of seed \($0)" } ?? "\(result.seeds) \(name)s"
        guard result.failed > 0 else { return "No rule is broken in \(worlds)." }
        return seed.map { "The \(name) of seed \($0) breaks a rule." } ?? "\(result.failed) of \(worlds) break a rule."
    }
}
