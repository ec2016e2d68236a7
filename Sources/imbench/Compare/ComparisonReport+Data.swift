/// The formats for programs. What cannot be told is null in JSON and empty in CSV.
extension ComparisonReport {
    static func json(_ comparison: Comparison) -> JSONValue {
        .object([
            ("schema", .string("imbench-compare/1")),
            ("before", run(comparison.before)), ("after", run(comparison.after)),
            ("coverage", .number(RatioInterval.target)), ("noise", .number(comparison.noise)),
            ("warnings", .array(comparison.warnings.map(JSONValue.string))),
            ("results", .array(comparison.rows.map { row($0, nameOf: "transport") })),
            ("floors", .array(comparison.floors.map { row($0, nameOf: "floor") })),
        ])
    }

    private static func run(_ run: RecordedRun) -> JSONValue {
        func object(_ texts: [String: String]) -> JSONValue {
            .object(texts.sorted { $0.key < $1.key }.map { ($0.key, .string($0.value)) })
        }
        return .object([
            ("file", .string(run.label)), ("environment", object(run.environment)), ("options", object(run.options)),
        ])
    }

    private static func row(_ row: ComparedRow, nameOf kind: String) -> JSONValue {
        var members: [(String, JSONValue)] = [
            (kind, .string(row.transport)), ("codec", .string(row.codec)), ("size", .integer(row.size)),
            ("loop", .string(row.name.loop.rawValue)), ("load", .string(row.name.load)),
        ]
        if let note = row.note { members.append(("note", .string(note))) }
        return .object(members + row.differences.map { ($0.metric.key, difference($0)) })
    }

    private static func difference(_ difference: Difference) -> JSONValue {
        .object([
            ("before", JSONReport.rounded(difference.before)), ("after", JSONReport.rounded(difference.after)),
            ("ratio", JSONReport.rounded(difference.ratio)),
            ("ratio_low", JSONReport.rounded(difference.interval?.low)),
            ("ratio_high", JSONReport.rounded(difference.interval?.high)),
            ("coverage", JSONValue(difference.interval?.coverage)),
            ("verdict", .string(difference.verdict.name)), ("reason", JSONValue(difference.verdict.reason)),
        ])
    }

    /// One line for each number of each row and floor (RFC 4180).
    static func csv(_ comparison: Comparison) -> String {
        let head = [
            "kind", "transport", "codec", "size", "loop", "load", "metric", "before", "after", "ratio", "ratio_low",
            "ratio_high", "verdict", "reason",
        ]
        return
            ([head] + lines(comparison.rows, "transport") + lines(comparison.floors, "floor"))
            .map(CSVReport.line).joined()
    }

    private static func lines(_ rows: [ComparedRow], _ kind: String) -> [[String]] {
        rows.flatMap { row in
            let name = [
                kind, row.transport, row.codec, String(row.size), row.name.loop.rawValue, row.name.load,
            ]
            if let note = row.note { return [name + Array(repeating: "", count: 6) + ["unmatched", note]] }
            return row.differences.map { difference in
                let numbers = [
                    difference.before, difference.after, difference.ratio, difference.interval?.low,
                    difference.interval?.high,
                ].map { $0.map { fixed($0, 4, trimmed: true) } ?? "" }
                return name + [difference.metric.rawValue] + numbers
                    + [difference.verdict.name, difference.verdict.reason ?? ""]
            }
        }
    }
}
