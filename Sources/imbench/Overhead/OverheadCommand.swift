import Codecs
import CommandSupport
import Measuring
import Protocols
import Reporting
import Transports
import Workloads

/// `imbench overhead`: bytes per message, per handshake and per day of keepalive, counted on real connections through
/// the embedded servers and in the kernel.
struct OverheadCommand: RunnableCommand {
    static let command = Command(
        name: "overhead",
        summary: "count bytes per message, per handshake and per day of keepalive, layer by layer",
        examples: [
            .init("imbench overhead --size 32,256", "all transports and codecs"),
            .init("imbench overhead --transport mqtt --codec protobuf", "one row"),
        ]
    )

    var general = GeneralOptions()
    var rows: RowOptions
    /// Whether the encrypted counterparts of the transports are added.
    var usesTLS = false
    var report = ReportOptions()

    init(_ vocabulary: Vocabulary) { rows = RowOptions(vocabulary) }

    static func ownOptions(_ vocabulary: Vocabulary) -> OptionList<OverheadCommand> {
        var list = OptionList(OverheadCommand(vocabulary))
        list.add(RowOptions.list(vocabulary), at: \.rows)
        list.add(.what, [.tls(\.usesTLS)])
        list.add(ReportOptions.listWithCharts, at: \.report)
        return list
    }

    mutating func check(_: TypedLine, _ vocabulary: Vocabulary) throws(UsageError) {
        if usesTLS { rows.transports = withEncrypted(rows.transports, among: vocabulary.transports) }
        try rows.checkDelivery(vocabulary)
    }

    func run() throws -> Int32 { try overhead(self) }
}

private func overhead(_ options: OverheadCommand) throws -> Int32 {
    let target = try options.report.target()
    // The bytes are the same each time.
    let seed: UInt64 = 1
    let stage = try Stage(registry: .withSessions, outside: [], seed: seed, placement: nil)
    // Opening the connections of a row takes longer than its few messages.
    let openingWeight = 4
    var progress = Progress(total: options.rows.count * (openingWeight + 1), isQuiet: options.general.isQuiet)
    // One message in flight at a time, so that only the message and its acknowledgements are counted.
    let bench = EchoBench(options.rows, .counted(200), stage: stage, seed: seed) { key in
        progress.step("opening \(key.name)", weight: openingWeight)
    }
    for key in bench.keys where !Interruption.isRequested {
        progress.step(key.name)
        bench.measure(key, duration: .seconds(5), messages: 200)
    }
    progress.finish()
    var results = RunResults(of: options, seed: seed)
    results.record.usesSeed = false
    results.rows = bench.results(FloorBench(kinds: [], sizes: []))
    results.wasCutShort = Interruption.isRequested
    try target.write(results.overheadReport, options.report)
    bench.close()
    stage.close()
    return results.hasFailed ? ExitStatus.failed : ExitStatus.good
}

/// The report of `imbench overhead`: the bytes of a run, layer by layer.
extension RunResults {
    var overheadReport: Report {
        let sizes = rows.map(\.size).distinct
        let encrypted = TransportRegistry.withSessions.transports.filter(\.isEncrypted).map(\.name)
        let isEncrypted = rows.contains { encrypted.contains($0.transport) }
        var next = [
            Report.NextCommand("To see how soon each transport detects a dead connection", "imbench outage")
        ]
        if !isEncrypted { next.append(.init("To add encryption", "imbench overhead --tls")) }
        var table = Self.table(rows)
        for (index, row) in rows.enumerated() where row.reason == nil && row.bytesPerMessage == nil {
            table.rows[index].note = "nothing was counted"
        }
        return Report(
            name: "imbench overhead",
            title: "Bytes per message in one direction, per handshake and per day of keepalive",
            trust: .exact,
            warnings: record.cutShort,
            verdict: fewestBytes,
            facts: facts,
            sections: [
                Report.Section(
                    heading: "Bytes of a message on the wire, by bytes of text",
                    table: wireBytes,
                    notes: reasons,
                    media: .textOnly
                ),
                Report.Section(
                    heading: "One message",
                    question: "How many bytes does a message need, and which layer needs them?",
                    charts: sizes.map { size in Self.layerChart(rows.filter { $0.size == size }, size) },
                    table: table.selecting(["+codec", "+framing", "+topic", "+TLS", "+IP", "wire B", "more %"]),
                    notes: sessionExplanation,
                    reading:
                        "Shorter is better. Each bar is one message in one direction, from the text on the left to the "
                        + "headers on the right. The text is the same in all bars of a chart, so the rest is the overhead. With "
                        + "compression, text and codec are shorter. "
                        + "Acknowledgements of TCP count as headers.",
                    next: [.init("To see these bytes one by one", "imbench trace Hello")],
                    isDetail: true
                ),
                Report.Section(
                    heading: "One connection",
                    question: "What does a connection need before the first message, and while it is idle?",
                    table: table.withoutNotes.selecting(["open B", "open RTTs", "keepalive B/day", "guarantees"])
                        .merged(by: 1),
                    next: next
                ),
            ],
            records: records,
            data: data
        )
    }

    /// For the smallest and the largest size, the rows with the fewest and the most bytes.
    private var fewestBytes: [String] {
        let sizes = rows.map(\.size)
        return [sizes.min(), sizes.max()].compactMap { $0 }.distinct.compactMap { size in
            let measured = rows.filter { $0.size == size }.compactMap { row in
                row.bytesPerMessage.map { (name: "\(row.transport) with \(row.codec)", bytes: $0.wire) }
            }
            guard let least = measured.min(by: { $0.bytes < $1.bytes }),
                let most = measured.max(by: { $0.bytes < $1.bytes }), most.bytes > least.bytes
            else { return nil }
            return
                "A message of \(size) bytes of text is \(fixed(least.bytes, 0)) bytes on the wire over \(least.name), "
                + "the fewest, and \(fixed(most.bytes, 0)) over \(most.name), the most."
        }
    }

    private static func layerChart(_ rows: [ResultRow], _ size: Int) -> BarChart {
        BarChart(
            title: "\(size) bytes of text: bytes on the wire",
            legend: [
                (.first, "text"), (.second, "codec"), (.third, "framing, topic and TLS"),
                (.fourth, "TCP or UDP, and IP"),
            ],
            rows: rows.compactMap { row in
                guard let bytes = row.bytesPerMessage else { return nil }
                // Compression shortens the text and the bytes of the codec.
                let encoded = bytes.payload + bytes.codec
                let share = encoded > 0 ? max(0, 1 + min(0, bytes.framing) / encoded) : 1
                let layers: [(BarChart.Kind, Double)] = [
                    (.first, bytes.payload * share), (.second, bytes.codec * share),
                    (.third, max(0, bytes.framing) + bytes.tls), (.fourth, bytes.transportIP ?? 0),
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
