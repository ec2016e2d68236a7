import CommandSupport
import Measuring
import Reporting
import Transports
import Workloads

/// The report of `imbench run`, and the parts of it that other commands share.
extension RunResults {
    var report: Report {
        if pictureBytes != nil { return pictureReport }
        if !networks.isEmpty { return networkReport }
        let groups = rows.map(\.size).distinct.map { size in (size, rows.filter { $0.size == size }) }
        var sections: [Report.Section] = []
        if !rows.isEmpty {
            let table = Self.table(rows)
            let measured = table.withoutNotes
            sections += summary
            sections.append(
                Report.Section(
                    heading: "Round trips",
                    question: "How long does a message take, there and back?",
                    charts: groups.map(Self.medianChart) + groups.map(Self.tailChart) + groups.map(Self.ratioChart),
                    table: table.selecting(["p50 µs", "95 % interval", "p99 µs", "×floor", "accounts"]),
                    notes: loopNotes + roundTripSentences + roundTripDifferences.rule(isQuiet: trust.isGiven)
                        + [skipped].compactMap { $0 } + slowRepeatNotes + ratioNotes + sessionExplanation,
                    reading: [Self.timesReading, choice].compactMap { $0 }.joined(separator: " "),
                    next: [
                        .init("To see the same over a mobile network", "imbench run --network 4g"),
                        .init("To compare the code alone, without the time to wake cores", "imbench run --awake"),
                    ],
                    isDetail: true
                )
            )
            sections += [distributionSection].compactMap { $0 }
            if rows.contains(where: { $0.loop == .open }) {
                let titles = ["target/s", "of target", "service p50 µs", "service p99 µs"]
                sections.append(
                    Report.Section(
                        heading: "The open loop",
                        question: "Does each transport keep up with the requested rate?",
                        table: measured.selecting(titles)
                    )
                )
            }
            sections += [dailySection()].compactMap(\.self)
            let titles = ["msgs/s", "CPU µs", "wire B", "open ms", "open B", "open RTTs", "guarantees"]
            sections.append(
                Report.Section(
                    heading: "Costs per message and per connection",
                    question: "How much does a message cost, and a connection?",
                    table: measured.selecting(titles),
                    notes: costSentences,
                    next: [
                        .init("To see the bytes of each layer", "imbench overhead"),
                        .init("To see what pings cost in a day", "imbench heartbeat"),
                        .init("To choose a transport by your own answers", "imbench advise"),
                    ],
                    isDetail: true
                )
            )
            sections.removeAll { $0.table?.rows.isEmpty == true }
        }
        if !floors.isEmpty {
            let heading = "Floors: the same round trip in bare system calls"
            sections.append(
                Report.Section(
                    heading: heading,
                    question: "How fast is the machine without any of this code?",
                    table: Self.table(floors),
                    notes: floorSentences,
                    isDetail: true
                )
            )
        }
        return Report(
            name: "imbench run",
            title: "The cost of a chat message on each transport, on one machine",
            trust: trust,
            warnings: warnings,
            outcomes: outcomes,
            verdict: conclusions,
            facts: facts,
            sections: sections,
            records: records,
            data: data
        )
    }

    // MARK: Shared parts

    /// Warnings for the reader of the numbers.
    var warnings: [String] {
        var warnings = record.debugBuild + record.cutShort
        // A picture lets messages wait, and the round trip counts from the intended time.
        for row in rows where row.sentPicture == nil {
            guard let target = row.targetRate, let rate = row.sendRate, rate < target * 0.99 else { continue }
            let share = fixed(rate / target * 100, 1)
            let name = "\(row.transport) \(row.codec) \(row.size)" + (row.network.map { " over \($0)" } ?? "")
            warnings.append("\(name): messages were sent at only \(share) % of the requested rate")
        }
        return warnings + remarks
    }

    var facts: [(name: String, value: String)] {
        guard let regime = WakeUpRegime(self) else { return record.facts }
        return record.facts + [("wake-ups", regime.sentence), ("placement", placement.sentence)]
    }

    func envelope(results: [ReportValue], more: [(String, ReportValue)] = []) -> ReportValue {
        record.envelope(
            environment: [
                ("client_core", ReportValue(placement?.near)), ("server_core", ReportValue(placement?.far)),
                ("placement", .string(placement.kind.rawValue)), ("wake_ups", ReportValue(WakeUpRegime(self)?.name)),
            ],
            results: results,
            more: more
        )
    }

    // MARK: For people

