/// One row of `imbench crowd`.
struct CrowdRow: Sendable, AssertableRow {
    var transport: String
    /// The behaviour of the hostile clients; `nil` for a crowd of idle ones.
    var attack: HostileKind?
    /// The numbers, by the names that `--assert`, JSON and CSV use; `nil` for what was not measured.
    var metrics: [(name: String, value: Double?)] = []
    /// The number of endings that the server reported, by the error's code or by ``AttackPlan/Ending``.
    var endings: [(code: String, count: Int)] = []
    /// The endings that the server's limits require.
    var expected: [String] = []
    /// Violations, each of which fails the run.
    var breaches: [String] = []
    /// Why there are no numbers.
    var failure: String?

    var labels: [String] { [transport, attack?.rawValue ?? ""] }
    var name: String { attack.map { "\(transport).\($0.rawValue)" } ?? transport }
    var reason: String? { failure }

    func value(of metric: String) -> Double? {
        metrics.first { $0.name == metric }?.value ?? nil
    }

    /// The metrics of a crowd of idle clients.
    static let idleColumns: [Table.Column] = [
        .number("clients", "connections", "connected clients"),
        .number("open s", "connect_s", "time to connect all of them, in s"),
        .number("opens/s", "connections_per_s", "connections opened per second"),
        .number("server B", "server_bytes", "heap of the server per connection, in bytes"),
        .number("client B", "client_bytes", "heap of the client per connection, in bytes"),
        .number("s. used B", "server_used_bytes", "the same at the server, one second after --transfer bytes each way"),
        .number("c. used B", "client_used_bytes", "the same at the client"),
        .number(
            "kernel B",
            "server_kernel_bytes",
            "memory of the kernel per end of a connection: slab and buffers, in bytes"
        ),
        .number("slab B", "kernel_slab_bytes", "of it, small objects: the socket, its file, its entry in epoll"),
        .number("buffers B", "kernel_buffer_bytes", "of it, pages of the buffers of TCP; 0 once all bytes were read"),
        .number("pings", "pings", "pings sent, one to each client"),
        .number("pongs", "pongs", "answers to them"),
        .number("p50 µs", "ping_p50_us", "median round trip of a ping, in µs"),
        .number("p99 µs", "ping_p99_us", "99th percentile of the round trip of a ping, in µs"),
    ]
    /// The metrics of an attack.
    static let attackColumns: [Table.Column] = [
        .number("p50 µs", "quiet_p50_us", "median round trip before and after the attack, in µs"),
        .number("p99 µs", "quiet_p99_us", "99th percentile of the same, in µs"),
        .number("p50 att.", "attacked_p50_us", "median round trip during the attack, in µs"),
        .number("p99 att.", "attacked_p99_us", "99th percentile during the attack, in µs"),
        .number("×p50", "ratio_p50", "p50 att. divided by p50"),
        .number("×p99", "ratio_p99", "p99 att. divided by p99"),
        .number(nil, "quiet_round_trips"),
        .number("trips", "attacked_round_trips", "round trips of honest clients during the attack"),
        .number(nil, "attackers"), .number(nil, "idle"),
        .number("opened", "connections", "connections that the hostile clients opened"),
        .number(nil, "endings"),
        .number("heap B", "heap_peak_bytes", "growth of the server's peak heap per hostile client, in bytes"),
        .number("allowed", "heap_bound_bytes", "heap that the limits allow for each, in bytes"),
        .number(nil, "usual_step_us"),
        .number(
            "step µs",
            "longest_step_us",
            "longest step of a TLS handshake at the server, in µs of its processor time"
        ),
        .number("least", "ratio_p99_least", "smallest ×p99 of all repeats"),
        .number("most", "ratio_p99_most", "largest ×p99 of all repeats"), .number(nil, "repeats"),
    ]
    static let idleMetrics = idleColumns.compactMap(\.name)
    static let attackMetrics = attackColumns.compactMap(\.name)

