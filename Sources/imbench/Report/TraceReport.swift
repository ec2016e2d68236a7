import Codecs

/// One message as it stands on one wire.
struct TracedMessage: Sendable {
    var transport: String
    var codec: String
    var wire: [UInt8] = []
    var fields: [WireField] = []
    /// Bytes of the encoded message, and of its text.
    var encoded = 0
    var text = 0
    /// Why there are no bytes.
    var failure: String?

    var name: String { "\(transport), \(codec)" }
    var summary: String { "\(wire.count) bytes, \(encoded) of them the message, \(text) its text" }
}

/// Writes what `imbench trace` has captured.
struct TraceReport {
    /// Environment and options; it has no rows of its own.
    var run: RunResults
    var messages: [TracedMessage] = []

    func text(_ format: Format, _ style: Style) -> String {
        switch format {
        case .table: messages.map { Self.plain($0, style) }.joined()
        case .json: JSONReport.value(run, results: messages.map(Self.json)).readableText + "\n"
        case .csv: csv
        case .markdown: "# imbench trace\n" + messages.map(Self.markdown).joined()
        case .html: html
        }
    }

    private static func plain(_ message: TracedMessage, _ style: Style) -> String {
        let lines = message.failure.map { [$0] } ?? (message.fields.map { $0.line(message.wire) } + [message.summary])
        return style.bold(message.name) + "\n" + lines.map { "  " + $0 + "\n" }.joined() + "\n"
    }

    private static func markdown(_ message: TracedMessage) -> String {
        let heading = "\n## \(message.name)\n\n"
        return heading + (message.failure.map { $0 + "\n" } ?? table(message).markdown + "\n" + message.summary + "\n")
    }

    private static func table(_ message: TracedMessage) -> TextTable {
        TextTable(
            columns: [
                .init(title: "offset"), .init(title: "bytes", alignedRight: false),
                .init(title: "meaning", alignedRight: false),
            ],
            rows: message.fields.map { field in
                .init(cells: [String(field.range.lowerBound), field.shownBytes(message.wire), field.meaning])
            }
        )
    }

    private static func json(_ message: TracedMessage) -> JSONValue {
        let fields = message.fields.map { field in
            JSONValue.object([
                ("offset", .integer(field.range.lowerBound)), ("length", .integer(field.range.count)),
                ("bytes", .string(field.bytes(message.wire).joined())), ("meaning", .string(field.meaning)),
            ])
        }
        return .object([
            ("transport", .string(message.transport)), ("codec", .string(message.codec)),
            ("bytes", .integer(message.wire.count)), ("message_bytes", .integer(message.encoded)),
            ("text_bytes", .integer(message.text)), ("failure", JSONValue(message.failure)), ("fields", .array(fields)),
        ])
    }

    /// One line for each field (RFC 4180).
    private var csv: String {
        let lines = messages.flatMap { message in
            message.fields.map { field in
                [
                    message.transport, message.codec, String(field.range.lowerBound), String(field.range.count),
                    field.bytes(message.wire).joined(), field.meaning,
                ]
            }
        }
        return ([["transport", "codec", "offset", "length", "bytes", "meaning"]] + lines).map(CSVReport.line).joined()
    }

    private var html: String {
        var page = HTMLPage("imbench trace", about: "The same chat message on every wire, one line a field")
        page.add(Report.facts(run))
        for message in messages {
            page.add(heading: message.name)
            guard message.failure == nil else {
                page.add(paragraph: message.failure ?? "")
                continue
            }
            page.add(Self.table(message))
            page.add(paragraph: message.summary)
        }
        return page.text
    }
}