    /// All numbers of the rows, and the accounts as a text.
    static func table(_ rows: [ResultRow]) -> Table {
        var explained: Set<[String]> = []
        /// Whether an earlier row of the transport has failed for the same reason.
        func isExplained(_ row: ResultRow) -> Bool {
            guard let reason = row.reason, row.hasFailed else { return false }
            return !explained.insert([row.transport, reason]).inserted
        }
        return Table(
            labels: 3,
            columns: [
                .text("transport", "transport", "the protocol, as in the scheme of its URL"),
                .text("codec", "codec", "the format of the messages"),
                .number("size", "size", "bytes of text in a message"),
            ] + Metric.all.map(\.column) + [
                .text("accounts", nil, Self.accountsMeaning),
                .number("95 % interval", nil, Self.intervalMeaning("µs")),
                .text("guarantees", nil, "the promise of the transport for each message that was sent"),
            ],
            rows: rows.map { row in
                let labels = [Table.Cell(row.transport), Table.Cell(row.codec), Table.Cell(row.size)]
                return Table.Row(
                    cells: labels + Metric.all.map { $0.cell(row) }
                        + [
                            Table.Cell(accounts(of: row)), Table.Cell(row.rttP50Spread?.intervalText ?? "-"),
                            Table.Cell(row.guarantee ?? "-"),
                        ],
                    note: row.reason,
                    repeatsNote: isExplained(row),
                    isFailure: row.hasFailed
                )
            }
        )
    }

    /// What ``accounts(of:)`` means.
    static let accountsMeaning = "✓ if sent = answered + lost + in flight; and what should be 0 and is not"

    /// A check mark, and after it every count that should be 0.
    static func accounts(of row: ResultRow) -> String {
        let accounts = row.accounts
        var text = accounts.closes ? "✓" : "✗ sent \(accounts.sent) ≠ acked \(accounts.acked)"
        if let pieces = row.picture?.pieces {
            if !pieces.closes { text += " ✗ pieces sent \(pieces.sent) ≠ acked \(pieces.acked)" }
            let counts = [
                ("lost", pieces.lost), ("in flight", pieces.inFlight), ("duplicated", pieces.duplicated),
                ("unexpected", pieces.unexpected),
            ]
            for (name, count) in counts where count != 0 { text += " \(count) pieces \(name)" }
        }
        let counts = [
            ("lost", accounts.lost), ("in flight", accounts.inFlight), ("duplicated", accounts.duplicated),
            ("reordered", accounts.reordered), ("unexpected", accounts.unexpected), ("errors", row.errors),
        ]
        for (name, count) in counts where count != 0 { text += " \(count) \(name)" }
        return text
    }

    private static func table(_ floors: [FloorResult]) -> Table {
        let titles = ["min µs", "p50 µs", "p90 µs", "p99 µs", "p99.9 µs", "max µs", "n"]
        let metrics = titles.compactMap(Metric.titled)
        return Table(
            labels: 2,
            columns: [
                .text("floor", nil, "the system calls of the round trip"),
                .number("size", nil, "bytes in each direction"),
            ] + metrics.map(\.column),
            rows: floors.map { floor in
                let row = Self.row(floor)
                let labels = [Table.Cell(floor.kind.rawValue), Table.Cell(floor.size)]
                return Table.Row(cells: labels + metrics.map { $0.cell(row) }, note: floor.reason)
            }
        )
    }

    /// A floor as a row, which has the numbers of its round trips alone.
    private static func row(_ floor: FloorResult) -> ResultRow {
        var row = ResultRow(transport: floor.kind.rawValue, codec: "", size: floor.size)
        (row.rtt, row.rttP50Spread) = (floor.rtt, floor.p50Spread)
        if let reason = floor.reason { row.outcome = .skipped(reason) }
        return row
    }

    /// What the 95 % interval of a median means. It is about chance only: a machine has slow and fast hours.
    static func intervalMeaning(_ unit: String) -> String {
        "this run's median ± chance, in \(unit); other runs may differ more; under 6 repeats: all values"
    }

    /// The repeats of the closed loop that are too slow to have a median. The sentences and the medians are about the others.
    private var slowRepeatNotes: [String] {
        let slow = rows.filter { row in
            let medians = row.repeats[.p50] ?? []
            return row.loop == .closed && medians.contains(nil) && medians.contains { $0 != nil }
        }
        guard !slow.isEmpty else { return [] }
        let names = slow.prefix(3).map { "\($0.transport) \($0.codec) \($0.size)" }
        let more = slow.count > names.count ? ["\(slow.count - names.count) more"] : []
        return [
            "In \(counted(slow.count, "row")) (\(RowDifferences.list(names + more))), some repeats have fewer than \(Histogram.fewestForMedian) messages and so no median. They are the slow ones, so "
                + "the medians of the rows are too short."
        ]
    }

