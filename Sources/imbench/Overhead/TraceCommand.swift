import Codecs
import Protocols
import TransportAPI
import Transports

/// `imbench trace TEXT`: the same chat message on every wire, one line per field. The cores write the bytes after a real
/// handshake in memory, and ``WireAnnotation`` reads them back.
func trace(_ options: Options) throws(SystemFailure) -> Int32 {
    let target = try ReportTarget(path: options.output)
    var message = EchoBench.message(size: 0, seed: 1)
    message.text = options.arguments.isEmpty ? "Hello, wire!" : options.arguments.joined(separator: " ")
    var results = TraceResults(
        run: RunResults(environment: .current(), options: OptionTable.record(of: options), seed: 1)
    )
    for name in options.transports {
        for codec in options.codecs.compactMap(WireFormat.init) {
            results.messages.append(traced(message, over: name, codec))
        }
    }
    try target.write(results.report.text(options.format, target.style))
    return ExitStatus.good
}

private func traced(_ message: ChatMessage, over name: String, _ codec: WireFormat) -> TracedMessage {
    var traced = TracedMessage(transport: name, codec: codec.name)
    do {
        let encoded = try codec.codec().encode(message)
        let payload = Payload(encoded, kind: codec.isText ? .text : .binary)
        guard let wire = try WireCapture.message(payload, over: name) else {
            traced.failure = "there is no annotator for this transport"
            return traced
        }
        (traced.wire, traced.encoded, traced.text) = (wire, encoded.count, message.text.utf8.count)
        traced.fields = WireAnnotation.fields(of: wire, over: name, codec: codec)
    } catch {
        traced.failure = "\(error)"
    }
    return traced
}

/// The bytes that a client's core writes for one message after the handshake.
enum WireCapture {
    static func message(_ payload: Payload, over name: String) throws -> [UInt8]? {
        guard let pair = try CorePair.open(name == "memory" ? "tcp" : name) else { return nil }
        _ = try pair.client.core.send(payload, id: 1, &pair.client.context)
        return pair.client.context.output.bytes(at: 0, count: pair.client.context.output.count)
    }
}
