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
            sections.append(
                Report.Section(
                    heading: "Round trips",
                    question: "How long does a message take, there and back?",
                    charts: groups.map(Self.times) + groups.map(Self.ratios),
                    table: table.selecting(["p50 µs", "±%", "p99 µs", "×floor", "accounts"]),
                    notes: roundTripSentences + ratioNotes + sessionExplanation,
                    reading: Self.timesReading,
                    next: [
                        .init("To see the same over a mobile network", "imbench run --network 4g"),
                        .init("To compare the code alone, without the time to wake cores", "imbench run --awake"),
                    ]
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
                    ]
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
                    notes: floorSentences
                )
            )
        }
        return Report(
            name: "imbench run",
            title: "The cost of a chat message on each transport, on one machine",
            warnings: warnings,
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
        var warnings: [String] = []
        if environment.isDebugBuild {
            warnings.append("DEBUG BUILD: these numbers are not meaningful; build with -c release")
        }
        warnings += cutShort
        // A picture lets messages wait, and the round trip counts from the intended time.
        for row in rows where row.sentPicture == nil {
            guard let target = row.targetRate, let rate = row.sendRate, rate < target * 0.99 else { continue }
            let share = fixed(rate / target * 100, 1)
            let name = "\(row.transport) \(row.codec) \(row.size)" + (row.network.map { " over \($0)" } ?? "")
            warnings.append("\(name): messages were sent at only \(share) % of the requested rate")
        }
        return warnings + remarks
    }

    /// The warning of an interrupted run.
    var cutShort: [String] {
        wasCutShort ? ["CUT SHORT: the run was interrupted, and has the results until then"] : []
    }

    /// The conditions of the measurement.
    var facts: [(name: String, value: String)] {
        let options = options.filter { !["format", "output", "charts", "seed"].contains($0.name) }
        var facts = [
            ("machine", "\(environment.processor), \(environment.cores) cores, \(environment.system)"),
            (
                "build",
                "imbench \(version), Swift \(environment.swift), \(environment.isDebugBuild ? "debug" : "release")"
                    + (environment.commit.map { ", commit \($0.prefix(12))" } ?? "")
            ),
            ("run", "\(environment.date), seed \(seed)"),
            ("options", options.map { "\($0.name)=\($0.value)" }.joined(separator: " ")),
        ]
        if let regime = WakeUpRegime(self) {
            facts += [("wake-ups", regime.sentence), ("placement", placement.sentence)]
        }
        return facts
    }

    /// The `imbench/1` JSON with the results of any command. Units are in the names, and what was not measured is null. A new
    /// member does not change the number in the schema's name; a changed meaning does.
    func envelope(results: [JSONValue], more: [(String, JSONValue)] = []) -> JSONValue {
        .object(
            [
                ("schema", .string("imbench/1")),
                (
                    "environment",
                    .object([
                        ("imbench", .string(version)), ("system", .string(environment.system)),
                        ("processor", .string(environment.processor)), ("cores", .integer(environment.cores)),
                        ("swift", .string(environment.swift)),
                        ("build", .string(environment.isDebugBuild ? "debug" : "release")),
                        ("commit", JSONValue(environment.commit)), ("date", .string(environment.date)),
                        ("seed", .integer(Int(clamping: seed))), ("client_core", JSONValue(placement?.near)),
                        ("server_core", JSONValue(placement?.far)), ("placement", .string(placement.kind.rawValue)),
                        ("wake_ups", JSONValue(WakeUpRegime(self)?.name)),
                    ])
                ),
                ("options", .object(options.map { ($0.name, .string($0.value)) })), ("cut_short", .bool(wasCutShort)),
                ("remarks", .array(remarks.map(JSONValue.string))), ("results", .array(results)),
            ] + more
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
                .text("accounts", nil, "✓ if each message has an outcome; and the numbers above 0 that should be 0"),
                .text("guarantees", nil, "the promise of the transport for each message that was sent"),
            ],
            rows: rows.map { row in
                let labels = [Table.Cell(row.transport), Table.Cell(row.codec), Table.Cell(row.size)]
                return Table.Row(
                    cells: labels + Metric.all.map { $0.cell(row) }
                        + [Table.Cell(accounts(of: row)), Table.Cell(row.guarantee ?? "-")],
                    note: row.reason,
                    repeatsNote: isExplained(row),
                    isFailure: row.hasFailed
                )
            }
        )
    }

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
        let titles = ["min µs", "p50 µs", "±%", "p90 µs", "p99 µs", "p99.9 µs", "max µs", "n"]
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

    /// Why rows have no ratio, and the remedy.
    var ratioNotes: [String] {
        let notes = rows.compactMap(\.ratioNote).distinct
        guard !notes.isEmpty else { return [] }
        return notes.map { "no ×floor where \($0)" } + [
            "A bimodal floor mixes two kinds of round trip, so a ratio to it depends little on the code. "
                + "Try --awake, a longer --duration, or a machine without other load."
        ]
    }

    private static func times(_ size: Int, _ rows: [ResultRow]) -> BarChart {
        let measured = rows.filter { $0.rtt?.p50 != nil }
        // A very long tail would hide the medians.
        let p50 = measured.compactMap { $0.rtt?.p50 }.max() ?? 0
        let p99 = measured.compactMap { $0.rtt?.p99 }.max() ?? 0
        let spread = measured.compactMap { $0.rttP50Spread?.high }.max() ?? 0
        let tail: [(kind: BarChart.Kind, meaning: String)] = p99 > 0 ? [(.tail, "p99")] : []
        return BarChart(
            title: "\(size) bytes of text: round trip in µs",
            legend: [(.first, "p50")] + tail + [(.interval, "spread of p50"), (.mark, "floor")],
            rows: measured.map { row in
                let (p50, p99) = (row.rtt?.p50 ?? 0, row.rtt?.p99)
                var spans: [BarChart.Span] = []
                if let p99 { spans.append(.init(kind: .tail, from: 0, to: p99)) }
                spans.append(.init(kind: .first, from: 0, to: p50))
                if let spread = row.rttP50Spread {
                    spans.append(.init(kind: .interval, from: spread.low, to: spread.high))
                }
                if let floor = row.floorP50 { spans.append(.init(kind: .mark, from: floor, to: floor)) }
                return BarChart.Row(
                    label: "\(row.transport) \(row.codec)",
                    spans: spans,
                    value: shown(p50) + (p99.map { " / " + shown($0) } ?? "")
                )
            },
            range: 0...max(p50, min(max(p99, spread), p50 * 3))
        )
    }

    private static func ratios(_ size: Int, _ rows: [ResultRow]) -> BarChart {
        // A very wide spread would hide the ratios.
        let median = rows.compactMap { $0.ratioToFloor?.median }.max() ?? 1
        let high = rows.compactMap { $0.ratioToFloor?.high }.max() ?? 1
        return BarChart(
            title: "\(size) bytes of text: p50 over its floor",
            legend: [(.second, "×floor"), (.interval, "its spread"), (.reference, "the floor itself")],
            rows: rows.compactMap { row in
                guard let ratio = row.ratioToFloor else { return nil }
                return BarChart.Row(
                    label: "\(row.transport) \(row.codec)",
                    spans: [
                        .init(kind: .second, from: 0, to: ratio.median),
                        .init(kind: .interval, from: ratio.low, to: ratio.high),
                    ],
                    value: "×" + shown(ratio.median)
                )
            },
            range: 0...max(1, median, min(high, median * 3)),
            lines: [1]
        )
    }

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

    var data: JSONValue {
        let sentences = roundTripSentences + costSentences + floorSentences
        return envelope(
            results: rows.map(Self.data),
            more: [
                ("floors", .array(floors.map(Self.data))), ("sentences", .array(sentences.map(JSONValue.string))),
                ("warnings", .array(warnings.map(JSONValue.string))),
            ]
        )
    }

    static func data(_ row: ResultRow) -> JSONValue {
        var members: [(String, JSONValue)] = [
            ("network", JSONValue(row.network)), ("transport", .string(row.transport)), ("codec", .string(row.codec)),
            ("size", .integer(row.size)), ("loop", .string(row.loop.rawValue)), ("outcome", .string(row.outcome.name)),
        ]
        if let reason = row.reason { members.append(("reason", .string(reason))) }
        members += Metric.members(row) { metric in
            guard row.picture != nil || !metric.isOfPicture else { return false }
            return row.loop == .open || !metric.name.hasPrefix("service.") && !metric.name.hasPrefix("target_")
        }
        if let picture = row.picture {
            members += [("picture", .string(picture.place.rawValue)), ("picture_bytes", .integer(picture.bytes))]
        }
        if let picture = row.sentPicture {
            members.append(("picture_repeats_ms", .array(picture.repeats.map(JSONValue.rounded))))
        }
        members += [
            ("rtt_p50_interval_us", interval(row.rttP50Spread)), ("floor", JSONValue(row.floor)),
            ("ratio_to_floor_p50_interval", interval(row.ratioToFloor)), ("ratio_note", JSONValue(row.ratioNote)),
            ("guarantees", JSONValue(row.guarantee)), ("accounts_close", .bool(row.accountsClose)),
            ("repeats", repeats(row.repeats)),
        ]
        return .object(members)
    }

    static func data(_ floor: FloorResult) -> JSONValue {
        var members: [(String, JSONValue)] = [("floor", .string(floor.kind.rawValue)), ("size", .integer(floor.size))]
        if let reason = floor.reason { members.append(("reason", .string(reason))) }
        members += Metric.members(row(floor)) { $0.name.hasPrefix("rtt.") }
        members += [
            ("rtt_p50_interval_us", interval(floor.p50Spread)), ("bimodal", .bool(floor.bimodality != nil)),
            ("repeats", repeats(floor.repeats)),
        ]
        return .object(members)
    }

    private static func interval(_ statistics: RepeatStatistics?) -> JSONValue {
        guard let statistics, statistics.repeats > 1 else { return .null }
        return .object([
            ("low", .rounded(statistics.low)), ("high", .rounded(statistics.high)),
            ("coverage", .number(statistics.coverage)), ("repeats", .integer(statistics.repeats)),
        ])
    }

    /// The values of the repeats in their order, for `imbench compare`.
    private static func repeats(_ values: RepeatedValues) -> JSONValue {
        .object(
            RepeatedMetric.allCases.compactMap { metric in
                values[metric].map { (metric.key, .array($0.map(JSONValue.rounded))) }
            }
        )
    }
}
