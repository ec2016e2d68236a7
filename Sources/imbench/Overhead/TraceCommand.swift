import Codecs
import CommandSupport
import Measuring
import Protocols
import Reporting
import TransportAPI
import Transports
import Workloads

/// `imbench trace TEXT`: the same chat message on every wire, one line per field. The cores write the bytes after a real
/// handshake in memory, and ``WireAnnotation`` splits them into fields. Over TLS, each field is shown as it is on the wire
/// and as the receiver decrypts it.
struct TraceCommand: RunnableCommand {
    static let command = Command(
        name: "trace",
        summary: "show the bytes of one chat message on every wire, one line per field",
        argument: #""TEXT""#,
        isInterruptible: false,
        examples: [
            .init("imbench trace \"Hello\" --transport ws,mqtt", "the same message on two wires"),
            .init("imbench trace --codec protobuf -- \"--dashes\"", "a text that begins with dashes"),
        ]
    )

    var general = GeneralOptions()
    /// The text of the message.
    var text = ""
    /// Names of transports, in the order of the command line.
    var transports: [String]
    var codecs: [String]
    /// Whether the encrypted counterparts of the transports are added.
    var usesTLS = false
    var report = ReportOptions()

    static func ownOptions(_ vocabulary: Vocabulary) -> OptionList<TraceCommand> {
        let transports = vocabulary.transports.filter(WireCapture.transports.contains)
        var list = OptionList(
            TraceCommand(
                transports: vocabulary.defaultTransports.filter(transports.contains),
                codecs: vocabulary.defaultCodecs
            )
        )
        list.add(
            .what,
            [
                Setting("transport", .names(transports), \.transports, "transports"),
                Setting("codec", .names(vocabulary.codecs), \.codecs, "codecs"), .tls(\.usesTLS),
            ]
        )
        list.add(ReportOptions.listWithCharts, at: \.report)
        return list
    }

    mutating func check(_ line: TypedLine, _ vocabulary: Vocabulary) throws(UsageError) {
        if usesTLS { transports = withEncrypted(transports, among: vocabulary.transports) }
        guard !line.arguments.isEmpty else { throw UsageError("'trace' needs a text: imbench trace \"TEXT\"") }
        text = line.arguments.joined(separator: " ")
    }

    func run() throws -> Int32 { try trace(self) }
}

private func trace(_ options: TraceCommand) throws -> Int32 {
    let target = try options.report.target()
    var message = ChatMessage.sample(size: 0, seed: 1)
    message.text = options.text
    var results = TraceResults(run: RunResults(of: options, seed: 1))
    results.run.record.usesSeed = false
    for name in options.transports {
        for codec in options.codecs.compactMap(WireFormat.init) {
            results.messages.append(traced(message, over: name, codec))
        }
    }
    try target.write(results.report, options.report)
    return ExitStatus.good
}

private func traced(_ message: ChatMessage, over name: String, _ codec: WireFormat) -> TracedMessage {
    var traced = TracedMessage(transport: name, codec: codec.name)
    do {
        let encoded = try codec.codec().encode(message)
        let payload = Payload(encoded, kind: codec.isText ? .text : .binary)
        let transport = try TransportRegistry.measured.transport(named: name)
        guard let wire = try WireCapture.message(payload, over: name) else {
            traced.failure = "skipped: the descriptor of \(name) makes no cores whose bytes could be shown"
            return traced
        }
        (traced.wire, traced.encoded, traced.text) = (wire, encoded.count, message.text.utf8.count)
        traced.fields = WireAnnotation.fields(of: wire, encoded: encoded.count, over: transport, codec: codec)
        guard transport.isEncrypted else { return traced }
        guard wire.count <= TLSCapture.longest else {
            traced.failure = "skipped: the message needs more than one TLS record of \(TLSCapture.longest) bytes"
            return traced
        }
        let record = try TLSCapture.record(of: wire, isDatagram: transport.isDatagram)
        (traced.wire, traced.clear, traced.clearStart) = (record.wire, record.clear, record.start)
        traced.fields = record.fields(around: traced.fields)
    } catch {
        traced.failure = "\(error)"
    }
    return traced
}

/// The bytes that a client's core writes for one message after the handshake.
enum WireCapture {
    /// The transports whose messages can be captured. In memory, a message is framed as over TCP.
    static let transports = [
        "tcp", "ws", "mqtt", "udp", "memory", "tls", "wss", "mqtts", "dtls", "stomp", "stomp+tls", "xmpp", "xmpps",
    ]

    static func message(_ payload: Payload, over name: String) throws -> [UInt8]? {
        guard let pair = try CorePair.maker(name, registry: .measured)?() else { return nil }
        try pair.client.send(payload, id: 1)
        return pair.client.context.output.bytes(at: 0, count: pair.client.context.output.count)
    }
}

/// One message on one wire.
struct TracedMessage: Sendable {
    var transport: String
    var codec: String
    var wire: [UInt8] = []
    /// The decrypted data of an encrypted record, and its place on the wire; empty without TLS.
    var clear: [UInt8] = []
    var clearStart = 0
    var fields: [WireField] = []
    /// Bytes of the encoded message, and of its text.
    var encoded = 0
    var text = 0
    /// Why there are no bytes.
    var failure: String?

