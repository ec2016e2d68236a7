extension Comparison {
    /// What the reader must know before believing a difference.
    var warnings: [String] {
        let runs = [before, after]
        var warnings = runs.filter { $0.environment["build"] == "debug" }.map {
            "DEBUG BUILD: the numbers of \($0.label) say nothing about the code"
        }
        warnings += runs.filter(\.wasCutShort).map { "CUT SHORT: \($0.label) was interrupted" }
        warnings += Self.conditions.compactMap { name, title in
            let (first, second) = (before.environment[name], after.environment[name])
            return first == second ? nil : "\(title): \(first ?? "unknown") before, \(second ?? "unknown") after"
        }
        warnings += optionNames.compactMap { name in
            let (first, second) = (before.options[name], after.options[name])
            return first == second ? nil : "--\(name): \(first ?? "none") before, \(second ?? "none") after"
        }
        if !rows.contains(where: { !$0.differences.isEmpty }) {
            warnings.append("no row of one run has its like in the other")
        }
        return warnings + machineWarnings
    }

    /// What should be the same in both environments, and what it is called.
    private static let conditions = [
        ("processor", "the processors differ"), ("cores", "the numbers of cores differ"),
        ("system", "the systems differ"), ("build", "the builds differ"), ("swift", "the compilers differ"),
        ("imbench", "the versions of imbench differ"),
        ("wake_ups", "the cores were kept awake in one run only, and the other's times tell of waking them"),
        ("client_core", "the clients' cores differ"), ("server_core", "the servers' cores differ"),
    ]

    /// The options that should be the same. Those that only choose rows, or how a report is written, need not be.
    private var optionNames: [String] {
        let free: Set = ["transport", "codec", "size", "seed", "format", "output", "assert", "quiet"]
        return Set(before.options.keys).union(after.options.keys).subtracting(free).sorted()
    }

    /// The floors are the same code in both runs: what they differ in is the machine.
    private var machineWarnings: [String] {
        let moved = floors.filter { $0.differences.contains(where: \.isReal) }
        guard let worst = moved.max(by: { Self.distance($0) < Self.distance($1) }) else { return [] }
        let change = shownChange(worst.differences.first?.ratio)
        return [
            "the machine itself differs: \(moved.count) of \(floors.count) floors do, "
                + "\(worst.transport) \(worst.size) most, by \(change); trust ×floor more than times"
        ]
    }

    /// How far a median has moved, either way.
    private static func distance(_ row: ComparedRow) -> Double {
        guard let ratio = row.differences.first?.ratio, ratio > 0 else { return 0 }
        return max(ratio, 1 / ratio)
    }
}

/// A ratio as a change: `+3.1 %`.
func shownChange(_ ratio: Double?) -> String {
    guard let ratio, ratio.isFinite else { return "-" }
    return (ratio < 1 ? "-" : "+") + fixed(abs(ratio - 1) * 100, 1) + " %"
}
