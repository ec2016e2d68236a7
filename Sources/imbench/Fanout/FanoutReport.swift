import CommandSupport
import Measuring
import Reporting
import Workloads

/// One row of `imbench fanout`.
struct FanoutRow: Sendable, AssertableRow {
    var transport: String
    var server: FanoutServerKind
    var subscribers: Int
    /// Bytes of text in a message.
    var size: Int
    /// Open loop: requested messages per second. In the closed loop `nil`.
    var targetRate: Double?
    var outcome = ResultRow.Outcome.measured
    /// Until the first subscriber has a message.
    var first: Latency?
    /// Until half of the subscribers have it.
    var half: Latency?
    /// Until all of them have it.
    var last: Latency?
    /// The median of ``last`` in each repeat, in microseconds; `nil` where too few samples support it. The median of ``last``
    /// is that of these, if most repeats have one.
    var lastP50Repeats: [Double?] = []
    /// Deliveries per second.
    var deliveryRate: Double?
    /// Processor time of the server, in microseconds.
    var cpuPerDelivery: Double?
    /// ``cpuPerDelivery`` in each repeat; `nil` where it is unknown.
    var cpuRepeats: [Double?] = []
    /// Published messages.
    var messages = 0
    /// How many repeats there were.
    var repeats: Int { lastP50Repeats.count }
    /// In how many repeats a message was delivered.
    var measuredRepeats = 0
    /// Deliveries, warm-ups included.
    var accounts = DeliveryCounts()

    var labels: [String] { [transport, server.rawValue, String(subscribers), String(size)] }
    var name: String { labels.joined(separator: " ") }
    /// The transport and the server.
    var shortName: String { "\(transport) \(server.rawValue)" }

    /// Copies a second that a room sends for members that write much (`ChatRoom`).
    private static let roomLimit = 10_000.0
    /// Messages a second from which a member writes much.
    private static let muchWritten = 100.0

    /// Whether the times are those of the room's limit for a member that writes much. In the closed loop over loopback the
    /// limit is reached from two subscribers on, whatever the machine.
    func showsRoomLimit(overNetwork: Bool) -> Bool {
        guard server == .room, targetRate ?? .infinity > Self.muchWritten else { return false }
        if targetRate == nil, !overNetwork, subscribers > 1 { return true }
        return max(deliveryRate ?? 0, (targetRate ?? 0) * Double(subscribers)) > 0.9 * Self.roomLimit
    }

    /// Every message goes to every subscriber: it is delivered, lost, or in flight after an interruption.
    var closes: Bool { accounts.closes && accounts.sent == messages * subscribers }

    var hasFailed: Bool {
        if case .failed = outcome { return true }
        return !closes
    }

    var reason: String? { outcome.reason }

    /// Why the row has failed; `nil` if it has not.
    var failure: String? { hasFailed ? reason ?? RowOutcome.openAccounts : nil }

    func value(of metric: String) -> Double? {
        FanoutMetric.all.first { $0.name == metric }?.value(self)
    }
}

/// One number of a row: its names, its meaning, and how to get it.
struct FanoutMetric: Sendable {
    /// The name in `--assert`, CSV and JSON, with the unit.
    var name: String
    /// The heading of its column; `nil` if people do not see it.
    var title: String?
    /// One line for the legend.
    var meaning = ""
    var isWhole = false
    var value: @Sendable (FanoutRow) -> Double?

    static let all =
        times("first", "1st", "the first subscriber has a message") { $0.first }
        + times("half", "half", "half of the subscribers have it") { $0.half }
        + times("last", "last", "all subscribers have it") { $0.last }
        + [
            FanoutMetric(
                name: "deliveries_per_s",
                title: "deliv/s",
                meaning: "messages delivered per second, to all subscribers"
            ) { $0.deliveryRate },
            FanoutMetric(
                name: "server_cpu_us_per_delivery",
                title: "CPU µs",
                meaning: "processor time of the server per delivery, in µs"
            ) { $0.cpuPerDelivery },
            count("target_msgs_per_s", "target/s", "requested messages per second") { $0.targetRate },
            count("messages", "messages", "published messages, warm-ups included") { Double($0.messages) },
            count("sent", nil) { Double($0.accounts.sent) }, count("delivered", nil) { Double($0.accounts.acked) },
            count("lost", nil) { Double($0.accounts.lost) }, count("in_flight", nil) { Double($0.accounts.inFlight) },
            count("duplicated", nil) { Double($0.accounts.duplicated) },
            count("reordered", nil) { Double($0.accounts.reordered) },
            count("unexpected", nil) { Double($0.accounts.unexpected) },
        ]

