import CommandSupport
import EmulatedNetworks
import Measuring
import Reporting

/// The report of `imbench run --mix picture=SIZE`.
extension RunResults {
    var pictureReport: Report {
        let parts = networks.map { use -> (use: NetworkUse?, results: RunResults) in
            var part = self
            part.rows = rows.filter { $0.network == use.network.name }
            return (use, part)
        }
        let all = parts.isEmpty ? [(use: nil, results: self)] : parts
        let more = networks.isEmpty ? [] : [("networks", ReportValue.array(networks.map(\.data)))]
        return Report(
            name: "imbench run --mix picture",
            title: "The round trip of a chat message while a picture of \(pictureText) is sent",
            trust: trust,
            warnings: warnings,
            outcomes: outcomes,
            verdict: environment.isDebugBuild && networks.isEmpty
                ? [] : all.compactMap { $0.results.pictureConclusion($0.use?.network.name) },
            facts: facts,
            sections: all.map { $0.results.pictureSection($0.use) },
            records: records,
            data: envelope(
                results: rows.map { Self.data($0) },
                more: more + [
                    ("floors", .array(floors.map { Self.data($0) })),
                    ("sentences", .array(all.flatMap(\.results.pictureSentences).map(ReportValue.string))),
                    ("warnings", .array(warnings.map(ReportValue.string))),
                ]
            )
        )
    }

    private var pictureText: String { Picture.text(pictureBytes ?? 0) }
    private var measured: [ResultRow] { rows.filter { $0.outcome == .measured && $0.rtt != nil } }

    private func pictureSection(_ use: NetworkUse?) -> Report.Section {
        let place = use.map { " over \($0.network.name)" } ?? ""
        var shape = ["\(rows.map(\.codec).distinct.joined(separator: ", ")) messages"]
        if let size = rows.first?.size, rows.allSatisfy({ $0.size == size }) { shape.append("\(size) bytes of text") }
        let hasTails = measured.contains { $0.rtt?.p90 != nil }
        let size = pictureBytes == 100 << 10 ? "1MB" : "100KiB"
        var next = [Report.NextCommand("To see another size", "imbench run --mix picture=\(size)")]
        if let use {
            next[0].line += " --network '\(use.network.name)'"
        } else {
            next.append(.init("To see it over a mobile network", "imbench run --mix picture=1MB --network 4g"))
        }
        let charts = rows.map(\.size).distinct.flatMap { size in
            rows.map(\.codec).distinct.map { codec in
                Self.chart(measured.filter { $0.size == size && $0.codec == codec }, "\(size) bytes, \(codec)")
            }
        }
        return Report.Section(
            heading: "Messages beside a picture of \(pictureText)\(place) (\(shape.joined(separator: ", ")))",
            question:
                "How long does a message take\(place) while a picture is sent, and what does a second connection change?",
            charts: charts,
            table: pictureTable(inMilliseconds: use != nil),
            notes: pictureSentences + pictureRule + pictureExplanation
                + sessionExplanation + [use?.sentence].compactMap { $0 },
            reading: hasTails
                ? "Shorter is better. The bar in front is the median of the messages, and the bar behind it is their 90th "
                    + "percentile."
                : "Shorter is better. Each bar is the median of the messages.",
            next: next
        )
    }

    /// The rows. Codec and size have columns only if they differ.
    private func pictureTable(inMilliseconds isSlow: Bool) -> Table {
        var labels: [(column: Table.Column, cell: (ResultRow) -> Table.Cell)] = [
            (.text("transport", nil, "the protocol, as in the scheme of its URL"), { Table.Cell($0.transport) }),
            (
                .text(
                    "picture",
                    nil,
                    "the connection of the picture: none is sent, that of the messages, or a second one"
                ),
                { Table.Cell(($0.picture?.place ?? .none).words) }
            ),
        ]
        if rows.map(\.codec).distinct.count > 1 {
            labels.append((.text("codec", nil, "the format of the messages"), { Table.Cell($0.codec) }))
        }
        if rows.map(\.size).distinct.count > 1 {
            labels.append((.number("size", nil, "bytes of text in a message"), { Table.Cell($0.size) }))
        }
        let unit = isSlow ? "ms" : "µs"
        let times: [(name: String, meaning: String, value: (Latency) -> Double?)] = [
            ("p50", "median round trip of the messages", { $0.p50 }),
            ("p90", "90th percentile of the round trip of the messages", { $0.p90 }),
            ("max", "longest round trip of the messages", { $0.maximum }),
        ]
        let metrics = ["picture ms", "Mbit/s", "pictures"].compactMap(Metric.titled)
        var explained: Set<String> = []
        return Table(
            labels: labels.count,
            columns: labels.map(\.column)
                + times.map { .number("\($0.name) \(unit)", nil, "\($0.meaning), in \(unit)") }
                + metrics.map(\.column)
                + [
                    .text(
                        "accounts",
                        nil,
                        "✓ if sent = answered + lost + in flight, pieces too; and what should be 0 and is not"
                    )
                ],
            rows: rows.map { row in
                let latencies = times.map { time in
                    Table.Cell(row.rtt.flatMap(time.value).map { isSlow ? $0 / 1000 : $0 })
                }
                let numbers = metrics.map { $0.cell(row) }
                let isExplained = row.reason.map { !explained.insert(row.transport + $0).inserted } ?? false
                return Table.Row(
                    cells: labels.map { $0.cell(row) } + latencies + numbers + [Table.Cell(Self.accounts(of: row))],
                    note: row.reason,
                    repeatsNote: isExplained,
                    isFailure: row.hasFailed
                )
            }
        )
    }

