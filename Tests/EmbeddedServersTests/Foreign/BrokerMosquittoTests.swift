import EmbeddedServers
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests what mosquitto keeps over a restart, and how it handles WebSockets and a client that is killed.
@Suite(
    "mosquitto with persistence",
    .serialized,
    .timeLimit(.minutes(5)),
    .ownThread,
    .enabled(if: Peers.mosquitto != nil)
)
struct BrokerMosquittoTests {
    private let registry = TransportRegistry.standard

    private func text(_ connection: any Connection) async throws -> String? {
        try await connection.receive().map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    @Test(
        "mosquitto keeps an absent client's session and retained messages over a restart",
        arguments: 1...2,
        ["mqtt", "mqtt+ws"]
    )
    func restart(qos: Int, scheme: String) async throws {
        let broker = try await PersistentMosquitto()
        let base = "mqtt://127.0.0.1:\(broker.port)/?qos=\(qos)"
        let port = scheme == "mqtt" ? broker.port : broker.webSocketPort
        let session = "\(scheme)://127.0.0.1:\(port)/?qos=\(qos)&client-id=ann&clean-session=off"
        await (try await registry.connect("\(session)&subscribe=t")).close()
        let publisher = try await registry.connect("\(base)&publish=t")
        for number in 0..<50 { #expect(await publisher.send(Payload(text: "\(number)")) == .acknowledged) }
        #expect(await publisher.send(Payload(Array("kept".utf8), topic: "r", isRetained: true)) == .acknowledged)
        try broker.stop()
        #expect(await publisher.closed().initiator != .user)
        try await broker.start()
        // The client does not subscribe again.
        let back = try await registry.connect(session)
        for number in 0..<50 { #expect(try await text(back) == "\(number)") }
        let late = try await registry.connect("\(base)&subscribe=r")
        #expect(try await late.receive()?.content == Payload(Array("kept".utf8), topic: "r", isRetained: true))
        for connection in [back, late] { await connection.close() }
    }

    @Test(
        "mosquitto returns messages over WebSocket at each QoS, also between WebSocket and TCP clients",
        arguments: 0...2
    )
    func webSocket(qos: Int) async throws {
        let broker = try await PersistentMosquitto()
        let url = "mqtt+ws://127.0.0.1:\(broker.webSocketPort)/mqtt?publish=a/b&subscribe=a/%2B&qos=\(qos)"
        let connection = try await registry.connect(url)
        let other = try await registry.connect("mqtt://127.0.0.1:\(broker.port)/?subscribe=a/%23&qos=\(qos)")
        // mosquitto reads its WebSockets only a few times a second, so the messages are sent in parallel.
        let sends = (0..<100).map { number in Task { await connection.send(Payload(text: "\(number)")) } }
        for send in sends { #expect(await send.value.isSuccess) }
        for reader in [connection, other] {
            var seen: Set<String> = []
            for _ in 0..<100 { seen.insert(try #require(try await text(reader))) }
            #expect(seen.count == 100)
        }
        let large = Payload(longBytes(300_000), topic: "a/large")
        async let outcome = connection.send(large)
        for reader in [connection, other] { #expect(try await reader.receive()?.content == large) }
        #expect(await outcome.isSuccess)
        #expect(try await connection.ping() > .zero)
        for reader in [connection, other] { await reader.close() }
    }

    @Test("Over WebSocket, later subscribers receive retained messages, and a cut connection publishes its will")
    func webSocketWill() async throws {
        let broker = try await PersistentMosquitto()
        let base = "mqtt+ws://127.0.0.1:\(broker.webSocketPort)/?qos=1"
        let target = try Endpoint("mqtt+ws://127.0.0.1:\(broker.webSocketPort)")
        let proxy = try await FaultProxy.start(to: target, seed: 1)
        let proxied = try #require(proxy.endpoint.port)
        let watcher = try await registry.connect("\(base)&subscribe=gone&publish=kept")
        #expect(await watcher.send(Payload(Array("kept".utf8), isRetained: true)) == .acknowledged)
        let will = "will-topic=gone&will-message=ann&will-qos=1&subscribe=kept"
        let cut = try await registry.connect("mqtt+ws://127.0.0.1:\(proxied)/?\(will)")
        #expect(try await cut.receive()?.isRetained == true)
        await proxy.cut(.reset)
        #expect(try await text(watcher) == "ann")
        for connection in [watcher, cut] { await connection.close() }
        await proxy.stop()
    }

    @Test("mosquitto publishes the will of our client whose process is killed", .enabled(if: Peers.imbench != nil))
    func killedClient() async throws {
        let broker = try await PersistentMosquitto()
        let base = "mqtt://127.0.0.1:\(broker.port)/?qos=1"
        let watcher = try await registry.connect("\(base)&subscribe=gone&subscribe=said")
        let url = "\(base)&publish=said&subscribe=said&will-topic=gone&will-message=killed&will-qos=1"
        let client = try Peer(try #require(Peers.imbench), ["chat", url, "--name", "ann"])
        try client.write("hello\n")
        while let message = try await watcher.receive(), !message.bytes.contains(Array("hello".utf8)) {}
        client.destroy()
        var last: Payload?
        while last?.topic != "gone", let message = try await watcher.receive() { last = message }
        #expect(last?.content == Payload(Array("killed".utf8), topic: "gone"))
        await watcher.close()
    }
}
