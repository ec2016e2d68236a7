import EmbeddedServers
import TestSupport
import Testing
import TransportAPI
import Transports

/// Messages that the server refuses, with others behind them.
@Suite("Messages that a server refuses", .timeLimit(.minutes(5)), .ownThread)
struct RefusedMessageTests {
    /// A supervisor whose broker accepts messages of 1000 bytes, and ends the connection at a larger one.
    private func client(_ scheme: String, _ options: String, _ mode: String) async throws -> (
        Supervisor, EmbeddedServer
    ) {
        let server = try await EmbeddedServer.startBroker("\(scheme)://127.0.0.1:0/?max-message=1000")
        let port = try #require(server.endpoint.port)
        let file = """
            {"endpoints": ["\(scheme)://127.0.0.1:\(port)/?\(options)"], "delivery": {"mode": "\(mode)"},
             "backoff": {"policy": "fixed", "delay": "5ms"}}
            """
        return (try Supervisor(TransportConfiguration(json: file.utf8)), server)
    }

    @Test(
        "A message that is too large for the broker is set aside, and those before and behind it are acknowledged",
        arguments: ["mqtt", "mqtt+ws"],
        [(1, "plain"), (2, "plain"), (1, "session"), (2, "session")]
    )
    func broker(scheme: String, service: (qos: Int, mode: String)) async throws {
        let (qos, mode) = service
        let (supervisor, server) = try await client(scheme, "qos=\(qos)&client-id=ann&clean-session=off", mode)
        supervisor.connect()
        #expect(await supervisor.send(Payload(text: "first", topic: "t")) == .acknowledged)
        async let before = supervisor.send(Payload(text: "before", topic: "t"))
        async let refused = supervisor.send(Payload([UInt8](repeating: 1, count: 2000), topic: "t"))
        async let behind = supervisor.send(Payload(text: "behind", topic: "t"))
        #expect(await before == .acknowledged)
        #expect(await behind == .acknowledged)
        switch await refused {
        case .unknown, .rejected: break
        case let outcome: Issue.record("the outcome is \(outcome)")
        }
        #expect(await supervisor.send(Payload(text: "later", topic: "t")) == .acknowledged)
        await supervisor.close()
        await server.stop()
    }

    @Test(
        "A session rejects a message that is larger than its server accepts, and the other way round",
        arguments: ["ws", "tcp"]
    )
    func session(scheme: String) async throws {
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = .session
        for isServerSmall in [true, false] {
            let (served, used) = isServerSmall ? ("max-message=1000", "") : ("", "max-message=1000")
            let (sessions, continuation) = AsyncStream<Session>.makeStream()
            let server = SessionServer { continuation.yield($0) }
            let listener = try await TransportRegistry.standard.listen("\(scheme)://127.0.0.1:0/?\(served)")
            let serving = Task(executorPreference: EventLoop.shared) { try await server.serve(listener) }
            let port = try #require(listener.endpoint.port)
            let supervisor = try Supervisor("\(scheme)://127.0.0.1:\(port)/?\(used)", configuration)
            supervisor.connect()
            var iterator = sessions.makeAsyncIterator()
            let session = try #require(await iterator.next())
            let tooLarge = Payload([UInt8](repeating: 1, count: 992))
            let fitting = Payload([UInt8](repeating: 2, count: 991))
            let outcomes =
                isServerSmall
                ? [await supervisor.send(tooLarge), await supervisor.send(fitting)]
                : [await session.send(tooLarge), await session.send(fitting)]
            guard case .rejected(let error) = outcomes[0] else {
                Issue.record("the outcome is \(outcomes[0])")
                continue
            }
            #expect(error.code == .messageTooLarge && outcomes[1] == .acknowledged)
            await supervisor.close()
            await server.close()
            await listener.close()
            _ = await serving.result
        }
    }
}
