/// One line of what `imbench crowd` has measured.
struct CrowdRow: Sendable {
    var transport: String
    /// What hostile clients did; `nil` for a crowd of idle ones.
    var attack: HostileKind?
    /// The numbers, by the names that `--assert`, JSON and CSV use; `nil` for what was not measured.
    var metrics: [(name: String, value: Double?)] = []
    /// How often the owner of the server heard of which end, by the error's code, and what else was told to whom; see
    /// ``AttackPlan/Ending``.
    var endings: [(code: String, count: Int)] = []
    /// Which of them had to come, by the server's limits.
    var expected: [String] = []
    /// What must not be, and was: each fails the run.
    var breaches: [String] = []
    /// Why there is nothing to tell.
    var failure: String?

    /// What `--assert` calls it.
    var name: String { attack.map { "\(transport).\($0.rawValue)" } ?? transport }

    func value(_ metric: String) -> Double? {
        metrics.first { $0.name == metric }?.value ?? nil
    }
}

extension CrowdRow {
    /// The metrics of a crowd of idle clients, in their order.
    static let idleMetrics = [
        "links", "connect_s", "links_per_s", "server_bytes", "client_bytes", "pings", "pongs", "ping_p50_us",
        "ping_p99_us",
    ]
    /// Those of an attack.
    static let attackMetrics = [
        "quiet_p50_us", "quiet_p99_us", "attacked_p50_us", "attacked_p99_us", "ratio_p50", "ratio_p99",
        "quiet_round_trips", "attacked_round_trips", "attackers",
        "links", "connections", "endings", "heap_peak_bytes",
        "heap_bound_bytes", "ratio_p99_least", "ratio_p99_most", "repeats",
    ]
}

extension CrowdRow {
    /// Of several measurements of one attack, that in which the others' 99th percentile grew by the factor in the middle (of two the
    /// greater one), with the least and the greatest factor, and whatever any of them has breached; one that failed, if one did.
    static func middle(of rows: [CrowdRow]) -> CrowdRow? {
        let factor = { (row: CrowdRow) in row.value("ratio_p99") ?? .infinity }
        let ordered = rows.sorted { factor($0) < factor($1) }
        guard var row = rows.first(where: { $0.failure != nil }) ?? ordered.dropFirst(rows.count / 2).first else {
            return nil
        }
        row.metrics += [
            ("ratio_p99_least", ordered.first?.value("ratio_p99")),
            ("ratio_p99_most", ordered.last?.value("ratio_p99")),
            ("repeats", Double(rows.count)),
        ]
        row.breaches = rows.flatMap(\.breaches).distinct
        return row
    }
}

/// One `--assert` of `imbench crowd`: `transport[.attack].metric op number`, as in `ws.ping-flood.ratio_p99 <= 2`.
///
/// It speaks of every row that it names, as ``Assertion`` does.
struct CrowdAssertion: Sendable, Hashable {
    var text: String
    private var transport: String
    private var attack: HostileKind?
    private var metric: String
    private var comparison: Assertion.Comparison
    private var bound: Double

    /// Reads an expression.
    init(_ text: String, _ vocabulary: Vocabulary) throws(UsageError) {
        guard let parts = Assertion.parts(text) else {
            throw UsageError("--assert: '\(text)' is not of the form 'ws.ping-flood.ratio_p99 <= 2'")
        }
        var names = parts.subject.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        transport = names.removeFirst()
        guard vocabulary.transports.contains(transport) else {
            throw .unknown("transport", transport, allowed: vocabulary.transports)
        }
        if names.count > 1, let kind = HostileKind(rawValue: names[0]) {
            attack = kind
            names.removeFirst()
        }
        metric = names.joined(separator: ".")
        var metrics = CrowdRow.idleMetrics
        metrics += CrowdRow.attackMetrics.filter { !metrics.contains($0) }
        guard metrics.contains(metric) else { throw .unknown("metric", metric, allowed: metrics) }
        (self.text, comparison, bound) = (text, parts.comparison, parts.bound)
    }

    /// Why the assertion does not hold, or `nil` if it does.
    func failure(in rows: [CrowdRow]) -> String? {
        let named = rows.filter { $0.transport == transport && (attack == nil || $0.attack == attack) }
        guard !named.isEmpty else { return "'\(text)' does not hold: there is no such row" }
        for row in named {
            guard let value = row.value(metric) else { return "'\(text)' does not hold: \(row.name) has no \(metric)" }
            guard comparison.holds(value, bound) else {
                return "'\(text)' does not hold: \(row.name) has \(fixed(value, 3, trimmed: true))"
            }
        }
        return nil
    }
}
