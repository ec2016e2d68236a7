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
        switch name {
        case "tcp", "memory":
            let core = try FramedTCPCore()
            return try stream(payload, core, core)
        case "ws":
            let configuration = WebSocketConfiguration(host: "chat.example", path: "/")
            return try stream(
                payload,
                try WebSocketCore(.client, configuration),
                try WebSocketCore(.server, configuration)
            )
        case "mqtt":
            var configuration = MQTTConfiguration()
            configuration.publishTopic = "chat/team-lunch"
            return try stream(
                payload,
                try MQTTCore(client: configuration),
                try MQTTCore(server: MQTTServerConfiguration())
            )
        case "udp": return try datagram(payload)
        default: return nil
        }
    }

    private static func stream(
        _ payload: Payload,
        _ client: any ProtocolCore,
        _ server: any ProtocolCore
    ) throws -> [UInt8] {
        var (left, right) = (CoreSide(client), CoreSide(server))
        left.start()
        right.start()
        while try left.send(to: &right) || right.send(to: &left) {}
        return try left.capture(payload)
    }

    private static func datagram(_ payload: Payload) throws -> [UInt8] {
        var random = RandomSource.system()
        var listener = try UDPListenerCore(random: &random)
        var client = CoreSide(try UDPCore(client: UDPConfiguration()))
        var server: CoreSide?
        client.start()
        for _ in 0..<8 {
            var request = ByteBuffer()
            request.append(contentsOf: client.takeOutput())
            guard !request.isEmpty else { break }
            var reply = ByteBuffer()
            switch listener.receive(request, from: [127, 0, 0, 1], now: .zero, random: &random, reply: &reply) {
            case .reply: try client.take(reply.bytes(at: 0, count: reply.count) ?? [])
            case .accept(let core):
                var side = CoreSide(core)
                side.start()
                try side.take(request.bytes(at: 0, count: request.count) ?? [])
                try client.take(side.takeOutput())
                server = side
            case .session, .drop: break
            }
        }
        _ = server
        return try client.capture(payload)
    }
}

/// A core with its buffers.
private struct CoreSide {
    private final class Buffers {
        var input = ByteBuffer()
        var context = CoreContext(random: .system())
    }

    private var core: any ProtocolCore
    private let buffers = Buffers()

    init(_ core: any ProtocolCore) {
        self.core = core
    }

    mutating func start() {
        core.start(&buffers.context)
    }

    func takeOutput() -> [UInt8] {
        defer {
            buffers.context.output.removeAll()
            buffers.context.datagramEnds.removeAll()
        }
        return buffers.context.output.bytes(at: 0, count: buffers.context.output.count) ?? []
    }

    mutating func take(_ bytes: [UInt8]) throws(TransportError) {
        buffers.input.append(contentsOf: bytes)
        while try core.next(&buffers.input, &buffers.context) != nil {}
    }

    /// Carries what was written to the other side; `false` if there was nothing.
    mutating func send(to other: inout CoreSide) throws(TransportError) -> Bool {
        let bytes = takeOutput()
        try other.take(bytes)
        return !bytes.isEmpty
    }

    mutating func capture(_ payload: Payload) throws(TransportError) -> [UInt8] {
        try take([])
        _ = takeOutput()
        _ = try core.send(payload, id: 1, &buffers.context)
        return takeOutput()
    }
}
