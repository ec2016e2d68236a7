import TransportAPI

/// Writes the results of `imbench outage`.
struct OutageReport {
    /// Environment, options and seed; it has no rows of its own.
    var run: RunResults
    var timing: OutageTiming
    var rows: [OutageRow]

    private static let title = "What happens when the path breaks: time to notice, time to come back, and the accounts"

    func text(_ format: Format, _ style: Style) -> String {
        switch format {
        case .json: json.readableText + "\n"
        case .csv: csv
        case .markdown: warnings.map { "> **\($0)**\n\n" }.joined() + table.markdown + "\n" + conditions + "\n"
        case .html: html
        case .table:
            warnings.map { style.red($0) + "\n" }.joined() + style.bold(Self.title) + "\n" + style.dim(conditions)
                + "\n\n"
                + table.plain(style)
        }
    }

    private var warnings: [String] {
        run.wasCutShort ? ["CUT SHORT: the run was interrupted; the faults that are missing were not measured"] : []
    }

    private var conditions: String {
        "keepalive \(DurationText.format(timing.interval)) + \(DurationText.format(timing.timeout)), "
            + "outage \(DurationText.format(timing.outage)), a message every \(DurationText.format(timing.pace)); "
            + "recover counts from when the path is good again; - means that the link was kept; seed \(run.seed)"
    }

    private var table: TextTable {
        let titles = ["detect ms", "recover ms", "sent", "acked", "lost", "duplicated", "reordered"]
        return TextTable(
            columns: [.init(title: "transport", alignedRight: false), .init(title: "fault", alignedRight: false)]
                + titles.map { .init(title: $0) } + [.init(title: "", alignedRight: false)],
            rows: rows.map { row in
                let name = [row.transport, row.fault.rawValue]
                if let reason = row.skipped { return .init(cells: name, note: reason) }
                return .init(
                    cells: name + [
                        milliseconds(row.detect), milliseconds(row.recover), String(row.sent), String(row.acked),
                        String(row.lost), String(row.duplicated), String(row.reordered), row.failure ?? "ok",
                    ],
                    isFailure: row.failure != nil
                )
            }
        )
    }

    private var html: String {
        var page = HTMLPage("imbench outage", about: Self.title)
        page.warn(Report.warnings(run))
        page.add(Report.facts(run))
        page.add(paragraph: conditions)
        page.add(heading: "From the fault to the open link")
        let transports = rows.map(\.transport).distinct
        page.add(transports.map(chart))
        page.add(heading: "All numbers")
        page.add(table)
        return page.text
    }

    /// What one transport made of each fault by which it lost its link.
    private func chart(_ transport: String) -> BarChart {
        BarChart(
            title: "\(transport): ms to notice, and to come back once the path is good",
            legend: [(.first, "notice"), (.second, "come back")],
            rows: rows.filter { $0.transport == transport }.compactMap { row in
                guard row.detect != nil || row.recover != nil else { return nil }
                let (detect, recover) = (Self.milliseconds(row.detect) ?? 0, Self.milliseconds(row.recover) ?? 0)
                return BarChart.Row(
                    label: row.fault.rawValue,
                    spans: [
                        .init(kind: .first, from: 0, to: detect),
                        .init(kind: .second, from: detect, to: detect + recover),
                    ],
                    value: "\(milliseconds(row.detect)) + \(milliseconds(row.recover))"
                )
            }
        )
    }

    private static func milliseconds(_ duration: Duration?) -> Double? {
        duration.map { Double($0.wholeNanoseconds) / 1e6 }
    }

    private func milliseconds(_ duration: Duration?) -> String {
        Self.milliseconds(duration).map { fixed($0, 0) } ?? "-"
    }

    private var json: JSONValue { JSONReport.value(run, results: rows.map(result)) }

    private func result(_ row: OutageRow) -> JSONValue {
        .object([
            ("transport", .string(row.transport)), ("fault", .string(row.fault.rawValue)),
            ("skipped", JSONValue(row.skipped)), ("failure", JSONValue(row.failure)),
            ("detect_ms", JSONValue(Self.milliseconds(row.detect))),
            ("recover_ms", JSONValue(Self.milliseconds(row.recover))),
            ("sent", .integer(row.sent)), ("acked", .integer(row.acked)), ("in_flight", .integer(row.inFlight)),
            ("lost", .integer(row.lost)), ("duplicated", .integer(row.duplicated)),
            ("reordered", .integer(row.reordered)),
            ("outcomes", .object(row.outcomes.sorted { $0.key < $1.key }.map { ($0.key, .integer($0.value)) })),
        ])
    }

    private var csv: String {
        let head = "transport,fault,detect_ms,recover_ms,sent,acked,lost,duplicated,reordered,failure\r\n"
        return head
            + rows.map { row in
                [
                    row.transport, row.fault.rawValue, milliseconds(row.detect), milliseconds(row.recover),
                    String(row.sent), String(row.acked), String(row.lost), String(row.duplicated),
                    String(row.reordered), "\"\(row.failure ?? row.skipped ?? "")\"",
                ].joined(separator: ",") + "\r\n"
            }.joined()
    }
}
