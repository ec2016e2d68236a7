/// One line for each row and one for each floor, under one header, for spreadsheets and scripts (RFC 4180). Numbers that
/// were not measured are empty. The names are those of `--assert`.
enum CSVReport {
    static func text(_ results: RunResults) -> String {
        let names = ["kind", "transport", "codec", "size", "loop", "outcome", "reason"] + Metric.all.map(\.name)
        var lines = [line(names)]
        for row in results.rows { lines.append(line(self.row(row))) }
        for floor in results.floors { lines.append(line(self.floor(floor))) }
        return lines.joined()
    }

    private static func row(_ row: ResultRow) -> [String] {
        let outcome =
            switch row.outcome {
            case .measured: "measured"
            case .skipped: "skipped"
            case .failed: "failed"
            }
        return ["transport", row.transport, row.codec, String(row.size), row.loop.rawValue, outcome, row.reason ?? ""]
            + numbers(row)
    }

    private static func floor(_ floor: FloorResult) -> [String] {
        var row = ResultRow(transport: floor.kind.rawValue, codec: "", size: floor.size)
        row.rtt = floor.rtt
        let latencies = Metric.all.map { $0.name.hasPrefix("rtt.") ? number($0.value(row)) : "" }
        let outcome = floor.reason == nil ? "measured" : "skipped"
        return ["floor", floor.kind.rawValue, "", String(floor.size), "closed", outcome, floor.reason ?? ""] + latencies
    }

    private static func numbers(_ row: ResultRow) -> [String] {
        Metric.all.map { number($0.value(row)) }
    }

    private static func number(_ value: Double?) -> String {
        value.map { fixed($0, 3, trimmed: true) } ?? ""
    }

    /// A line of these cells, quoted where they must be.
    static func line(_ cells: [String]) -> String {
        cells.map(quoted).joined(separator: ",") + "\r\n"
    }

    private static func quoted(_ cell: String) -> String {
        guard cell.unicodeScalars.contains(where: { "\",\r\n".unicodeScalars.contains($0) }) else { return cell }
        return "\"" + cell.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
    }
}
