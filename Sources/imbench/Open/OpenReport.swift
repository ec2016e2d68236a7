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
            let hasLadders = network != nil && !repeatsPackets(network)
            return Report.Section(
                heading: network.map { "Over \($0)" } ?? "Over loopback",
                question: "How long until the first message has its answer\(network.map { " over \($0)" } ?? "")?",
                charts: [Self.chart(rows, network)] + (hasLadders ? rows.map { Self.ladder($0) } : []),
                table: Self.table(rows),
                notes: differences(rows, network)
                    + run.networks.filter { $0.network.name == network }.map(\.sentence),
                reading:
                    "Shorter is better. The first part of a bar is the time until the connection is open. The second part is the "
                    + "message and its answer."
                    + (network == nil
                        ? "" : " Over a network, each round trip of the column RTTs takes at least twice its delay.")
                    + (hasLadders
                        ? " The ladders show the packets of one connection from top to bottom, without TCP's plain "
                            + "acknowledgements. Each band is one round trip." : ""),
                next: [.init("To see one message on each wire", "imbench trace Hello --tls")]
            )
        }
        return Report(
            name: "imbench open",
            title: "From nothing to the answer of the first message",
            warnings: run.warnings,
            verdict: groups.compactMap { network in conclusion(network) },
            facts: run.facts,
            sections: sections,
            records: Self.table(rows),
            data: data(groups)
        )
    }

    /// Whether packets can be missing or repeated, so that a ladder would not show round trips. TCP sends its first packet
    /// again after 1 s (RFC 6298, section 2).
    private func repeatsPackets(_ name: String?) -> Bool {
        run.networks.filter { $0.network.name == name }.contains { use in
            let (network, counts) = (use.network, use.counts)
            return network.loss > 0 || network.reordering > 0 || network.delay + network.jitter >= .milliseconds(450)
                || counts.toServer.overflowed + counts.toClient.overflowed > 0
        }
    }

    /// The sentences about the differences over one network: each kind beside the first one.
    private func differences(_ rows: [OpenRow], _ network: String?) -> [String] {
        let rows = rows.filter { $0.failure == nil }.map { row in
            RowDifferences.Row(
                subject: row.kind.name.replacing(",", with: ""),
                group: network ?? "loopback",
                size: 0,
                values: row.answers
            )
        }
        let axis = RowDifferences.Axis(preposition: "over", rows: rows)
        return RowDifferences([axis], .time("until the first answer"), wasCutShort: run.wasCutShort).sentences
    }

    /// The shortest and the longest beginning over one network.
    private func conclusion(_ network: String?) -> String? {
        let measured = rows.filter { $0.network == network }.compactMap { row in
            row.answered.map { (row: row, milliseconds: $0.median) }
        }
        guard let least = measured.min(by: { $0.milliseconds < $1.milliseconds }),
            let most = measured.max(by: { $0.milliseconds < $1.milliseconds }), measured.count > 1
        else { return nil }
        func text(_ one: (row: OpenRow, milliseconds: Double)) -> String {
            let rounds = one.row.roundTrips ?? 0
            return "\(shown(one.milliseconds)) ms over \(one.row.kind.name) "
                + "(\(counted(rounds, "round trip")) until it may leave)"
        }
        return
            "\(network.map { "Over \($0)" } ?? "Over loopback"), the first message has its answer soonest after "
            + "\(text(least)), and latest after \(text(most))."
    }

    private static func table(_ rows: [OpenRow]) -> Table {
        Table(
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
                .number("open ms", "open_ms", "median time until the connection is open, in ms"),
                .number("answer ms", "answer_ms", "median time until the first message has its answer, in ms"),
                .number("±%", "answer_spread_percent", "half the spread of that time, in %"),
                .text(nil, "failure"),
            ],
            rows: rows.map { row in
                Table.Row(
                    cells: [
                        Table.Cell(row.kind.transport), Table.Cell(row.kind.security), Table.Cell(row.network ?? ""),
                        Table.Cell(row.roundTrips), Table.Cell(row.bytes, row.bytes.map { fixed($0, 0) } ?? "-"),
                        Table.Cell(row.opened?.median), Table.Cell(row.answered?.median),
                        Table.Cell(row.answered?.relativeSpread.map { $0 * 100 }), Table.Cell(row.failure ?? ""),
                    ],
                    note: row.failure,
                    isFailure: row.failure != nil
                )
            }
        )
    }

    private static func chart(_ rows: [OpenRow], _ network: String?) -> BarChart {
        BarChart(
            title: "\(network ?? "loopback"): ms until the answer of the first message",
            legend: [(.first, "until the connection is open"), (.second, "until the answer")],
            rows: rows.compactMap { row in
                guard let opened = row.opened?.median, let answered = row.answered?.median else { return nil }
                return BarChart.Row(
                    label: row.kind.name,
                    spans: [
                        .init(kind: .first, from: 0, to: opened), .init(kind: .second, from: opened, to: answered),
                    ],
                    value: shown(answered)
                )
            }
        )
    }

    /// The packets of one connection.
    private static func ladder(_ row: OpenRow) -> Ladder {
        var ladder = Ladder(title: "\(row.kind.name): packets until the answer of the first message")
        var (roundTrip, wasFromClient) = (0, false)
        // Packets of the connection before can still arrive.
        let start = row.packets.firstIndex { $0.isFromClient && $0.summary == "SYN" }
        for packet in row.packets[(start ?? 0)...] {
            if packet.isFromClient, !wasFromClient { roundTrip += 1 }
            wasFromClient = packet.isFromClient
            ladder.steps.append(
                .init(
                    label: packet.summary,
                    isFromClient: packet.isFromClient,
                    bytes: packet.bytes,
                    roundTrip: max(1, roundTrip)
                )
            )
        }
        return ladder
    }

    private func data(_ groups: [String?]) -> JSONValue {
        let sentences = groups.flatMap { network in
            differences(rows.filter { $0.network == network }, network)
        }
        var more: [(String, JSONValue)] = [("sentences", .array(sentences.map(JSONValue.string)))]
        if !run.networks.isEmpty { more.append(("networks", .array(run.networks.map(\.data)))) }
        return run.envelope(results: rows.map { Self.data($0) }, more: more)
    }

    private static func data(_ row: OpenRow) -> JSONValue {
        .object([
            ("transport", .string(row.kind.transport)), ("encryption", .string(row.kind.security)),
            ("network", JSONValue(row.network)), ("round_trips", JSONValue(row.roundTrips)),
            ("handshake_bytes", .rounded(row.bytes)), ("open_ms", .rounded(row.opened?.median)),
            ("answer_ms", .rounded(row.answered?.median)), ("answer_low_ms", .rounded(row.answered?.low)),
            ("answer_high_ms", .rounded(row.answered?.high)),
            ("answer_spread_percent", .rounded(row.answered?.relativeSpread.map { $0 * 100 })),
            ("answer_ms_repeats", .array(row.answers.map(JSONValue.rounded))), ("failure", JSONValue(row.failure)),
        ])
    }
}
