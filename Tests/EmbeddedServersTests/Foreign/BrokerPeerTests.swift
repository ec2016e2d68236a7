import EmbeddedServers
import TestSupport
import Testing
import TransportAPI

/// Tests sessions, retained messages and wills between our client and mosquitto.
extension PeerTests {
    private func text(_ connection: any Connection) async throws -> String? {
        try await connection.receive().map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    /// Loses the acknowledgements of a publisher, and then its connection. The next connection of the same transport
    /// completes the messages of the first one, and nothing arrives twice.
    private func exactlyOnceAcrossConnections(_ broker: Endpoint) async throws {
        let port = try #require(broker.port)
        let proxy = try await FaultProxy.start(to: broker, seed: 1)
        let proxied = try #require(proxy.endpoint.port)
        let reader = try await registry.connect("\(broker.scheme)://127.0.0.1:\(port)/?subscribe=t&qos=2")
        let url = "\(broker.scheme)://127.0.0.1:\(proxied)/?publish=t&qos=2&clean-session=off&client-id=ann"
        let transport = try registry.transport(for: Endpoint(url))
        for round in 0..<5 {
            let connection = try await transport.connect(timeout: .seconds(10))
            #expect(await connection.send(Payload(text: "begin \(round)")) == .acknowledged)
            #expect(try await text(reader) == "begin \(round)")
            await proxy.set(PathFaults(blackHoleToClient: true))
            let first = await connection.statistics().messagesSent
            let sends = (0..<10).map { _ in Task { await connection.send(Payload(text: "in flight")) } }
            try await Task.yield(while: await connection.statistics().messagesSent < first + 10)
            // In every other round, the messages have time to reach the broker, whose answers are lost.
            if round.isMultiple(of: 2) { for _ in 0..<10 { _ = try await reader.ping() } }
            await proxy.cut(.reset)
            for send in sends { #expect(await send.value != .acknowledged) }
            await proxy.set(.none)
            let next = try await transport.connect(timeout: .seconds(10))
            #expect(await next.send(Payload(text: "end")) == .acknowledged)
            for _ in 0..<10 { #expect(try await text(reader) == "in flight") }
            #expect(try await text(reader) == "end")
            await next.close()
        }
        await reader.close()
        await proxy.stop()
    }

    @Test(
        "QoS 2 delivers each message once over several connections of one session with mosquitto",
        .enabled(if: Peers.mosquitto != nil),
        arguments: ["mqtt", "mqtt+ws"]
    )
    func mosquittoSession(scheme: String) async throws {
        let broker = try await Mosquitto()
        try await exactlyOnceAcrossConnections(broker.endpoint(scheme))
    }

    @Test("QoS 2 delivers each message once over several connections of one session with our broker")
    func ownSession() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        try await exactlyOnceAcrossConnections(server.endpoint)
        await server.stop()
    }

    @Test(
        "Many concurrent messages at QoS 2 arrive once each through mosquitto",
        .enabled(if: Peers.mosquitto != nil),
        arguments: ["", "&in-flight=1"]
    )
    func mosquittoWindow(option: String) async throws {
        let broker = try await Mosquitto()
        let url = "mqtt://127.0.0.1:\(broker.port)/?publish=t&subscribe=t&qos=2"
        let connection = try await registry.connect(url + option)
        let sends = (0..<300).map { number in Task { await connection.send(Payload(text: "\(number)")) } }
        for send in sends { #expect(await send.value == .acknowledged) }
        var seen: Set<String> = []
        for _ in 0..<300 { seen.insert(try #require(try await text(connection))) }
        #expect(seen.count == 300)
        await connection.close()
    }

    @Test(
        "mosquitto keeps a session for our client while it is away",
        .enabled(if: Peers.mosquitto != nil),
        arguments: 1...2
    )
    func mosquittoAway(qos: Int) async throws {
        let broker = try await Mosquitto()
        let base = "mqtt://127.0.0.1:\(broker.port)/?qos=\(qos)"
        let transport = try registry.transport(for: Endpoint("\(base)&subscribe=t&clean-session=off&client-id=ann"))
        await (try await transport.connect(timeout: .seconds(10))).close()
        let publisher = try await registry.connect("\(base)&publish=t")
        for number in 0..<50 { #expect(await publisher.send(Payload(text: "\(number)")) == .acknowledged) }
        let back = try await transport.connect(timeout: .seconds(10))
        for number in 0..<50 { #expect(try await text(back) == "\(number)") }
        for connection in [publisher, back] { await connection.close() }
    }

    @Test(
        "mosquitto retains the message of our client until the client deletes it",
        .enabled(if: Peers.mosquitto != nil)
    )
    func mosquittoRetained() async throws {
        let broker = try await Mosquitto()
        let base = "mqtt://127.0.0.1:\(broker.port)/?qos=1"
        let publisher = try await registry.connect("\(base)&publish=a/b")
        #expect(await publisher.send(Payload(Array("kept".utf8), isRetained: true)) == .acknowledged)
        let late = try await registry.connect("\(base)&subscribe=a/%23")
        #expect(try await late.receive()?.content == Payload(Array("kept".utf8), topic: "a/b", isRetained: true))
        #expect(await publisher.send(Payload([], isRetained: true)) == .acknowledged)
        let later = try await registry.connect("\(base)&subscribe=a/%23")
        #expect(await publisher.send(Payload(text: "plain")) == .acknowledged)
        #expect(try await later.receive()?.content == Payload(Array("plain".utf8), topic: "a/b"))
        for connection in [publisher, late, later] { await connection.close() }
    }

    @Test("mosquitto publishes our client's will when its connection is cut", .enabled(if: Peers.mosquitto != nil))
    func mosquittoWill() async throws {
        let broker = try await Mosquitto()
        let proxy = try await FaultProxy.start(to: Endpoint("mqtt://127.0.0.1:\(broker.port)"), seed: 1)
        let port = try #require(proxy.endpoint.port)
        let watcher = try await registry.connect("mqtt://127.0.0.1:\(broker.port)/?subscribe=gone&qos=2")
        let will = "will-topic=gone&will-message=ann&will-qos=2&will-retain=on"
        await (try await registry.connect("mqtt://127.0.0.1:\(port)/?\(will)")).close()
        let cut = try await registry.connect("mqtt://127.0.0.1:\(port)/?\(will)")
        await proxy.cut(.reset)
        #expect(try await watcher.receive()?.content == Payload(Array("ann".utf8), topic: "gone"))
        let late = try await registry.connect("mqtt://127.0.0.1:\(broker.port)/?subscribe=gone&qos=2")
        #expect(try await late.receive()?.isRetained == true)
        for connection in [watcher, cut, late] { await connection.close() }
        await proxy.stop()
    }
}
