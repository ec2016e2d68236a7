import EmbeddedServers
import TestSupport
import Testing
import TransportAPI
import Transports

@Suite("The embedded broker", .timeLimit(.minutes(5)), .ownThread)
struct BrokerTests {
    private func connect(_ server: EmbeddedServer, _ options: String) async throws -> any Connection {
        let port = try #require(server.endpoint.port)
        return try await TransportRegistry.standard.connect("mqtt://127.0.0.1:\(port)/?\(options)")
    }

    @Test("A broker routes by wildcards and sends a client only what it subscribed to", arguments: [0, 1])
    func wildcards(qos: Int) async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let all = try await connect(server, "subscribe=chat/%23&qos=\(qos)")
        let one = try await connect(server, "subscribe=chat/%2B/ann&qos=\(qos)")
        let sender = try await connect(server, "publish=chat/x/ann&qos=\(qos)")
        #expect(await sender.send(Payload(text: "1", topic: "chat/x/bob")).isSuccess)
        #expect(await sender.send(Payload(text: "2")).isSuccess)
        #expect(try await all.receive()?.topic == "chat/x/bob")
        #expect(try await all.receive()?.topic == "chat/x/ann")
        #expect(try await one.receive()?.bytes == Array("2".utf8))
        for connection in [all, one, sender] { await connection.close() }
        await server.stop()
    }

    @Test("A broker ends the connection of a client whose identifier another client takes over (MQTT-3.1.4-2)")
    func takeover() async throws {
        let (events, continuation) = AsyncStream.makeStream(of: ServerEvent.self)
        let server = try await EmbeddedServer.startBroker("mqtt://127.0.0.1:0", observer: { continuation.yield($0) })
        let first = try await connect(server, "client-id=ann")
        let second = try await connect(server, "client-id=ann&subscribe=t&publish=t")
        let reason = await first.closed()
        #expect(reason.initiator == .peer && reason.text.hasSuffix("another client may use the same client-id 'ann'"))
        let event = await events.first { _ in true }
        #expect(event?.reason.text == "another client took over this client identifier, 'ann'")
        #expect(await second.send(Payload(text: "still here")).isSuccess)
        #expect(try await second.receive()?.bytes == Array("still here".utf8))
        await second.close()
        await server.stop()
    }

    @Test(
        "A broker serves others while one subscriber does not read, which then receives what was not dropped",
        arguments: [.dropNewest, .dropOldest] as [BrokerLimits.Overflow],
        0...2
    )
    func slowSubscriber(overflow: BrokerLimits.Overflow, qos: Int) async throws {
        var limits = BrokerLimits()
        limits.whenQueueFull = overflow
        limits.queuedBytes = 256 << 10
        let server = try await EmbeddedServer.startBroker("mqtt://127.0.0.1:0/?stall-timeout=1h", limits: limits)
        let stuck = try await connect(server, "subscribe=t&qos=\(qos)&inbox=1")
        let reader = try await connect(server, "subscribe=t&qos=\(qos)")
        let sender = try await connect(server, "publish=t&qos=\(qos)")
        var bytes = [UInt8](repeating: 0, count: 100_000)
        for number in 0..<200 as Range<UInt8> {
            bytes[0] = number
            #expect(await sender.send(Payload(bytes)).isSuccess)
            #expect(try await reader.receive()?.bytes == bytes)
        }
        let statistics = try #require(await server.brokerStatistics())
        #expect(1..<200 ~= statistics.dropped && statistics.connections == 3)
        #expect(statistics.queuedBytes <= limits.queuedBytes)
        var taken: [UInt8] = []
        for _ in statistics.dropped..<200 { taken.append(try #require(try await stuck.receive()?.bytes.first)) }
        #expect(zip(taken, taken.dropFirst()).allSatisfy { $0 < $1 })
        // At QoS 0 no queued message could be dropped to make room.
        #expect((taken.last == 199) == (overflow == .dropOldest && qos > 0))
        #expect(await sender.send(Payload(text: "end")).isSuccess)
        #expect(try await stuck.receive()?.bytes == Array("end".utf8))
        for connection in [stuck, reader, sender] { await connection.close() }
        await server.stop()
    }
}
