import EmbeddedServers
import TestSupport
import Testing
import TransportAPI
import Transports

@Suite("Limits of the embedded broker", .timeLimit(.minutes(5)), .ownThread)
struct BrokerLimitsTests {
    private func start(_ change: (inout BrokerLimits) -> Void) async throws -> EmbeddedServer {
        var limits = BrokerLimits()
        change(&limits)
        return try await EmbeddedServer.startBroker("mqtt://127.0.0.1:0", limits: limits)
    }

    private func connect(_ server: EmbeddedServer, _ options: String) async throws -> any Connection {
        let port = try #require(server.endpoint.port)
        return try await TransportRegistry.standard.connect("mqtt://127.0.0.1:\(port)/?\(options)")
    }

    private func text(_ connection: any Connection) async throws -> String? {
        try await connection.receive().map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    @Test(
        "The queue of an absent subscriber keeps its first or its last messages, up to its limit",
        arguments: [(.dropNewest, ["0", "1", "2"]), (.dropOldest, ["7", "8", "9"])]
            as [(BrokerLimits.Overflow, [String])]
    )
    func away(overflow: BrokerLimits.Overflow, kept: [String]) async throws {
        let server = try await start {
            $0.queuedMessages = 3
            $0.whenQueueFull = overflow
        }
        let name = "client-id=ann&clean-session=off&qos=1"
        await (try await connect(server, "\(name)&subscribe=t")).close()
        let publisher = try await connect(server, "publish=t&qos=1")
        for number in 0..<10 { #expect(await publisher.send(Payload(text: "\(number)")) == .acknowledged) }
        let back = try await connect(server, name)
        for expected in kept { #expect(try await text(back) == expected) }
        #expect(await publisher.send(Payload(text: "end")) == .acknowledged)
        #expect(try await text(back) == "end")
        for connection in [publisher, back] { await connection.close() }
        await server.stop()
    }

    @Test(
        "A subscriber that does not read is disconnected if that is the policy, and its will is published",
        arguments: 0...2
    )
    func disconnect(qos: Int) async throws {
        let server = try await start {
            $0.queuedMessages = 3
            $0.queuedBytes = 200_000
            $0.whenQueueFull = .disconnect
        }
        let watcher = try await connect(server, "subscribe=gone&qos=1")
        let stuck = try await connect(server, "subscribe=t&qos=\(qos)&inbox=1&will-topic=gone&will-message=stuck")
        let publisher = try await connect(server, "publish=t&qos=\(qos)")
        let flood = Task {
            let message = Payload([UInt8](repeating: 1, count: 100_000))
            while await publisher.send(message).isSuccess {}
        }
        #expect(try await text(watcher) == "stuck")
        await publisher.close()
        await flood.value
        for connection in [watcher, stuck] { await connection.close() }
        await server.stop()
    }

    @Test("The number of retained messages is limited, and a newer message still replaces that of its topic")
    func retained() async throws {
        let server = try await start { $0.retainedMessages = 2 }
        let publisher = try await connect(server, "qos=1")
        for topic in ["a", "b", "c"] {
            let message = Payload(Array(topic.utf8), topic: "r/\(topic)", isRetained: true)
            #expect(await publisher.send(message) == .acknowledged)
        }
        #expect(await publisher.send(Payload(Array("new".utf8), topic: "r/a", isRetained: true)) == .acknowledged)
        let late = try await connect(server, "subscribe=r/%23&qos=1")
        #expect(Set([try await text(late), try await text(late)]) == ["new", "b"])
        #expect(await publisher.send(Payload(text: "end", topic: "r/end")) == .acknowledged)
        #expect(try await text(late) == "end")
        for connection in [publisher, late] { await connection.close() }
        await server.stop()
    }

    @Test("A filter may have as many levels as the code or the URL allows", arguments: ["", "?max-filter-levels=3"])
    func filterLevels(options: String) async throws {
        var limits = BrokerLimits()
        limits.filterLevels = options.isEmpty ? 3 : 5
        let server = try await EmbeddedServer.startBroker("mqtt://127.0.0.1:0/\(options)", limits: limits)
        _ = try await connect(server, "subscribe=a/b/c")
        let error = await #expect(throws: TransportError.self) { try await connect(server, "subscribe=a/b/c/d") }
        #expect(error?.code == .forbidden && error?.detail == 0x80)
        await server.stop()
        limits.filterLevels = 129
        for (url, wrong) in [
            ("mqtt://127.0.0.1:0", limits), ("mqtt://127.0.0.1:0/?max-filter-levels=0", BrokerLimits()),
        ] {
            let error = await #expect(throws: TransportError.self) {
                try await EmbeddedServer.startBroker(url, limits: wrong)
            }
            #expect(error?.code == .invalidConfiguration)
        }
    }

    /// Waits until all connections except one have ended at the server.
    private func onlyPublisher(_ server: EmbeddedServer) async throws {
        try await Task.yield(while: await server.brokerStatistics()?.connections != 1)
    }

    @Test("At the limit of kept sessions, the one that has been absent longest ends")
    func keptSessions() async throws {
        let server = try await start { $0.keptSessions = 1 }
        let publisher = try await connect(server, "publish=t&qos=1")
        for name in ["ann", "bob"] {
            await (try await connect(server, "client-id=\(name)&clean-session=off&qos=1&subscribe=t")).close()
            try await onlyPublisher(server)
        }
        #expect(await publisher.send(Payload(text: "kept")) == .acknowledged)
        let bob = try await connect(server, "client-id=bob&clean-session=off&qos=1")
        #expect(try await text(bob) == "kept")
        await bob.close()
        try await onlyPublisher(server)
        let ann = try await connect(server, "client-id=ann&clean-session=off&qos=1&subscribe=t")
        #expect(await publisher.send(Payload(text: "new")) == .acknowledged)
        #expect(try await text(ann) == "new")
        for connection in [publisher, ann] { await connection.close() }
        await server.stop()
    }

    @Test("An absent session ends when it expires")
    func expiry() async throws {
        let server = try await start { $0.sessionExpiry = .nanoseconds(1) }
        let publisher = try await connect(server, "publish=t&qos=1")
        await (try await connect(server, "client-id=ann&clean-session=off&qos=1&subscribe=t")).close()
        try await onlyPublisher(server)
        #expect(await publisher.send(Payload(text: "lost")) == .acknowledged)
        #expect(await server.brokerStatistics()?.sessions == 1)
        let ann = try await connect(server, "client-id=ann&clean-session=off&qos=1&subscribe=t")
        #expect(await publisher.send(Payload(text: "new")) == .acknowledged)
        #expect(try await text(ann) == "new")
        for connection in [publisher, ann] { await connection.close() }
        await server.stop()
    }

    @Test("A message larger than a queue goes to present subscribers and is not kept for absent ones")
    func large() async throws {
        let server = try await start { $0.queuedBytes = 10_000 }
        await (try await connect(server, "client-id=ann&clean-session=off&qos=1&subscribe=t")).close()
        let connection = try await connect(server, "publish=t&subscribe=t&qos=1")
        try await onlyPublisher(server)
        #expect(await connection.send(Payload([UInt8](repeating: 1, count: 100_000))) == .acknowledged)
        #expect(try await connection.receive()?.bytes.count == 100_000)
        #expect(await connection.send(Payload(text: "end")) == .acknowledged)
        #expect(await server.brokerStatistics()?.dropped == 1)
        let ann = try await connect(server, "client-id=ann&clean-session=off&qos=1")
        #expect(try await text(ann) == "end")
        for connection in [connection, ann] { await connection.close() }
        await server.stop()
    }

    @Test("When absent sessions together keep too much, the one that keeps most ends")
    func allQueues() async throws {
        let server = try await start { $0.maximumQueuedBytes = 10_000 }
        for name in ["ann", "bob"] {
            await (try await connect(server, "client-id=\(name)&clean-session=off&qos=1&subscribe=\(name)")).close()
        }
        let publisher = try await connect(server, "qos=1")
        try await onlyPublisher(server)
        func publish(_ topic: String, _ count: Int) async throws {
            for _ in 0..<count {
                let message = Payload([UInt8](repeating: 1, count: 1000), topic: topic)
                #expect(await publisher.send(message) == .acknowledged)
                let queuedBytes = try #require(await server.brokerStatistics()?.queuedBytes)
                #expect(queuedBytes <= 10_000)
            }
        }
        try await publish("ann", 3)
        try await publish("bob", 5)
        #expect(await server.brokerStatistics()?.sessions == 3)
        try await publish("ann", 2)
        let statistics = try #require(await server.brokerStatistics())
        #expect(statistics.sessions == 2 && statistics.dropped == 0)
        let ann = try await connect(server, "client-id=ann&clean-session=off&qos=1")
        for _ in 0..<5 { #expect(try await ann.receive()?.topic == "ann") }
        let bob = try await connect(server, "client-id=bob&clean-session=off&qos=1&subscribe=bob")
        #expect(await publisher.send(Payload(text: "new", topic: "bob")) == .acknowledged)
        #expect(try await text(bob) == "new")
        for connection in [publisher, ann, bob] { await connection.close() }
        await server.stop()
    }

    @Test("When connected sessions together keep too much, the client that keeps most is disconnected")
    func allQueuesOfConnections() async throws {
        var limits = BrokerLimits()
        limits.queuedBytes = 600_000
        limits.maximumQueuedBytes = 1_000_000
        let (events, continuation) = AsyncStream.makeStream(of: ServerEvent.self)
        let server = try await EmbeddedServer.startBroker(
            "mqtt://127.0.0.1:0",
            limits: limits,
            observer: {
                continuation.yield($0)
            }
        )
        // In a kept session, a client acknowledges only the messages that its app has taken.
        let stuck = try await connect(server, "client-id=ann&clean-session=off&subscribe=a&qos=1")
        let other = try await connect(server, "client-id=bob&clean-session=off&subscribe=b&qos=1")
        let publisher = try await connect(server, "qos=1")
        for topic in ["b", "a", "a", "a", "a"] {
            let message = Payload([UInt8](repeating: 1, count: 240_000), topic: topic)
            #expect(await publisher.send(message) == .acknowledged)
        }
        // The apps have taken nothing. So one session had to end, together with its connection.
        #expect(await events.first { _ in true }?.reason.error?.code == .resourcesExhausted)
        #expect(await stuck.closed().initiator == .peer)
        #expect(try #require(await server.brokerStatistics()?.queuedBytes) <= 1_000_000)
        #expect(try await other.receive()?.topic == "b")
        for connection in [stuck, other, publisher] { await connection.close() }
        await server.stop()
    }

    @Test("The filter levels of one session and of all sessions are limited, and filters beyond are refused")
    func filterNodes() async throws {
        let server = try await start {
            $0.filterLevelsPerSession = 4
            $0.filterNodes = 6
        }
        let first = try MQTTClient(try await connect(server, "qos=1"))
        let second = try MQTTClient(try await connect(server, "qos=1"))
        try await first.subscribe("a/b/c") { _ in }
        let own = await #expect(throws: TransportError.self) { try await first.subscribe("d/e") { _ in } }
        let all = await #expect(throws: TransportError.self) { try await second.subscribe("d/e/f") { _ in } }
        #expect(own?.detail == 0x80 && all?.detail == 0x80)
        try await second.subscribe("a/b/c") { _ in }
        #expect(await server.brokerStatistics()?.subscriptions == 2)
        for client in [first, second] { await client.close() }
        await server.stop()
    }

    @Test("Only MQTT servers have a broker and its statistics")
    func otherTransports() async throws {
        let error = await #expect(throws: TransportError.self) {
            try await EmbeddedServer.startBroker("tcp://127.0.0.1:0")
        }
        #expect(error?.code == .unsupported)
        let server = try await EmbeddedServer.start("tcp://127.0.0.1:0")
        #expect(await server.brokerStatistics() == nil)
        await server.stop()
    }
}
