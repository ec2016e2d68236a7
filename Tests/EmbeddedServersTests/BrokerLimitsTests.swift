import EmbeddedServers
import Testing
import TransportAPI
import Transports

@Suite("Bounds of the embedded broker", .timeLimit(.minutes(1)))
struct BrokerLimitsTests {
    private func start(_ change: (inout BrokerLimits) -> Void) async throws -> EmbeddedServer {
        var limits = BrokerLimits()
        change(&limits)
        return try await EmbeddedServer.broker(Endpoint("mqtt://127.0.0.1:0"), limits: limits)
    }

    private func connect(_ server: EmbeddedServer, _ options: String) async throws -> any Link {
        let port = try #require(server.endpoint.port)
        return try await TransportRegistry.standard.connect("mqtt://127.0.0.1:\(port)/?\(options)")
    }

    private func text(_ link: any Link) async throws -> String? {
        try await link.receive().map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    @Test(
        "a subscriber that is away has so many messages kept, the first or the last ones",
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
        for link in [publisher, back] { await link.close() }
        await server.stop()
    }

    @Test(
        "a subscriber that does not read loses its link where that is the policy, and its will is published",
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
        for link in [watcher, stuck] { await link.close() }
        await server.stop()
    }

    @Test("so many topics have a retained message, and the newest is never an old one")
    func retained() async throws {
        let server = try await start { $0.retainedMessages = 2 }
        let publisher = try await connect(server, "qos=1")
        for topic in ["a", "b", "c"] {
            let message = Payload(Array(topic.utf8), topic: "r/\(topic)", isRetained: true)
            #expect(await publisher.send(message) == .acknowledged)
        }
        #expect(await publisher.send(Payload(Array("new".utf8), topic: "r/a", isRetained: true)) == .acknowledged)
        let late = try await connect(server, "subscribe=r/%23&qos=1")
        #expect(await publisher.send(Payload(text: "end", topic: "r/end")) == .acknowledged)
        var seen: Set<String?> = []
        while let word = try await text(late), word != "end" { seen.insert(word) }
        #expect(seen == ["new", "b"])
        for link in [publisher, late] { await link.close() }
        await server.stop()
    }

    @Test("of too many kept sessions, the one left longest ago ends")
    func keptSessions() async throws {
        let server = try await start { $0.keptSessions = 1 }
        let publisher = try await connect(server, "publish=t&qos=1")
        for name in ["ann", "bob"] {
            await (try await connect(server, "client-id=\(name)&clean-session=off&qos=1&subscribe=t")).close()
        }
        #expect(await publisher.send(Payload(text: "kept")) == .acknowledged)
        let bob = try await connect(server, "client-id=bob&clean-session=off&qos=1")
        #expect(try await text(bob) == "kept")
        await bob.close()
        let ann = try await connect(server, "client-id=ann&clean-session=off&qos=1&subscribe=t")
        #expect(await publisher.send(Payload(text: "new")) == .acknowledged)
        #expect(try await text(ann) == "new")
        for link in [publisher, ann] { await link.close() }
        await server.stop()
    }
}
