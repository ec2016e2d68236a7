import CommandSupport
import Measuring
import Reporting

/// Two runs, row by row: real differences, differences within noise, and unknown ones.
struct Comparison: Sendable {
    var before: RecordedRun
    var after: RecordedRun
    /// The share by which two runs of the same code may differ.
    var noise: Double
    var rows: [ComparedRow]
    /// The floors, which show the machine itself. Only their medians are compared.
    var floors: [ComparedRow]

    init(_ before: RecordedRun, _ after: RecordedRun, noise: Double) {
        (self.before, self.after, self.noise) = (before, after, noise)
        func pair(_ rows: KeyPath<RecordedRun, [RecordedRow]>, _ metrics: [RepeatedMetric]) -> [ComparedRow] {
            let (first, second) = (before[keyPath: rows], after[keyPath: rows])
            let names = Set(first.map(\.name))
            let partners = Dictionary(second.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
            let paired = first.map { row in
                partners[row.name].map { ComparedRow(row, $0, metrics, noise: noise) }
                    ?? ComparedRow(row, onlyIn: before.label)
            }
            return paired + second.filter { !names.contains($0.name) }.map { ComparedRow($0, onlyIn: after.label) }
        }
        rows = pair(\.rows, RepeatedMetric.allCases)
        floors = pair(\.floors, [.p50])
    }

    /// All numbers of all rows that both runs have, without the floors.
    var differences: [Difference] { rows.flatMap(\.differences) }

    /// How many differences are expected to look real by chance.
    var expectedByChance: Double {
        differences.compactMap(\.interval).reduce(0) { $0 + 1 - $1.coverage }
    }

    /// Whether both runs can be trusted.
    var trust: Trust {
        .recorded(
            doubts: [before, after].compactMap { run in
                switch run.isTrusted {
                case true: nil
                case false: "\(run.label) was disturbed"
                case nil: "\(run.label) does not say whether it was disturbed"
                }
            }
        )
    }

    // MARK: Warnings

    /// Warnings for the reader of the differences.
    var warnings: [String] {
        let runs = [before, after]
        var warnings = runs.filter { $0.environment["build"] == "debug" }.map {
            "DEBUG BUILD: the numbers of \($0.label) are not meaningful"
        }
        warnings += runs.filter(\.wasCutShort).map { "CUT SHORT: \($0.label) was interrupted" }
        warnings += Self.conditions.compactMap { name, title in
            let (first, second) = (before.environment[name], after.environment[name])
            // It is unknown in a run over a network, which does not keep cores awake either.
            if name == "wake_ups", ![first, second].contains("awake") { return nil }
            return first == second ? nil : "\(title): \(first ?? "unknown") before, \(second ?? "unknown") after"
        }
        warnings += optionNames.compactMap { name in
            let (first, second) = (before.options[name], after.options[name])
            return first == second ? nil : "--\(name): \(first ?? "none") before, \(second ?? "none") after"
        }
        return warnings + machineWarnings
    }

    /// The members of the environment that should be equal, and the sentences if they are not.
    private static let conditions = [
        ("processor", "The processors differ"), ("cores", "The numbers of cores differ"),
        ("system", "The systems differ"), ("build", "The builds differ"), ("swift", "The compilers differ"),
        ("imbench", "The versions of imbench differ"),
        ("wake_ups", "The cores were kept awake in one run only, and the other's times include wake-ups"),
        ("client_core", "The clients' cores differ"), ("server_core", "The servers' cores differ"),
    ]

    /// The options that should be equal: all but those that choose rows or the form of the report.
    private var optionNames: [String] {
        let free: Set = ["transport", "codec", "size", "seed", "format", "output", "charts", "assert", "quiet"]
        return Set(before.options.keys).union(after.options.keys).subtracting(free).sorted()
    }

    /// The floors are the same code in both runs, so a difference between them is one of the machine.
    private var machineWarnings: [String] {
        let moved = floors.filter { $0.differences.contains(where: \.isReal) }
        guard let worst = moved.max(by: { Self.distance($0) < Self.distance($1) }) else { return [] }
        let change = shownChange(worst.differences.first?.ratio)
        return [
            "The machine differs: \(moved.count) of \(floors.count) floors differ, "
                + "\(worst.transport) \(worst.size) most, by \(change); ×floor is more reliable than times"
        ]
    }

    /// By which factor a median has changed, in either direction.
    private static func distance(_ row: ComparedRow) -> Double {
        guard let ratio = row.differences.first?.ratio, ratio > 0 else { return 0 }
        return max(ratio, 1 / ratio)
    }
}

/// One row of two runs.
struct ComparedRow: Sendable {
    var row: RecordedRow.Name
    var differences: [Difference] = []
    /// The factor by which the floor of the row has changed, in either direction; `nil` if it has none. The floor is the same
    /// code in both runs. A machine that runs it slower runs other code slower too, by a factor that is not known. So a
    /// difference is real only if it is larger than this factor.
    ///
    /// For ×floor the square root of this factor is enough: a row follows its floor by half of the floor's change at least,
    /// and by one and a half of it at most.
    var machineChange: Double?
    /// Why there is nothing to compare.
    var note: String?