    /// What the percentiles of the closed loop mean.
    private var loopNotes: [String] {
        guard rows.contains(where: { $0.loop == .closed }) else { return [] }
        return [
            "Closed loop: a message is sent when the one before has its answer, so a pause of the machine delays few messages, "
                + "and high percentiles look better than for senders that do not wait. --rate measures those."
        ]
    }

    /// Why rows have no ratio, and the remedy.
    var ratioNotes: [String] {
        let (count, notes) = (rows.count { $0.ratioNote != nil }, rows.compactMap(\.ratioNote).distinct)
        guard let first = notes.first else { return [] }
        return [
            "\(counted(count, "row")) \(count == 1 ? "has" : "have") no ×floor, because the floors mix several kinds of round "
                + "trip (\(first)\(notes.count > 1 ? ", and others" : "")), so a ratio to them depends little on the code. Try "
                + "--awake, a longer --duration, or a machine without other load."
        ]
    }

    private static func medianChart(_ size: Int, _ rows: [ResultRow]) -> BarChart {
        let measured = rows.filter { $0.rtt?.p50 != nil }
        // A very wide interval would hide the medians.
        let p50 = measured.compactMap { $0.rtt?.p50 }.max() ?? 0
        let high = measured.compactMap { $0.rttP50Spread?.high }.max() ?? 0
        return BarChart(
            title: "\(size) bytes of text: p50 of the round trip in µs",
            legend: [(.own, "p50"), (.interval, "its 95 % interval"), (.mark, "floor")],
            rows: measured.map { row in
                let p50 = row.rtt?.p50 ?? 0
                var spans = [BarChart.Span(kind: .own, from: 0, to: p50)]
                if let spread = row.rttP50Spread {
                    spans.append(.init(kind: .interval, from: spread.low, to: spread.high))
                }
                if let floor = row.floorP50 { spans.append(.init(kind: .mark, from: floor, to: floor)) }
                return BarChart.Row(label: chartLabel(row), spans: spans, value: shown(p50), style: chartStyle(row))
            },
            range: 0...max(p50, min(high, p50 * 3))
        )
    }

    private static func tailChart(_ size: Int, _ rows: [ResultRow]) -> BarChart {
        BarChart(
            title: "\(size) bytes of text: p99 of the round trip in µs",
            rows: rows.compactMap { row in
                row.rtt?.p99.map { .init(chartLabel(row), $0, shown: shown($0), style: chartStyle(row)) }
            }
        )
    }

    private static func ratioChart(_ size: Int, _ rows: [ResultRow]) -> BarChart {
        // A very wide interval would hide the ratios.
        let median = rows.compactMap { $0.ratioToFloor?.median }.max() ?? 1
        let high = rows.compactMap { $0.ratioToFloor?.high }.max() ?? 1
        return BarChart(
            title: "\(size) bytes of text: p50 over its floor",
            legend: [(.own, "×floor"), (.interval, "its 95 % interval"), (.reference, "the floor itself")],
            rows: rows.compactMap { row in
                guard let ratio = row.ratioToFloor else { return nil }
                return BarChart.Row(
                    label: chartLabel(row),
                    spans: [
                        .init(kind: .own, from: 0, to: ratio.median),
                        .init(kind: .interval, from: ratio.low, to: ratio.high),
                    ],
                    value: "×" + shown(ratio.median),
                    style: chartStyle(row)
                )
            },
            range: 0...max(1, median, min(high, median * 3)),
            lines: [1]
        )
    }

    private static func chartLabel(_ row: ResultRow) -> String { "\(row.transport) \(row.codec)" }
    private static func chartStyle(_ row: ResultRow) -> SeriesStyle { .transport(row.transport) }

    // MARK: For programs

