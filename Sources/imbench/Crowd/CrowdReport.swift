/// Writes the results of `imbench crowd`.
struct CrowdReport {
    /// Environment, options and seed; it has no rows of its own.
    var run: RunResults
    var isHostile: Bool
    var rows: [CrowdRow] = []

    func text(_ format: Format, _ style: Style) -> String {
        switch format {
        case .json: json.readableText + "\n"
        case .csv: csv
        case .markdown: table.markdown + remarks.map { "\n" + $0 + "\n" }.joined()
        case .html: html
        case .table:
            style.bold(title) + "\n" + style.dim(conditions) + "\n\n" + table.plain(style)
                + remarks.map { $0 + "\n" }.joined()
        }
    }

    var title: String {
        isHostile
            ? "What honest clients feel of hostile ones: round trips beside each attack, and before and after it"
            : "A crowd of idle clients: what each costs, and how they answer"
    }

    private var conditions: String {
        run.options.filter { !["format", "output", "attack"].contains($0.name) }
            .map { "\($0.name)=\($0.value)" }.joined(separator: " ")
    }

    var remarks: [String] {
        run.remarks + (run.wasCutShort ? ["CUT SHORT: the run was interrupted; rows are missing"] : [])
    }

    var table: TextTable {
        let isRepeated = rows.contains { ($0.value("repeats") ?? 1) > 1 }
        let range = isRepeated ? [("ratio_p99_least", "least"), ("ratio_p99_most", "most")] : []
        let names: [(metric: String, title: String)] =
            isHostile
            ? [
                ("quiet_p50_us", "p50 µs"), ("quiet_p99_us", "p99 µs"), ("attacked_p50_us", "p50 attacked"),
                ("attacked_p99_us", "p99 attacked"), ("ratio_p50", "ratio p50"), ("ratio_p99", "ratio p99"),
            ] + range + [
                ("attacked_round_trips", "round trips"), ("connections", "connections"),
                ("heap_peak_bytes", "heap, B each"), ("heap_bound_bytes", "at most"),
            ]
            : [
                ("links", "links"), ("connect_s", "connect s"), ("links_per_s", "links/s"),
                ("server_bytes", "server B each"),
                ("client_bytes", "client B each"), ("pings", "pings"), ("pongs", "pongs"),
                ("ping_p50_us", "ping p50 µs"),
                ("ping_p99_us", "ping p99 µs"),
            ]
        var columns = [TextTable.Column(title: "transport", alignedRight: false)]
        if isHostile { columns.append(.init(title: "attack", alignedRight: false)) }
        columns += names.map { .init(title: $0.title) }
        if isHostile {
            columns.append(.init(title: "ended by the server", alignedRight: false))
            columns.append(.init(title: "expected", alignedRight: false))
        }
        return TextTable(
            columns: columns,
            rows: rows.map { row in
                let name = [row.transport] + (row.attack.map { [$0.rawValue] } ?? [])
                if let failure = row.failure { return .init(cells: name, note: failure, isFailure: true) }
                let endings = row.endings.map { "\($0.count) \($0.code)" }.joined(separator: ", ")
                let cells = names.map { Self.cell(row.value($0.metric)) }
                let expected = row.expected.isEmpty ? "nothing" : row.expected.joined(separator: ", ")
                return .init(
                    cells: name + cells + (isHostile ? [endings, expected] : []),
                    isFailure: !row.breaches.isEmpty
                )
            }
        )
    }

    /// Whole numbers as they are.
    private static func cell(_ value: Double?) -> String {
        guard let value, value == value.rounded(), value.magnitude < 1e15 else { return shown(value) }
        return fixed(value, 0)
    }

    private var json: JSONValue { JSONReport.value(run, results: rows.map(Self.result)) }

    private static func result(_ row: CrowdRow) -> JSONValue {
        .object(
            [("transport", .string(row.transport)), ("attack", JSONValue(row.attack?.rawValue))]
                + row.metrics.map { ($0.name, JSONValue($0.value)) }
                + [
                    ("ended", .object(row.endings.map { ($0.code, .integer($0.count)) })),
                    ("expected", .array(row.expected.map { .string($0) })),
                    ("breaches", .array(row.breaches.map { .string($0) })),
                    ("failure", JSONValue(row.failure)),
                ]
        )
    }

    private var csv: String {
        let metrics = isHostile ? CrowdRow.attackMetrics : CrowdRow.idleMetrics
        let lines = rows.map { row in
            [row.transport, row.attack?.rawValue ?? ""]
                + metrics.map { row.value($0).map { fixed($0, 3, trimmed: true) } ?? "" }
        }
        return ([["transport", "attack"] + metrics] + lines).map { $0.joined(separator: ",") + "\r\n" }.joined()
    }
}
