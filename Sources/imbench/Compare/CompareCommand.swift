import CommandSupport
import Measuring
import Reporting
import TransportAPI
import Transports

/// `imbench compare BEFORE AFTER`: reads two reports of `imbench run` and reports which differences are real.
struct CompareCommand: RunnableCommand {
    static let command = Command(
        name: "compare",
        summary: "compare two reports of 'run --format json': real differences, and those within noise",
        argument: "A.json B.json",
        isInterruptible: false,
        examples: [
            .init("imbench compare a.json b.json", "every difference of two runs"),
            .init("imbench compare a.json b.json --noise 3 --format html --output c.html", "a page with charts"),
        ]
    )

    var general = GeneralOptions()
    /// The files.
    var before = ""
    var after = ""
    /// By how many percent two runs of the same code may differ. Criterion.rs calls it the noise threshold.
    var noisePercent = 1.0
    var report = ReportOptions()
    var assertions: [Assertion] = []

    static func ownOptions(_ vocabulary: Vocabulary) -> OptionList<CompareCommand> {
        var list = OptionList(CompareCommand())
        list.add(
            .what,
            [
                Setting(
                    "noise",
                    .number(0...100, percents: 1),
                    \.noisePercent,
                    "difference that two runs of the same code may have, in %; a smaller one counts as noise"
                )
            ]
        )
        list.add(ReportOptions.listWithCharts, at: \.report)
        list.add(
            .report,
            [.assertions(.comparedRows(vocabulary), vocabulary, \.assertions)]
        )
        return list
    }

    mutating func check(_ line: TypedLine, _: Vocabulary) throws(UsageError) {
        guard line.arguments.count == 2 else {
            throw UsageError(
                "'compare' needs two files, but got \(line.arguments.count): imbench compare A.json B.json"
            )
        }
        (before, after) = (line.arguments[0], line.arguments[1])
    }

    func run() throws -> Int32 { try compare(self) }
}

private func compare(_ options: CompareCommand) throws -> Int32 {
    let comparison = try UsageError.translate("'compare'") { () throws(TransportError) in
        Comparison(
            try readRun(options.before),
            try readRun(options.after),
            noise: options.noisePercent / 100
        )
    }
    let target = try options.report.target()
    try target.write(comparison.report, options.report)
    return options.assertions.status(of: comparison.rows)
}

/// The report of `imbench compare`.
extension Comparison {
    var report: Report {
        let real = rows.compactMap { row in
            var row = row
            row.differences.removeAll { !$0.isReal }
            return row.differences.isEmpty ? nil : row
        }
        return Report(
            name: "imbench compare",
            title: summary,
            trust: trust,
            warnings: warnings,
            facts: facts,
            sections: [
                Report.Section(
                    heading: "Round trips",
                    question: "Which rows became faster or slower?",
                    table: verdicts,
                    notes: [machine]
                ),
                Report.Section(
                    heading: "All numbers that differ",
                    question: "Which numbers differ for sure?",
                    table: real.isEmpty ? nil : Self.table(real),
                    notes: [numberSummary],
                    next: [.init("To report only larger differences", "imbench compare BEFORE AFTER --noise 5")]
                ),
                Report.Section(
                    heading: "All rows",
                    question: "How much does each row differ, and how sure is that?",
                    charts: RepeatedMetric.allCases.map(chart),
                    table: overview,
                    notes: signs,
                    reading:
                        "The mark is the change of the median, and the bar is the interval in which the true change lies. An "
                        + "interval that crosses the line at 0 is no difference. A narrow interval is a good measurement.",
                    next: [
                        .init(
                            "To narrow the intervals, measure both with more repeats",
                            "imbench run --repeat 20 --format json"
                        )
                    ],
                    isDetail: true
                ),
                Report.Section(
                    heading: "Floors: the machine itself",
                    question: "Did the machine itself change?",
                    table: Self.table(floors),
                    isDetail: true
                ),
            ],
            records: records,
            data: data
        )
    }

