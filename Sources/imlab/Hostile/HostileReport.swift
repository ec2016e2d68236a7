import CommandSupport
import Reporting

/// One row of `imlab hostile`: one attack on one transport.
struct AttackRow: Sendable, AssertableRow {
    var transport: String
    /// The behaviour of the hostile clients.
    var attack: HostileKind
    /// The numbers, by the names that `--assert`, JSON and CSV use; `nil` for what was not measured.
    var metrics: [(name: String, value: Double?)] = []
    /// The number of endings that the server reported, by the error's code or by ``AttackPlan/Ending``.
    var endings: [(code: String, count: Int)] = []
    /// The endings that the server's limits require.
    var expected: [String] = []
    /// The rules that were broken. A single one fails the run.
    var breaches: [String] = []
    /// Why there are no numbers.
    var failure: String?

    init(transport: String, attack: HostileKind) { (self.transport, self.attack) = (transport, attack) }

    var labels: [String] { [transport, attack.rawValue] }
    var name: String { "\(transport).\(attack.rawValue)" }
    var reason: String? { failure }

    func value(of metric: String) -> Double? {
        metrics.first { $0.name == metric }?.value ?? nil
    }

    /// The metrics of the report.
    static let columns: [Table.Column] = [
        .number("p50 µs", "quiet_p50_us", "median round trip before and after the attack, in µs"),
        .number("p99 µs", "quiet_p99_us", "99th percentile of the same, in µs"),
        .number("p50 att.", "attacked_p50_us", "median round trip during the attack, in µs"),
        .number("p99 att.", "attacked_p99_us", "99th percentile during the attack, in µs"),
        .number("×p50", "ratio_p50", "p50 att. divided by p50"),
        .number("×p99", "ratio_p99", "p99 att. divided by p99"),
        .number(nil, "quiet_round_trips"),
        .number("trips", "attacked_round_trips", "round trips of honest clients during the attack"),
        .number(nil, "attackers"), .number(nil, "idle"),
        .number("opened", "connections", "connections that the hostile clients opened"),
        .number(nil, "endings"),
        .number("heap B", "heap_peak_bytes", "growth of the server's peak heap per hostile client, in bytes"),
        .number("allowed", "heap_bound_bytes", "heap that the limits allow for each, in bytes"),
        .number(nil, "usual_step_us"),
        .number(
            "step µs",
            "longest_step_us",
            "longest step of a TLS handshake at the server, in µs of its processor time"
        ),
        .number("ten µs", "repeated_step_us", "time that ten such steps took or exceeded, in µs; 5000 are allowed"),
        .number("least", "ratio_p99_least", "smallest ×p99 of all repeats"),
        .number("most", "ratio_p99_most", "largest ×p99 of all repeats"), .number(nil, "repeats"),
    ]
    static let metricNames = columns.compactMap(\.name)

    /// The median of several measurements of one attack, by the factor by which the 99th percentile grew (of two, the
    /// greater one). It gets the least and the greatest factor, and the breaches of all. If a measurement failed, it is
    /// the result.
    static func middle(of rows: [AttackRow]) -> AttackRow? {
        let factor = { (row: AttackRow) in row.value(of: "ratio_p99") ?? .infinity }
        let ordered = rows.sorted { factor($0) < factor($1) }
        guard var row = rows.first(where: { $0.failure != nil }) ?? ordered.dropFirst(rows.count / 2).first else {
            return nil
        }
        row.metrics += [
            ("ratio_p99_least", ordered.first?.value(of: "ratio_p99")),
            ("ratio_p99_most", ordered.last?.value(of: "ratio_p99")),
            ("repeats", Double(rows.count)),
        ]
        row.breaches = rows.flatMap(\.breaches).distinct
        return row
    }
}

extension Assertion.Names {
    /// The names of rows of `hostile`.
    static let attacks = Assertion.Names(
        example: "ws.ping-flood.ratio_p99 <= 2",
        labels: [{ HostileKind(rawValue: $0)?.rawValue }],
        metrics: AttackRow.metricNames
    )
}

/// The results of `imlab hostile`.
struct AttackResults: Sendable {
    var run: RunRecord
    var rows: [AttackRow] = []

