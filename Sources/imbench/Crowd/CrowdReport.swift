import CommandSupport
import Measuring
import Reporting

/// One row of `imbench crowd`.
struct CrowdRow: Sendable, AssertableRow {
    var transport: String
    /// The numbers, by the names that `--assert`, JSON and CSV use; `nil` for what was not measured.
    var metrics: [(name: String, value: Double?)] = []
    /// Why there are no numbers.
    var failure: String?

    var labels: [String] { [transport] }
    var name: String { transport }
    var reason: String? { failure }

    func value(of metric: String) -> Double? {
        metrics.first { $0.name == metric }?.value ?? nil
    }

    /// The metrics of the report.
    static let columns: [Table.Column] = [
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
        .number("pings", "pings", "pings sent, one to each client; none if the protocol has no ping, as with STOMP"),
        .number("pongs", "pongs", "answers to them"),
        .number("p50 µs", "ping_p50_us", "median round trip of a ping, in µs"),
        .number("p99 µs", "ping_p99_us", "99th percentile of the round trip of a ping, in µs"),
    ]
    static let metricNames = columns.compactMap(\.name)
}

extension Assertion.Names {
    /// The names of rows of `crowd`.
    static let crowds = Assertion.Names(
        example: "ws.server_bytes < 65536",
        labels: [],
        metrics: CrowdRow.metricNames
    )
}

/// The results of `imbench crowd`.
struct CrowdResults: Sendable {
    /// Environment, options and seed, without rows.
    var run: RunResults
    var rows: [CrowdRow] = []

    var report: Report {
        let table = table
        let charts = [
            bars("Heap of the server per connection, in bytes", "server_bytes"),
            bars("Heap of the client per connection, in bytes", "client_bytes"),
            bars("Memory of the kernel per end of a connection, in bytes", "server_kernel_bytes"),
            bars("Connections opened per second", "connections_per_s"), bars("Ping, p50 in µs", "ping_p50_us"),
        ]
        return Report(
            name: "imbench crowd",
            title: "A crowd of idle clients: the cost of each, and their round trips",
            trust: run.trust,
            warnings: run.warnings,
            outcomes: rows.map { RowOutcome($0.transport, failure: $0.failure) },
            verdict: verdict,
            facts: run.facts,
            sections: [
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
                    next: [.init("To see clients that were used", "imbench crowd --idle 1000 --transfer 1MiB")]
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
            data: run.envelope(results: table.members.map(ReportValue.object))
        )
    }

    /// The range of the memory per connection, and of the connections opened per second. Nothing is repeated, so no transport
    /// is said to differ from another one, and the figures have two digits.
    private var verdict: [String] {
        let measured = rows.filter { $0.failure == nil }
        func range(_ metric: String) -> String? {
            let values = measured.compactMap { $0.value(of: metric) }
            guard let least = values.min(), let most = values.max() else { return nil }
            return [least, most].map(Self.rough).distinct.joined(separator: " to ")
        }
        let parts = [
            range("server_bytes").map { "\($0) bytes of heap at the server" },
            range("client_bytes").map { "\($0) at the client" },
            range("server_kernel_bytes").map { "\($0) bytes of the kernel's memory at each end" },
        ].compactMap { $0 }
        let place = measured.count == 1 ? measured.first.map { " over \($0.transport)" } ?? "" : ""
        let sentences = [
            parts.isEmpty ? nil : "An idle connection\(place) takes about \(RowDifferences.list(parts)).",
            range("connections_per_s").map { "About \($0) connections\(place) were opened per second." },
        ].compactMap { $0 }
        guard !sentences.isEmpty else { return [] }
        return sentences + [
            measured.count == 1
                ? "This is one measurement."
                : "Each transport was measured once, so a small difference may be chance."
        ]
    }

    /// A number with two digits, and zeros behind them.
    private static func rough(_ value: Double) -> String {
        guard value.isFinite else { return "-" }
        var unit = 1.0
        while value.magnitude / unit >= 99.5 { unit *= 10 }
        return grouped(fixed((value / unit).rounded() * unit, 0))
    }

    private var table: Table {
        let hasTransfer = rows.contains { $0.value(of: "server_used_bytes") != nil }
        var columns: [Table.Column] = [.text("transport", "transport", "the protocol, as in the scheme of its URL")]
        columns += CrowdRow.columns.map { column in
            var column = column
            if !hasTransfer, column.name?.hasSuffix("_used_bytes") == true { column.title = nil }
            return column
        }
        return Table(
            labels: 1,
            columns: columns + [.text(nil, "failure")],
            rows: rows.map { row in
                var cells = [Table.Cell(row.transport)]
                cells += CrowdRow.columns.map { .wholeOrShown($0.name.flatMap(row.value)) }
                cells.append(Table.Cell(value: ReportValue(row.failure), text: ""))
                return Table.Row(cells: cells, note: row.failure, isFailure: row.failure != nil)
            }
        )
    }

    private func bars(_ title: String, _ metric: String) -> BarChart {
        BarChart(
            title: title,
            rows: rows.compactMap { row in
                row.value(of: metric).map {
                    BarChart.Row(row.transport, $0, shown: grouped(fixed($0, 0)), style: .transport(row.transport))
                }
            }
        )
    }
}