    /// One row for each row and each floor. The names of numbers are those of `--assert`.
    var records: Table {
        let texts = ["kind", "transport", "codec"]
        let more = ["network", "loop", "outcome", "reason", "guarantees"] + (pictureBytes == nil ? [] : ["picture"])
        let all = Metric.all.filter { pictureBytes != nil || !$0.isOfPicture }
        func cells(_ kind: String, _ row: ResultRow, _ metrics: (Metric) -> Bool = { _ in true }) -> Table.Row {
            let labels = [kind, row.transport, row.codec].map { Table.Cell($0) } + [Table.Cell(row.size)]
            let place = pictureBytes == nil ? [] : [row.picture?.place.rawValue ?? ""]
            let outcome =
                ([row.network ?? "", row.loop.rawValue, row.outcome.name, row.reason ?? "", row.guarantee ?? ""] + place)
                .map { Table.Cell($0) }
            let numbers = all.map { Table.Cell(metrics($0) ? $0.value(row) : nil) }
            return Table.Row(cells: labels + outcome + numbers)
        }
        return Table(
            columns: texts.map { .text(nil, $0) } + [.number(nil, "size")] + more.map { .text(nil, $0) }
                + all.map { .number(nil, $0.name) },
            rows: rows.map { cells("transport", $0) }
                + floors.map { floor in cells("floor", Self.row(floor)) { $0.name.hasPrefix("rtt.") } }
        )
    }

    var data: ReportValue {
        let sentences = roundTripSentences + costSentences + floorSentences
        return envelope(
            results: rows.map(Self.data),
            more: [
                ("floors", .array(floors.map(Self.data))), ("sentences", .array(sentences.map(ReportValue.string))),
                ("warnings", .array(warnings.map(ReportValue.string))),
            ]
        )
    }

    static func data(_ row: ResultRow) -> ReportValue {
        var members: [(String, ReportValue)] = [
            ("network", ReportValue(row.network)), ("transport", .string(row.transport)), ("codec", .string(row.codec)),
            ("size", .integer(row.size)), ("loop", .string(row.loop.rawValue)), ("outcome", .string(row.outcome.name)),
        ]
        if let reason = row.reason { members.append(("reason", .string(reason))) }
        members += Metric.members(row) { metric in
            guard row.picture != nil || !metric.isOfPicture else { return false }
            return row.loop == .open
                || !["service.", "target_", "bytes_per_day"].contains(where: metric.name.hasPrefix)
        }
        if let picture = row.picture {
            members += [("picture", .string(picture.place.rawValue)), ("picture_bytes", .integer(picture.bytes))]
        }
        if let picture = row.sentPicture {
            members.append(("picture_repeats_ms", .array(picture.repeats.map(ReportValue.rounded))))
        }
        members += [
            ("rtt_p50_interval_us", interval(row.rttP50Spread)), ("floor", ReportValue(row.floor)),
            ("ratio_to_floor_p50_interval", interval(row.ratioToFloor)), ("ratio_note", ReportValue(row.ratioNote)),
            ("guarantees", ReportValue(row.guarantee)), ("accounts_close", .bool(row.accountsClose)),
            ("repeats", repeats(row.repeats)),
        ]
        return .object(members)
    }

    static func data(_ floor: FloorResult) -> ReportValue {
        var members: [(String, ReportValue)] = [
            ("floor", .string(floor.kind.rawValue)), ("size", .integer(floor.size)),
        ]
        if let reason = floor.reason { members.append(("reason", .string(reason))) }
        members += Metric.members(row(floor)) { $0.name.hasPrefix("rtt.") }
        members += [
            ("rtt_p50_interval_us", interval(floor.p50Spread)), ("heavy_tail", .bool(floor.heavyTail != nil)),
            ("repeats", repeats(floor.repeats)),
        ]
        return .object(members)
    }

    private static func interval(_ statistics: RepeatStatistics?) -> ReportValue {
        guard let statistics, statistics.repeats > 1 else { return .null }
        return .object([
            ("median", .rounded(statistics.median)), ("low", .rounded(statistics.low)),
            ("high", .rounded(statistics.high)),
            ("coverage", .number(statistics.coverage)), ("repeats", .integer(statistics.repeats)),
        ])
    }

    /// The values of the repeats in their order, for `imbench compare`.
    private static func repeats(_ values: RepeatedValues) -> ReportValue {
        .object(
            RepeatedMetric.allCases.compactMap { metric in
                values[metric].map { (metric.key, .array($0.map(ReportValue.rounded))) }
            }
        )
    }
}

extension RunResults {
    /// The meaning of the rows with session delivery.
    var sessionExplanation: [String] {
        guard rows.contains(where: { $0.transport.hasSuffix(TransportDescriptor.sessionSuffix) }) else { return [] }
        return [
            "\(TransportDescriptor.sessionSuffix): the same transport under a supervisor, whose session delivers each message once; "
                + "its envelope and its acknowledgements are part of the framing and of the CPU time"
        ]
    }
}
