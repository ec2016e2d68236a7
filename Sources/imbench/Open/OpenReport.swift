import CommandSupport
import EmulatedNetworks
import Reporting

/// The results of `imbench open`.
struct OpenResults: Sendable {
    /// The conditions.
    var run: RunResults
    var rows: [OpenRow] = []
}

extension OpenResults {
    var report: Report {
        let groups = rows.map(\.network).distinct
        let sections = groups.map { network in
            let rows = rows.filter { $0.network == network }
            let showsPackets = network != nil && !repeatsPackets(network)
            return Report.Section(
                heading: network.map { "Over \($0)" } ?? "Over loopback",
                question: "How long until the first message has its answer\(network.map { " over \($0)" } ?? "")?",
                charts: [Self.chart(rows, network)] + (showsPackets ? rows.map { Self.packets($0) } : []),
                table: Self.table(rows),
                notes: differences(rows, network) + compared(rows, network).rule(isQuiet: run.trust.isGiven)
                    + run.networks.filter { $0.network.name == network }.map(\.sentence),
                reading:
                    "Shorter is better. The first part of a bar is the time until the connection is open. The second part is the "
                    + "message and its answer."
                    + (network == nil
                        ? ""
                        : " The mark is the model: the round trips of the column RTTs and that of the message, each of which "
                            + "takes twice the network's delay.")
                    + (showsPackets
                        ? " The charts of packets show one first message to scale, without TCP's plain acknowledgements. Each bar "
                            + "is a packet on its way, and each dotted line is one more round trip. Below are the median of "
                            + "all connections and the model." : ""),
                next: [.init("To see one message on each wire", "imbench trace Hello --tls")]
            )
        }
        return Report(
            name: "imbench open",
            title: "From nothing to the answer of the first message",
            trust: run.trust,
            warnings: run.warnings,
            outcomes: rows.map { row in
                RowOutcome([row.network, row.kind.name].compactMap { $0 }.joined(separator: " "), failure: row.failure)
            },
            verdict: groups.flatMap { network in conclusions(network) },
            facts: run.facts,
            sections: sections,
            records: Self.table(rows),
            data: data(groups)
        )
    }

    /// Whether packets can be missing or repeated, so that the packets of one connection would not show round trips. TCP sends its first packet
    /// again after 1 s (RFC 6298, section 2).
    private func repeatsPackets(_ name: String?) -> Bool {
        run.networks.filter { $0.network.name == name }.contains { use in
            let (network, counts) = (use.network, use.counts)
            return network.loss > 0 || network.reordering > 0 || network.delay + network.jitter >= .milliseconds(450)
                || counts.toServer.overflowed + counts.toClient.overflowed > 0
        }
    }

    /// The sentences about the differences over one network.
    private func differences(_ rows: [OpenRow], _ network: String?) -> [String] {
        compared(rows, network).sentences
    }

    /// Each kind beside the first one, over one network.
    private func compared(_ rows: [OpenRow], _ network: String?) -> RowDifferences {
        let rows = rows.filter { $0.failure == nil }.map { row in
            RowDifferences.Row(
                subject: Self.subject(row),
                group: Self.place(network).group,
                size: Self.place(network).size,
                values: row.answers
            )
        }
        let axis = RowDifferences.Axis(preposition: "over", rows: rows)
        return RowDifferences([axis], .time("until the first answer"), wasCutShort: run.wasCutShort)
    }

    /// The name of a row in sentences with lists.
    private static func subject(_ row: OpenRow) -> String { row.kind.name.replacing(",", with: "") }

    private static func place(_ network: String?) -> RowDifferences.Place {
        .init(group: network ?? "loopback", size: 0)
    }

