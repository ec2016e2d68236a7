/// The page of `imbench compare`: for each number the interval of its change in every row, around the line of no change.
extension ComparisonReport {
    static func html(_ comparison: Comparison) -> String {
        var page = HTMLPage("imbench compare", about: summary(comparison))
        page.warn(comparison.warnings)
        page.add(facts(comparison).filter { $0.0 != "result" })
        page.add(heading: "What changed, in percent")
        page.add(RepeatedMetric.allCases.map { chart($0, comparison) })
        page.add(heading: "Differences that are real")
        if realRows(comparison).isEmpty {
            page.add(paragraph: "none")
        } else {
            page.add(table(of: realRows(comparison)))
        }
        page.add(heading: "All rows")
        page.add(overview(comparison))
        for line in legend(comparison) { page.add(paragraph: line) }
        page.add(heading: "Floors: what the machine did by itself")
        page.add(table(of: comparison.floors))
        return page.text
    }

    /// The intervals of one number; rows of which nothing can be told have none.
    private static func chart(_ metric: RepeatedMetric, _ comparison: Comparison) -> BarChart {
        let changes = comparison.rows.flatMap(\.differences).filter { $0.metric == metric && $0.interval != nil }
            .compactMap(\.ratio).map { abs($0 - 1) * 100 }.sorted()
        // A few that are far out, or very unsure, would leave nothing of the others to see.
        let reach = changes.isEmpty ? 5 : min(max(5, changes[(changes.count - 1) * 9 / 10] * 2), 1e6)
        return BarChart(
            title: metric.title + (metric.isBetterWhenLarger ? ": more is better" : ": less is better"),
            legend: [(.better, "better"), (.worse, "worse"), (.noise, "within noise")],
            rows: comparison.rows.compactMap { row in
                guard let difference = row.differences.first(where: { $0.metric == metric }),
                    let interval = difference.interval, let ratio = difference.ratio
                else { return nil }
                let change = (ratio - 1) * 100
                return BarChart.Row(
                    label: "\(row.transport) \(row.codec) \(row.size)",
                    spans: [
                        .init(
                            kind: kind(difference.verdict),
                            from: (interval.low - 1) * 100,
                            to: (interval.high - 1) * 100
                        ),
                        .init(kind: .mark, from: change, to: change),
                    ],
                    value: shownChange(ratio)
                )
            },
            range: -reach...reach,
            lines: [0]
        )
    }

    private static func kind(_ verdict: Difference.Verdict) -> BarChart.Kind {
        switch verdict {
        case .better: .better
        case .worse: .worse
        case .noise, .unknown: .noise
        }
    }
}
