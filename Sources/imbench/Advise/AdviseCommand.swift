import Foundation
import Protocols
import TransportAPI
import Transports

/// `imbench advise`: ranks the transports for an app, and writes a configuration file.
struct AdviseCommand: RunnableCommand {
    static let command = Command.advise

    var general = GeneralOptions()
    var advice = AdviceOptions()
    /// The configuration goes to its file, and the report to standard output.
    var report = ReportOptions()

    static func ownOptions(_: Vocabulary) -> OptionList<AdviseCommand> {
        var list = OptionList(AdviseCommand())
        list.add(AdviceOptions.list, at: \.advice)
        list.add(
            .report,
            [
                Setting(
                    "output",
                    SettingFormat.file.orAbsent("only in the report"),
                    \.report.output,
                    "write the configuration to this file"
                )
            ]
        )
        list.add(ReportOptions.listWithCharts, at: \.report)
        return list
    }

    mutating func check(_: TypedLine, _: Vocabulary) throws(UsageError) {
        if let network = advice.network { try advice.assume(network) }
    }

    func run() throws -> Int32 { try advise(self) }
}

private func advise(_ given: AdviseCommand) throws -> Int32 {
    var options = given
    try checkHost(options.advice.host)
    let answers = try answers(&options.advice)
    // The report goes to standard output, and the configuration to the file.
    let target = try ReportTarget()
    try options.report.makeChartFolder()
    let file: ReportTarget? = options.report.output == nil ? nil : try options.report.target()
    let candidates = try SystemFailure.translate { () throws(TransportError) in try Candidate.all(answers) }
    let exclusions = Exclusion.all(answers, candidates)
    let excluded = Set(exclusions.flatMap(\.candidates))
    let rest = candidates.filter { !excluded.contains($0.name) }
    guard !rest.isEmpty else {
        let reasons = exclusions.map { "\($0.candidates.joined(separator: ", ")): \($0.reason)" }
        throw SystemFailure("no transport is left. " + reasons.joined(separator: "; "))
    }

    let seed = runSeed()
    let measured: AdviceFigures
    if let source = options.advice.source {
        measured = try UsageError.translate("--from") { () throws(TransportError) in
            try AdviceFigures(json: readInput(source, limit: RecordedRun.maximumLength).utf8, label: source, answers)
        }
    } else {
        measured = try AdviceFigures.measured(rest, answers, options.general, seed: seed)
    }
    // A part of the figures would recommend the wrong transport.
    guard !Interruption.isRequested else { throw SystemFailure("interrupted: nothing is recommended") }
    let advice = Advice(
        run: RunResults(of: options, seed: seed),
        options: options.advice,
        answers: answers,
        exclusions: exclusions,
        ranking: Ranking(rest, measured, options.advice, answers),
        origin: measured.origin
    )
    guard let configuration = advice.configuration else { throw advice.withoutFigures(of: rest) }
    try target.write(advice.report, options.report)
    if let file { try file.write(configuration.text) }
    // A report may lack some transports. A measurement must not.
    return options.advice.source == nil && !advice.ranking.unmeasured.isEmpty ? ExitStatus.failed : ExitStatus.good
}

extension Advice {
    /// The error of a ranking without any transport.
    fileprivate func withoutFigures(of candidates: [Candidate]) -> any Error {
        guard let source = options.source else {
            let reason = ranking.unmeasured.first.map { "\($0.name): \($0.reason)" }
            return SystemFailure(reason ?? "no transport is left")
        }
        let names = candidates.map(\.name)
        let measurable = TransportRegistry.measured.transports.map(\.name).filter(names.contains)
        return UsageError(
            "--from \(source) has no figures of \(names.joined(separator: ", ")) with \(answers.codec.name); 'imbench "
                + "overhead --transport \(measurable.joined(separator: ",")) --format json' measures them"
        )
    }
}

/// Throws if the host cannot stand in a URL.
private func checkHost(_ host: String) throws(UsageError) {
    try UsageError.translate("--host \(host)") { () throws(TransportError) in _ = try Endpoint("tcp://\(host)/") }
}

/// The answers of the command line, or those of the user on a terminal.
private func answers(_ options: inout AdviceOptions) throws -> Answers {
    if let workload = options.workload { return Answers(workload, options) }
    guard Terminal.isTerminal(STDIN_FILENO), Terminal.isTerminal(STDERR_FILENO) else { throw UsageError.unanswered }
    let lines = TerminalLines()
    do throws(UsageError) {
        return try Questionnaire { lines.ask($0) }.answers(&options)
    } catch {
        throw Interruption.isRequested ? SystemFailure("interrupted") : error as any Error
    }
}

