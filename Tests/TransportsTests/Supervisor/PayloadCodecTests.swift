import EmbeddedServers
import TestSupport
import Testing
import Transports

/// A format that this package does not have.
private struct Lines: PayloadCodec {
    func encode(_ message: consuming [String]) throws(CodecError) -> Payload {
        guard !message.isEmpty else { throw CodecError(.invalidValue, problem: "expected a line, found none") }
        return Payload(text: message.joined(separator: "\n"))
    }

    func decode(_ payload: Payload) throws(CodecError) -> [String] {
        guard let text = String(validating: payload.bytes, as: UTF8.self) else {
            throw CodecError(.invalidUTF8, field: "lines", problem: "expected UTF-8, found other bytes")
        }
        return text.split(separator: "\n").map(String.init)
    }
}

@Suite("A channel with a format of the app", .timeLimit(.minutes(5)), .ownThread)
struct PayloadCodecTests {
    @Test("Messages and requests are written and read by the app's codec, and its errors are those of the channel")
    func lines() async throws {
        let listener = try await TransportRegistry.standard.listen("memory://lines")
        let server = SessionServer { session in
            let lines = session.channel(by: Lines())
            let messages = lines.messages
            lines.onRequest(answeredBy: Lines()) { question in question.reversed() }
            Task {
                for await message in messages {
                    _ = await session.send(Payload([0xff]))
                    _ = await lines.send(message + ["over"])
                }
            }
        }
        let serving = Task(executorPreference: EventLoop.shared) { try await server.serve(listener) }
        var configuration = TransportConfiguration(endpoints: [listener.endpoint])
        configuration.supervisor.delivery.mode = .session
        let supervisor = try Supervisor(configuration) { $0.observer = Recorder() }
        let lines = supervisor.channel(by: Lines())
        var results = lines.results.makeAsyncIterator()
        supervisor.connect()
        #expect(await lines.send(["soup", "salad"]) == .acknowledged)
        guard case .failure(let failure)? = await results.next() else { throw CancellationError() }
        #expect(
            "\(failure)"
                == "expected the format of the channel: expected UTF-8, found other bytes. (invalidUTF8, field lines)"
        )
        #expect(failure.expected == nil)
        #expect(try await results.next()?.get() == ["soup", "salad", "over"])
        let answer = try await lines.request(["a", "b"], timeout: .seconds(60), answeredBy: Lines())
        #expect(answer == ["b", "a"])
        guard case .rejected(let error) = await lines.send([]) else { throw CancellationError() }
        #expect(error.reason.contains("expected a line, found none"))
        await supervisor.close()
        await listener.close()
        try await serving.value
        await server.close()
    }
}