    /// The median of several measurements of one attack, by the factor by which the 99th percentile grew (of two, the
    /// greater one). It gets the least and the greatest factor, and the breaches of all. If a measurement failed, it is
    /// the result.
    static func middle(of rows: [CrowdRow]) -> CrowdRow? {
        let factor = { (row: CrowdRow) in row.value(of: "ratio_p99") ?? .infinity }
        let ordered = rows.sorted { factor($0) < factor($1) }
        guard var row = rows.first(where: { $0.failure != nil }) ?? ordered.dropFirst(rows.count / 2).first else {
            return nil
        }
        row.metrics += [
            ("ratio_p99_least", ordered.first?.value(of: "ratio_p99")),
            ("ratio_p99_most", ordered.last?.value(of: "ratio_p99")),
            ("repeats", Double(rows.count)),
        ]
        row.breaches = rows.flatMap(\.breaches).distinct
        return row
    }
}

/// The results of `imbench crowd`.
struct CrowdResults: Sendable {
    /// Environment, options and seed, without rows.
    var run: RunResults
    var isHostile: Bool
    var rows: [CrowdRow] = []

    var report: Report {
        let table = table
        let charts =
            isHostile
            ? rows.map(\.transport).distinct.map(attacks)
            : [
                bars("Heap of the server per connection, in bytes", "server_bytes"),
                bars("Heap of the client per connection, in bytes", "client_bytes"),
                bars("Memory of the kernel per end of a connection, in bytes", "server_kernel_bytes"),
                bars("Connections opened per second", "connections_per_s"), bars("Ping, p50 in µs", "ping_p50_us"),
            ]
        return Report(
            name: "imbench crowd",
            title: isHostile
                ? "Honest clients beside hostile ones: round trips during each attack, and before and after it"
                : "A crowd of idle clients: the cost of each, and their round trips",
            warnings: run.warnings,
            verdict: isHostile ? attackVerdict : idleVerdict,
            facts: run.facts,
            sections: isHostile
                ? [
                    Report.Section(
                        heading: "Round trips of honest clients",
                        question: "How much do hostile clients slow the others?",
                        charts: charts,
                        table: table.selecting(["p50 µs", "p50 att.", "×p50", "p99 µs", "p99 att.", "×p99"]),
                        reading:
                            "Shorter is better. The first part of a bar is the shorter of two 99th percentiles: that without "
                            + "the attack, and that during it. The rest is what the attack adds, or what is missing during "
                            + "it by chance.",
                        next: [.init("To tell an effect from chance", "imbench crowd --hostile --repeat 3")]
                    ),
                    Report.Section(
                        heading: "The server",
                        question: "How much memory does an attack take from the server?",
                        table: table.withoutNotes.selecting([
                            "trips", "opened", "heap B", "allowed", "step µs", "least", "most",
                        ])
                    ),
                    Report.Section(
                        heading: "Endings",
                        question: "How does the server end hostile clients?",
                        table: table.withoutNotes.selecting(["ended", "expected"])
                    ),
                ]
                : [
                    Report.Section(
                        heading: "Opening and memory",
                        question: "How much does an idle client cost?",
                        charts: charts,
                        table: table.selecting([
                            "clients", "open s", "opens/s", "server B", "client B", "s. used B", "c. used B",
                        ]),
                        reading:
                            "Less memory and a shorter ping are better, and more connections opened per second. Memory is "
                            + "the heap of the process divided by its connections. That of the kernel is counted apart.",
                        next: [
                            .init("To see clients that were used", "imbench crowd --idle 1000 --transfer 1MiB"),
                            .init("To see hostile clients", "imbench crowd --hostile"),
                        ]
                    ),
                    Report.Section(
                        heading: "Memory in the kernel",
                        question: "How much memory does the kernel take for a connection?",
                        table: table.withoutNotes.selecting(["kernel B", "slab B", "buffers B"]),
                        notes: [KernelMemory.explanation]
                    ),
                    Report.Section(
                        heading: "Pings",
                        question: "How soon does a client of the crowd get its answer?",
                        table: table.withoutNotes.selecting(["pings", "pongs", "p50 µs", "p99 µs"])
                    ),
                ],
            records: table,
            data: run.envelope(
                results: zip(table.members, rows).map { members, row in
                    .object(
                        members + [
                            ("ended", .object(row.endings.map { ($0.code, .integer($0.count)) })),
                            ("expected", .array(row.expected.map(JSONValue.string))),
                            ("breaches", .array(row.breaches.map(JSONValue.string))),
                        ]
                    )
                }
            )
        )
    }

