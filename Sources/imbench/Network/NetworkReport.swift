import CommandSupport
import EmulatedNetworks
import Measuring
import Reporting
import Transports
import Workloads

/// The report of `imbench run --network`.
extension RunResults {
    var networkReport: Report {
        let parts = networks.map { use in
            var part = self
            part.rows = rows.filter { $0.network == use.network.name }
            return (use: use, results: part)
        }
        let controls = controls
        let trust = record.trust(doubts: controls.compactMap(\.doubt), gaps: controls.compactMap(\.gap))
        return Report(
            name: "imbench run --network",
            title: "The round trip of a chat message over each network",
            trust: trust,
            warnings: warnings,
            outcomes: outcomes,
            verdict: parts.flatMap { $0.results.conclusions(over: $0.use.network) },
            facts: facts,
            sections: parts.flatMap { part in
                [Self.section(part.use, part.results, trust), dailySection(over: part.use.network.name)].compactMap(
                    \.self
                )
            } + lossSections,
            records: records,
            data: envelope(
                results: rows.map { Self.data($0) },
                more: [
                    ("networks", .array(networks.map { $0.data })),
                    ("sentences", .array(parts.flatMap(\.results.roundTripSentences).map(ReportValue.string))),
                    ("warnings", .array(warnings.map(ReportValue.string))),
                ]
            )
        )
    }

    private static func section(_ use: NetworkUse, _ results: RunResults, _ trust: Trust) -> Report.Section {
        let titles = ["p50 ms", "p90 ms", "p99 ms", "max ms", "open ms", "lost", "accounts", "guarantees"]
        let charts = results.rows.map(\.size).distinct.flatMap { size in
            results.rows.map(\.codec).distinct.map { codec in
                results.distributions(
                    results.rows.filter { $0.size == size && $0.codec == codec },
                    "\(use.network.name), \(size) bytes, \(codec)"
                )
            }
        }
        return Report.Section(
            heading: "Over \(use.network.name)",
            question: "How long does a message take over \(use.network.name), there and back?",
            charts: charts,
            table: networkTable(results.rows).selecting(titles),
            notes: results.roundTripSentences + results.roundTripDifferences.rule(isQuiet: trust.isGiven) + [
                use.sentence
            ],
            reading: distributionReading(hasFloors: false),
            next: [
                .init("To see the start of a conversation", "imbench open --network '\(use.network.name)'"),
                .init("To see what a cut connection costs", "imbench outage --network '\(use.network.name)'"),
            ]
        )
    }

