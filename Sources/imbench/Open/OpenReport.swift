/// The results of `imbench open`.
struct OpenResults: Sendable {
    /// The conditions.
    var run: RunResults
    var rows: [OpenRow] = []
}

extension OpenResults {
    var report: Report {
        let groups = rows.map(\.network).distinct
        let sections = groups.map { network in
            let rows = rows.filter { $0.network == network }
            return Report.Section(
                heading: network.map { "Over \($0)" } ?? "Over loopback",
                question: "How long until the first message has its answer\(network.map { " over \($0)" } ?? "")?",
                charts: [Self.chart(rows, network)],
                table: Self.table(rows),
                notes: run.networks.filter { $0.network.name == network }.map(\.sentence),
                reading:
                    "Shorter is better. The first part of a bar is the time until the connection is open: one round trip of the "
                    + "network for each of the column RTTs. The second part is the message and its answer.",
                next: [.init("To see the bytes of a handshake one by one", "imbench trace Hello")]
            )
        }
        return Report(
            name: "imbench open",
            title: "From nothing to the answer of the first message",
            warnings: run.warnings,
            facts: run.facts,
            sections: sections,
            records: Self.table(rows),
            data: run.envelope(results: rows.map { Self.data($0) })
        )
    }

    private static func table(_ rows: [OpenRow]) -> Table {
        Table(
            labels: 2,
            columns: [
                .text("transport", "transport", "the protocol, as in the scheme of its URL"),
                .text(
                    "encryption",
                    "encryption",
                    "the version of TLS; resumed: it continues the session of an earlier connection"
                ),
                .text(nil, "network"),
                .number("RTTs", "round_trips", "round trips until a message may leave, TCP's own included"),
                .number("bytes", "bytes", "bytes of the handshakes in both directions, without TCP and IP headers"),
                .number("open ms", "open_ms", "median time until the connection is open, in ms"),
                .number("answer ms", "answer_ms", "median time until the first message has its answer, in ms"),
                .number("±%", "answer_spread_percent", "half the spread of that time, in %"),
            ],
            rows: rows.map { row in
                Table.Row(
                    cells: [
                        Table.Cell(row.kind.transport), Table.Cell(row.kind.security), Table.Cell(row.network ?? ""),
                        Table.Cell(row.roundTrips), Table.Cell(row.bytes, row.bytes.map { fixed($0, 0) } ?? "-"),
                        Table.Cell(row.opened?.median), Table.Cell(row.answered?.median),
                        Table.Cell(row.answered?.relativeSpread.map { $0 * 100 }),
                    ],
                    note: row.failure,
                    isFailure: row.failure != nil
                )
            }
        )
    }

    private static func chart(_ rows: [OpenRow], _ network: String?) -> BarChart {
        BarChart(
            title: "\(network ?? "loopback"): ms until the answer of the first message",
            legend: [(.first, "until the connection is open"), (.second, "until the answer")],
            rows: rows.compactMap { row in
                guard let opened = row.opened?.median, let answered = row.answered?.median else { return nil }
                return BarChart.Row(
                    label: row.kind.security == "none"
                        ? row.kind.transport : "\(row.kind.transport) \(row.kind.security)",
                    spans: [
                        .init(kind: .first, from: 0, to: opened), .init(kind: .second, from: opened, to: answered),
                    ],
                    value: shown(answered)
                )
            }
        )
    }

    private static func data(_ row: OpenRow) -> JSONValue {
        .object([
            ("transport", .string(row.kind.transport)), ("encryption", .string(row.kind.security)),
            ("network", JSONValue(row.network)), ("round_trips", JSONValue(row.roundTrips)),
            ("handshake_bytes", .rounded(row.bytes)), ("open_ms", .rounded(row.opened?.median)),
            ("answer_ms", .rounded(row.answered?.median)), ("answer_low_ms", .rounded(row.answered?.low)),
            ("answer_high_ms", .rounded(row.answered?.high)), ("failure", JSONValue(row.failure)),
        ])
    }
}
