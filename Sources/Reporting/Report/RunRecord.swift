import CommandSupport

/// What every report says about its run: the machine, the options, the seed, and whether it was cut short.
package struct RunRecord: Sendable {
    package var environment: Environment
    /// The options as the user could type them, by name.
    package var options: [(name: String, value: String)]
    /// The names of those that the command line has. The defaults of one option may depend on others.
    package var changedOptions: [String] = []
    package var seed: UInt64
    /// Whether another seed would give other numbers, so that people need to know it.
    package var usesSeed = true
    /// Whether the run was interrupted, so that rows are shorter or missing.
    package var wasCutShort = false
    /// Sentences for the report, such as that the cores could not be kept awake.
    package var remarks: [String] = []
    /// What else the machine did; `nil` before the end of the run, and if it was too short to tell.
    package var load: MachineLoad?
    /// The state of the machine at the start.
    private var start: (use: ProcessorUse, average: Double?)?

    package init(environment: Environment, options: [(name: String, value: String)], seed: UInt64) {
        (self.environment, self.options, self.seed) = (environment, options, seed)
    }

    /// The record of a run with these options, which begins now.
    package init(of options: some RunnableCommand, _ vocabulary: Vocabulary, seed: UInt64) {
        self.init(environment: .current(), options: options.record(vocabulary), seed: seed)
        changedOptions = options.changes(vocabulary)
        start = (.now(), MachineLoad.average())
    }

    /// Notes what the machine did since the start, and whether the run was interrupted. Called when the last measurement has
    /// ended, before the report.
    package mutating func end(wasCutShort: Bool = Interruption.isRequested) {
        self.wasCutShort = wasCutShort
        load = start.flatMap { MachineLoad(from: $0.use, to: .now(), average: $0.average) }
    }

    /// Whether times of the run can be trusted.
    package func trust(doubts: [String] = [], gaps: [String] = []) -> Trust {
        .timed(load, doubts: doubts, gaps: gaps)
    }

    /// What a reader has to know before the numbers.
    package var warnings: [String] { debugBuild + cutShort + remarks }

    package var debugBuild: [String] {
        environment.isDebugBuild
            ? ["DEBUG BUILD: these numbers are not meaningful; build with -c release"] : []
    }

    package var cutShort: [String] {
        wasCutShort ? ["CUT SHORT: the run was interrupted, and has the results until then"] : []
    }

    /// The conditions of the run.
    package var facts: [(name: String, value: String)] {
        let options = options.filter { !["format", "output", "charts", "seed"].contains($0.name) }
        return [
            ("machine", "\(environment.processor), \(environment.cores) cores, \(environment.system)"),
            (
                "build",
                "\(programName) \(version), Swift \(environment.swift), "
                    + (environment.isDebugBuild ? "debug" : "release")
                    + (environment.commit.map { ", commit \($0.prefix(12))" } ?? "")
            ),
            ("run", environment.date + (usesSeed ? ", seed \(seed)" : "")),
            ("options", options.map { "\($0.name)=\($0.value)" }.joined(separator: " ")),
        ]
    }

    /// The JSON of a report.
    ///
    /// - Parameters:
    ///   - environment: further members of the environment.
    ///   - more: further members of the report.
    package func envelope(
        environment further: [(String, ReportValue)] = [],
        results: [ReportValue],
        more: [(String, ReportValue)] = []
    ) -> ReportValue {
        .object(
            [
                ("schema", .string("imbench/1")),
                (
                    "environment",
                    .object(
                        [
                            ("imbench", .string(version)), ("system", .string(environment.system)),
                            ("processor", .string(environment.processor)), ("cores", .integer(environment.cores)),
                            ("swift", .string(environment.swift)),
                            ("build", .string(environment.isDebugBuild ? "debug" : "release")),
                            ("commit", ReportValue(environment.commit)), ("date", .string(environment.date)),
                            ("seed", .integer(Int(clamping: seed))),
                        ] + further
                    )
                ),
                ("options", .object(options.map { ($0.name, .string($0.value)) })),
                ("changed_options", .array(changedOptions.map(ReportValue.string))), ("cut_short", .bool(wasCutShort)),
                ("remarks", .array(remarks.map(ReportValue.string))), ("results", .array(results)),
            ] + more
        )
    }
}