    var column: Table.Column { .number(title, name, meaning) }

    func cell(_ row: FanoutRow) -> Table.Cell {
        let value = value(row)
        return Table.Cell(value, value.map { isWhole ? grouped(fixed($0, 0)) : shown($0) } ?? "-")
    }

    private static func count(
        _ name: String,
        _ title: String?,
        _ meaning: String = "",
        _ value: @escaping @Sendable (FanoutRow) -> Double?
    ) -> FanoutMetric {
        FanoutMetric(name: name, title: title, meaning: meaning, isWhole: true, value: value)
    }

    private static func times(
        _ name: String,
        _ title: String,
        _ event: String,
        _ of: @escaping @Sendable (FanoutRow) -> Latency?
    ) -> [FanoutMetric] {
        [
            FanoutMetric(
                name: "\(name).p50_us",
                title: "\(title) p50",
                meaning: "median time until \(event), in µs (of the repeats' medians)"
            ) {
                of($0)?.p50
            },
            FanoutMetric(name: "\(name).p99_us", title: "\(title) p99", meaning: "99th percentile of the same, in µs") {
                of($0)?.p99
            },
        ]
    }
}

/// The results of `imbench fanout`.
struct FanoutResults: Sendable {
    /// Environment, options, seed and placement, without rows.
    var run: RunResults
    var rows: [FanoutRow] = []

    var report: Report {
        let table = table
        let isOpen = rows.contains { $0.targetRate != nil }
        var facts = run.facts
        if !facts.contains(where: { $0.name == "placement" }) { facts.append(("placement", run.placement.sentence)) }
        let compared = lastDifferences
        let times = compared.sentences
        // The first table has the sentence about too few repeats.
        let costs = costSentences.filter { $0 != compared.shortage }
        var more: [(String, ReportValue)] = [
            ("sentences", .array((times + costs).map(ReportValue.string))),
            ("warnings", .array(run.warnings.map(ReportValue.string))),
        ]
        if !run.networks.isEmpty { more.append(("networks", .array(run.networks.map(\.data)))) }
        return Report(
            name: "imbench fanout",
            title: "One message to many subscribers: time until they have it, and the cost for the server",
            trust: run.trust,
            warnings: run.warnings,
            outcomes: rows.map { RowOutcome($0.name, failure: $0.failure) },
            verdict: verdict,
            facts: facts,
            sections: [
                Report.Section(
                    heading: "Until subscribers have a message, in µs",
                    question: "How long does it take until all subscribers have a message?",
                    charts: rows.map(\.subscribers).distinct.map(chart),
                    table: table.selecting(["1st p50", "half p50", "last p50", "last p99", "accounts"]),
                    notes: times + compared.rule(isQuiet: run.trust.isGiven) + notes
                        + run.networks.map(\.sentence),
                    reading:
                        "Shorter is better. Each bar is the time from the intended moment of sending until the last subscriber "
                        + "has the message. All subscribers share one thread here, so it grows with their number"
                        + (limited.isEmpty ? "." : "; in the rows of room it grows with the limit of the room.")
                ),
                Report.Section(
                    heading: "Rate and cost",
                    question: "How many deliveries does a server make in a second, and what does each cost?",
                    table: table.withoutNotes.selecting(
                        ["deliv/s", "CPU µs", "messages"] + (isOpen ? ["target/s"] : [])
                    ),
                    notes: costs,
                    reading:
                        "More deliveries and less processor time are better. "
                        + (isOpen
                            ? "The messages follow a schedule, so the rate only shows whether the server keeps up."
                            : "A message is sent when all subscribers have the one before, so the rate follows from the "
                                + "times above."),
                    next: [.init("To see the memory of each subscriber", "imbench crowd --idle 1000")]
                ),
            ],
            records: table,
            data: run.envelope(
                results: zip(table.members, rows).map { members, row in
                    .object(
                        members + [
                            ("accounts_close", .bool(row.closes)),
                            ("repeats", .integer(row.repeats)), ("repeats_measured", .integer(row.measuredRepeats)),
                            ("last_p50_us_repeats", .array(row.lastP50Repeats.map(ReportValue.rounded))),
                            ("server_cpu_us_per_delivery_repeats", .array(row.cpuRepeats.map(ReportValue.rounded))),
                        ]
                    )
                },
                more: more
            )
        )
    }

