/// The page of `imbench run`: for each size the round trips and how they stand to their floor, and then every number.
extension Report {
    static func html(_ results: RunResults) -> String {
        var page = HTMLPage("imbench run", about: "What each way of carrying a chat message costs, on one machine")
        page.warn(warnings(results))
        page.add(facts(results))
        let sizes = results.rows.map(\.size).distinct
        if !results.rows.isEmpty { page.add(heading: "Round trips") }
        let groups = sizes.map { size in (size, results.rows.filter { $0.size == size }) }
        page.add(groups.map(times) + groups.map(ratios))
        if !results.rows.isEmpty {
            page.add(heading: "All numbers")
            page.add(rows(results.rows))
            for note in notes(results.rows) { page.add(paragraph: note) }
        }
        if !results.floors.isEmpty {
            page.add(heading: "Floors: the same round trip in bare system calls")
            page.add(floors(results.floors))
        }
        return page.text
    }

    private static func times(_ size: Int, _ rows: [ResultRow]) -> BarChart {
        let measured = rows.filter { $0.rtt?.p50 != nil }
        var chart = BarChart(
            title: "\(size) bytes of text: round trip in µs",
            legend: [
                (.first, "p50"), (.tail, "p99"), (.interval, "spread of p50"), (.mark, "floor"),
            ]
        )
        // A tail that is very long would leave nothing of the medians to see.
        let (p50, p99) = (
            measured.compactMap { $0.rtt?.p50 }.max() ?? 0, measured.compactMap { $0.rtt?.p99 }.max() ?? 0
        )
        chart.range = 0...max(p50, min(p99, p50 * 3))
        chart.rows = measured.map { row in
            let (p50, p99) = (row.rtt?.p50 ?? 0, row.rtt?.p99)
            var spans: [BarChart.Span] = []
            if let p99 { spans.append(.init(kind: .tail, from: 0, to: p99)) }
            spans.append(.init(kind: .first, from: 0, to: p50))
            if let spread = row.rttP50Spread { spans.append(.init(kind: .interval, from: spread.low, to: spread.high)) }
            if let floor = row.floorP50 { spans.append(.init(kind: .mark, from: floor, to: floor)) }
            return BarChart.Row(
                label: "\(row.transport) \(row.codec)",
                spans: spans,
                value: shown(p50) + (p99.map { " / " + shown($0) } ?? "")
            )
        }
        return chart
    }

    private static func ratios(_ size: Int, _ rows: [ResultRow]) -> BarChart {
        BarChart(
            title: "\(size) bytes of text: p50 over its floor",
            legend: [(.second, "×floor"), (.interval, "its spread"), (.mark, "the floor itself")],
            rows: rows.compactMap { row in
                guard let ratio = row.ratioToFloor else { return nil }
                return BarChart.Row(
                    label: "\(row.transport) \(row.codec)",
                    spans: [
                        .init(kind: .second, from: 0, to: ratio.median),
                        .init(kind: .interval, from: ratio.low, to: ratio.high),
                    ],
                    value: "×" + shown(ratio.median)
                )
            },
            lines: [1]
        )
    }
}
