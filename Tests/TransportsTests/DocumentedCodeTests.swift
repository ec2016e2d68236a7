import Codecs
import EmbeddedServers
import TestSupport
import Testing
import TransportAPI
import Transports

// Code like that of the documents, run against real servers. scripts/docs/snippets compiles the documents themselves.

private func chat(_ file: String) async throws {
    let configuration = try TransportConfiguration(json: file.utf8, label: "chat.json")
    let supervisor = try Supervisor(configuration)
    let chat = supervisor.channel(of: ChatMessage.self)
    let messages = chat.messages
    supervisor.connect()

    let hello = ChatMessage(
        id: "1",
        conversation: "team-lunch",
        sender: "ann",
        sentAtMs: 1_767_225_600_000,
        text: "Soup or salad?"
    )
    let outcome = await chat.send(hello)
    guard outcome.isSuccess else { throw NotSent(outcome: outcome) }

    for await message in messages {
        #expect(message.text == hello.text)
        if message.id == hello.id { break }
    }
    await supervisor.close()
}

private func forward(from source: any Connection, to target: any Connection) async throws {
    while let message = try await source.receive() {
        let outcome = await target.send(message)
        guard outcome.isSuccess else { throw NotSent(outcome: outcome) }
    }
}

private struct NotSent: Error {
    var outcome: SendOutcome
}

private func follow(_ supervisor: Supervisor, _ show: (String) -> Void) async {
    for await state in supervisor.states {
        switch state {
        case .idle, .suspended: break
        case .connecting, .waiting: show("connecting…")
        case .open: show("online")
        case .offline: show("no network")
        case .closed(let reason): show("ended: \(reason)")
        }
    }
}

private func submit(_ message: ChatMessage, _ chat: Channel<ChatMessage>, _ show: (String) -> Void) async throws {
    let supervisor = chat.supervisor
    let id = try await chat.submit(message)
    // Not in the documents: otherwise no message would be undelivered.
    await supervisor.close()
    for await failed in supervisor.undelivered where failed.id == id {
        show("not delivered, \(failed.outcome): \(try chat.decode(failed.payload).text)")
    }
}

private actor Tokens {
    private var count = 0

    func current(renewing: Bool) throws -> String {
        if renewing { count += 1 }
        return "token-\(count)"
    }
}

private func careful(_ configuration: TransportConfiguration, _ tokens: Tokens) throws -> Supervisor {
    let supervisor = try Supervisor(configuration) { setup in
        setup.paths = try? SystemPathMonitor.make()
        setup.preparation = { endpoint, isRefresh in
            var endpoint = endpoint
            let token = try await tokens.current(renewing: isRefresh)
            endpoint.options.append(.init(name: "header", value: "Authorization:Bearer \(token)"))
            return endpoint
        }
        // Not in the documents: loopback needs no network.
        setup.paths = nil
    }
    return supervisor
}

private func echoServer() -> SessionServer {
    let server = SessionServer { session in
        let messages = session.messages
        Task {
            for await message in messages { _ = await session.send(message) }
        }
    }
    return server
}

@Suite("The code of the documents", .timeLimit(.minutes(5)), .ownThread)
struct DocumentedCodeTests {
    @Test(
        "The example of a typed channel works over each transport and in each format",
        arguments: ["ws", "mqtt", "tcp", "udp"],
        WireFormat.allCases
    )
    func example(scheme: String, format: WireFormat) async throws {
        let server = try await EmbeddedServer.start("\(scheme)://127.0.0.1:0")
        var endpoint = server.endpoint
        if scheme == "mqtt" {
            endpoint.options = ["publish", "subscribe"].map { .init(name: $0, value: "lunch") }
        }
        try await chat(#"{"endpoints": ["\#(endpoint)"], "codec": "\#(format.name)"}"#)
        await server.stop()
    }

    @Test("The example of forwarding sends the messages of one connection over another")
    func forwarding() async throws {
        let listener = try await TransportRegistry.standard.listen("ws://127.0.0.1:0")
        let client = try await TransportRegistry.standard.connect("\(listener.endpoint)")
        let server = try #require(try await listener.accept())
        let forwarding = Task { try await forward(from: server, to: server) }
        for text in ["a", "bc", "def"] {
            #expect(await client.send(Payload(text: text)) == .written)
            #expect(try await client.receive() == Payload(text: text))
        }
        await client.close()
        try await forwarding.value
        await listener.close()
    }

    @Test("The example of states shows them, with credentials for each attempt")
    func states() async throws {
        let server = try await EmbeddedServer.start("ws://127.0.0.1:0")
        let supervisor = try careful(TransportConfiguration(endpoints: [server.endpoint]), Tokens())
        supervisor.connect()
        var shown: [String] = []
        await follow(supervisor) { line in
            shown.append(line)
            if line == "online" { Task { await supervisor.close() } }
        }
        // A listener that begins late receives the current state first.
        #expect(shown.filter { $0 != "connecting…" } == ["online", "ended: user"])
        await server.stop()
    }

    @Test("The example of undelivered messages receives them")
    func undelivered() async throws {
        let configuration = TransportConfiguration(endpoints: [try Endpoint("tcp://127.0.0.1:1")])
        let chat = try Supervisor(configuration).channel(of: ChatMessage.self)
        var message = ChatMessage()
        message.text = "hi"
        var shown: [String] = []
        try await submit(message, chat) { shown.append($0) }
        #expect(shown.count == 1)
        #expect(shown.first?.hasSuffix(": hi") == true)
    }

    @Test("The example of a session server resumes the session over the next connection")
    func sessions() async throws {
        let server = echoServer()
        let listener = try await TransportRegistry.standard.listen("ws://127.0.0.1:0")
        let serving = Task(executorPreference: EventLoop.shared) { try await server.serve(listener) }
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = .session
        let supervisor = try Supervisor("\(listener.endpoint)", configuration)
        var messages = supervisor.messages.makeAsyncIterator()
        supervisor.connect()
        #expect(await supervisor.send(Payload(text: "one")) == .acknowledged)
        #expect(await messages.next() == Payload(text: "one"))
        await server.dropConnections()
        #expect(await supervisor.send(Payload(text: "two")) == .acknowledged)
        #expect(await messages.next() == Payload(text: "two"))
        await supervisor.close()
        await listener.close()
        try await serving.value
        await server.close()
    }

    @Test("The example of a heartbeat is a valid configuration")
    func heartbeat() throws {
        let file = """
            {"endpoints": ["ws://127.0.0.1/"],
            "keepalive": {"interval": "30s", "idle-only": false, "payload": "ping", "answer": "pong"}}
            """
        let keepalive = try TransportConfiguration(json: file.utf8).supervisor.keepalive
        #expect(keepalive.probe == .payload(Payload(text: "ping"), answer: Payload(text: "pong")))
        #expect(keepalive.isIdleOnly == false)
    }
}
