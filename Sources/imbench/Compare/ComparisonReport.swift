/// Writes what `imbench compare` has found.
enum ComparisonReport {
    static func text(_ comparison: Comparison, format: Format, style: Style) -> String {
        switch format {
        case .table: plain(comparison, style)
        case .json: json(comparison).readableText + "\n"
        case .csv: csv(comparison)
        case .markdown: markdown(comparison)
        case .html: html(comparison)
        }
    }

    private static func plain(_ comparison: Comparison, _ style: Style) -> String {
        var text = comparison.warnings.map { style.red($0) + "\n" }.joined()
        for (name, value) in facts(comparison) { text += style.dim(name.padded(to: 10)) + " " + value + "\n" }
        text += "\n" + style.bold("Differences that are real") + "\n"
        text += realRows(comparison).isEmpty ? "none\n" : table(of: realRows(comparison)).plain(style)
        text += "\n" + style.bold("All rows") + "\n" + overview(comparison).plain(style)
        return text + legend(comparison).map { style.dim($0) + "\n" }.joined()
    }

    private static func markdown(_ comparison: Comparison) -> String {
        var text = "# imbench compare\n\n"
        for warning in comparison.warnings { text += "> **\(TextTable.escapedForMarkdown(warning))**\n\n" }
        for (name, value) in facts(comparison) { text += "- \(name): \(TextTable.escapedForMarkdown(value))\n" }
        text += "\n## Differences that are real\n\n"
        text += realRows(comparison).isEmpty ? "none\n" : table(of: realRows(comparison)).markdown
        text += "\n## All rows\n\n" + overview(comparison).markdown
        return text + legend(comparison).map { "\n" + $0 + "\n" }.joined()
    }

    // MARK: What both say

    static func facts(_ comparison: Comparison) -> [(String, String)] {
        func run(_ run: RecordedRun) -> String {
            let environment = run.environment
            let commit = environment["commit"].map { "commit \($0.prefix(12))" }
            return ([run.label, environment["date"], environment["build"], commit] as [String?])
                .compactMap { $0 }.joined(separator: ", ")
        }
        let environment = comparison.after.environment
        return [
            ("before", run(comparison.before)), ("after", run(comparison.after)),
            (
                "machine",
                [environment["processor"], environment["cores"].map { "\($0) cores" }, environment["system"]]
                    .compactMap { $0 }.joined(separator: ", ")
            ),
            (
                "method",
                "real: of the ratio, the \(percent(RatioInterval.target)) interval from the repeats (Mann-Whitney) "
                    + "lies beyond ±\(percent(comparison.noise))"
            ),
            ("result", summary(comparison)),
        ]
    }

    /// How many differences there are of which kind.
    static func summary(_ comparison: Comparison) -> String {
        let verdicts = comparison.differences.map(\.verdict.name)
        func count(_ name: String) -> Int { verdicts.count { $0 == name } }
        let (better, worse) = (count("better"), count("worse"))
        return "of \(verdicts.count) numbers \(better + worse) differ for sure (\(better) better, \(worse) worse), "
            + "\(count("noise")) within noise, \(count("unknown")) cannot be told; "
            + "chance alone makes up to \(fixed(comparison.expectedByChance.rounded(.up), 0)) look real"
    }

    private static func percent(_ share: Double) -> String { fixed(share * 100, 2, trimmed: true) + " %" }

    /// What the signs of the overview mean.
    static func legend(_ comparison: Comparison) -> [String] {
        let reasons = Set(comparison.differences.compactMap(\.verdict.reason)).sorted()
        return ["~ within noise"] + reasons.map { "? cannot tell: \($0)" }
    }

    // MARK: Tables

    /// The rows of which something is real, each with that alone; floors are for the warnings.
    static func realRows(_ comparison: Comparison) -> [ComparedRow] {
        comparison.rows.compactMap { row in
            var row = row
            row.differences.removeAll { !$0.isReal }
            return row.differences.isEmpty ? nil : row
        }
    }

    /// A line for each difference, with all that is known of it.
    static func table(of rows: [ComparedRow]) -> TextTable {
        let columns: [TextTable.Column] = [
            .init(title: "transport", alignedRight: false), .init(title: "codec", alignedRight: false),
            .init(title: "size"), .init(title: "number", alignedRight: false), .init(title: "before"),
            .init(title: "after"), .init(title: "change"), .init(title: "from"), .init(title: "to"),
            .init(title: "", alignedRight: false),
        ]
        return TextTable(
            columns: columns,
            rows: rows.flatMap { row in
                row.differences.map { difference in
                    TextTable.Row(
                        cells: [
                            row.transport, row.codec, String(row.size), difference.metric.title,
                            shown(difference.before), shown(difference.after), shownChange(difference.ratio),
                            shownChange(difference.interval?.low), shownChange(difference.interval?.high),
                            difference.verdict.name,
                        ],
                        isFailure: difference.verdict == .worse
                    )
                }
            }
        )
    }

    /// A line for each row: the change where it is real, and signs elsewhere.
    static func overview(_ comparison: Comparison) -> TextTable {
        let names: [TextTable.Column] = [
            .init(title: "transport", alignedRight: false), .init(title: "codec", alignedRight: false),
            .init(title: "size"),
        ]
        return TextTable(
            columns: names + RepeatedMetric.allCases.map { .init(title: $0.title) },
            rows: comparison.rows.map { row in
                let name = [row.transport, row.codec, String(row.size)]
                if let note = row.note { return TextTable.Row(cells: name, note: note) }
                return TextTable.Row(cells: name + row.differences.map(cell))
            }
        )
    }

    private static func cell(_ difference: Difference) -> String {
        switch difference.verdict {
        case .better, .worse: shownChange(difference.ratio)
        case .noise: "~"
        case .unknown: "?"
        }
    }
}