    var report: Report {
        let table = table
        let charts = rows.map(\.transport).distinct.map(attacks)
        return Report(
            name: "imlab hostile",
            title: "Honest clients beside hostile ones: round trips during each attack, and before and after it",
            trust: run.trust(),
            warnings: run.warnings,
            verdict: verdict,
            facts: run.facts,
            sections: [
                Report.Section(
                    heading: "Round trips of honest clients",
                    question: "How much do hostile clients slow the others?",
                    charts: charts,
                    table: table.selecting(["p50 µs", "p50 att.", "×p50", "p99 µs", "p99 att.", "×p99"]),
                    reading:
                        "Shorter is better. The first part of a bar is the shorter of two 99th percentiles: that without "
                        + "the attack, and that during it. The rest is what the attack adds, or what is missing during "
                        + "it by chance.",
                    next: [.init("To tell an effect from chance", "imlab hostile --repeat 3")]
                ),
                Report.Section(
                    heading: "The server",
                    question: "How much memory does an attack take from the server?",
                    table: table.withoutNotes.selecting([
                        "trips", "opened", "heap B", "allowed", "step µs", "ten µs", "least", "most",
                    ])
                ),
                Report.Section(
                    heading: "Endings",
                    question: "How does the server end hostile clients?",
                    table: table.withoutNotes.selecting(["ended", "expected"])
                ),
            ],
            records: table,
            data: run.envelope(
                results: zip(table.members, rows).map { members, row in
                    .object(
                        members + [
                            ("ended", .object(row.endings.map { ($0.code, .integer($0.count)) })),
                            ("expected", .array(row.expected.map(ReportValue.string))),
                            ("breaches", .array(row.breaches.map(ReportValue.string))),
                        ]
                    )
                }
            )
        )
    }

    /// Whether the server kept its limits, and the attack that slowed the others most.
    private var verdict: [String] {
        let measured = rows.filter { $0.failure == nil }
        let broken = measured.filter { !$0.breaches.isEmpty }.map(\.name)
        var sentences: [String] = []
        if !broken.isEmpty {
            sentences.append("A rule of the server did not hold in \(broken.joined(separator: ", ")).")
        } else if !measured.isEmpty {
            sentences.append("Every rule of the server held in all of \(measured.count) measured attacks.")
        }
        let factors = measured.compactMap { row in row.value(of: "ratio_p99").map { (name: row.name, factor: $0) } }
        if let worst = factors.max(by: { $0.factor < $1.factor }) {
            sentences.append(
                "The 99th percentile of honest clients was at most \(shown(worst.factor)) times that without the attack "
                    + "(\(worst.name))."
            )
        }
        return sentences
    }

    private var table: Table {
        let isRepeated = rows.contains { ($0.value(of: "repeats") ?? 1) > 1 }
        let isEncrypted = rows.contains { $0.value(of: "longest_step_us") != nil }
        var columns: [Table.Column] = [
            .text("transport", "transport", "the protocol, as in the scheme of its URL"),
            .text("attack", "attack", "the behaviour of the hostile clients"),
        ]
        columns += AttackRow.columns.map { column in
            var column = column
            // One measurement has no extremes.
            if !isRepeated, ["least", "most"].contains(column.title) { column.title = nil }
            if !isEncrypted, ["step µs", "ten µs"].contains(column.title) { column.title = nil }
            return column
        }
        columns += [
            .text("ended", nil, "how often the server ended clients, by the error's code"),
            .text("expected", nil, "endings that the limits of the server require; others are allowed too"),
        ]
        return Table(
            labels: 2,
            columns: columns + [.text(nil, "failure")],
            rows: rows.map { row in
                var cells = [Table.Cell(row.transport), Table.Cell(row.attack.rawValue)]
                cells += AttackRow.columns.map { .wholeOrShown($0.name.flatMap(row.value)) }
                let endings = row.endings.map { "\($0.count) \($0.code)" }
                cells += [endings, row.expected].map { words in
                    Table.Cell(words.isEmpty ? "none" : words.joined(separator: ", "))
                }
                cells.append(Table.Cell(value: ReportValue(row.failure), text: ""))
                return Table.Row(
                    cells: cells,
                    note: row.failure,
                    isFailure: row.failure != nil || !row.breaches.isEmpty
                )
            }
        )
    }

    /// The 99th percentile on one transport, without each attack and during it.
    private func attacks(_ transport: String) -> BarChart {
        let own = rows.filter { $0.transport == transport }.compactMap {
            row -> (name: String, before: Double, during: Double)? in
            guard let before = row.value(of: "quiet_p99_us"), let during = row.value(of: "attacked_p99_us")
            else { return nil }
            return (row.attack.rawValue, before, during)
        }
        let unit = Axis.TimeUnit(own.flatMap { [$0.before, $0.during] }.max() ?? 0)
        let meanings: [(kind: BarChart.Kind, meaning: String, isUsed: Bool)] = [
            (.first, "with and without the attack", true),
            (.worse, "during the attack only", own.contains { $0.during > $0.before }),
            (.tail, "without it only", own.contains { $0.during < $0.before }),
        ]
        return BarChart(
            title: "\(transport): p99 of honest clients",
            legend: meanings.filter(\.isUsed).map { ($0.kind, $0.meaning) },
            rows: own.map { name, before, during in
                let (low, high) = (min(before, during), max(before, during))
                return BarChart.Row(
                    label: name,
                    spans: [
                        .init(kind: .first, from: 0, to: low),
                        .init(kind: during > before ? .worse : .tail, from: low, to: high),
                    ],
                    value: "\(unit.number(before)) → \(unit.number(during)) \(unit.name)"
                )
            },
            unit: .microseconds
        )
    }
}
