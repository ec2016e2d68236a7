/// Writes the bytes of a run, layer by layer.
enum OverheadReport {
    private static let title = "Bytes of one message on its way there, and of the link"

    static func text(_ results: RunResults, format: Format, style: Style) -> String {
        switch format {
        case .json: JSONReport.text(results)
        case .csv: CSVReport.text(results)
        case .markdown: warnings(results).map { "> **\($0)**\n\n" }.joined() + table(results.rows).markdown
        case .html: html(results)
        case .table:
            warnings(results).map { style.red($0) + "\n" }.joined() + style.bold(title) + "\n"
                + table(results.rows).plain(style)
        }
    }

    private static func warnings(_ results: RunResults) -> [String] {
        results.wasCutShort ? [Report.cutShort] : []
    }

    private static func table(_ rows: [ResultRow]) -> TextTable {
        let columns: [TextTable.Column] = [
            .init(title: "transport", alignedRight: false), .init(title: "codec", alignedRight: false),
            .init(title: "text"), .init(title: "codec +"), .init(title: "framing +"), .init(title: "TCP/UDP+IP +"),
            .init(title: "= wire"), .init(title: "overhead %"), .init(title: "handshake B"), .init(title: "its RTTs"),
            .init(title: "keepalive B/day"),
        ]
        return TextTable(columns: columns, rows: rows.map(row))
    }

    private static func row(_ row: ResultRow) -> TextTable.Row {
        let name = [row.transport, row.codec, String(row.size)]
        if let reason = row.reason { return TextTable.Row(cells: name, note: reason, isFailure: row.hasFailed) }
        guard let bytes = row.bytesPerMessage else { return TextTable.Row(cells: name, note: "nothing was counted") }
        return TextTable.Row(
            cells: name + [
                fixed(bytes.codec, 1, trimmed: true), fixed(bytes.framing, 1, trimmed: true),
                bytes.transportIP.map { fixed($0, 1, trimmed: true) } ?? "-", fixed(bytes.wire, 1, trimmed: true),
                bytes.payload > 0 ? fixed((bytes.wire / bytes.payload - 1) * 100, 0) : "-",
                row.handshake.map { fixed($0.bytes, 0) } ?? "-", row.handshake.map { String($0.roundTrips) } ?? "-",
                row.keepaliveBytesPerDay.map { fixed($0, 0) } ?? "-",
            ]
        )
    }

    private static func html(_ results: RunResults) -> String {
        var page = HTMLPage("imbench overhead", about: title)
        page.warn(Report.warnings(results))
        page.add(Report.facts(results))
        let sizes = results.rows.map(\.size).distinct
        page.add(heading: "On the wire")
        page.add(sizes.map { size in chart(results.rows.filter { $0.size == size }, size) })
        page.add(heading: "All numbers")
        page.add(table(results.rows))
        return page.text
    }

    private static func chart(_ rows: [ResultRow], _ size: Int) -> BarChart {
        BarChart(
            title: "\(size) bytes of text: bytes on the wire",
            legend: [(.first, "text"), (.second, "codec"), (.third, "framing"), (.fourth, "TCP or UDP, and IP")],
            rows: rows.compactMap { row in
                guard let bytes = row.bytesPerMessage else { return nil }
                let layers: [(BarChart.Kind, Double)] = [
                    (.first, bytes.payload), (.second, bytes.codec), (.third, bytes.framing),
                    (.fourth, bytes.transportIP ?? 0),
                ]
                var end = 0.0
                let spans = layers.map { kind, count in
                    defer { end += count }
                    return BarChart.Span(kind: kind, from: end, to: end + count)
                }
                return BarChart.Row(label: "\(row.transport) \(row.codec)", spans: spans, value: fixed(bytes.wire, 0))
            }
        )
    }
}
