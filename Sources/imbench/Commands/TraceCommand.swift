import Codecs
import TransportAPI
import Transports

/// `imbench trace TEXT`: the same chat message on every wire, one line a field. The bytes are what the cores write after a
/// real handshake in memory, and the notes come from reading them back.
func trace(_ options: Options) throws(SystemFailure) -> Int32 {
    let target = try ReportTarget(path: options.output)
    var message = EchoBench.message(size: 0, seed: 1)
    message.text = options.arguments.isEmpty ? "Hello, wire!" : options.arguments.joined(separator: " ")
    var text = ""
    for name in options.transports {
        for codec in options.codecs.compactMap(WireFormat.init) {
            text += target.style.bold("\(name), \(codec.name)") + "\n"
            do {
                let encoded = try codec.codec().encode(message)
                let payload = Payload(encoded, kind: codec.isText ? .text : .binary)
                guard let wire = try WireCapture.message(payload, over: name) else {
                    text += "  there is no annotator for this transport\n"
                    continue
                }
                let fields = WireAnnotation.fields(of: wire, over: name, codec: codec)
                text += fields.map { $0.line(wire) + "\n" }.joined()
                text +=
                    "  \(wire.count) bytes, \(encoded.count) of them the message, \(message.text.utf8.count) its text\n\n"
            } catch {
                text += "  \(error)\n\n"
            }
        }
    }
    try target.write(text)
    return ExitStatus.good
}

/// Some bytes of a captured message, and what they mean.
struct WireField: Sendable, Hashable {
    var range: Range<Int>
    var meaning: String

    /// Offset, bytes and meaning; long runs are cut in the middle.
    func line(_ wire: [UInt8]) -> String {
        let digits = wire[range].prefix(16).map { byte in
            (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }.joined(separator: " ")
        let bytes = range.count > 16 ? digits + " …" : digits
        return "  " + String(range.lowerBound).padded(to: 5, alignedRight: true) + "  " + bytes.padded(to: 50) + meaning
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
