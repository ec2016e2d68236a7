import CommandSupport
import Foundation
import Protocols
import Reporting
import TransportAPI
import Transports
import Workloads

/// `imbench advise`: ranks the transports for an app, and writes a configuration file.
struct AdviseCommand: RunnableCommand {
    static let command = Command(
        name: "advise",
        summary: "rank the transports for your app from measurements, and write a configuration file",
        examples: [
            .init("imbench advise", "asks six questions"),
            .init("imbench advise --workload game --network 4g --write-config game.json", "no questions"),
            .init("imbench advise --workload chat --from run.json", "figures of an earlier run"),
        ]
    )

    var general = GeneralOptions()
    var advice = AdviceOptions()
    var report = ReportOptions()
    /// The file of the configuration; `nil` if only the report has it.
    var configurationFile: String?

    static func ownOptions(_: Vocabulary) -> OptionList<AdviseCommand> {
        var list = OptionList(AdviseCommand())
        list.add(AdviceOptions.list, at: \.advice)
        list.add(
            .report,
            [
                Setting(
                    "write-config",
                    SettingFormat.file.orAbsent("only in the report"),
                    \.configurationFile,
                    "write the configuration to this file"
                )
            ]
        )
        list.add(ReportOptions.listWithCharts, at: \.report)
        return list
    }

    mutating func check(_: TypedLine, _: Vocabulary) throws(UsageError) {
        if let network = advice.network { try advice.assume(network) }
        if let file = configurationFile, file == report.output {
            throw UsageError("--write-config and --output name the same file, '\(file)'; give each its own")
        }
    }

    func run() throws -> Int32 { try advise(self) }
}

private func advise(_ given: AdviseCommand) throws -> Int32 {
    var options = given
    try checkHost(options.advice.host)
    let answers = try answers(&options.advice)
    let target = try options.report.target()
    let file = try options.configurationTarget()
    let others = OtherAnswer.all(answers, options.advice)
    let shortlist = try SystemFailure.translate { () throws(TransportError) in try Shortlist(answers) }
    guard !shortlist.candidates.isEmpty else {
        let reasons = shortlist.exclusions.map { "\($0.candidates.joined(separator: ", ")): \($0.reason)" }
        throw SystemFailure("no transport is left. " + reasons.joined(separator: "; "))
    }

    let seed = runSeed()
    let measured: AdviceFigures
    if let source = options.advice.source {
        measured = try UsageError.translate("--from") { () throws(TransportError) in
            try AdviceFigures(json: readInput(source, limit: RecordedRun.maximumLength).utf8, label: source)
        }
    } else {
        // The transports that other answers leave are measured too, because they may be better.
        let candidates = try SystemFailure.translate { () throws(TransportError) in
            try Shortlist.candidates(of: [answers] + others.map(\.answers))
        }
        measured = try AdviceFigures.measured(candidates, options.general, seed: seed)
    }
    // A part of the figures would recommend the wrong transport.
    guard !Interruption.isRequested else { throw SystemFailure("interrupted: nothing is recommended") }
    let advice = try SystemFailure.translate { () throws(TransportError) in
        try Advice(
            run: RunResults(of: options, seed: seed),
            options: options.advice,
            answers: answers,
            shortlist: shortlist,
            others: others,
            measured
        )
    }
    guard let configuration = advice.configuration else { throw advice.withoutFigures(of: shortlist.candidates) }
    try target.write(advice.report, options.report)
    if let file { try file.write(configuration.text) }
    // A report may lack some transports. A measurement must not.
    return options.advice.source == nil && !advice.ranking.unmeasured.isEmpty ? ExitStatus.failed : ExitStatus.good
}

extension AdviseCommand {
    /// The file of `--write-config`.
    fileprivate func configurationTarget() throws(UsageError) -> ReportTarget? {
        guard let configurationFile else { return nil }
        do throws(SystemFailure) {
            return try ReportTarget(path: configurationFile)
        } catch {
            throw UsageError("--write-config: \(error.message)")
        }
    }
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
    var turningPoints: [TurningPoint]
    /// Where the figures come from.
    var origin: String

    /// Ranks the transports of the shortlist, and then those of each other answer.
    init(
        run: RunResults,
        options: AdviceOptions,
        answers: Answers,
        shortlist: Shortlist,
        others: [OtherAnswer],
        _ measured: AdviceFigures
    ) throws(TransportError) {
        (self.run, self.options, self.answers, origin) = (run, options, answers, measured.origin)
        exclusions = shortlist.exclusions
        ranking = Ranking(shortlist.candidates, measured, options, answers)
        let first = ranking.entries.first?.candidate.name
        turningPoints =
            try first.map { (first) throws(TransportError) in
                try TurningPoint.all(others, measured, first: first)
            } ?? []
    }

    var configuration: AdvisedConfiguration? { AdvisedConfiguration(ranking, answers, host: options.host) }

