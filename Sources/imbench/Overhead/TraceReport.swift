import Codecs

/// One message on one wire.
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
}

/// Some bytes of a captured message, and what they mean.
struct WireField: Sendable, Hashable {
    var range: Range<Int>
    var meaning: String
}

/// The messages that `imbench trace` has captured.
struct TraceResults: Sendable {
    /// Environment and options, without rows.
    var run: RunResults
    var messages: [TracedMessage] = []

    var report: Report {
        Report(
            name: "imbench trace",
            title: "The same chat message on every wire, one line per field",
            facts: run.facts,
            sections: messages.map { message in
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

    /// One row for each field of the messages.
    private static func table(_ messages: [TracedMessage]) -> Table {
        Table(
            columns: [
                .text(nil, "transport"), .text(nil, "codec"), .number("offset", "offset"), .number(nil, "length"),
                .text("bytes", "bytes"), .text("meaning", "meaning"),
            ],
            rows: messages.flatMap { message in
                message.fields.map { field in
                    let bytes = hexadecimal(message.wire[field.range])
                    return Table.Row(cells: [
                        Table.Cell(message.transport), Table.Cell(message.codec), Table.Cell(field.range.lowerBound),
                        Table.Cell(field.range.count),
                        // People see the first bytes only.
                        Table.Cell(
                            value: .string(bytes.joined()),
                            text: bytes.prefix(16).joined(separator: " ") + (bytes.count > 16 ? " …" : "")
                        ),
                        Table.Cell(field.meaning),
                    ])
                }
            }
        )
    }

    private static func hexadecimal(_ bytes: ArraySlice<UInt8>) -> [String] {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
    }

    private static func data(_ message: TracedMessage) -> JSONValue {
        let fields = table([message]).members.map { field in
            JSONValue.object(field.filter { !["transport", "codec"].contains($0.0) })
        }
        return .object([
            ("transport", .string(message.transport)), ("codec", .string(message.codec)),
            ("bytes", .integer(message.wire.count)), ("message_bytes", .integer(message.encoded)),
            ("text_bytes", .integer(message.text)), ("failure", JSONValue(message.failure)), ("fields", .array(fields)),
        ])
    }
}
