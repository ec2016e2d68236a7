import TransportAPI

/// Writes the results of `imbench outage`.
struct OutageReport {
    /// Environment, options and seed; it has no rows of its own.
    var run: RunResults
    var timing: OutageTiming
    var rows: [OutageRow]

    func text(_ format: Format, _ style: Style) -> String {
        switch format {
        case .json: json.readableText + "\n"
        case .csv: csv
        case .markdown: table.markdown + "\n" + conditions + "\n"
        case .table:
            style.bold("What happens when the path breaks: time to notice, time to come back, and the accounts") + "\n"
                + style.dim(conditions) + "\n\n" + table.plain(style)
        }
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

    private func milliseconds(_ duration: Duration?) -> String {
        duration.map { fixed(Double($0.wholeNanoseconds) / 1e6, 0) } ?? "-"
    }

    private var json: JSONValue {
        guard case .object(let members) = JSONReport.value(run) else { return .null }
        return .object(
            members.filter { $0.0 != "floors" }.map { name, value in
                name == "results" ? (name, .array(rows.map(result))) : (name, value)
            }
        )
    }

    private func result(_ row: OutageRow) -> JSONValue {
        .object([
            ("transport", .string(row.transport)), ("fault", .string(row.fault.rawValue)),
            ("skipped", JSONValue(row.skipped)), ("failure", JSONValue(row.failure)),
            ("detect_ms", JSONValue(row.detect.map { Double($0.wholeNanoseconds) / 1e6 })),
            ("recover_ms", JSONValue(row.recover.map { Double($0.wholeNanoseconds) / 1e6 })),
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
