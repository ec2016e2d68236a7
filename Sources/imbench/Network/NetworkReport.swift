/// The report of `imbench run --network`.
extension RunResults {
    var networkReport: Report {
        let sections = networks.map { use in
            let rows = rows.filter { $0.network == use.network.name }
            let titles = ["p50 ms", "p90 ms", "p99 ms", "max ms", "open ms", "lost", "reordered", "accounts"]
            return Report.Section(
                heading: "Over \(use.network.name)",
                table: Self.networkTable(rows).selecting(titles),
                notes: [use.sentence]
            )
        }
        return Report(
            name: "imbench run --network",
            title: "The round trip of a chat message over each network",
            warnings: warnings,
            facts: facts,
            sections: sections,
            records: records,
            data: envelope(
                results: rows.map { Self.data($0) },
                more: [("networks", .array(networks.map { Self.data($0) }))]
            )
        )
    }

    /// The rows with their times in milliseconds.
    static func networkTable(_ rows: [ResultRow]) -> Table {
        var table = table(rows)
        let times: [(title: String, meaning: String, value: (Latency) -> Double?)] = [
            ("p50 ms", "median round trip, in ms", { $0.p50 }),
            ("p90 ms", "90th percentile of the round trip, in ms", { $0.p90 }),
            ("p99 ms", "99th percentile of the round trip, in ms", { $0.p99 }),
            ("max ms", "longest round trip, in ms", { $0.maximum }),
        ]
        table.columns += times.map { .number($0.title, nil, $0.meaning) }
        for index in table.rows.indices {
            table.rows[index].cells += times.map { time in
                Table.Cell(rows[index].rtt.flatMap(time.value).map { $0 / 1000 })
            }
        }
        return table
    }

    private static func data(_ use: NetworkUse) -> JSONValue {
        func direction(_ counts: LinkDirection.Counts) -> JSONValue {
            .object([
                ("packets", .integer(counts.packets)), ("bytes", .integer(counts.bytes)), ("lost", .integer(counts.lost)),
                ("overflowed", .integer(counts.overflowed)), ("reordered", .integer(counts.reordered)),
                ("untranslated", .integer(counts.untranslated)),
                ("lost_numbers", .array(counts.lostNumbers.map(JSONValue.integer))),
            ])
        }
        return .object([
            ("name", .string(use.network.name)), ("description", .string(use.network.description)),
            ("source", .string(use.network.source)), ("seed", .integer(Int(clamping: use.seed))),
            ("congestion_control", .string(use.congestionControl)),
            ("to_server", direction(use.counts.toServer)), ("to_client", direction(use.counts.toClient)),
            ("forgotten_mappings", .integer(use.counts.forgottenMappings)),
        ])
    }
}
