/// Two runs, row by row: what differs for sure, what may be chance, and what cannot be told.
struct Comparison: Sendable {
    var before: RecordedRun
    var after: RecordedRun
    /// The share by which two runs of the same code may differ.
    var noise: Double
    var rows: [ComparedRow]
    /// The floors: what the machine did by itself. Of these the median alone is compared.
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

    /// All numbers of all rows that both runs have; without the floors.
    var differences: [Difference] { rows.flatMap(\.differences) }

    /// How many differences chance alone would have called real, at most.
    var expectedByChance: Double {
        differences.compactMap(\.interval).reduce(0) { $0 + 1 - $1.coverage }
    }
}

/// One row of two runs.
struct ComparedRow: Sendable {
    var name: RecordedRow.Name
    var differences: [Difference] = []
    /// Why there is nothing to compare.
    var note: String?

    /// A row that only one of the runs has.
    init(_ row: RecordedRow, onlyIn label: String) {
        name = row.name
        note = "only in \(label)" + (row.name.load.isEmpty ? "" : " (\(row.name.load))")
    }

    init(_ before: RecordedRow, _ after: RecordedRow, _ metrics: [RepeatedMetric], noise: Double) {
        name = before.name
        switch (before.reason, after.reason) {
        case (nil, nil): differences = metrics.map { Difference($0, before: before, after: after, noise: noise) }
        case (let reason?, nil): note = "measured only after; before: \(reason)"
        case (nil, let reason?): note = "measured only before; after: \(reason)"
        case (let reason?, .some): note = reason
        }
    }
}

/// By what `--assert` calls a difference: `ws.json.256.rtt.p50_us.ratio_low <= 1.05` fails only if it is sure that the median
/// grew by more than 5 %.
extension ComparedRow: AssertableRow {
    static let metrics = RepeatedMetric.allCases.flatMap { metric in
        ["ratio", "ratio_low", "ratio_high"].map { "\(metric.rawValue).\($0)" }
    }

    var transport: String { name.transport }
    var codec: String { name.codec }
    var size: Int { name.size }

    var reason: String? { note ?? differences.lazy.compactMap(\.verdict.reason).first }

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