    /// The verdicts of the rows, and their median resolution.
    private var summary: String {
        let main = rows.compactMap(\.main)
        func count(_ isCounted: (Difference) -> Bool) -> Int { main.count(where: isCounted) }
        let slower = count { $0.isReal && ($0.ratio ?? 1) > 1 }
        let faster = count { $0.isReal && ($0.ratio ?? 1) < 1 }
        let unknown = count { $0.verdict.reason != nil }
        let same = count { $0.verdict == .noise }
        guard !main.isEmpty else { return "No row was measured in both runs." }
        var changes: [String] = []
        if faster > 0 { changes.append("\(faster) \(Self.are(faster)) faster") }
        if slower > 0 { changes.append("\(slower) \(Self.are(slower)) slower") }
        var parts = [changes.isEmpty ? "none is surely faster or slower" : changes.joined(separator: " and ")]
        if same > 0, same < main.count {
            parts.append("\(same) \(same == 1 ? "shows" : "show") no difference beyond noise")
        }
        if unknown > 0 {
            parts.append("\(unknown) \(Self.are(unknown)) unknown" + (sharedReason.map { ", because \($0)" } ?? ""))
        }
        let text = "Of \(counted(main.count, "row")), " + parts.joined(separator: "; ") + "."
        let resolutions = main.compactMap(\.resolution)
        guard let half = RepeatStatistics(resolutions)?.median else { return text }
        let rows = main.count == 1 ? "A" : resolutions.count == 1 ? "In one of them, a" : "In half of the rows, a"
        return text + " \(rows) change below \(shownResolution(half)) % would probably not be seen."
    }

    /// Why rows are unknown, if it is the same reason for all of them.
    private var sharedReason: String? {
        let reasons = Set(rows.compactMap { $0.main?.verdict.reason })
        return reasons.count == 1 ? reasons.first : nil
    }

    private static func are(_ count: Int) -> String { count == 1 ? "is" : "are" }

    /// How the machine changed between the runs.
    private var machine: String {
        let changes = rows.compactMap { row in row.main.flatMap { _ in row.machineChange } }
        guard let most = changes.max(), let least = changes.min() else {
            return "The rows have no floors, so a change of the machine would look like one of the code."
        }
        return "The floors, which are the same code in both runs, changed by \(fixed((least - 1) * 100, 1)) to "
            + "\(fixed((most - 1) * 100, 1)) %. The machine changed as much, so each interval of times is wider by the "
            + "change of its floor, and that of ×floor by the square root of it."
    }

    /// The number of differences of each kind.
    private var numberSummary: String {
        let verdicts = differences.map(\.verdict.name)
        func count(_ name: String) -> Int { verdicts.count { $0 == name } }
        let (better, worse, unknown) = (count("better"), count("worse"), count("unknown"))
        let differ = better + worse == 1 ? "differs" : "differ"
        return "Of \(verdicts.count) numbers, \(better + worse) \(differ) (\(better) better, \(worse) worse), "
            + "\(count("noise")) \(Self.are(count("noise"))) within noise, and \(unknown) \(Self.are(unknown)) unknown. "
            + "\(fixed(expectedByChance, 1)) are expected to look real by chance."
    }

    private var facts: [(name: String, value: String)] {
        func run(_ run: RecordedRun) -> String {
            let commit = run.environment["commit"].map { "commit \($0.prefix(12))" }
            return [run.label, run.environment["date"], run.environment["build"], commit]
                .compactMap { $0 }.joined(separator: ", ")
        }
        func percent(_ share: Double) -> String { fixed(share * 100, 2, trimmed: true) + " %" }
        let environment = after.environment
        let machine = [environment["processor"], environment["cores"].map { "\($0) cores" }, environment["system"]]
        return [
            ("before", run(before)), ("after", run(after)),
            ("machine", machine.compactMap { $0 }.joined(separator: ", ")),
            (
                "method",
                "real: the \(percent(RatioInterval.target)) interval of the ratio, from the repeats (Mann-Whitney), "
                    + "widened by the change of the floor (its square root for ×floor), lies beyond ±\(percent(noise))"
            ),
        ]
    }

    /// The signs of the overview.
    private var signs: [String] {
        let reasons = Set(differences.compactMap(\.verdict.reason)).sorted()
        return ["~ within noise"] + reasons.map { "? unknown: \($0)" }
    }

    // MARK: For people