    private var table: Table {
        Table(
            labels: 4,
            columns: [
                .text("transport", "transport", "the protocol, as in the scheme of its URL"),
                .text("server", "server", "the server that passes the messages on"),
                .number("subs", "subscribers", "subscribers of each message"),
                .number(hasSizes ? "size" : nil, "size", "bytes of text in a message"),
            ] + FanoutMetric.all.map(\.column) + [
                .text(
                    "accounts",
                    nil,
                    "✓ if all = delivered + lost + in flight; repeats with a delivery, if not all; other counts"
                ),
                .text(nil, "outcome"), .text(nil, "reason"),
            ],
            rows: rows.map { row in
                var cells = [
                    Table.Cell(row.transport), Table.Cell(row.server.rawValue), Table.Cell(row.subscribers),
                    Table.Cell(row.size),
                ]
                cells += FanoutMetric.all.map { $0.cell(row) }
                cells.append(Table.Cell(accounts(of: row)))
                cells.append(Table.Cell(value: .string(row.outcome.name), text: ""))
                cells.append(Table.Cell(value: ReportValue(row.reason), text: ""))
                return Table.Row(cells: cells, note: row.reason, isFailure: row.hasFailed)
            }
        )
    }

    /// A check mark, and after it every count that should be 0.
    private func accounts(of row: FanoutRow) -> String {
        let counts = row.accounts
        var text = row.closes ? "✓" : "✗ \(row.messages) × \(row.subscribers) ≠ \(counts.acked)"
        if row.measuredRepeats < row.repeats { text += " \(row.measuredRepeats) of \(row.repeats) repeats" }
        let others = [
            ("lost", counts.lost), ("in flight", counts.inFlight), ("duplicated", counts.duplicated),
            ("reordered", counts.reordered), ("unexpected", counts.unexpected),
        ]
        for (name, count) in others where count != 0 { text += " \(count) \(name)" }
        return text
    }

    private var measured: [FanoutRow] { rows.filter { $0.outcome == .measured && $0.last?.p50 != nil } }

    /// The measured rows whose times show the limit of the room.
    private var limited: [FanoutRow] { measured.filter { $0.showsRoomLimit(overNetwork: !run.networks.isEmpty) } }

    /// The measured rows whose times show the server.
    private var unlimited: [FanoutRow] {
        measured.filter { !$0.showsRoomLimit(overNetwork: !run.networks.isEmpty) }
    }

    /// The medians of the rows with the most subscribers, and the largest difference that is sure. It is one of those that the
    /// sentences under the table are about, and as sure.
    private var verdict: [String] {
        guard let most = measured.map(\.subscribers).max() else { return [] }
        let hasSizes = hasSizes
        let known = unlimited.filter { $0.subscribers == most }
        let times = known.map { row in
            (row.shortName + (hasSizes ? " \(row.size)" : ""), row.last?.p50 ?? 0)
        }
        guard let range = NamedRange(times) else { return roomNotes }
        let subject = most == 1 ? "the only subscriber has" : "the last of \(most) subscribers has"
        let group = Self.group(most)
        let differences = lastDifferences
        let text = range.text("µs") { late, early in
            let (late, early) = (known[late], known[early])
            return late.size == early.size
                && differences.isSure(
                    late.shortName,
                    above: early.shortName,
                    at: .init(group: group, size: late.size)
                )
        }
        let rooms = limited.contains { $0.subscribers == most } ? ", apart from the rooms, whose rate is limited" : ""
        let medians = "In the median, \(subject) a message after \(text)\(rooms)."
        let scope = measured.contains { $0.subscribers != most } ? "with \(group)" : nil
        let sure = times.count > 1 ? differences.sureSentences(scope: scope) { $0.group == group } : []
        return [medians] + sure + unknown(most)
    }

