import Codecs
import Protocols
import Transports

/// `imbench overhead`: bytes per message, per handshake and per day of keepalive, counted on real connections through
/// the embedded servers and in the kernel.
func overhead(_ options: Options) throws(SystemFailure) -> Int32 {
    var counted = options
    // One message in flight at a time, so that only the message and its acknowledgements are counted.
    counted.extent = .messages(200)
    counted.repeats = 1
    counted.warmup = .zero
    counted.inFlight = 1
    counted.connections = 1
    counted.rate = nil
    let target = try ReportTarget(path: options.output)
    let seed = options.seed ?? 1
    let stage = try Stage(registry: .measured, outside: options.urls, seed: seed, placement: nil)
    let bench = EchoBench(counted, stage: stage, seed: seed)
    for key in bench.keys where !Interruption.isRequested {
        bench.measure(key, duration: .seconds(5), messages: 200)
    }
    var results = RunResults(of: options, seed: seed)
    results.rows = bench.results(FloorBench(kinds: [], sizes: []))
    results.wasCutShort = Interruption.isRequested
    try target.write(results.overheadReport, options.format)
    bench.close()
    stage.close()
    return results.hasFailed ? ExitStatus.failed : ExitStatus.good
}

/// The report of `imbench overhead`: the bytes of a run, layer by layer.
extension RunResults {
    var overheadReport: Report {
        let sizes = rows.map(\.size).distinct
        return Report(
            name: "imbench overhead",
            title: "Bytes per message in one direction, per handshake and per day of keepalive",
            warnings: cutShort,
            facts: facts,
            sections: [
                Report.Section(
                    charts: sizes.map { size in Self.layerChart(rows.filter { $0.size == size }, size) },
                    table: Self.layerTable(rows)
                )
            ],
            records: records,
            data: data
        )
    }

    private static func layerTable(_ rows: [ResultRow]) -> Table {
        let titles = [
            "text", "codec +", "framing +", "TCP/UDP+IP +", "= wire", "overhead %", "handshake B", "its RTTs",
            "keepalive B/day",
        ]
        func short(_ value: Double?) -> String { value.map { fixed($0, 1, trimmed: true) } ?? "-" }
        func whole(_ value: Double?) -> String { value.map { fixed($0, 0) } ?? "-" }
        return Table(
            labels: 3,
            columns: [.text("transport"), .text("codec")] + titles.map { .number($0) },
            rows: rows.map { row in
                let bytes = row.bytesPerMessage
                let overhead = bytes.flatMap { $0.payload > 0 ? ($0.wire / $0.payload - 1) * 100 : nil }
                let texts = [
                    row.transport, row.codec, String(row.size), short(bytes?.codec), short(bytes?.framing),
                    short(bytes?.transportIP), short(bytes?.wire), whole(overhead), whole(row.handshake?.bytes),
                    shown(row.handshake?.roundTrips), whole(row.keepaliveBytesPerDay),
                ]
                return Table.Row(
                    cells: texts.map { Table.Cell($0) },
                    note: row.reason ?? (bytes == nil ? "nothing was counted" : nil),
                    isFailure: row.hasFailed
                )
            }
        )
    }

    private static func layerChart(_ rows: [ResultRow], _ size: Int) -> BarChart {
        BarChart(
            title: "\(size) bytes of text: bytes on the wire",
            legend: [(.first, "text"), (.second, "codec"), (.third, "framing"), (.fourth, "TCP or UDP, and IP")],
            rows: rows.compactMap { row in
                guard let bytes = row.bytesPerMessage else { return nil }
                let layers: [(BarChart.Kind, Double)] = [
                    (.first, bytes.payload), (.second, bytes.codec), (.third, bytes.framing),
                    (.fourth, bytes.transportIP ?? 0),
                ]
                var end = 0.0
                let spans = layers.map { kind, count in
                    defer { end += count }
                    return BarChart.Span(kind: kind, from: end, to: end + count)
                }
                return BarChart.Row(label: "\(row.transport) \(row.codec)", spans: spans, value: fixed(bytes.wire, 0))
            }
        )
    }
}
