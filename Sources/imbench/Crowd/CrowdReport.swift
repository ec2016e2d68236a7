/// The results of `imbench crowd`.
struct CrowdResults: Sendable {
    /// Environment, options and seed; it has no rows of its own.
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
                bars("Connections opened per second", "links_per_s"), bars("Ping, p50 in µs", "ping_p50_us"),
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
        let isRepeated = rows.contains { ($0.value("repeats") ?? 1) > 1 }
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
                cells += metrics.map { Self.cell(row.value($0.name)) }
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
                row.value(metric).map { BarChart.Row(row.transport, $0, shown: fixed($0, 0)) }
            }
        )
    }

    /// The 99th percentile on one transport, without each attack and during it.
    private func attacks(_ transport: String) -> BarChart {
        BarChart(
            title: "\(transport): p99 of the others in µs",
            legend: [(.first, "before and after"), (.worse, "during the attack")],
            rows: rows.filter { $0.transport == transport }.compactMap { row in
                guard let attack = row.attack, let before = row.value("quiet_p99_us"),
                    let during = row.value("attacked_p99_us")
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