    /// The transports with the least and the most memory per connection, and with the most and the fewest connections opened
    /// per second. A single transport has its figures.
    private var idleVerdict: [String] {
        let measured = rows.filter { $0.failure == nil }
        func figure(_ row: CrowdRow, _ metric: String) -> String? { row.value(of: metric).map { fixed($0, 0) } }
        func ends(_ metric: String) -> (least: CrowdRow, most: CrowdRow)? {
            func value(_ row: CrowdRow) -> Double { row.value(of: metric) ?? 0 }
            let known = measured.filter { $0.value(of: metric) != nil }
            guard known.count > 1, let least = known.min(by: { value($0) < value($1) }),
                let most = known.max(by: { value($0) < value($1) })
            else { return nil }
            return (least, most)
        }
        var sentences: [String] = []
        if measured.count == 1, let only = measured.first {
            let parts = [
                figure(only, "server_bytes").map { "\($0) bytes of heap at the server" },
                figure(only, "client_bytes").map { "\($0) at the client" },
                figure(only, "server_kernel_bytes").map { "\($0) bytes of the kernel's memory at each end" },
            ].compactMap { $0 }
            if !parts.isEmpty {
                sentences.append("An idle connection over \(only.transport) takes \(RowDifferences.list(parts)).")
            }
            if let rate = figure(only, "connections_per_s") {
                sentences.append("\(rate) connections were opened per second.")
            }
            return sentences
        }
        if let (least, most) = ends("server_bytes"), let low = figure(least, "server_bytes"),
            let high = figure(most, "server_bytes")
        {
            sentences.append(
                "An idle connection takes the least heap at the server over \(least.transport), \(low) bytes, and the most over "
                    + "\(most.transport), \(high) bytes."
            )
        }
        if let (fewest, most) = ends("connections_per_s"), let low = figure(fewest, "connections_per_s"),
            let high = figure(most, "connections_per_s")
        {
            sentences.append(
                "Over \(most.transport) the most connections were opened per second, \(high), and over \(fewest.transport) "
                    + "the fewest, \(low)."
            )
        }
        return sentences
    }

    /// Whether the server kept its limits, and the attack that slowed the others most.
    private var attackVerdict: [String] {
        let measured = rows.filter { $0.failure == nil }
        let broken = measured.filter { !$0.breaches.isEmpty }.map(\.name)
        var sentences: [String] = []
        if !broken.isEmpty {
            sentences.append("A rule of the server did not hold in \(broken.joined(separator: ", ")).")
        } else if !measured.isEmpty {
            sentences.append("Every rule of the server held in all of \(measured.count) measured attacks.")
        }
        let factors = measured.compactMap { row in row.value(of: "ratio_p99").map { (name: row.name, factor: $0) } }
        if let worst = factors.max(by: { $0.factor < $1.factor }) {
            sentences.append(
                "The 99th percentile of honest clients was at most \(shown(worst.factor)) times that without the attack "
                    + "(\(worst.name))."
            )
        }
        return sentences
    }

