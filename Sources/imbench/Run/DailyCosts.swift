import CommandSupport
import Reporting

/// What one client costs in a day at the rate of an open loop.
extension RunResults {
    /// The delay of a message beside the bytes of a day, over a network or without one; `nil` in the closed loop.
    func dailySection(over network: String? = nil) -> Report.Section? {
        let rows = rows.filter { $0.network == network && $0.bytesPerDay != nil && $0.rtt?.p50 != nil }
        guard let rate, !rows.isEmpty else { return nil }
        let often =
            rate < 1
            ? "a message every \(fixed(1 / rate, 1, trimmed: true)) s" : "\(shown(rate)) messages a second"
        let kinds = rows.map { "\($0.size) bytes, \($0.codec)" }.distinct
        let chart = LineChart(
            title: "The delay of a message against the bytes of a day",
            x: Axis(title: "bytes of one client in a day", scale: .logarithmic),
            y: Axis(title: "median round trip", scale: .logarithmic, unit: .microseconds),
            series: rows.compactMap { row in
                guard let bytes = row.bytesPerDay, let time = row.rtt?.p50 else { return nil }
                let interval = row.rttP50Spread?.interval.map { min($0.low, time)...max($0.high, time) }
                return LineChart.Series(
                    label: row.transport + (kinds.count > 1 ? " \(row.codec) \(row.size)" : ""),
                    style: .transport(row.transport),
                    points: [.init(bytes, time, interval: interval)],
                    hasMarks: true
                )
            }
        )
        return Report.Section(
            heading: "A day at this rate",
            question: "How late is a message, and how many bytes does a day cost?",
            charts: [chart] + [RequestTimeline.chart(timelines.filter { $0.network == network })].compactMap(\.self),
            table: network == nil
                ? Self.table(rows).selecting(["p50 µs", "B/day", "msgs/s"])
                : Self.networkTable(rows).selecting(["p50 ms", "B/day", "msgs/s"]),
            notes: [
                "The rate is \(often). B/day is what the connections of one client sent and received during the run, with the "
                    + "headers of TCP, UDP and IP, continued for a day: messages, acknowledgements, and polls that bring "
                    + "nothing. The supervisor's pings are not in it."
            ],
            reading:
                "Further down is sooner, further left is cheaper. The chart below it shows a few seconds of the run: a request "
                + "over HTTP lasts until its answer has arrived, and everything else that is sent needs none.",
            isDetail: true
        )
    }
}
