import Codecs
import TransportAPI
import Transports

/// `imbench trace TEXT`: the same chat message on every wire, one line a field. The bytes are what the cores write after a
/// real handshake in memory, and the notes come from reading them back.
func trace(_ options: Options) throws(SystemFailure) -> Int32 {
    let target = try ReportTarget(path: options.output)
    var message = EchoBench.message(size: 0, seed: 1)
    message.text = options.arguments.isEmpty ? "Hello, wire!" : options.arguments.joined(separator: " ")
    var report = TraceReport(
        run: RunResults(environment: .current(), options: OptionTable.record(of: options), seed: 1)
    )
    for name in options.transports {
        for codec in options.codecs.compactMap(WireFormat.init) {
            report.messages.append(traced(message, over: name, codec))
        }
    }
    try target.write(report.text(options.format, target.style))
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

/// Some bytes of a captured message, and what they mean.
struct WireField: Sendable, Hashable {
    var range: Range<Int>
    var meaning: String

    /// Offset, bytes and meaning.
    func line(_ wire: [UInt8]) -> String {
        String(range.lowerBound).padded(to: 5, alignedRight: true) + "  " + shownBytes(wire).padded(to: 50) + meaning
    }

    /// The bytes as people read them; of many only the first.
    func shownBytes(_ wire: [UInt8]) -> String {
        bytes(wire).prefix(16).joined(separator: " ") + (range.count > 16 ? " …" : "")
    }

    /// Two digits for each byte.
    func bytes(_ wire: [UInt8]) -> [String] {
        wire[range].map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
    }
}

/// What a client's core writes for one message, once its link is open.
enum WireCapture {
    static func message(_ payload: Payload, over name: String) throws -> [UInt8]? {
        guard let pair = try CorePair.open(name == "memory" ? "tcp" : name) else { return nil }
        _ = try pair.client.core.send(payload, id: 1, &pair.client.context)
        return pair.client.context.output.bytes(at: 0, count: pair.client.context.output.count)
    }
}
