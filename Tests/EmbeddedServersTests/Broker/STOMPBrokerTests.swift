import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// The embedded STOMP broker with clients of this package.
@Suite("A STOMP broker", .timeLimit(.minutes(5)), .ownThread)
struct STOMPBrokerTests {
    private static let schemes = ["stomp", "stomp+ws"]

    private func start(
        _ scheme: String = "stomp",
        _ limits: BrokerLimits = BrokerLimits()
    ) async throws -> EmbeddedServer {
        try await EmbeddedServer.startBroker("\(scheme)://127.0.0.1:0", limits: limits)
    }

    private func url(_ server: EmbeddedServer, _ options: String) throws -> String {
        "\(server.endpoint.scheme)://127.0.0.1:\(try #require(server.endpoint.port))/?\(options)"
    }

    private func connect(_ server: EmbeddedServer, _ options: String = "receipt=on") async throws -> any Connection {
        try await TransportRegistry.standard.connect(url(server, options))
    }

    private func text(_ payload: Payload?) -> String? {
        payload.map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    @Test(
        "A topic reaches all its subscribers, and each sequence has the messages of its own subscription",
        arguments: schemes
    )
    func topics(scheme: String) async throws {
        let server = try await start(scheme)
        let sender = try await connect(server)
        let client = try STOMPClient(try await connect(server))
        var lunch = try await client.subscribe("/topic/rooms.lunch").makeAsyncIterator()
        var all = try await client.subscribe("/topic/rooms.#").makeAsyncIterator()
        for (room, word) in [("lunch", "soup"), ("ops", "alarm"), ("lunch", "salad")] {
            #expect(await sender.send(Payload(text: word, topic: "/topic/rooms.\(room)")) == .acknowledged)
        }
        for word in ["soup", "salad"] { #expect(text(try await lunch.next()) == word) }
        for word in ["soup", "alarm", "salad"] { #expect(text(try await all.next()) == word) }
        try await client.unsubscribe("/topic/rooms.#")
        #expect(try await all.next() == nil)
        #expect(await sender.send(Payload(text: "tea", topic: "/topic/rooms.lunch")) == .acknowledged)
        let tea = try await lunch.next()
        #expect(text(tea) == "tea" && tea?.kind == .text && tea?.topic == "/topic/rooms.lunch")
        // A destination without a subscription ends without a request.
        try await client.unsubscribe("nothing")
        #expect(await client.unclaimedCount() == 0)
        await client.close()
        #expect(try await lunch.next() == nil)
        await sender.close()
        await server.stop()
    }

    @Test(
        "A queue keeps its messages until a client has acknowledged them",
        arguments: ["client", "client-individual"]
    )
    func queues(mode: String) async throws {
        let server = try await start()
        let sender = try await connect(server, "receipt=on&publish=/queue/a")
        for number in 0..<5 { #expect(await sender.send(Payload(text: "\(number)")) == .acknowledged) }
        #expect(await server.brokerStatistics()?.queuedBytes ?? 0 > 0)
        let first = try await connect(server, "ack=\(mode)&subscribe=/queue/a")
        for number in 0..<3 { #expect(text(try await first.receive()) == "\(number)") }
        // The third message is not acknowledged, because the client has not asked for a further one.
        await first.close()
        let second = try await connect(server, "ack=\(mode)&subscribe=/queue/a")
        for number in 2..<5 {
            let payload = try await second.receive()
            #expect(text(payload) == "\(number)" && payload?.isDuplicate == true)
        }
        #expect(await sender.send(Payload(text: "last")) == .acknowledged)
        #expect(text(try await second.receive()) == "last")
        await sender.close()
        await second.close()
        await server.stop()
    }

    @Test("Each message of a queue goes to one of its subscribers")
    func shared() async throws {
        let server = try await start()
        let sender = try await connect(server, "receipt=on&publish=/queue/a")
        var receivers: [any Connection] = []
        for _ in 0..<2 { receivers.append(try await connect(server, "subscribe=/queue/a")) }
        for number in 0..<4 { #expect(await sender.send(Payload(text: "\(number)")) == .acknowledged) }
        for (index, receiver) in receivers.enumerated() {
            for number in [index, index + 2] { #expect(text(try await receiver.receive()) == "\(number)") }
            await receiver.close()
        }
        await sender.close()
        await server.stop()
    }

    @Test("A message to a full queue is refused, if it asks for a receipt")
    func full() async throws {
        var limits = BrokerLimits()
        limits.queuedMessages = 2
        let server = try await start("stomp", limits)
        let sender = try await connect(server, "receipt=on&publish=/queue/a")
        for _ in 0..<2 { #expect(await sender.send(Payload([65])) == .acknowledged) }
        guard case .rejected(let error) = await sender.send(Payload([65])) else {
            return await server.stop()
        }
        #expect(error.code == .forbidden && error.reason.contains("the queue is full"))
        #expect(await server.brokerStatistics()?.dropped == 1)
        await server.stop()
    }

    @Test("The subscriptions of a client outlive its connections, and leave before its messages", arguments: schemes)
    func reconnects(scheme: String) async throws {
        let server = try await start(scheme)
        let proxy = try await FaultProxy.start(to: server.endpoint, seed: 1)
        let port = try #require(proxy.endpoint.port)
        let file = """
            {
              "endpoints": ["\(scheme)://127.0.0.1:\(port)/?receipt=on&subscribe=/topic/url"],
              "backoff": {"policy": "exponential", "initial": "20ms", "maximum": "200ms", "jitter": "equal"}
            }
            """
        let supervisor = try Supervisor(TransportConfiguration(json: file.utf8))
        let client = STOMPClient(supervisor)
        var states = supervisor.states.makeAsyncIterator()
        supervisor.connect()
        while let state = await states.next(), !state.isOpen {}
        var messages = try await client.subscribe("/topic/a").makeAsyncIterator()
        var ofURL = try await client.listen(to: "/topic/url").makeAsyncIterator()
        for number in 0..<5 {
            let topic = number % 2 == 0 ? "/topic/a" : "/topic/url"
            #expect(await client.send(Payload(text: "\(number)", topic: topic)) == .acknowledged)
            #expect(text(number % 2 == 0 ? try await messages.next() : try await ofURL.next()) == "\(number)")
            await proxy.cut(.reset)
            while let state = await states.next(), !state.isOpen {}
        }
        await client.close()
        #expect(try await messages.next() == nil)
        await proxy.stop()
        await server.stop()
    }

    @Test(
        "A message that waits for its listener keeps its destination, also when the next endpoint has others",
        arguments: ["auto", "client", "client-individual"]
    )
    func failsOver(mode: String) async throws {
        let (first, second) = (try await start(), try await start())
        let urls = try [url(first, "subscribe=/topic/a"), url(second, "subscribe=/topic/b&subscribe=/topic/c")]
        let file = """
            {
              "endpoints": ["\(urls[0])&ack=\(mode)", "\(urls[1])&ack=\(mode)"],
              "backoff": {"policy": "exponential", "initial": "20ms", "maximum": "200ms", "jitter": "equal"}
            }
            """
        let supervisor = try Supervisor(TransportConfiguration(json: file.utf8))
        let client = STOMPClient(supervisor)
        var states = supervisor.states.makeAsyncIterator()
        supervisor.connect()
        while let state = await states.next(), !state.isOpen {}
        var ready = try await client.subscribe("/topic/ready").makeAsyncIterator()
        let sender = try await connect(first)
        for topic in ["/topic/a", "/topic/ready"] {
            #expect(await sender.send(Payload(text: "from \(topic)", topic: topic)) == .acknowledged)
        }
        // Both come over one connection, so the client has the first one by now.
        #expect(text(try await ready.next()) == "from /topic/ready")
        await first.stop()
        while let state = await states.next(), !state.isOpen {}
        var others: [TopicMessages.AsyncIterator] = []
        for topic in ["/topic/b", "/topic/c"] {
            others.append(try await client.listen(to: topic).makeAsyncIterator())
            #expect(await supervisor.send(Payload(text: "to \(topic)", topic: topic)).isSuccess)
        }
        var former = try await client.listen(to: "/topic/a").makeAsyncIterator()
        #expect(text(try await former.next()) == "from /topic/a")
        #expect(text(try await others[0].next()) == "to /topic/b")
        #expect(text(try await others[1].next()) == "to /topic/c")
        #expect(await client.unclaimedCount() == 0)
        await client.close()
        await second.stop()
    }

    @Test("A client that is not admitted is told so, and gives up")
    func authentication() async throws {
        let server = try await EmbeddedServer.startBroker("stomp://127.0.0.1:0") { credentials in
            credentials.match(user: "ann", password: "secret") ? .accept : .wrongCredentials
        }
        let port = try #require(server.endpoint.port)
        for user in ["", "ann:guess@"] {
            let error = await #expect(throws: TransportError.self) {
                _ = try await TransportRegistry.standard.connect("stomp://\(user)127.0.0.1:\(port)")
            }
            #expect(error?.code == .authenticationFailed)
        }
        await (try await TransportRegistry.standard.connect("stomp://ann:secret@127.0.0.1:\(port)")).close()
        await server.stop()
    }

    @Test("A client of another protocol's subscriptions is refused")
    func otherClient() async throws {
        let server = try await start()
        let connection = try await connect(server)
        #expect(throws: TransportError.self) { try MQTTClient(connection) }
        await connection.close()
        await server.stop()
    }
}