extension UsageError {
    /// There is neither a workload nor a terminal.
    static var unanswered: UsageError {
        func option<Word: CaseIterable & RawRepresentable>(_ name: String, _: Word.Type) -> String
        where Word.RawValue == String {
            "--\(name) " + Word.allCases.map(\.rawValue).joined(separator: "|")
        }
        let questions = [
            option("workload", Workload.self), option("clients", ClientKind.self), option("messages", Arrival.self),
            option("path", PathKind.self), option("receivers", Receivers.self),
        ]
        return UsageError(
            "'advise' has no terminal to ask on; it needs --workload, and takes the other answers as options: "
                + questions.joined(separator: ", ")
        )
    }
}

/// The result of `imbench advise`.
struct Advice: Sendable {
    /// Environment, options and seed, without rows.
    var run: RunResults
    var options: AdviceOptions
    var answers: Answers
    var exclusions: [Exclusion]
    var ranking: Ranking
    /// Where the figures come from.
    var origin: String

    var configuration: AdvisedConfiguration? { AdvisedConfiguration(ranking, answers, host: options.host) }

    var report: Report {
        var sections: [Report.Section] = []
        if !exclusions.isEmpty {
            sections.append(
                Report.Section(
                    heading: "Excluded, whatever the figures say",
                    question: "Which transports can these clients not use?",
                    table: excluded
                )
            )
        }
        sections += [
            Report.Section(
                heading: "Ranking",
                question: "Which transport fits these answers best?",
                charts: [chart],
                table: order,
                notes: unmeasured,
                reading: "Longer is better. The points follow from the table of the arithmetic."
            ),
            Report.Section(
                heading: "The arithmetic: figure → points",
                question: "Where do the points come from?",
                table: arithmetic,
                notes: ["points of all = sum of weight × points / sum of the weights. Figures \(origin)."]
            ),
            Report.Section(heading: "The criteria", question: "What does each criterion mean?", table: criteria),
        ]
        if let configuration {
            sections.append(
                Report.Section(
                    heading: "The configuration file",
                    question: "Which configuration file uses the first transport?",
                    drawing: configuration.lines,
                    notes: configuration.sentences,
                    next: [
                        .init("To measure these endpoints", "imbench run --config FILE"),
                        .init("To compare keepalive intervals", "imbench heartbeat"),
                    ]
                )
            )
        }
        return Report(
            name: "imbench advise",
            title: ranking.verdict(answers) ?? "No transport is left",
            facts: [("answers", answers.sentence), ("assumed", assumed)] + run.facts,
            sections: sections,
            records: records,
            data: data
        )
    }

    private var assumed: String {
        "\(options.assumed); radio \(options.radio.name) (--network, or --round-trip and --loss; --radio)"
    }

    private var unmeasured: [String] { ranking.unmeasured.map { "\($0.name) is not ranked: \($0.reason)" } }

    // MARK: Tables

    private var excluded: Table {
        Table(
            columns: [
                .text("transports", "transports", "the transports that are not ranked"),
                .text("reason", "reason", "why they cannot be used with these answers"),
                .text("source", "source", "where the reason comes from"),
            ],
            rows: exclusions.map { exclusion in
                let cells = [exclusion.candidates.joined(separator: ", "), exclusion.reason, exclusion.source]
                return Table.Row(cells: cells.map { Table.Cell($0) })
            }
        )
    }

    private var order: Table {
        Table(
            columns: [
                .text("transport", nil, "a transport that fits the answers"),
                .number("points", nil, "0 to 10, from the arithmetic below"),
                .text("messages", nil, "the guarantee of the transport"),
            ],
            rows: ranking.entries.map { entry in
                let cells = [
                    Table.Cell(entry.candidate.name), Table.Cell(entry.total, fixed(entry.total, 2)),
                    Table.Cell(Self.guarantee(entry.candidate.capabilities)),
                ]
                return Table.Row(cells: cells)
            }
        )
    }

    private static func guarantee(_ capabilities: Capabilities) -> String {
        let order = capabilities.isOrdered ? "in order" : "in any order"
        return (capabilities.isReliable ? "all arrive, \(order), while the connection lasts" : "may be lost, \(order)")
            + (capabilities.routesByTopic ? "; sent to all subscribers of a topic" : "")
    }