    var report: Report {
        let exclusion = Report.Section(
            heading: "Excluded, whatever the figures say",
            question: "Which transports can these clients not use?",
            table: excluded
        )
        var sections = [
            Report.Section(
                heading: "Ranking",
                question: "Which transport fits these answers best?",
                charts: [chart],
                table: order,
                notes: unmeasured + [onRequest].compactMap { $0 },
                reading: "Longer is better. The points follow from the table of the arithmetic."
            ),
            Report.Section(
                heading: "What would change the first place",
                question: "Which other answer would put another transport first?",
                notes: changes
            ),
        ]
        if !exclusions.isEmpty { sections.append(exclusion) }
        sections += [
            Report.Section(
                heading: "The arithmetic: figure → points",
                question: "Where do the points come from?",
                table: arithmetic,
                notes: ["points of all = sum of weight × points / sum of the weights. Figures \(origin)."],
                isDetail: true
            ),
            Report.Section(
                heading: "The criteria",
                question: "What does each criterion mean?",
                table: criteria,
                isDetail: true
            ),
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
            trust: .exact,
            facts: [("answers", answers.sentence), ("assumed", assumed)] + run.facts,
            sections: sections,
            records: records,
            data: data
        )
    }

    private var assumed: String {
        "\(options.assumed); radio \(options.radio.name) (--network, or --round-trip and --loss; --radio); "
            + answers.workload.traffic.sentence
    }

    /// The most sentences about other answers.
    private static let mostChanges = 5

    private var changes: [String] {
        guard !turningPoints.isEmpty else {
            return ["No other answer to a single question changes the first place."]
        }
        let rest = turningPoints.count - Self.mostChanges
        return turningPoints.prefix(Self.mostChanges).map(\.sentence)
            + (rest > 0 ? ["--format json has \(rest) more."] : [])
    }

    private var unmeasured: [String] { ranking.unmeasured.map { "\($0.name) is not ranked: \($0.reason)" } }

    /// The transports that are for existing servers, which this command does not rank; `nil` if there is none.
    private var onRequest: String? {
        let names = TransportRegistry.available.transports.filter { $0.isOnRequest && $0.defaultPort != nil }.map(
            \.name
        )
        return names.isEmpty
            ? nil
            : "Not ranked, because they are for a server that speaks their protocol: \(names.joined(separator: ", "))."
    }

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
            rows: ranking.entries.map { entry in
                let name = entry.candidate.name
                return BarChart.Row(name, entry.total, shown: fixed(entry.total, 2), style: .transport(name))
            },
            range: 0...10
        )
    }

    // MARK: For programs

    private static func members(_ score: Ranking.Score) -> [(String, ReportValue)] {
        [
            ("criterion", .string(score.criterion.title)), ("weight", .integer(score.weight)),
            ("figure", .rounded(score.figure)), ("points", .rounded(score.points)),
        ]
    }

    /// One row for each ranked transport and criterion, and one for each transport that is not ranked, with the reason.
    private var records: Table {
        let names = ["rank", "transport", "total", "criterion", "weight", "figure", "points", "reason"]
        let ranked = ranking.entries.enumerated().flatMap { number, entry in
            entry.scores.map { score -> [ReportValue] in
                [.integer(number + 1), .string(entry.candidate.name), .rounded(entry.total)]
                    + Self.members(score).map(\.1) + [.null]
            }
        }
        let excluded = exclusions.flatMap { exclusion in
            exclusion.candidates.map { (name: $0, reason: exclusion.reason) }
        }
        let others = (excluded + ranking.unmeasured).map { name, reason -> [ReportValue] in
            [.null, .string(name), .null, .null, .null, .null, .null, .string(reason)]
        }
        return Table(
            columns: names.map { .text(nil, $0) },
            rows: (ranked + others).map { cells in Table.Row(cells: cells.map { Table.Cell(value: $0, text: "") }) }
        )
    }

    private var assumptions: ReportValue {
        .object([
            ("network", ReportValue(options.network?.name)), ("network_source", ReportValue(options.network?.source)),
            ("round_trip_ms", .rounded(Double(options.roundTrip.wholeNanoseconds) / 1e6)),
            ("loss_share", .rounded(options.loss)), ("radio", .string(options.radio.name)),
            ("messages_per_day", .integer(answers.workload.traffic.messagesPerDay)),
            ("bursts_per_day", .integer(answers.workload.traffic.bursts)),
        ])
    }

    private var data: ReportValue {
        let results = ranking.entries.enumerated().map { number, entry in
            ReportValue.object([
                ("rank", .integer(number + 1)), ("transport", .string(entry.candidate.name)),
                ("total", .rounded(entry.total)),
                ("scores", .array(entry.scores.map { .object(Self.members($0)) })),
            ])
        }
        let excluded = exclusions.map { exclusion in
            ReportValue.object([
                ("transports", .array(exclusion.candidates.map(ReportValue.string))),
                ("reason", .string(exclusion.reason)), ("source", .string(exclusion.source)),
            ])
        }
        let unmeasured = ranking.unmeasured.map { name, reason in
            ReportValue.object([("transport", .string(name)), ("reason", .string(reason))])
        }
        let turning = turningPoints.map { point in
            ReportValue.object([
                ("option", .string(point.option)), ("values", .array(point.values.map(ReportValue.string))),
                ("first", .string(point.first)),
            ])
        }
        return run.envelope(
            results: results,
            more: [
                ("verdict", .array([ranking.verdict(answers)].compactMap { $0 }.map(ReportValue.string))),
                ("figures", .string(origin)),
                ("answers", .string(answers.sentence)), ("assumed", assumptions), ("excluded", .array(excluded)),
                ("unmeasured", .array(unmeasured)), ("turning_points", .array(turning)),
                ("configuration", configuration?.json ?? .null),
            ]
        )
    }
}
