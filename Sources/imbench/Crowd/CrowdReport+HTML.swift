/// The page of `imbench crowd`: what each link costs, or what honest clients feel, and then every number.
extension CrowdReport {
    var html: String {
        var page = HTMLPage("imbench crowd", about: title)
        page.warn(remarks)
        page.add(Report.facts(run))
        page.add(heading: isHostile ? "What honest clients feel" : "What a link costs")
        if isHostile {
            let transports = rows.map(\.transport).distinct
            page.add(transports.map(attacks))
        } else {
            page.add([
                bars("Heap of the server for each link, in bytes", "server_bytes"),
                bars("Heap of the client for each link, in bytes", "client_bytes"),
                bars("Links opened in a second", "links_per_s"), bars("Ping, p50 in µs", "ping_p50_us"),
            ])
        }
        page.add(heading: "All numbers")
        page.add(table)
        return page.text
    }

    private func bars(_ title: String, _ metric: String) -> BarChart {
        BarChart(
            title: title,
            rows: rows.compactMap { row in
                row.value(metric).map { BarChart.Row(row.transport, $0, shown: fixed($0, 0)) }
            }
        )
    }

    /// The 99th percentile without each attack on one transport and during it.
    private func attacks(_ transport: String) -> BarChart {
        BarChart(
            title: "\(transport): p99 of the others in µs",
            legend: [(.first, "before and after"), (.worse, "during the attack")],
            rows: rows.filter { $0.transport == transport }.compactMap { row in
                guard let attack = row.attack, let before = row.value("quiet_p99_us"),
                    let during = row.value("attacked_p99_us")
                else { return nil }
                let (low, high) = (min(before, during), max(before, during))
                return BarChart.Row(
                    label: attack.rawValue,
                    spans: [
                        .init(kind: .first, from: 0, to: before),
                        .init(kind: during > before ? .worse : .better, from: low, to: high),
                    ],
                    value: "\(shown(before)) → \(shown(during))"
                )
            }
        )
    }
}