    /// One row for each criterion, one column for each transport, and the totals.
    private var arithmetic: Table {
        let entries = ranking.entries
        var rows = ranking.weights.enumerated().map { index, entry in
            let cells = entries.map { other in
                let score = other.scores[index]
                return "\(entry.criterion.text(score.figure)) → \(fixed(score.points, 1))"
            }
            return Table.Row(cells: ([entry.criterion.title, String(entry.weight)] + cells).map { Table.Cell($0) })
        }
        let sum = ranking.weights.reduce(0) { $0 + $1.weight }
        let totals = ["points of all", String(sum)] + entries.map { fixed($0.total, 2) }
        rows.append(Table.Row(cells: totals.map { Table.Cell($0) }))
        return Table(
            labels: 2,
            columns: [
                .text("criterion", nil, "the subject of the points"),
                .number("weight", nil, "how much it counts, 0 to 6"),
            ] + entries.map { .number($0.candidate.name, nil, "its figure, and the points for it") },
            rows: rows
        )
    }

    private var criteria: Table {
        Table(
            columns: [
                .text("criterion", nil, "the subject of the points"),
                .text("rule", nil, "how the figure becomes points"), .text("figure", nil, "its origin and its source"),
            ],
            rows: ranking.weights.map { criterion, _ in
                let cells = [criterion.title, criterion.rule.sentence, criterion.meaning(options, answers)]
                return Table.Row(cells: cells.map { Table.Cell($0) })
            }
        )
    }

    private var chart: BarChart {
        BarChart(
            title: "Points, of 10",
            rows: ranking.entries.map { BarChart.Row($0.candidate.name, $0.total, shown: fixed($0.total, 2)) },
            range: 0...10
        )
    }

    // MARK: For programs

    private static func members(_ score: Ranking.Score) -> [(String, JSONValue)] {
        [
            ("criterion", .string(score.criterion.title)), ("weight", .integer(score.weight)),
            ("figure", .rounded(score.figure)), ("points", .rounded(score.points)),
        ]
    }

    /// One row for each ranked transport and criterion, and one for each transport that is not ranked, with the reason.
    private var records: Table {
        let names = ["rank", "transport", "total", "criterion", "weight", "figure", "points", "reason"]
        let ranked = ranking.entries.enumerated().flatMap { number, entry in
            entry.scores.map { score -> [JSONValue] in
                [.integer(number + 1), .string(entry.candidate.name), .rounded(entry.total)]
                    + Self.members(score).map(\.1) + [.null]
            }
        }
        let excluded = exclusions.flatMap { exclusion in
            exclusion.candidates.map { (name: $0, reason: exclusion.reason) }
        }
        let others = (excluded + ranking.unmeasured).map { name, reason -> [JSONValue] in
            [.null, .string(name), .null, .null, .null, .null, .null, .string(reason)]
        }
        return Table(
            columns: names.map { .text(nil, $0) },
            rows: (ranked + others).map { cells in Table.Row(cells: cells.map { Table.Cell(value: $0, text: "") }) }
        )
    }

    private var assumptions: JSONValue {
        .object([
            ("network", JSONValue(options.network?.name)), ("network_source", JSONValue(options.network?.source)),
            ("round_trip_ms", .rounded(Double(options.roundTrip.wholeNanoseconds) / 1e6)),
            ("loss_share", .rounded(options.loss)), ("radio", .string(options.radio.name)),
        ])
    }

    private var data: JSONValue {
        let results = ranking.entries.enumerated().map { number, entry in
            JSONValue.object([
                ("rank", .integer(number + 1)), ("transport", .string(entry.candidate.name)),
                ("total", .rounded(entry.total)),
                ("scores", .array(entry.scores.map { .object(Self.members($0)) })),
            ])
        }
        let excluded = exclusions.map { exclusion in
            JSONValue.object([
                ("transports", .array(exclusion.candidates.map(JSONValue.string))),
                ("reason", .string(exclusion.reason)), ("source", .string(exclusion.source)),
            ])
        }
        let unmeasured = ranking.unmeasured.map { name, reason in
            JSONValue.object([("transport", .string(name)), ("reason", .string(reason))])
        }
        return run.envelope(
            results: results,
            more: [
                ("verdict", .array([ranking.verdict(answers)].compactMap { $0 }.map(JSONValue.string))),
                ("figures", .string(origin)),
                ("answers", .string(answers.sentence)), ("assumed", assumptions), ("excluded", .array(excluded)),
                ("unmeasured", .array(unmeasured)), ("configuration", configuration?.json ?? .null),
            ]
        )
    }
}
