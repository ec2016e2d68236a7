/// Writes the results of a run in each format.
enum Report {
    static func text(_ results: RunResults, format: Format, style: Style) -> String {
        switch format {
        case .table: plain(results, style)
        case .json: JSONReport.text(results)
        case .csv: CSVReport.text(results)
        case .markdown: markdown(results)
        case .html: html(results)
        }
    }

    private static func plain(_ results: RunResults, _ style: Style) -> String {
        var text = ""
        for warning in warnings(results) { text += style.red(warning) + "\n" }
        for (name, value) in facts(results) { text += style.dim(name.padded(to: 10)) + " " + value + "\n" }
        if !results.rows.isEmpty {
            text += "\n" + style.bold("Round trips") + "\n" + rows(results.rows).plain(style)
            for note in notes(results.rows) { text += note + "\n" }
        }
        if !results.floors.isEmpty {
            text += "\n" + style.bold("Floors: the same round trip in bare system calls") + "\n"
            text += floors(results.floors).plain(style)
        }
        return text
    }

    private static func markdown(_ results: RunResults) -> String {
        var text = "# imbench\n\n"
        for warning in warnings(results) { text += "> **\(warning)**\n\n" }
        for (name, value) in facts(results) { text += "- \(name): \(value)\n" }
        if !results.rows.isEmpty { text += "\n## Round trips\n\n" + rows(results.rows).markdown }
        for note in notes(results.rows) { text += "\n\(note)\n" }
        if !results.floors.isEmpty {
            text += "\n## Floors: the same round trip in bare system calls\n\n" + floors(results.floors).markdown
        }
        return text
    }

    static let cutShort = "CUT SHORT: the run was interrupted; this is what was measured until then"

    /// What the reader must know before believing a number.
    static func warnings(_ results: RunResults) -> [String] {
        var warnings: [String] = []
        if results.environment.isDebugBuild {
            warnings.append("DEBUG BUILD: these numbers say nothing about the code; build with -c release")
        }
        if results.wasCutShort {
            warnings.append(cutShort)
        }
        for row in results.rows {
            guard let target = row.targetRate, let rate = row.throughput, rate < target * 0.99 else { continue }
            warnings.append(
                "\(row.transport) \(row.codec) \(row.size): only \(fixed(rate / target * 100, 1)) % of the rate asked for"
            )
        }
        return warnings + results.remarks
    }

    /// Where and how it was measured.
    static func facts(_ results: RunResults) -> [(String, String)] {
        let environment = results.environment
        var facts = [
            ("machine", "\(environment.processor), \(environment.cores) cores, \(environment.system)"),
            (
                "build",
                "imbench \(version), Swift \(environment.swift), \(environment.isDebugBuild ? "debug" : "release")"
                    + (environment.commit.map { ", commit \($0.prefix(12))" } ?? "")
            ),
            ("run", "\(environment.date), seed \(results.seed)"),
            ("options", results.options.map { "\($0.name)=\($0.value)" }.joined(separator: " ")),
        ]
        if let regime = WakeUpRegime(results) {
            facts.append(("wake-ups", regime.sentence))
            facts.append(("placement", results.placement.sentence))
        }
        return facts
    }

    static func rows(_ rows: [ResultRow]) -> TextTable {
        let isOpen = rows.contains { $0.loop == .open }
        var columns: [TextTable.Column] = [
            .init(title: "transport", alignedRight: false), .init(title: "codec", alignedRight: false),
            .init(title: "size"),
            .init(title: "p50 µs"), .init(title: "±%"), .init(title: "p99 µs"), .init(title: "×floor"),
        ]
        if isOpen { columns += [.init(title: "service p50"), .init(title: "of rate")] }
        columns += [
            .init(title: "msgs/s"), .init(title: "wire B/msg"), .init(title: "CPU µs/msg"), .init(title: "open ms"),
            .init(title: "open B"), .init(title: "open RTT"), .init(title: "accounts", alignedRight: false),
        ]
        return TextTable(columns: columns, rows: rows.map { self.row($0, isOpen) })
    }

    /// Why rows have no ratio, and what to do about it.
    static func notes(_ rows: [ResultRow]) -> [String] {
        let notes = rows.compactMap(\.ratioNote).distinct
        guard !notes.isEmpty else { return [] }
        return notes.map { "no ×floor where \($0)" } + [
            "a bimodal floor mixes two kinds of round trip, so that a ratio to it says little about the code;",
            "try --awake, a longer --duration, or a machine that does nothing else",
        ]
    }

    private static func row(_ row: ResultRow, _ isOpen: Bool) -> TextTable.Row {
        var cells = [row.transport, row.codec, String(row.size)]
        if let reason = row.reason { return TextTable.Row(cells: cells, note: reason, isFailure: row.hasFailed) }
        cells += [
            shown(row.rtt?.p50), shown(row.rttP50Spread?.relativeSpread.map { $0 * 100 }), shown(row.rtt?.p99),
            shown(row.ratioToFloor?.median),
        ]
        if isOpen {
            let share = row.throughput.flatMap { rate in row.targetRate.map { rate / $0 * 100 } }
            cells += [shown(row.service?.p50), share.map { fixed($0, 1) + " %" } ?? "-"]
        }
        let bytes = row.bytesPerMessage.map { ($0.isEstimated ? "~" : "") + fixed($0.wire, 1, trimmed: true) } ?? "-"
        cells += [
            shown(row.throughput), bytes, shown(row.cpuPerMessage), shown(row.handshake?.milliseconds),
            row.handshake.map { fixed($0.bytes, 0) } ?? "-", shown(row.handshake?.roundTrips), accounts(row),
        ]
        return TextTable.Row(cells: cells, isFailure: row.hasFailed)
    }

    /// A tick, and after it whatever is not as it should be on a good day.
    private static func accounts(_ row: ResultRow) -> String {
        let accounts = row.accounts
        var text = accounts.closes ? "✓" : "✗ sent \(accounts.sent) ≠ acked \(accounts.acked)"
        let counts = [
            ("lost", accounts.lost), ("in flight", accounts.inFlight), ("duplicated", accounts.duplicated),
            ("reordered", accounts.reordered), ("unexpected", accounts.unexpected), ("errors", row.errors),
        ]
        for (name, count) in counts where count != 0 { text += " \(count) \(name)" }
        return text
    }

    static func floors(_ floors: [FloorResult]) -> TextTable {
        let columns: [TextTable.Column] = [
            .init(title: "floor", alignedRight: false), .init(title: "size"), .init(title: "min µs"),
            .init(title: "p50 µs"),
            .init(title: "±%"), .init(title: "p90 µs"), .init(title: "p99 µs"), .init(title: "p99.9 µs"),
            .init(title: "max µs"), .init(title: "n"),
        ]
        return TextTable(
            columns: columns,
            rows: floors.map { floor in
                let cells = [floor.kind.rawValue, String(floor.size)]
                if let reason = floor.reason { return TextTable.Row(cells: cells, note: reason) }
                let rtt = floor.rtt
                return TextTable.Row(
                    cells: cells + [
                        shown(rtt.minimum), shown(rtt.p50), shown(floor.p50Spread?.relativeSpread.map { $0 * 100 }),
                        shown(rtt.p90), shown(rtt.p99), shown(rtt.p999), shown(rtt.maximum), String(rtt.count),
                    ]
                )
            }
        )
    }
}
