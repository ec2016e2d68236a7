import Codecs
import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

@Suite("Channels that receive another format", .timeLimit(.minutes(5)), .ownThread)
struct WrongFormatTests {
    private let message = ChatMessage(id: "1", conversation: "c", sender: "ann", sentAtMs: 1, text: "Soup?")

    /// Two channels over one server that sends every message to all.
    private func exchange(
        _ sent: WireFormat,
        _ read: WireFormat,
        observer: Recorder?,
        lines: Locked<[String]>,
        count: Int = 3
    ) async throws -> [Result<ChatMessage, UndecodableMessage>] {
        let server = try await EmbeddedServer.start("memory://127.0.0.1:0", .fanOut)
        let configuration = TransportConfiguration(endpoints: [server.endpoint], codec: sent)
        let supervisor = try Supervisor(configuration) { $0.observer = observer }
        let sender: Channel<ChatMessage> = supervisor.channel()
        let reader = Channel<ChatMessage>(
            supervisor: supervisor,
            codec: WireCodec(read.codec()),
            report: UndecodableReport { line in lines.withLock { $0.append(line) } }
        )
        let results = reader.results
        supervisor.connect()
        for _ in 0..<count { #expect(await sender.send(message).isSuccess) }
        var received: [Result<ChatMessage, UndecodableMessage>] = []
        for await result in results {
            received.append(result)
            if received.count == count { break }
        }
        await supervisor.close()
        await server.stop()
        return received
    }

    @Test(
        "A channel returns each undecodable message with its likely format, and writes one line to standard error",
        arguments: [
            (
                WireFormat.protobuf, WireFormat.json,
                "expected JSON, the first byte is 0x0a: the sender may use protobuf; both sides need the same codec: "
            ),
            (
                .json, .protobuf,
                "expected protobuf, the first byte is 0x7b: the sender may use JSON; both sides need the same codec: "
            ),
            (
                .xml, .json,
                "expected JSON, the first byte is 0x3c: the sender may use XML; both sides need the same codec: "
            ),
            (
                .protobuf, .xml,
                "expected XML, the first byte is 0x0a: the sender may use protobuf; both sides need the same codec: "
            ),
        ]
    )
    func crossed(sent: WireFormat, read: WireFormat, sentence: String) async throws {
        let lines = Locked<[String]>([])
        let results = try await exchange(sent, read, observer: nil, lines: lines)
        #expect(results.count == 3)
        for result in results {
            let failure = try #require(throws: UndecodableMessage.self) { try result.get() }
            #expect("\(failure)".hasPrefix(sentence) && failure.likelyFormat == sent && failure.expected == read)
        }
        let written = lines.withLock { $0 }
        #expect(written.count == 1 && written.first?.contains(sentence) == true)
    }

    @Test("An observed channel reports each undecodable message to the observer, and writes no line")
    func observed() async throws {
        let lines = Locked<[String]>([])
        let recorder = Recorder()
        _ = try await exchange(.protobuf, .json, observer: recorder, lines: lines)
        await recorder.wait { events in
            events.count {
                if case .undecodable(_, let text) = $0 { text.contains("the sender may use protobuf") } else { false }
            } == 3
        }
        #expect(lines.withLock { $0.isEmpty })
    }

    @Test("A channel reads its own format, and reports nothing", arguments: WireFormat.allCases)
    func same(format: WireFormat) async throws {
        let lines = Locked<[String]>([])
        let results = try await exchange(format, format, observer: nil, lines: lines)
        #expect(try results.map { try $0.get() } == [message, message, message])
        #expect(lines.withLock { $0.isEmpty })
    }

    @Test("Sessions with undecodable messages write one line to standard error")
    func sessions() async throws {
        let lines = Locked<[String]>([])
        let report = UndecodableReport { line in lines.withLock { $0.append(line) } }
        let server = SessionServer { session in
            let codec = WireCodec<ChatMessage>(WireFormat.json.codec())
            let messages = SessionChannel<ChatMessage>(session: session, codec: codec, report: report).messages
            Task { for await message in messages { _ = await session.send(Payload(text: message.text)) } }
        }
        let listener = try await TransportRegistry.standard.listen("memory://127.0.0.1:0")
        let serving = Task(executorPreference: EventLoop.shared) { try await server.serve(listener) }
        for _ in 0..<2 {
            var configuration = TransportConfiguration(endpoints: [listener.endpoint], codec: .protobuf)
            configuration.supervisor.delivery.mode = .session
            let supervisor = try Supervisor(configuration)
            var answers = supervisor.messages.makeAsyncIterator()
            supervisor.connect()
            for _ in 0..<2 { #expect(await supervisor.channel().send(message) == .acknowledged) }
            // The answer shows that the messages before this one were read.
            let bytes = try JSONCodec().encode(message)
            #expect(await supervisor.send(Payload(bytes)) == .acknowledged)
            #expect(await answers.next()?.bytes == Array(message.text.utf8))
            await supervisor.close()
        }
        await listener.close()
        try await serving.value
        await server.close()
        let written = lines.withLock { $0 }
        #expect(written.count == 1 && written.first?.contains("the sender may use protobuf; both sides need") == true)
    }

    /// The description of a message that a codec cannot read.
    private func described(_ payload: Payload, _ expected: WireFormat = .json) throws -> String {
        let error = try #require(throws: CodecError.self) {
            _ = try expected.codec().decode(ChatMessage.self, from: payload.bytes)
        }
        let message = UndecodableMessage(payload: payload, expected: expected, error: error)
        #expect(message.likelyFormat == nil)
        return "\(message)"
    }

    @Test(
        "Text that is no JSON is quoted, and never taken for protobuf",
        arguments: [.text, .binary] as [Payload.Kind]
    )
    func text(kind: Payload.Kind) throws {
        for text in ["hello", "HELLO", "(x)", "你好", "hello\n", "* a\tb\r\n"] {
            let sentence = try described(Payload(Array(text.utf8), kind: kind))
            let shown = String(String.UnicodeScalarView(text.unicodeScalars.map { $0.value < 0x20 ? "?" : $0 }))
            #expect(
                sentence.hasPrefix("expected JSON, the message is text that begins with \"\(shown)\", and not JSON: ")
            )
        }
        let other = try described(Payload(Array("[1]".utf8), kind: kind))
        #expect(other.hasPrefix("expected JSON, the message is text that begins with \"[1]\": "))
        let page = try described(Payload(Array("<html>".utf8), kind: kind))
        #expect(page.hasPrefix("expected JSON, the message is text that begins with \"<html>\", and not JSON: "))
        let document = try described(Payload(Array("<stream/>".utf8), kind: kind), .xml)
        #expect(document.hasPrefix("expected XML, the message is text that begins with \"<stream/>\": "))
        let greeting = try described(Payload(Array("hello".utf8), kind: kind), .protobuf)
        #expect(
            greeting.hasPrefix("expected protobuf, the message is text that begins with \"hello\", and not protobuf: ")
        )
        let long = try described(Payload(Array(("x" + String(repeating: "界", count: 5000)).utf8), kind: kind))
        #expect(long.contains("begins with \"x界") && long.count < 300)
    }

    @Test("Marks of text direction and control characters are not shown")
    func harmless() throws {
        let sentence = try described(Payload(Array("a\u{1b}[2J\u{202e}b".utf8), kind: .text))
        #expect(sentence.contains(#"begins with "a?[2J?b""#))
    }

    @Test("The advice and the error of the codec are sentences of their own")
    func sentences() throws {
        let bytes = try WireFormat.protobuf.codec().encode(message)
        let error = try #require(throws: CodecError.self) { try JSONCodec().decode(ChatMessage.self, from: bytes) }
        let text = "\(UndecodableMessage(payload: Payload(bytes), expected: .json, error: error))"
        #expect(text.hasSuffix("that a server gives to its channel. \(error)"))
    }

    @Test("The error names the hello of a client in session mode")
    func hello() throws {
        let payload = SessionFrame.hello(SessionID(high: 1, low: 2), ClientHello(incarnation: 0, received: 0)).payload
        let error = try #require(throws: CodecError.self) {
            try JSONCodec().decode(ChatMessage.self, from: payload.bytes)
        }
        let message = UndecodableMessage(payload: payload, expected: .json, error: error)
        #expect("\(message)".contains("the hello of a client in session mode"))
    }
}
