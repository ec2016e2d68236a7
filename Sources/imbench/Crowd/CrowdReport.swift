/// One row of `imbench crowd`.
struct CrowdRow: Sendable, AssertableRow {
    var transport: String
    /// The behaviour of the hostile clients; `nil` for a crowd of idle ones.
    var attack: HostileKind?
    /// The numbers, by the names that `--assert`, JSON and CSV use; `nil` for what was not measured.
    var metrics: [(name: String, value: Double?)] = []
    /// How often the server reported which end, by the error's code, and other events; see ``AttackPlan/Ending``.
    var endings: [(code: String, count: Int)] = []
    /// Which of them the server's limits require.
    var expected: [String] = []
    /// Violations, each of which fails the run.
    var breaches: [String] = []
    /// Why there are no numbers.
    var failure: String?

    var labels: [String] { [transport, attack?.rawValue ?? ""] }
    var name: String { attack.map { "\(transport).\($0.rawValue)" } ?? transport }
    var reason: String? { failure }

    func value(of metric: String) -> Double? {
        metrics.first { $0.name == metric }?.value ?? nil
    }

    /// The metrics of a crowd of idle clients, in their order, with the titles of their columns.
    static let idleColumns: [(name: String, title: String?)] = [
        ("connections", "connections"), ("connect_s", "connect s"), ("connections_per_s", "connections/s"),
        ("server_bytes", "server B each"),
        ("client_bytes", "client B each"), ("pings", "pings"), ("pongs", "pongs"), ("ping_p50_us", "ping p50 µs"),
        ("ping_p99_us", "ping p99 µs"),
    ]
    /// The metrics of an attack; those without a title are for programs alone.
    static let attackColumns: [(name: String, title: String?)] = [
        ("quiet_p50_us", "p50 µs"), ("quiet_p99_us", "p99 µs"), ("attacked_p50_us", "p50 attacked"),
        ("attacked_p99_us", "p99 attacked"), ("ratio_p50", "ratio p50"), ("ratio_p99", "ratio p99"),
        ("quiet_round_trips", nil), ("attacked_round_trips", "round trips"), ("attackers", nil), ("idle", nil),
        ("connections", "connections"), ("endings", nil), ("heap_peak_bytes", "heap, B each"),
        ("heap_bound_bytes", "at most"), ("ratio_p99_least", "least ratio"), ("ratio_p99_most", "most"),
        ("repeats", nil),
    ]
    static let idleMetrics = idleColumns.map(\.name)
    static let attackMetrics = attackColumns.map(\.name)

    /// The median of several measurements of one attack, by the factor by which the 99th percentile grew (of two, the
    /// greater one). It gets the least and the greatest factor, and the breaches of all. If a measurement failed, it is
    /// the result.
    static func middle(of rows: [CrowdRow]) -> CrowdRow? {
        let factor = { (row: CrowdRow) in row.value(of: "ratio_p99") ?? .infinity }
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

/// The results of `imbench crowd`.
struct CrowdResults: Sendable {
    /// Environment, options and seed, without rows.
    var run: RunResults
    var isHostile: Bool
    var rows: [CrowdRow] = []

    var report: Report {
        let table = table
        let charts =
            isHostile
            ? rows.map(\.transport).distinct.map(attacks)
            : [
                bars("Heap of the server per connection, in bytes", "server_bytes"),
                bars("Heap of the client per connection, in bytes", "client_bytes"),
                bars("Connections opened per second", "connections_per_s"), bars("Ping, p50 in µs", "ping_p50_us"),
            ]
        return Report(
            name: "imbench crowd",
            title: isHostile
                ? "Honest clients beside hostile ones: round trips during each attack, and before and after it"
                : "A crowd of idle clients: the cost of each, and their round trips",
            warnings: run.warnings,
            facts: run.facts,
            sections: [Report.Section(charts: charts, table: table)],
            records: table,
            data: run.envelope(
                results: zip(table.members, rows).map { members, row in
                    .object(
                        members + [
                            ("ended", .object(row.endings.map { ($0.code, .integer($0.count)) })),
                            ("expected", .array(row.expected.map(JSONValue.string))),
                            ("breaches", .array(row.breaches.map(JSONValue.string))),
                        ]
                    )
                }
            )
        )
    }

    private var table: Table {
        let isRepeated = rows.contains { ($0.value(of: "repeats") ?? 1) > 1 }
        let metrics = isHostile ? CrowdRow.attackColumns : CrowdRow.idleColumns
        let hidden = isRepeated ? [] : ["ratio_p99_least", "ratio_p99_most"]
        var columns: [Table.Column] = [.text("transport", "transport"), .text(isHostile ? "attack" : nil, "attack")]
        columns += metrics.map { .number(hidden.contains($0.name) ? nil : $0.title, $0.name) }
        if isHostile { columns += [.text("ended by the server"), .text("expected")] }
        return Table(
            labels: isHostile ? 2 : 1,
            columns: columns + [.text(nil, "failure")],
            rows: rows.map { row in
                let attack = row.attack?.rawValue
                var cells = [Table.Cell(row.transport), Table.Cell(value: JSONValue(attack), text: attack ?? "")]
                cells += metrics.map { Self.cell(row.value(of: $0.name)) }
                if isHostile {
                    let endings = row.endings.map { "\($0.count) \($0.code)" }.joined(separator: ", ")
                    let expected = row.expected.isEmpty ? "nothing" : row.expected.joined(separator: ", ")
                    cells += [Table.Cell(endings), Table.Cell(expected)]
                }
                cells.append(Table.Cell(value: JSONValue(row.failure), text: ""))
                return Table.Row(
                    cells: cells,
                    note: row.failure,
                    isFailure: row.failure != nil || !row.breaches.isEmpty
                )
            }
        )
    }

    /// Whole numbers have all their digits.
    private static func cell(_ value: Double?) -> Table.Cell {
        guard let value, value == value.rounded(), value.magnitude < 1e15 else { return Table.Cell(value) }
        return Table.Cell(value, fixed(value, 0))
    }

    private func bars(_ title: String, _ metric: String) -> BarChart {
        BarChart(
            title: title,
            rows: rows.compactMap { row in
                row.value(of: metric).map { BarChart.Row(row.transport, $0, shown: fixed($0, 0)) }
            }
        )
    }

    /// The 99th percentile on one transport, without each attack and during it.
    private func attacks(_ transport: String) -> BarChart {
        BarChart(
            title: "\(transport): p99 of the others in µs",
            legend: [(.first, "before and after"), (.worse, "during the attack")],
            rows: rows.filter { $0.transport == transport }.compactMap { row in
                guard let attack = row.attack, let before = row.value(of: "quiet_p99_us"),
                    let during = row.value(of: "attacked_p99_us")
                else { return nil }
                let (low, high) = (min(before, during), max(before, during))
                return BarChart.Row(
                    label: attack.rawValue,
                    spans: [
                        .init(kind: .first, from: 0, to: before),
                        .init(kind: during > before ? .worse : .better, from: low, to: high),
                    ],
                    value: "\(shown(before)) → \(shown(during))"
                )
            }
        )
    }
}
