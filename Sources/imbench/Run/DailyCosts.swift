import CommandSupport
import Reporting

/// What one client costs in a day at the rate of an open loop.
extension RunResults {
    /// The delay of a message beside the bytes of a day, over a network or without one; `nil` in the closed loop.
    func dailySection(over network: String? = nil) -> Report.Section? {
        let rows = rows.filter { $0.network == network && $0.bytesPerDay != nil && $0.rtt?.mean != nil }
        guard let rate, !rows.isEmpty else { return nil }
        let often =
            rate < 1
            ? "a message every \(fixed(1 / rate, 1, trimmed: true)) s" : "\(shown(rate)) messages a second"
        let groups = rows.map(\.size).distinct.flatMap { size in
            rows.map(\.codec).distinct.map { codec in rows.filter { $0.size == size && $0.codec == codec } }
        }.filter { !$0.isEmpty }
        let charts = groups.map { group in
            Self.dailyChart(group, groups.count > 1 ? "\(group[0].size) bytes, \(group[0].codec): the" : "The")
        }
        let timeline = RequestTimeline.chart(
            timelines.filter { $0.network == network },
            inOrderOf: rows.map(\.transport).distinct
        )
        return Report.Section(
            heading: "A day at this rate",
            question: "How late is a message, and how many bytes does a day cost?",
            charts: charts + [timeline].compactMap(\.self),
            table: network == nil
                ? Self.table(rows).selecting(["mean µs", "max µs", "B/day", "msgs/s"])
                : Self.networkTable(rows).selecting(["mean ms", "max ms", "B/day", "msgs/s"]),
            notes: [
                "Each client sends \(often); msgs/s counts all of them. B/day is what the connections of one client sent and received during the run, with the "
                    + "headers of TCP, UDP and IP, continued for a day: messages, acknowledgements, and polls that bring "
                    + "nothing. The supervisor's pings are not in it."
            ],
            reading: "Further down is sooner, further left is cheaper. "
                + "A whisker reaches from the fastest message to the slowest."
                + (timeline == nil
                    ? ""
                    : " The last chart shows a few seconds of the run: a request over HTTP lasts until its answer has "
                        + "arrived, and everything else that is sent needs none."),
            isDetail: true
        )
    }

    /// A point for each row of one size and codec. The title begins with `subject`.
    private static func dailyChart(_ rows: [ResultRow], _ subject: String) -> LineChart {
        LineChart(
            title: "\(subject) delay of a message against the bytes of a day",
            x: Axis(title: "bytes of one client in a day", scale: .logarithmic),
            y: Axis(title: "mean round trip", scale: .logarithmic, unit: .microseconds),
            series: rows.compactMap { row in
                guard let bytes = row.bytesPerDay, let rtt = row.rtt, let mean = rtt.mean else { return nil }
                // A few messages have no median, and their mean has no interval.
                let ends = rtt.minimum.flatMap { low in rtt.maximum.map { min(low, mean)...max($0, mean) } }
                return LineChart.Series(
                    label: row.transport,
                    style: .transport(row.transport),
                    points: [.init(bytes, mean, interval: ends)],
                    hasMarks: true
                )
            },
            labels: .atPoints
        )
    }
}