    /// The rows with their times in milliseconds.
    static func networkTable(_ rows: [ResultRow]) -> Table {
        var table = table(rows)
        let times: [(title: String, meaning: String, value: (Latency) -> Double?)] = [
            ("mean ms", "mean round trip, in ms", { $0.mean }),
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

    // MARK: The control

    /// The networks in groups that differ in their loss alone, each with at least two.
    private var lossGroups: [[NetworkUse]] {
        func withoutLoss(_ network: Network) -> Network {
            var network = network
            (network.loss, network.name, network.source) = (0, "", "")
            return network
        }
        return networks.map { withoutLoss($0.network) }.distinct.map { group in
            networks.filter { withoutLoss($0.network) == group }
        }.filter { $0.count > 1 }
    }

    /// The sure difference of plain UDP between networks that differ in their loss alone, or why there was no comparison, for
    /// each group of such networks. Loss cannot change the times of the datagrams that arrive, so the machine did.
    private var controls: [(doubt: String?, gap: String?)] {
        lossGroups.map { group in
            let names = group.map(\.network.name)
            let control = rows.filter { $0.transport == "udp" && $0.rtt != nil && names.contains($0.network ?? "") }
            let axis = RowDifferences.Axis(
                preposition: "with",
                rows: control.map { row in
                    .init(subject: row.network ?? "", group: row.codec, size: row.size, values: row.repeats[.p50] ?? [])
                }
            )
            guard control.count > 1 else {
                return (nil, "The control by plain UDP was not possible, because it was not measured.")
            }
            let differences = RowDifferences([axis], .time, wasCutShort: wasCutShort)
            guard differences.largestFactor() != nil else {
                return (nil, "The control by plain UDP was not possible, because too few of its repeats have a median.")
            }
            let sure = differences.largestSure()
            return (sure.map { "loss cannot change the median of plain UDP, and yet: \($0.sentence)" }, nil)
        }
    }

    // MARK: In short

    /// The sentences about one network, whose rows these are, that a person can act on. They restate figures of the table. The
    /// differences of the medians are tested, and those of other percentiles are not.
    private func conclusions(over network: Network) -> [String] {
        let (hasCodecs, hasSizes) = (rows.map(\.codec).distinct.count > 1, rows.map(\.size).distinct.count > 1)
        let differences = roundTripDifferences
        func range(_ value: (Latency) -> Double?, _ rows: [ResultRow]) -> (rows: [ResultRow], range: NamedRange)? {
            let known = rows.filter { $0.rtt.flatMap(value) != nil }
            let times = known.map { row in
                let name = [row.transport, hasCodecs ? row.codec : nil, hasSizes ? String(row.size) : nil]
                return (name.compactMap { $0 }.joined(separator: " "), (row.rtt.flatMap(value) ?? 0) / 1000)
            }
            return NamedRange(times).map { (known, $0) }
        }
        guard let medians = range({ $0.p50 }, rows) else { return [] }
        let half = medians.range.text("ms") { slow, fast in
            Self.isLonger(medians.rows[slow], than: medians.rows[fast], differences)
        }
        var sentence = "Over \(network.name), the median round trip is \(half)."
        if network.delay > .zero {
            let own = Double(network.delay.wholeNanoseconds) * 2 / 1e6
            sentence += " The network delays each by \(shown(own)) ms."
        }
        let known = rows.filter { $0.rtt?.p99 != nil }
        let (inOrder, others) = (known.filter(\.waitsForEarlier), known.filter { !$0.waitsForEarlier })
        if network.loss > 0, let slow = range({ $0.p99 }, inOrder), let other = range({ $0.p99 }, others) {
            sentence +=
                " The 99th percentile is \(slow.range.unnamed("ms")) where a lost packet delays the messages behind it "
            sentence +=
                "(\(inOrder.map(\.transport).distinct.joined(separator: ", "))), and \(other.range.unnamed("ms")) "
            sentence += "over \(others.map(\.transport).distinct.joined(separator: ", "))."
        }
        let lost = rows.filter { $0.accounts.lost > 0 }.map { row in
            "\(row.accounts.lost) of \(row.accounts.sent) over \(row.transport) with \(row.codec) at \(row.size) bytes"
        }
        if !lost.isEmpty { sentence += " Lost for good, warm-up included: \(lost.joined(separator: ", "))." }
        return [sentence]
    }

    // MARK: Loss against latency

    /// The percentiles against the loss, for each group of at least three networks that differ in it alone.
    private var lossSections: [Report.Section] {
        let groups = lossGroups.filter { $0.count >= 3 }
        return groups.map { lossSection($0, of: groups.count) }
    }

    private func lossSection(_ uses: [NetworkUse], of groups: Int) -> Report.Section {
        var place = ""
        if groups > 1, var network = uses.first?.network {
            network.loss = 0
            place = ", over \(network.description)"
        }
        let transports = rows.map(\.transport).distinct
        let kinds = rows.map(\.size).distinct.flatMap { size in rows.map(\.codec).distinct.map { (size, $0) } }
        func chart(
            _ name: String,
            _ size: Int,
            _ codec: String,
            _ repeated: RepeatedMetric? = nil,
            _ value: (Latency) -> Double?
        ) -> LineChart {
            LineChart(
                title: "\(name) of the round trip, by the loss of packets\(place)"
                    + (kinds.count > 1 ? ": \(size) bytes, \(codec)" : ""),
                x: Axis(title: "lost packets in each direction", unit: .percent),
                y: Axis(title: "round trip", scale: .logarithmic, unit: .microseconds),
                series: transports.map { transport in
                    let points = uses.sorted { $0.network.loss < $1.network.loss }.compactMap {
                        use -> LineChart.Point? in
                        let row = rows.first {
                            $0.network == use.network.name && $0.transport == transport && $0.size == size
                                && $0.codec == codec
                        }
                        guard let row, let time = row.rtt.flatMap(value) else { return nil }
                        let interval = repeated.flatMap { RepeatStatistics(row.repeats.known($0))?.interval }
                        return LineChart.Point(
                            use.network.loss * 100,
                            time,
                            interval: interval.map { min($0.low, time)...max($0.high, time) }
                        )
                    }
                    return .init(label: transport, style: .transport(transport), points: points, hasMarks: true)
                }
            )
        }
        return Report.Section(
            heading: "Loss and order\(place)",
            question: "What does a lost packet do to the messages behind it?",
            charts: kinds.flatMap { size, codec in
                [
                    chart("Median", size, codec, .p50) { $0.p50 }, chart("90th percentile", size, codec) { $0.p90 },
                    chart("99th percentile", size, codec) { $0.p99 },
                ]
            },
            reading:
                "Lower is better. The thin lines at the medians are their 95 % intervals. A transport that delivers in order holds messages back until a lost one was sent again "
                + "(head-of-line blocking). Plain UDP does not send again, so its lost messages are missing in this chart and "
                + "counted in the tables.",
            media: .htmlOnly
        )
    }
}

extension ResultRow {
    /// Whether a lost packet delays the messages behind it: over TCP, in the ordered mode over UDP, and in sessions.
    fileprivate var waitsForEarlier: Bool {
        let descriptor = TransportRegistry.withSessions.transports.first { $0.name == transport }
        return descriptor?.isDatagram == false || transport.hasSuffix("-session") || transport == "udp-reliable"
    }
}

extension NetworkUse {
    /// The use of a network until now by these transports.
    init(_ network: Network, _ seed: UInt64, _ lab: NetworkLab, over transports: [String]) {
        self.init(network, seed, lab)
        let datagrams = TransportRegistry.withSessions.transports.filter(\.isDatagram).map(\.name)
        carriesTCP = !transports.allSatisfy { datagrams.contains($0) }
    }

    var data: ReportValue {
        func direction(_ counts: LinkDirection.Counts) -> ReportValue {
            .object([
                ("packets", .integer(counts.packets)), ("bytes", .integer(counts.bytes)),
                ("lost", .integer(counts.lost)),
                ("overflowed", .integer(counts.overflowed)), ("reordered", .integer(counts.reordered)),
                ("untranslated", .integer(counts.untranslated)),
                ("lost_numbers", .array(counts.lostNumbers.map(ReportValue.integer))),
            ])
        }
        return .object([
            ("name", .string(network.name)), ("description", .string(network.description)),
            ("source", .string(network.source)), ("seed", .integer(Int(clamping: seed))),
            ("congestion_control", .string(congestionControl)),
            ("to_server", direction(counts.toServer)), ("to_client", direction(counts.toClient)),
            ("forgotten_mappings", .integer(counts.forgottenMappings)),
            ("dropped_by_machine", .integer(counts.lostByMachine)),
        ])
    }
}