    /// How many rows with this number of subscribers have no median, so that the range is without them.
    private func unknown(_ subscribers: Int) -> [String] {
        let own = rows.filter { $0.outcome == .measured && $0.subscribers == subscribers }
        let unknown = own.count { $0.last?.p50 == nil }
        guard unknown > 0 else { return [] }
        let have = unknown == 1 ? "has" : "have"
        return ["\(unknown) of \(counted(own.count, "row")) \(have) too few messages for a median."]
    }

    // MARK: Differences

    /// The differences of the times, without the rows that show the limit of the room.
    private var lastDifferences: RowDifferences { differences(unlimited, \.lastP50Repeats, .lastSubscriber) }

    private static func group(_ subscribers: Int) -> String { counted(subscribers, "subscriber") }

    /// The sentences under the table of costs.
    private var costSentences: [String] { differences(measured, \.cpuRepeats, .serverTime).sentences }

    /// Each transport beside the first one with the same server, and each server beside the first one of its transport,
    /// with as many subscribers.
    private func differences(
        _ measured: [FanoutRow],
        _ values: (FanoutRow) -> [Double?],
        _ words: RowDifferences.Words
    ) -> RowDifferences {
        func axis(_ isPart: (FanoutRow) -> Bool) -> RowDifferences.Axis {
            RowDifferences.Axis(
                preposition: "with",
                rows: measured.filter(isPart).map { row in
                    RowDifferences.Row(
                        subject: row.shortName,
                        group: Self.group(row.subscribers),
                        size: row.size,
                        values: values(row)
                    )
                }
            )
        }
        let servers = measured.map(\.server).distinct.map { server in axis { $0.server == server } }
        let transports = measured.map(\.transport).distinct.map { name in axis { $0.transport == name } }
        return RowDifferences(servers + transports, words, wasCutShort: run.wasCutShort)
    }

    /// What the rows with the limit of the room mean.
    private var roomNotes: [String] {
        guard !limited.isEmpty else { return [] }
        let numbers = RowDifferences.list(limited.map(\.subscribers).distinct.map { String($0) })
        return [
            "room: for a member that writes much, a room sends at most 10,000 copies a second. The rows with \(numbers) subscribers "
                + "show this limit, so they are not compared; --rate 50 shows the room itself."
        ]
    }

    private var notes: [String] {
        var notes = roomNotes
        if rows.contains(where: { $0.subscribers > 1 }) {
            notes.append(
                "All subscribers share one thread here, so the times of the last one include the reading of the others."
            )
        }
        return notes
    }

    private var hasSizes: Bool { rows.map(\.size).distinct.count > 1 }

    private func chart(_ subscribers: Int) -> BarChart {
        let hasSizes = hasSizes
        return BarChart(
            title: "\(subscribers == 1 ? "1 subscriber" : "\(subscribers) subscribers"): "
                + "p50 in µs until the first, half and all of them have a message",
            legend: [(.first, "first"), (.second, "half"), (.third, "last")],
            rows: rows.filter { $0.subscribers == subscribers }.compactMap { row in
                guard let first = row.first?.p50, let half = row.half?.p50, let last = row.last?.p50 else { return nil }
                let (middle, end) = (max(first, half), max(first, half, last))
                return BarChart.Row(
                    label: row.shortName + (hasSizes ? " \(row.size)" : ""),
                    spans: [
                        .init(kind: .first, from: 0, to: first), .init(kind: .second, from: first, to: middle),
                        .init(kind: .third, from: middle, to: end),
                    ],
                    value: [first, half, last].map { shown($0) }.joined(separator: " / ")
                )
            }
        )
    }
}

extension RowDifferences.Words {
    fileprivate static let lastSubscriber = timed(.time("to the last subscriber"))
    fileprivate static let serverTime = timed(.processorTime("of the server per delivery"))

    /// The command has no number of messages.
    private static func timed(_ words: RowDifferences.Words) -> RowDifferences.Words {
        var words = words
        words.remedy = "use a longer --duration"
        return words
    }
}

extension Assertion.Names {
    /// The names of rows of `fanout`: the server, the subscribers and the size follow the transport.
    static let fanout = {
        let number: @Sendable (String) -> String? = { Int($0).map { String($0) } }
        return Assertion.Names(
            example: "ws.fan-out.100.last.p99_us < 20000",
            labels: [{ FanoutServerKind(rawValue: $0)?.rawValue }, number, number],
            metrics: FanoutMetric.all.map(\.name)
        )
    }()
}