    private var table: Table {
        let isRepeated = rows.contains { ($0.value(of: "repeats") ?? 1) > 1 }
        let isEncrypted = rows.contains { $0.value(of: "longest_step_us") != nil }
        let hasTransfer = rows.contains { $0.value(of: "server_used_bytes") != nil }
        let metrics = isHostile ? CrowdRow.attackColumns : CrowdRow.idleColumns
        var columns: [Table.Column] = [
            .text("transport", "transport", "the protocol, as in the scheme of its URL"),
            .text(isHostile ? "attack" : nil, "attack", "the behaviour of the hostile clients"),
        ]
        columns += metrics.map { column in
            var column = column
            // One measurement has no extremes.
            if !isRepeated, ["least", "most"].contains(column.title) { column.title = nil }
            if !isEncrypted, column.name == "longest_step_us" { column.title = nil }
            if !hasTransfer, column.name?.hasSuffix("_used_bytes") == true { column.title = nil }
            return column
        }
        if isHostile {
            columns += [
                .text("ended", nil, "how often the server ended clients, by the error's code"),
                .text("expected", nil, "endings that the limits of the server require; others are allowed too"),
            ]
        }
        return Table(
            labels: 2,
            columns: columns + [.text(nil, "failure")],
            rows: rows.map { row in
                let attack = row.attack?.rawValue
                var cells = [Table.Cell(row.transport), Table.Cell(value: JSONValue(attack), text: attack ?? "")]
                cells += metrics.map { Self.cell($0.name.flatMap(row.value)) }
                if isHostile {
                    let endings = row.endings.map { "\($0.count) \($0.code)" }
                    cells += [endings, row.expected].map { words in
                        Table.Cell(words.isEmpty ? "none" : words.joined(separator: ", "))
                    }
                }
                cells.append(Table.Cell(value: JSONValue(row.failure), text: ""))
                return Table.Row(
                    cells: cells,
                    note: row.failure,
                    isFailure: row.failure != nil || !row.breaches.isEmpty
                )
            }
        )
    }

    /// Whole numbers have all their digits.
    private static func cell(_ value: Double?) -> Table.Cell {
        guard let value, value == value.rounded(), value.magnitude < 1e15 else { return Table.Cell(value) }
        return Table.Cell(value, fixed(value, 0))
    }

    private func bars(_ title: String, _ metric: String) -> BarChart {
        BarChart(
            title: title,
            rows: rows.compactMap { row in
                row.value(of: metric).map { BarChart.Row(row.transport, $0, shown: fixed($0, 0)) }
            }
        )
    }

    /// The 99th percentile on one transport, without each attack and during it.
    private func attacks(_ transport: String) -> BarChart {
        let own = rows.filter { $0.transport == transport }.compactMap {
            row -> (name: String, before: Double, during: Double)? in
            guard let attack = row.attack, let before = row.value(of: "quiet_p99_us"),
                let during = row.value(of: "attacked_p99_us")
            else { return nil }
            return (attack.rawValue, before, during)
        }
        let unit = Axis.TimeUnit(own.flatMap { [$0.before, $0.during] }.max() ?? 0)
        let meanings: [(kind: BarChart.Kind, meaning: String, isUsed: Bool)] = [
            (.first, "with and without the attack", true),
            (.worse, "during the attack only", own.contains { $0.during > $0.before }),
            (.tail, "without it only", own.contains { $0.during < $0.before }),
        ]
        return BarChart(
            title: "\(transport): p99 of honest clients",
            legend: meanings.filter(\.isUsed).map { ($0.kind, $0.meaning) },
            rows: own.map { name, before, during in
                let (low, high) = (min(before, during), max(before, during))
                return BarChart.Row(
                    label: name,
                    spans: [
                        .init(kind: .first, from: 0, to: low),
                        .init(kind: during > before ? .worse : .tail, from: low, to: high),
                    ],
                    value: "\(unit.number(before)) → \(unit.number(during)) \(unit.name)"
                )
            },
            unit: .microseconds
        )
    }
}