    /// A row that only one of the runs has.
    init(_ row: RecordedRow, onlyIn label: String) {
        self.row = row.name
        note = "only in \(label)" + (row.name.load.isEmpty ? "" : " (\(row.name.load))")
    }

    init(_ before: RecordedRow, _ after: RecordedRow, _ metrics: [RepeatedMetric], noise: Double) {
        row = before.name
        if let before = before.floorP50, let after = after.floorP50 {
            machineChange = max(before / after, after / before)
        }
        switch (before.reason, after.reason) {
        case (nil, nil):
            differences = metrics.map {
                Difference($0, before: before, after: after, noise: noise, machineChange: machineChange)
            }
        case (let reason?, nil): note = "measured only after; before: \(reason)"
        case (nil, let reason?): note = "measured only before; after: \(reason)"
        case (let reason?, .some): note = reason
        }
    }
}

extension ComparedRow {
    /// The difference that decides about the row: that of ×floor if both runs have it, because the phases of the machine
    /// cancel out in it, and that of p50 otherwise.
    var main: Difference? {
        func difference(_ metric: RepeatedMetric) -> Difference? { differences.first { $0.metric == metric } }
        if let ratio = difference(.ratioToFloor), ratio.interval != nil { return ratio }
        return difference(.p50)
    }

    /// The verdict in words: "faster by 12 % (9–15)".
    var sentence: String {
        guard let main else { return note ?? "not compared" }
        switch main.verdict {
        case .unknown(let reason): return "unknown: \(reason)"
        case .noise: return "no difference beyond noise"
        case .better, .worse:
            guard let interval = main.interval else { return "unknown" }
            let isSlower = interval.low > 1
            func percent(_ ratio: Double) -> String { fixed(abs(ratio - 1) * 100, 0) }
            let ends = isSlower ? (interval.low, interval.high) : (interval.high, interval.low)
            return "\(isSlower ? "slower" : "faster") by \(percent(interval.middle)) % "
                + "(\(percent(ends.0))–\(percent(ends.1)))"
        }
    }
}

/// The names of differences in `--assert`: `ws.json.256.rtt.p50_us.ratio_low <= 1.05` fails only if it is sure that the
/// median grew by more than 5 %.
extension ComparedRow: AssertableRow {
    static let metrics = RepeatedMetric.allCases.flatMap { metric in
        ["ratio", "ratio_low", "ratio_high"].map { "\(metric.rawValue).\($0)" }
    }

    var transport: String { row.transport }
    var codec: String { row.codec }
    var size: Int { row.size }
    var labels: [String] { [transport, codec, String(size)] }
    var name: String { labels.joined(separator: " ") + (row.picture.isEmpty ? "" : " \(row.picture)") + overNetwork }
    /// The network of the row, behind its other names.
    var overNetwork: String { row.network.isEmpty ? "" : " over \(row.network)" }

    var reason: String? { note }

    func reason(of metric: String) -> String? {
        note ?? differences.first { metric.hasPrefix($0.metric.rawValue + ".") }?.verdict.reason
    }

    func value(of metric: String) -> Double? {
        for difference in differences {
            switch metric {
            case "\(difference.metric.rawValue).ratio": return difference.ratio
            case "\(difference.metric.rawValue).ratio_low": return difference.interval?.low
            case "\(difference.metric.rawValue).ratio_high": return difference.interval?.high
            default: continue
            }
        }
        return nil
    }
}

/// The difference of one number between two runs, and whether it is more than chance.
struct Difference: Sendable {
    enum Verdict: Sendable, Hashable {
        /// The whole interval lies beyond the noise.
        case better, worse
        case noise
        /// The repeats are not sufficient, with the reason.
        case unknown(String)

