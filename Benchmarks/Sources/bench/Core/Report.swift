import CommandSupport
import Measuring
import Reporting

/// The results of a run, as a table and as JSON.
struct Report: Sendable {
    var environment: Environment
    var options: Options
    var verdicts: [Verdict]
    var measurements: [Measurement]
    var wasCutShort: Bool

    /// Whether a contender did not run, or gave a wrong result.
    var hasFailed: Bool {
        measurements.contains { if case .failed = $0.outcome { true } else { false } }
    }

    func text(_ style: Style) -> String {
        var table = Table(columns: [.text("what")])
        table.columns += ["ours", "peer", "ratio", "of repeats", "wanted"].map { .number($0) }
        table.columns.append(.text("met"))
        if options.isAwake { table.columns.append(.number("idle cores")) }
        table.columns.append(.number("CPU"))
        table.rows = verdicts.map(row)
        let judged = verdicts.compactMap(\.isMet)
        return style.bold("im-transports beside others, and beside C") + "\n" + style.dim(conditions) + "\n\n"
            + table.plain(style)
            + "\n\(judged.count { $0 }) of \(judged.count) met. Memory of idle connections: imbench crowd.\n"
            + (wasCutShort ? "CUT SHORT: the run was interrupted\n" : "")
    }

    private var conditions: String {
        let cores = options.isAwake ? "cores kept awake" : "cores may sleep"
        let machine = "\(environment.processor), \(environment.cores) cores, \(environment.system)"
        return
            "\(machine), Swift \(environment.swift), \(options.repeats) repeats of \(options.duration / 1_000_000) ms, "
            + cores + (environment.isDebugBuild ? ", DEBUG BUILD" : "")
    }

    private func row(_ verdict: Verdict) -> Table.Row {
        let name = verdict.comparison.name
        if let reason = verdict.reason {
            return Table.Row(cells: [Table.Cell(name)], note: reason, isFailure: reason.hasPrefix("FAILED"))
        }
        var cells = [name, Self.value(verdict.ours), verdict.peer.map(Self.value) ?? "", shown(verdict.ratio?.median)]
        cells.append(verdict.ratio.map { "\(shown($0.low))–\(shown($0.high))" } ?? "-")
        cells.append(verdict.comparison.wanted?.text ?? "")
        cells.append(verdict.isMet.map { $0 ? "yes" : "NO" } ?? "")
        if options.isAwake { cells.append(verdict.idleRatio.map { shown($0.median) } ?? "") }
        cells.append(Self.processorTime(verdict))
        return Table.Row(cells: cells.map { Table.Cell($0) })
    }

    /// The processor time of a round trip, ours and the peer's.
    private static func processorTime(_ verdict: Verdict) -> String {
        guard let ours = verdict.ours.processorTime else { return "" }
        return "\(shown(ours)) µs"
            + (verdict.peer.map { " / " + ($0.processorTime.map { "\(shown($0)) µs" } ?? "-") } ?? "")
    }

    /// The median with its unit. Large rates are in thousands or millions.
    private static func value(_ measurement: Measurement) -> String {
        guard let median = RepeatStatistics(measurement.values)?.median else { return "-" }
        let unit = measurement.recipe.workload.unit
        return switch unit {
        case .messagesPerSecond where median >= 1e6: "\(shown(median / 1e6)) M/s"
        case .messagesPerSecond: "\(shown(median / 1e3)) k/s"
        case .microseconds, .megabytesPerSecond, .allocations: "\(shown(median)) \(unit.rawValue)"
        }
    }
}