    /// The range of the medians over one network, the largest sure difference, and the kinds that take longer than their
    /// round trips explain.
    private func conclusions(_ network: String?) -> [String] {
        let own = rows.filter { $0.network == network }
        let known = own.filter { $0.answered != nil }
        guard let range = NamedRange(known.map { ($0.kind.name, $0.answered?.median ?? 0) }), known.count > 1 else {
            return []
        }
        let differences = compared(own, network)
        let answers = range.text("ms") { late, early in
            differences.isSure(Self.subject(known[late]), above: Self.subject(known[early]), at: Self.place(network))
        }
        let place = network.map { "Over \($0)" } ?? "Over loopback"
        let late = own.filter { $0.isLate }.map { row in
            "\(row.kind.name) (\(shown(row.answered?.median)) ms for \(shown(row.expected)) ms)"
        }
        return [
            (["\(place), the first message has its answer after \(answers), in the median."]
                + differences.sureSentences()).joined(separator: " "),
            late.isEmpty
                ? nil : "More than 20 % longer than their round trips explain: \(late.joined(separator: ", ")).",
        ].compactMap { $0 }
    }

    /// The rows. Without a network there is no model.
    private static func table(_ rows: [OpenRow]) -> Table {
        let hasModel = rows.contains { $0.expected != nil }
        return Table(
            labels: 2,
            columns: [
                .text("transport", "transport", "the protocol, as in the scheme of its URL"),
                .text(
                    "encryption",
                    "encryption",
                    "the version of TLS; resumed: it continues the session of an earlier connection"
                ),
                .text(nil, "network"),
                .number("RTTs", "round_trips", "round trips until a message may leave, TCP's own included"),
                .number(
                    "bytes",
                    "handshake_bytes",
                    "bytes of the handshakes in both directions, without TCP and IP headers"
                ),
                .number(nil, "open_ms", "median time until the connection is open, in ms"),
                .number(
                    "answer ms",
                    "answer_ms",
                    "median time to the first answer, in ms"
                        + (hasModel ? "; ! if over 20 % longer than its round trips" : "")
                ),
                .number(
                    "95 %",
                    nil,
                    RunResults.intervalMeaning("ms")
                ),
                .number(hasModel ? "model" : nil, "expected_ms", "the answer if it took only its round trips, in ms"),
                .number(nil, "answer_low_ms"), .number(nil, "answer_high_ms"),
                .text(nil, "failure"),
            ],
            rows: rows.map { row in
                Table.Row(
                    cells: [
                        Table.Cell(row.kind.transport), Table.Cell(row.kind.security), Table.Cell(row.network ?? ""),
                        Table.Cell(row.roundTrips), Table.Cell(row.bytes, row.bytes.map { fixed($0, 0) } ?? "-"),
                        Table.Cell(row.opened?.median),
                        Table.Cell(row.answered?.median, shown(row.answered?.median) + (row.isLate ? " !" : "")),
                        Table.Cell(row.answered?.intervalText ?? "-"), Table.Cell(row.expected),
                        Table.Cell(row.answered?.interval?.low), Table.Cell(row.answered?.interval?.high),
                        Table.Cell(row.failure ?? ""),
                    ],
                    note: row.failure,
                    isFailure: row.failure != nil
                )
            }
        )
    }

    private static func chart(_ rows: [OpenRow], _ network: String?) -> BarChart {
        let hasModel = rows.contains { $0.expected != nil }
        return BarChart(
            title: "\(network ?? "loopback"): ms until the answer of the first message",
            legend: [(.first, "until the connection is open"), (.second, "until the answer")]
                + (hasModel ? [(.mark, "model: round trips alone")] : []),
            rows: rows.compactMap { row in
                guard let opened = row.opened?.median, let answered = row.answered?.median else { return nil }
                return BarChart.Row(
                    label: row.kind.name,
                    spans: [
                        .init(kind: .first, from: 0, to: opened), .init(kind: .second, from: opened, to: answered),
                    ] + (row.expected.map { [.init(kind: .mark, from: $0, to: $0)] } ?? []),
                    value: shown(answered)
                )
            }
        )
    }

    /// The packets of the connections that were opened after the recording began, because those of the ones before may still
    /// arrive. A transport may open several. Datagrams have no SYN, and one port.
    private static func opened(_ packets: [LinkRecord]) -> [LinkRecord] {
        let opened = packets.filter { $0.isFromClient && $0.summary == "SYN" }.map(\.clientPort)
        let ports = opened.isEmpty ? [packets.last { $0.isFromClient }?.clientPort].compactMap { $0 } : opened
        return packets.filter { ports.contains($0.clientPort) }
    }

