import EmbeddedServers
import SocketIO
import Testing
import TransportAPI
import Transports

/// What subscribers get of what is retained, when it is much.
@Suite("Many retained messages", .timeLimit(.minutes(1)))
struct BrokerRetainedTests {
    private static let topics = Set((0..<3000).map { "r/\($0)" })

    private func connect(_ server: EmbeddedServer, _ options: String) async throws -> any Link {
        let port = try #require(server.endpoint.port)
        return try await TransportRegistry.standard.connect("mqtt://127.0.0.1:\(port)/?\(options)")
    }

    /// Has a message of a thousand bytes retained for each topic.
    private func retain(_ topics: some Sequence<String>, at server: EmbeddedServer) async throws {
        let link = try await connect(server, "qos=1&in-flight=1000")
        await withTaskGroup(of: SendOutcome.self) { group in
            for topic in topics {
                group.addTask {
                    await link.send(Payload([UInt8](repeating: 1, count: 1000), topic: topic, isRetained: true))
                }
            }
            for await outcome in group { #expect(outcome == .acknowledged) }
        }
        await link.close()
    }

    @Test(
        "a subscriber gets all that is retained, however few messages may wait for it, and keeps its link",
        arguments: 0...2
    )
    func all(qos: Int) async throws {
        var limits = BrokerLimits()
        limits.queuedMessages = 10
        limits.queuedBytes = 2500
        limits.whenQueueFull = .disconnect
        let server = try await EmbeddedServer.startBroker("mqtt://127.0.0.1:0", limits: limits)
        try await retain(Self.topics, at: server)
        let late = try await connect(server, "subscribe=r/%23&subscribe=r/%2B&qos=\(qos)&inbox=16")
        var seen: [String: Int] = [:]
        // Two filters that match.
        for _ in 0..<2 * Self.topics.count {
            let message = try #require(try await late.receive())
            #expect(message.isRetained)
            seen[message.topic ?? "", default: 0] += 1
        }
        #expect(Set(seen.keys) == Self.topics && seen.values.allSatisfy { $0 == 2 })
        #expect(await server.brokerStatistics()?.dropped == 0)
        await late.close()
        await server.stop()
    }

    @Test("a session that is kept gets the rest of what is retained over its next link", arguments: 1...2)
    func rest(qos: Int) async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        try await retain(Self.topics, at: server)
        let name = "client-id=ann&clean-session=off&qos=\(qos)&inbox=16"
        var seen: Set<String> = []
        let first = try await connect(server, "\(name)&subscribe=r/%23")
        for _ in 0..<100 { seen.insert(try #require(try await first.receive()?.topic)) }
        await first.close()
        #expect(await server.brokerStatistics()?.pendingRetained == 1)
        let second = try await connect(server, name)
        while seen != Self.topics { seen.insert(try #require(try await second.receive()?.topic)) }
        await second.close()
        await server.stop()
    }

    @Test("what is no longer subscribed to comes no longer, and a session that ends leaves nothing to be done")
    func ended() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        try await retain(Self.topics, at: server)
        let client = try MQTTClient(try await connect(server, "qos=1&inbox=1"), buffer: 1)
        let all = try await client.subscribe("r/#")
        #expect(await server.brokerStatistics()?.pendingRetained == 1)
        async let ended: Void = client.unsubscribe("r/#")
        for await _ in all {}
        try await ended
        while await server.brokerStatistics()?.pendingRetained != 0 { await Task.yield() }
        let again = try await client.subscribe("r/#")
        #expect(await server.brokerStatistics()?.pendingRetained == 1)
        await client.close()
        for await _ in again {}
        while await server.brokerStatistics()?.pendingRetained != 0 { await Task.yield() }
        await server.stop()
    }

    @Test("while a client has the broker look for very much, others are served")
    func fairness() async throws {
        let loop = try EventLoop(name: "retained")
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0", on: loop)
        try await retain((0..<5000).map { "a/\($0)" }, at: server)
        let honest = try await connect(server, "subscribe=t&publish=t")
        // Each of them makes the broker look at every topic, and finds none.
        var endpoint = server.endpoint
        endpoint.options = (0..<1000).map { .init(name: "subscribe", value: "+/+/\($0)/none") }
        let hostile = try await TransportRegistry.standard.transport(for: endpoint).connect(timeout: .seconds(20))
        for word in ["1", "2", "3"] {
            #expect(await honest.send(Payload(text: word)).isSuccess)
            #expect(try await honest.receive()?.bytes == Array(word.utf8))
        }
        #expect(await server.brokerStatistics()?.pendingRetained == 1)
        for link in [hostile, honest] { await link.close() }
        await server.stop()
    }
}
