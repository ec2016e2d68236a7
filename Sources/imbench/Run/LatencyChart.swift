import CommandSupport
import Reporting

/// The distributions of round trips in the report of `imbench run`.
extension RunResults {
    /// For each size and codec a chart of all transports, or `nil` if no distribution is known.
    var distributionSection: Report.Section? {
        let charts = rows.map(\.size).distinct.flatMap { size in
            rows.map(\.codec).distinct.map { codec in
                distributions(
                    rows.filter { $0.size == size && $0.codec == codec },
                    "\(size) bytes, \(codec)"
                )
            }
        }
        guard charts.contains(where: { !$0.isEmpty }) else { return nil }
        let titles = ["min µs", "p50 µs", "p90 µs", "p99 µs", "p99.9 µs", "max µs", "n"]
        let percentiles = Self.table(rows.filter { !$0.distribution.isEmpty }).selecting(titles)
        return Report.Section(
            heading: "Distribution of round trips",
            question: "How often is a message much slower than usual?",
            charts: charts,
            table: percentiles,
            reading: Self.distributionReading(hasFloors: true),
            next: [.init("To measure more of the slowest round trips", "imbench run --duration 30s")],
            media: .htmlOnly
        )
    }

    static let timesReading =
        "Shorter is better. p50 is the median, and p99 the 99th percentile (if there are enough messages for it), with an axis "
        + "of its own. The vertical line is the floor: the same round trip in bare system calls. The thin line is "
        + "the 95 % interval of the median. ×floor compares each repeat with the floor of the same repeat, so it is not exactly the "
        + "quotient of the two medians; a transport with ×1 would be as fast as the bare system calls. The sentences below the table "
        + "tell whether medians differ, because they compare repeat by repeat. A range in them holds for each row that they name."

    static func distributionReading(hasFloors: Bool) -> String {
        "Lower is better. Each line shows which round trip a share of all messages did not exceed: half of them at 50 %, "
            + "all but one in a thousand at 99.9 %. On both log scales, equal distances are equal ratios. A line that "
            + "rises late is steady. A line ends where fewer than ten messages were slower."
            + (hasFloors
                ? " The thin lines to the names are no data. The level dotted lines are the medians of the floors."
                : "")
    }

    func distributions(_ rows: [ResultRow], _ subject: String) -> LineChart {
        let floors = rows.compactMap { row in row.floor.flatMap { name in row.floorP50.map { (name, $0) } } }
        let names = floors.map(\.0).distinct
        return LineChart(
            title: "\(subject): round trip by percentile",
            x: Axis(title: "messages at most as slow", scale: .nines, unit: .percent),
            y: Axis(title: "round trip", scale: .logarithmic, unit: .microseconds),
            series: rows.filter { !$0.distribution.isEmpty }.map { row in
                LineChart.Series(
                    label: row.transport,
                    style: .transport(row.transport),
                    points: row.distribution.map { .init($0.percent, $0.microseconds) }
                )
            },
            references: names.compactMap { name in
                floors.first { $0.0 == name }.map {
                    LineChart.Reference(direction: .horizontal, value: $0.1, label: "floor \(name)")
                }
            }
        )
    }
}