    /// One row for each row of the runs, with its verdict in words.
    private var verdicts: Table {
        Table(
            labels: 3,
            columns: Self.labels + [
                .number("before", nil, "median over the repeats of the first report: ×floor, or p50 in µs without it"),
                .number("after", nil, "median over the repeats of the second report"),
                .number(
                    "least %",
                    nil,
                    "the smallest change that such repeats show to be real in nine of ten cases, in %"
                ),
                .text("verdict", nil, "the change of the round trip, and its interval"),
            ],
            rows: rows.map { row in
                guard let main = row.main else { return Table.Row(cells: row.cells, note: row.sentence) }
                let unit = main.metric == .ratioToFloor ? "×" : ""
                // The summary has the reason.
                let isShared = sharedReason != nil && main.verdict.reason != nil
                let cells = [
                    Table.Cell(main.before, unit + shown(main.before)),
                    Table.Cell(main.after, unit + shown(main.after)),
                    Table.Cell(main.resolution, shownResolution(main.resolution)),
                    Table.Cell(isShared ? "unknown" : row.sentence),
                ]
                return Table.Row(cells: row.cells + cells, isFailure: main.verdict == .worse)
            }
        )
    }

    /// The columns that name a row.
    private static var labels: [Table.Column] {
        [
            .text("transport", nil, "the protocol, as in the scheme of its URL"),
            .text("codec", nil, "the format of the messages"), .number("size", nil, "bytes of text in a message"),
        ]
    }

    /// One row for each difference.
    private static func table(_ rows: [ComparedRow]) -> Table {
        Table(
            columns: [
                .text("row", nil, "transport or floor, codec, bytes of text, and the number"),
                .number("before", nil, "median over the repeats of the first report"),
                .number("after", nil, "median over the repeats of the second report"),
                .number("change", nil, "from before to after, in %"),
                .number("from", nil, "lower end of the interval of the change, in %"),
                .number("to", nil, "upper end of the interval of the change, in %"),
                .text("verdict", nil, "better, worse, noise (within --noise), or unknown"),
            ],
            rows: rows.flatMap { row in
                row.differences.map { difference in
                    let texts = [
                        "\(row.title) \(difference.metric.title)", shown(difference.before), shown(difference.after),
                        shownPercent(difference.ratio), shownPercent(difference.interval?.low),
                        shownPercent(difference.interval?.high), difference.verdict.name,
                    ]
                    return Table.Row(cells: texts.map { Table.Cell($0) }, isFailure: difference.verdict == .worse)
                }
            }
        )
    }

    /// One row for each row of the runs: the change where it is real, and signs elsewhere.
    private var overview: Table {
        Table(
            labels: 3,
            columns: Self.labels + RepeatedMetric.allCases.map { .number($0.title, nil, "change: \($0.meaning)") },
            rows: rows.map { row in
                let signs = row.differences.map { difference in
                    switch difference.verdict {
                    case .better, .worse: Table.Cell(shownChange(difference.ratio))
                    case .noise: Table.Cell("~")
                    case .unknown: Table.Cell("?")
                    }
                }
                return Table.Row(cells: row.cells + signs, note: row.note)
            }
        )
    }

    /// For one number, the interval of its change in every row around the line of no change.
    private func chart(_ metric: RepeatedMetric) -> BarChart {
        let ends = rows.flatMap(\.differences).filter { $0.metric == metric }.compactMap(\.interval)
            .map { max(abs($0.low - 1), abs($0.high - 1)) * 100 }.filter(\.isFinite).sorted()
        // The axis has nine of ten intervals whole. A few very uncertain changes would hide the others.
        // Nothing can become less by more than 100 %.
        let reach = ends.isEmpty ? 5 : min(max(5, ends[(ends.count - 1) * 9 / 10]), 1e6)
        return BarChart(
            title: "Change of \(metric.title) in %: \(metric.isBetterWhenLarger ? "more" : "less") is better",
            legend: [(.better, "better"), (.worse, "worse"), (.noise, "within noise")],
            rows: rows.compactMap { row in
                guard let difference = row.differences.first(where: { $0.metric == metric }),
                    let interval = difference.interval, let ratio = difference.ratio
                else { return nil }
                let kind: BarChart.Kind =
                    switch difference.verdict {
                    case .better: .better
                    case .worse: .worse
                    case .noise, .unknown: .noise
                    }
                let (low, middle, high) = ((interval.low - 1) * 100, (ratio - 1) * 100, (interval.high - 1) * 100)
                return BarChart.Row(
                    label: row.title,
                    spans: [.init(kind: kind, from: low, to: high), .init(kind: .mark, from: middle, to: middle)],
                    value: shownChange(ratio)
                )
            },
            range: -min(reach, 100)...reach,
            lines: [0],
            unit: .percent
        )
    }

    // MARK: For programs