    private static func chart(_ rows: [ResultRow], _ subject: String) -> BarChart {
        let hasTails = rows.contains { $0.rtt?.p90 != nil }
        let tail: [(kind: BarChart.Kind, meaning: String)] = hasTails ? [(.ownTail, "p90")] : []
        let unit = Axis.TimeUnit(rows.compactMap { $0.rtt?.p90 ?? $0.rtt?.p50 }.max() ?? 0)
        return BarChart(
            title: "\(subject): round trip of the messages",
            legend: [(.own, "p50")] + tail,
            rows: rows.compactMap { row in
                guard let p50 = row.rtt?.p50 else { return nil }
                let p90 = row.rtt?.p90
                let place = row.picture?.place ?? .none
                return BarChart.Row(
                    label: place == .none ? "\(row.transport), no picture" : "\(row.transport), \(place.words)",
                    spans: [.init(kind: .ownTail, from: 0, to: p90 ?? p50), .init(kind: .own, from: 0, to: p50)],
                    value: unit.number(p50) + (p90.map { " / " + unit.number($0) } ?? "") + " \(unit.name)",
                    style: .transport(row.transport)
                )
            },
            unit: .microseconds
        )
    }

    // MARK: Sentences

    /// How the picture is sent.
    private var pictureExplanation: [String] {
        guard measured.contains(where: { $0.sentPicture != nil }) else { return [] }
        return [
            "The picture goes in pieces of at most 16 KiB, which the server sends back as it does with messages. Its time ends "
                + "with the last piece. It is sent again and again, at least once in each repeat."
        ]
    }

    /// The differences that are sure: of the messages with and without a picture, of both connections, and of the picture.
    var pictureSentences: [String] {
        let (messages, others) = pictureDifferences
        // The first ones have more comparisons, and need as many repeats or more.
        let sentences = messages.sentences + others.sentences.filter { $0 != others.shortage }
        return sentences.map { $0.prefix(1).uppercased() + $0.dropFirst() }
    }

    /// What those sentences mean by sure; nothing if no rows could be compared.
    private var pictureRule: [String] {
        let (messages, others) = pictureDifferences
        return (messages.rule(isQuiet: trust.isGiven) + others.rule(isQuiet: trust.isGiven)).distinct
    }

    private var pictureDifferences: (messages: RowDifferences, pictures: RowDifferences) {
        let beside: [PicturePlace: String] = [
            .none: "a message alone", .same: "a message beside a picture on the same connection",
            .second: "a message beside a picture on a second connection",
        ]
        let connections: [PicturePlace: String] = [
            .same: "a message beside one on the same connection",
            .second: "a message beside a picture on a second connection",
        ]
        let pictures: [PicturePlace: String] = [
            .same: "one on the same connection", .second: "a picture on a second connection",
        ]
        let rtt: (ResultRow) -> [Double?] = { $0.repeats[.p50] ?? [] }
        return (
            RowDifferences([axis(beside, rtt), axis(connections, rtt)], .time, wasCutShort: wasCutShort),
            RowDifferences([axis(pictures) { $0.picture?.repeats ?? [] }], .time)
        )
    }

    /// Each place of the picture beside the first one, over the same transport.
    private func axis(
        _ names: [PicturePlace: String],
        _ values: (ResultRow) -> [Double?]
    ) -> RowDifferences.Axis {
        let hasCodecs = measured.map(\.codec).distinct.count > 1
        return RowDifferences.Axis(
            preposition: "over",
            rows: measured.compactMap { row in
                guard let name = names[row.picture?.place ?? .none] else { return nil }
                return RowDifferences.Row(
                    subject: name,
                    group: row.transport + (hasCodecs ? " with \(row.codec)" : ""),
                    size: row.size,
                    values: values(row)
                )
            }
        )
    }

    /// The medians of the rows in one sentence, which restates figures of the table.
    private func pictureConclusion(_ network: String?) -> String? {
        func range(_ place: PicturePlace) -> String? {
            let times = measured.filter { $0.picture?.place == place }.compactMap { $0.rtt?.p50 }
            guard let low = times.min(), let high = times.max() else { return nil }
            let isSlow = network != nil
            let texts = [low, high].map { shown(isSlow ? $0 / 1000 : $0) }
            return (texts[0] == texts[1] ? texts[0] : texts.joined(separator: " to ")) + (isSlow ? " ms" : " µs")
        }
        guard let alone = range(.none), let same = range(.same), let second = range(.second) else { return nil }
        return
            "\(network.map { "Over \($0)" } ?? "Over loopback"), half of the messages have their answer within \(alone) "
            + "without a picture, within \(same) beside a picture of \(pictureText) on the same connection, and within "
            + "\(second) with the picture on a second connection."
    }
}