    /// The decrypted bytes of a field; empty if it is not encrypted, or not data.
    func decrypted(_ field: WireField) -> ArraySlice<UInt8> {
        let (start, end) = (field.range.lowerBound - clearStart, field.range.upperBound - clearStart)
        return start >= 0 && end <= clear.count ? clear[start..<end] : []
    }
}

/// The captured messages of `imbench trace`.
struct TraceResults: Sendable {
    /// Environment and options, without rows.
    var run: RunResults
    var messages: [TracedMessage] = []

    var report: Report {
        Report(
            name: "imbench trace",
            title: "The same chat message on every wire, one line per field",
            trust: .exact,
            verdict: [verdict].compactMap { $0 },
            facts: run.facts,
            sections: [
                Report.Section(
                    question: "How much of each message is its text?",
                    charts: [chart],
                    reading:
                        "Shorter is better. Each bar is one message as a client writes it, without TCP, UDP and IP. The tables "
                        + "below have every field, in the order of the wire.",
                    next: [
                        .init("To trace another text", "imbench trace 'See you at noon'"),
                        .init("To count headers and acknowledgements too", "imbench overhead"),
                    ],
                    media: .htmlOnly
                )
            ]
                + messages.map { message in
                    let summary =
                        "\(message.wire.count) bytes, \(message.encoded) of them the message, \(message.text) its text"
                    return Report.Section(
                        heading: "\(message.transport), \(message.codec)",
                        table: message.failure == nil ? Self.table([message]) : nil,
                        notes: [message.failure ?? summary]
                    )
                },
            records: Self.table(messages),
            data: run.envelope(results: messages.map(Self.data))
        )
    }

    /// The messages with the fewest and the most bytes.
    private var verdict: String? {
        let known = messages.filter { $0.failure == nil }
        guard let least = known.min(by: { $0.wire.count < $1.wire.count }),
            let most = known.max(by: { $0.wire.count < $1.wire.count })
        else { return nil }
        func text(_ message: TracedMessage) -> String {
            "\(counted(message.wire.count, "byte")) over \(message.transport) with \(message.codec)"
        }
        let subject = "A text of \(counted(least.text, "byte")) becomes a message of"
        guard most.wire.count > least.wire.count else { return "\(subject) \(text(least))." }
        return "\(subject) \(text(least)), the shortest, and of \(text(most)), the longest."
    }

    /// The bytes of each message, by layer.
    private var chart: BarChart {
        BarChart(
            title: "Bytes of the message on each wire",
            legend: [(.first, "text"), (.second, "codec"), (.third, "framing and TLS")],
            rows: messages.filter { $0.failure == nil }.map { message in
                let (text, encoded, all) = (Double(message.text), Double(message.encoded), Double(message.wire.count))
                return BarChart.Row(
                    label: "\(message.transport) \(message.codec)",
                    spans: [
                        .init(kind: .first, from: 0, to: text), .init(kind: .second, from: text, to: encoded),
                        .init(kind: .third, from: encoded, to: all),
                    ],
                    value: "\(message.wire.count) B"
                )
            }
        )
    }

    /// One row for each field of the messages.
    private static func table(_ messages: [TracedMessage]) -> Table {
        let isEncrypted = messages.contains { !$0.clear.isEmpty }
        return Table(
            columns: [
                .text(nil, "transport"), .text(nil, "codec"),
                .number("offset", "offset", "place of the first byte in the message on the wire"),
                .number("length", "length", "number of bytes"),
                .hexadecimal("bytes", "bytes", "the first bytes on the wire, in hexadecimal digits"),
                .hexadecimal(isEncrypted ? "decrypted" : nil, "decrypted", "the same bytes after decryption"),
                .text("meaning", "meaning", "the field that they encode"),
            ],
            rows: messages.flatMap { message in
                message.fields.map { field in
                    return Table.Row(cells: [
                        Table.Cell(message.transport), Table.Cell(message.codec), Table.Cell(field.range.lowerBound),
                        Table.Cell(field.range.count), cell(message.wire[field.range], atMost: isEncrypted ? 4 : 8),
                        cell(message.decrypted(field), atMost: 4), Table.Cell(field.meaning),
                    ])
                }
            }
        )
    }

    /// Bytes in hexadecimal digits. People see the first `count` only.
    private static func cell(_ bytes: ArraySlice<UInt8>, atMost count: Int) -> Table.Cell {
        let digits = bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
        return Table.Cell(
            value: .string(digits.joined()),
            text: digits.prefix(count).joined(separator: " ") + (digits.count > count ? " …" : "")
        )
    }

    private static func data(_ message: TracedMessage) -> ReportValue {
        let fields = table([message]).members.map { field in
            ReportValue.object(field.filter { !["transport", "codec"].contains($0.0) })
        }
        return .object([
            ("transport", .string(message.transport)), ("codec", .string(message.codec)),
            ("bytes", .integer(message.wire.count)), ("message_bytes", .integer(message.encoded)),
            ("text_bytes", .integer(message.text)), ("failure", ReportValue(message.failure)),
            ("fields", .array(fields)),
        ])
    }
}