    /// One row for each number of each row and floor.
    private var records: Table {
        let labels = ["kind", "transport", "codec", "size", "loop", "load", "network", "picture", "metric"]
        let numbers = ["before", "after", "ratio", "ratio_low", "ratio_high", "resolution"]
        func records(_ kind: String, _ row: ComparedRow) -> [Table.Row] {
            let conditions = [row.row.loop.rawValue, row.row.load, row.row.network, row.row.picture].map {
                Table.Cell($0)
            }
            let name =
                [Table.Cell(kind), Table.Cell(row.transport), Table.Cell(row.codec), Table.Cell(row.size)] + conditions
            if let note = row.note {
                let empty = numbers.map { _ in Table.Cell(nil as Double?) }
                return [
                    Table.Row(cells: name + [Table.Cell("")] + empty + [Table.Cell("unmatched"), Table.Cell(note)])
                ]
            }
            return row.differences.map { difference in
                let (interval, verdict) = (difference.interval, difference.verdict)
                let values = [
                    difference.before, difference.after, difference.ratio, interval?.low, interval?.high,
                    difference.resolution,
                ]
                return Table.Row(
                    cells: name + [Table.Cell(difference.metric.rawValue)] + values.map { Table.Cell($0) }
                        + [Table.Cell(verdict.name), Table.Cell(verdict.reason ?? "")]
                )
            }
        }
        return Table(
            columns: (labels + numbers + ["verdict", "reason"]).map { .text(nil, $0) },
            rows: rows.flatMap { records("transport", $0) } + floors.flatMap { records("floor", $0) }
        )
    }

    /// Unknown numbers are null.
    private var data: ReportValue {
        .object([
            ("schema", .string("imbench-compare/1")), ("before", Self.data(before)), ("after", Self.data(after)),
            ("coverage", .number(RatioInterval.target)), ("noise", .number(noise)),
            ("warnings", .array(warnings.map(ReportValue.string))), ("verdict", .array([.string(summary)])),
            ("results", .array(rows.map { Self.data($0, nameOf: "transport") })),
            ("floors", .array(floors.map { Self.data($0, nameOf: "floor") })),
        ])
    }

    private static func data(_ run: RecordedRun) -> ReportValue {
        func object(_ texts: [String: String]) -> ReportValue {
            .object(texts.sorted { $0.key < $1.key }.map { ($0.key, .string($0.value)) })
        }
        return .object([
            ("file", .string(run.label)), ("environment", object(run.environment)), ("options", object(run.options)),
        ])
    }

    private static func data(_ row: ComparedRow, nameOf kind: String) -> ReportValue {
        var members: [(String, ReportValue)] = [
            (kind, .string(row.transport)), ("codec", .string(row.codec)), ("size", .integer(row.size)),
            ("loop", .string(row.row.loop.rawValue)), ("load", .string(row.row.load)),
            ("network", row.row.network.isEmpty ? .null : .string(row.row.network)),
        ]
        if !row.row.picture.isEmpty { members.append(("picture", .string(row.row.picture))) }
        if let note = row.note { members.append(("note", .string(note))) }
        if let main = row.main {
            members.append(
                (
                    "round_trips",
                    .object([
                        ("sentence", .string(row.sentence)), ("metric", .string(main.metric.key)),
                        ("verdict", .string(main.verdict.name)), ("ratio", .rounded(main.ratio)),
                        ("resolution", .rounded(main.resolution)), ("machine_change", .rounded(row.machineChange)),
                    ])
                )
            )
        }
        members += row.differences.map { difference in
            let (interval, verdict) = (difference.interval, difference.verdict)
            let value = ReportValue.object([
                ("before", .rounded(difference.before)), ("after", .rounded(difference.after)),
                ("ratio", .rounded(difference.ratio)), ("ratio_low", .rounded(interval?.low)),
                ("ratio_high", .rounded(interval?.high)), ("resolution", .rounded(difference.resolution)),
                ("coverage", ReportValue(interval?.coverage)),
                ("verdict", .string(verdict.name)), ("reason", ReportValue(verdict.reason)),
            ])
            return (difference.metric.key, value)
        }
        return .object(members)
    }
}

extension ComparedRow {
    /// The name, without the codec of a floor, which has none.
    fileprivate var title: String {
        [subject, codec, String(size)].filter { !$0.isEmpty }.joined(separator: " ") + overNetwork
    }
    fileprivate var cells: [Table.Cell] { [Table.Cell(subject + overNetwork), Table.Cell(codec), Table.Cell(size)] }
    /// The transport, and where a picture goes.
    private var subject: String { transport + (row.picture.isEmpty ? "" : ", picture: \(row.picture)") }
}