    /// The packet with the answer: the last one that arrives less than half a round trip from it, if there is one. A response
    /// without content has none (RFC 9110, section 15.3.5).
    private static func answer(of row: OpenRow, among packets: [LinkRecord], since start: Int64) -> Int? {
        guard let answered = row.answers.last ?? row.answered?.median else { return nil }
        let near = row.roundTrip.map { $0 / 2 } ?? 5
        return packets.lastIndex { packet in
            guard !packet.isFromClient, !packet.summary.hasPrefix("HTTP 204"), let arrival = packet.arrival else {
                return false
            }
            return abs(Double(arrival - start) / 1e6 - answered) < near
        }
    }

    /// The packets until the answer from their sending to their arrival, and below them the median of all connections and the
    /// model.
    private static func packets(_ row: OpenRow) -> BarChart {
        var chart = BarChart(
            title: "\(row.kind.name): packets until the answer of the first message, in ms",
            legend: [(.first, "from the client"), (.third, "from the server")]
        )
        let packets = opened(row.packets)
        guard let first = packets.first else { return chart }
        let ports = packets.map(\.clientPort).distinct
        let answer = answer(of: row, among: packets, since: first.sent)
        let message = packets.lastIndex { packet in
            packet.isFromClient && answer.map { packet.arrival ?? packet.sent <= packets[$0].sent } ?? true
        }
        chart.rows = packets.enumerated().map { index, packet in
            let role = index == message ? ", message" : index == answer ? ", answer" : ""
            let times = [packet.sent, packet.arrival ?? packet.sent].map { Double($0 - first.sent) / 1e6 }
            let number = (ports.firstIndex(of: packet.clientPort) ?? 0) + 1
            return BarChart.Row(
                label: packet.summary + role + (ports.count > 1 ? " (connection \(number))" : ""),
                spans: [.init(kind: packet.isFromClient ? .first : .third, from: times[0], to: times[1])],
                value: "\(packet.bytes) B"
            )
        }
        for (label, time) in [("median", row.answered?.median), ("model", row.expected)] {
            guard let time else { continue }
            chart.rows.append(
                .init(label: label, spans: [.init(kind: .fourth, from: 0, to: time)], value: "\(shown(time)) ms")
            )
        }
        if let roundTrip = row.roundTrip, let roundTrips = row.roundTrips {
            chart.lines = (0...roundTrips).map { Double($0 + 1) * roundTrip }
            chart.legend.append((.reference, "a round trip"))
        }
        return chart
    }

    private func data(_ groups: [String?]) -> ReportValue {
        let sentences = groups.flatMap { network in
            differences(rows.filter { $0.network == network }, network)
        }
        var more: [(String, ReportValue)] = [
            ("sentences", .array(sentences.map(ReportValue.string))),
            ("warnings", .array(run.warnings.map(ReportValue.string))),
        ]
        if !run.networks.isEmpty { more.append(("networks", .array(run.networks.map(\.data)))) }
        return run.envelope(results: rows.map { Self.data($0) }, more: more)
    }

    private static func data(_ row: OpenRow) -> ReportValue {
        .object([
            ("transport", .string(row.kind.transport)), ("encryption", .string(row.kind.security)),
            ("network", ReportValue(row.network)), ("round_trips", ReportValue(row.roundTrips)),
            ("handshake_bytes", .rounded(row.bytes)), ("open_ms", .rounded(row.opened?.median)),
            ("answer_ms", .rounded(row.answered?.median)), ("expected_ms", .rounded(row.expected)),
            ("answer_low_ms", .rounded(row.answered?.interval?.low)),
            ("answer_high_ms", .rounded(row.answered?.interval?.high)),
            ("answer_ms_repeats", .array(row.answers.map(ReportValue.rounded))), ("failure", ReportValue(row.failure)),
        ])
    }
}
