import Codecs
import CommandTestSupport
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

@testable import Reporting
@testable import Workloads
@testable import imbench

@Suite("imbench trace")
struct TraceTests {
    @Test(
        "Every byte of a message belongs to exactly one field",
        arguments: ["tcp", "ws", "mqtt", "mqtt+ws", "udp", "memory"],
        WireFormat.allCases
    )
    func coverage(transport: String, codec: WireFormat) throws {
        for size in [0, 5, 200, 1000] {
            let encoded = try codec.codec().encode(ChatMessage.sample(size: size, seed: 3))
            let payload = Payload(encoded, kind: codec.isText ? .text : .binary)
            let wire = try #require(try WireCapture.message(payload, over: transport))
            let descriptor = try TransportRegistry.measured.transport(named: transport)
            let fields = WireAnnotation.fields(of: wire, encoded: encoded.count, over: descriptor, codec: codec)
            var end = 0
            for field in fields {
                #expect(field.range.lowerBound == end && !field.range.isEmpty)
                end = field.range.upperBound
            }
            #expect(end == wire.count && wire.count > encoded.count)
            #expect(!fields.contains { $0.meaning == "the rest" })
        }
    }

    @Test("A field shows the text, also behind a WebSocket mask")
    func text() throws {
        var message = ChatMessage.sample(size: 0, seed: 1)
        message.text = "Hello, wire!"
        for transport in ["tcp", "ws", "mqtt", "mqtt+ws", "udp"] {
            let encoded = try ProtobufCodec().encode(message)
            let wire = try #require(try WireCapture.message(Payload(encoded), over: transport))
            let descriptor = try TransportRegistry.measured.transport(named: transport)
            let fields = WireAnnotation.fields(
                of: wire,
                encoded: encoded.count,
                over: descriptor,
                codec: .protobuf
            )
            #expect(fields.contains { $0.meaning == "'Hello, wire!'" })
        }
    }

    @Test("Each element of a document in XML is a field, with its tags")
    func elements() throws {
        var message = ChatMessage()
        message.id = "m-1"
        message.text = "1 < 2"
        message.replyTo = ""
        message.attributes = ["k>": "v"]
        let encoded = try XMLCodec().encode(message)
        let wire = try #require(try WireCapture.message(Payload(encoded, kind: .text), over: "memory"))
        let descriptor = try TransportRegistry.measured.transport(named: "memory")
        let fields = WireAnnotation.fields(of: wire, encoded: encoded.count, over: descriptor, codec: .xml)
        #expect(
            fields.map(\.meaning).suffix(6) == [
                "<message>", "<id>m-1</id>", "<text>1 &lt; 2</text>", "<replyTo/>",
                "<attributes key=\"k&gt;\">v</attributes>", "</message>",
            ]
        )
    }

    @Test(
        "An encrypted message is one record, whose decrypted bytes are the plain message",
        .enabled(if: hasOpenSSL),
        arguments: [false, true]
    )
    func encrypted(isDatagram: Bool) throws {
        let plain = Array("the same words again, the same words again".utf8)
        let record = try TLSCapture.record(of: plain, isDatagram: isDatagram)
        // The type and the tag (RFC 8446, section 5.2), or the nonce and the tag (RFC 5288, section 3).
        #expect(record.clear == plain && record.wire.count == plain.count + (isDatagram ? 13 + 8 + 16 : 5 + 1 + 16))
        #expect(record.wire.prefix(3) == (isDatagram ? [23, 0xfe, 0xfd] : [23, 3, 3]))
        #expect(!record.wire.indices.contains { record.wire[$0...].starts(with: plain.prefix(4)) })
        let fields = record.fields(around: [WireField(range: 0..<plain.count, meaning: "all")])
        let ranges =
            isDatagram
            ? [0..<1, 1..<3, 3..<5, 5..<11, 11..<13, 13..<21, 21..<63, 63..<79]
            : [0..<1, 1..<3, 3..<5, 5..<47, 47..<48, 48..<64]
        #expect(fields.map(\.range) == ranges)
    }

    @Test("The verdict has the shortest and the longest message")
    func verdict() {
        let run = RunResults(RunRecord(environment: Environment(), options: [], seed: 1))
        func message(_ transport: String, _ bytes: Int) -> TracedMessage {
            TracedMessage(transport: transport, codec: "json", wire: [UInt8](repeating: 0, count: bytes), text: 5)
        }
        let failed = TracedMessage(transport: "memory", codec: "json", failure: "skipped")
        let messages = [message("tcp", 70), message("ws", 74), message("mqtt", 90), failed]
        #expect(
            TraceResults(run: run, messages: messages).report.verdict == [
                "A text of 5 bytes becomes a message of 70 bytes over tcp with json, the shortest, and of 90 bytes over mqtt "
                    + "with json, the longest."
            ]
        )
        #expect(TraceResults(run: run, messages: [failed]).report.verdict.isEmpty)
    }

    @Test("With --tls, each transport is followed by the same one over TLS", .enabled(if: hasOpenSSL))
    func options() throws {
        var vocabulary = everything
        vocabulary.transports.append("tls")
        let words = ["trace", "Hello", "--transport", "tcp,udp", "--tls"]
        let options = try OptionParser(vocabulary: vocabulary).parse(words, as: TraceCommand.self)
        #expect(options.transports == ["tcp", "tls", "udp"])
    }
}