        /// Why the repeats are not sufficient.
        var reason: String? { if case .unknown(let reason) = self { reason } else { nil } }

        /// For JSON and CSV.
        var name: String {
            switch self {
            case .better: "better"
            case .worse: "worse"
            case .noise: "noise"
            case .unknown: "unknown"
            }
        }
    }

    var metric: RepeatedMetric
    /// The medians over the repeats.
    var before: Double?
    var after: Double?
    /// The interval of the ratio of after to before, widened by the change of the machine.
    var interval: RatioInterval?
    /// The smallest factor, in either direction, that these repeats show to be real in nine of ten cases.
    var resolution: Double?
    var verdict: Verdict

    /// - Parameters:
    ///   - noise: the share by which two runs of the same code may differ, such as 0.01.
    ///   - machineChange: ``ComparedRow/machineChange``.
    init(
        _ metric: RepeatedMetric,
        before: RecordedRow,
        after: RecordedRow,
        noise: Double,
        machineChange: Double?
    ) {
        let (first, second) = (before.repeats.known(metric), after.repeats.known(metric))
        self.metric = metric
        self.before = RepeatStatistics(first)?.median
        self.after = RepeatStatistics(second)?.median
        interval = RatioInterval(before: first, after: second)
        let machineChange = metric == .ratioToFloor ? machineChange?.squareRoot() : machineChange
        resolution = interval.map { interval in
            // Half of the interval is 2.6 standard errors, and nine of ten estimates are below the true change by at most 1.3.
            let half = max(interval.middle / interval.low, interval.high / interval.middle)
            return (1 + noise) * half * half.squareRoot() * (machineChange ?? 1)
        }
        interval?.widen(by: machineChange ?? 1)
        if let interval {
            let isMore = interval.low > 1 + noise
            let isLess = interval.high < 1 / (1 + noise)
            verdict = isMore || isLess ? (isMore == metric.isBetterWhenLarger ? .better : .worse) : .noise
        } else {
            verdict = .unknown(Self.obstacle(metric, before, after))
        }
    }

    /// Why the repeats of two rows have no interval.
    private static func obstacle(_ metric: RepeatedMetric, _ before: RecordedRow, _ after: RecordedRow) -> String {
        let rows = [before, after]
        if rows.contains(where: { $0.repeats.isEmpty }) { return "a report lacks the values of its repeats" }
        let empty = rows.filter { $0.repeats.known(metric).isEmpty }
        if metric == .ratioToFloor, empty.contains(where: { $0.floorP50 == nil }) { return "a row has no floor" }
        if metric == .ratioToFloor, empty.contains(where: { $0.repeats[metric] == nil }) {
            return "the floor of a row has a heavy tail"
        }
        if metric == .cpu, before.name.hasPicture { return "CPU time is not measured beside a picture" }
        if rows.contains(where: { $0.repeats[metric] == nil }) { return "a report lacks the values of its repeats" }
        if rows.contains(where: { $0.repeats.known(metric).contains(0) }) { return "a value is 0" }
        return "too few repeats have a value; it takes \(RatioInterval.neededRepeats) in each run"
    }

    /// After to before.
    var ratio: Double? {
        if let interval { return interval.middle }
        guard let before, let after, before > 0 else { return nil }
        return after / before
    }

    var isReal: Bool { verdict == .better || verdict == .worse }
}

/// A ratio as a change in percent: `+3.1`.
func shownPercent(_ ratio: Double?) -> String {
    guard let ratio, ratio.isFinite else { return "-" }
    return (ratio < 1 ? "-" : "+") + fixed(abs(ratio - 1) * 100, 1)
}

/// A resolution as a change in percent, rounded up.
func shownResolution(_ factor: Double?) -> String {
    guard let factor, factor.isFinite else { return "-" }
    return RowDifferences.percentUp(factor)
}

/// A ratio as a change: `+3.1 %`.
func shownChange(_ ratio: Double?) -> String {
    let percent = shownPercent(ratio)
    return percent == "-" ? percent : percent + " %"
}

extension Assertion.Names {
    /// The names of differences.
    static func comparedRows(_ vocabulary: Vocabulary) -> Assertion.Names {
        Assertion.Names(
            example: "ws.rtt.p50_us.ratio_low <= 1.05",
            labels: codecAndSize(vocabulary),
            metrics: ComparedRow.metrics
        )
    }
}
