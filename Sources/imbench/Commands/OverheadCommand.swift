import Codecs
import Transports

/// `imbench overhead`: bytes per message, per handshake and per day of keepalive, counted on real links through the embedded
/// servers and in the kernel.
func overhead(_ options: Options) throws(SystemFailure) -> Int32 {
    var counted = options
    // One message under way and none recorded in between: what is counted is the message and its acknowledgements.
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
    var results = RunResults(environment: .current(), options: OptionTable.record(of: options), seed: seed)
    results.rows = bench.results(FloorBench(kinds: [], sizes: []))
    bench.close()
    stage.close()
    try target.write(OverheadReport.text(results, format: options.format, style: target.style))
    return results.hasFailed ? ExitStatus.failed : ExitStatus.good
}

/// Writes the bytes of a run, layer by layer.
enum OverheadReport {
    static func text(_ results: RunResults, format: Format, style: Style) -> String {
        switch format {
        case .json: JSONReport.text(results)
        case .csv: CSVReport.text(results)
        case .markdown: table(results.rows).markdown
        case .table:
            style.bold("Bytes of one message on its way there, and of the link") + "\n"
                + table(results.rows).plain(style)
        }
    }

    private static func table(_ rows: [ResultRow]) -> TextTable {
        let columns: [TextTable.Column] = [
            .init(title: "transport", alignedRight: false), .init(title: "codec", alignedRight: false),
            .init(title: "text"), .init(title: "codec +"), .init(title: "framing +"), .init(title: "TCP/UDP+IP +"),
            .init(title: "= wire"), .init(title: "overhead %"), .init(title: "handshake B"), .init(title: "its RTTs"),
            .init(title: "keepalive B/day"),
        ]
        return TextTable(columns: columns, rows: rows.map(row))
    }

    private static func row(_ row: ResultRow) -> TextTable.Row {
        let name = [row.transport, row.codec, String(row.size)]
        if let reason = row.reason { return TextTable.Row(cells: name, note: reason, isFailure: row.hasFailed) }
        guard let bytes = row.bytesPerMessage else { return TextTable.Row(cells: name, note: "nothing was counted") }
        return TextTable.Row(
            cells: name + [
                fixed(bytes.codec, 1, trimmed: true), fixed(bytes.framing, 1, trimmed: true),
                bytes.transportIP.map { fixed($0, 1, trimmed: true) } ?? "-", fixed(bytes.wire, 1, trimmed: true),
                bytes.payload > 0 ? fixed((bytes.wire / bytes.payload - 1) * 100, 0) : "-",
                row.handshake.map { fixed($0.bytes, 0) } ?? "-", row.handshake.map { String($0.roundTrips) } ?? "-",
                row.keepaliveBytesPerDay.map { fixed($0, 0) } ?? "-",
            ]
        )
    }
}
