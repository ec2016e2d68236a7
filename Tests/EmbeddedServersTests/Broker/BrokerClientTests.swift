import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests ``MQTTClient`` with the embedded broker, over both transports.
@Suite("A client's subscriptions", .timeLimit(.minutes(5)), .ownThread)
struct BrokerClientTests {
    private static let schemes = ["mqtt", "mqtt+ws"]

    private func connect(_ server: EmbeddedServer, _ options: String = "qos=1") async throws -> any Connection {
        let port = try #require(server.endpoint.port)
        return try await TransportRegistry.standard.connect(
            "\(server.endpoint.scheme)://127.0.0.1:\(port)/?\(options)"
        )
    }

    private func text(_ payload: Payload?) -> String? {
        payload.map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    @Test("Each sequence receives the messages of its filter until it is unsubscribed", arguments: schemes)
    func sequences(scheme: String) async throws {
        let server = try await EmbeddedServer.start("\(scheme)://127.0.0.1:0")
        let publisher = try await connect(server)
        let client = try MQTTClient(try await connect(server))
        var lunch = try await client.subscribe("rooms/lunch").makeAsyncIterator()
        var all = try await client.subscribe("rooms/#", qos: .exactlyOnce).makeAsyncIterator()
        for (room, word) in [("lunch", "soup"), ("ops", "alarm"), ("lunch", "salad")] {
            #expect(await publisher.send(Payload(text: word, topic: "rooms/\(room)")) == .acknowledged)
        }
        #expect(text(try await lunch.next()) == "soup")
        #expect(text(try await lunch.next()) == "salad")
        for word in ["soup", "alarm", "salad"] { #expect(text(try await all.next()) == word) }
        try await client.unsubscribe("rooms/#")
        #expect(try await all.next() == nil)
        // A message that matches no remaining filter does not arrive.
        #expect(await publisher.send(Payload(text: "alarm", topic: "rooms/ops")) == .acknowledged)
        #expect(await publisher.send(Payload(text: "tea", topic: "rooms/lunch")) == .acknowledged)
        #expect(text(try await lunch.next()) == "tea")
        #expect(await client.unclaimedCount() == 0)
        // UNSUBSCRIBE for a filter without a subscription is confirmed too.
        try await client.unsubscribe("nothing")
        await client.close()
        #expect(try await lunch.next() == nil)
        await publisher.close()
        await server.stop()
    }

    @Test("A callback receives the messages of its filter, and `listen` receives those of the URL's filters")
    func callbacks() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let client = try MQTTClient(try await connect(server, "qos=1&subscribe=url/%23"))
        let (words, report) = AsyncStream.makeStream(of: String.self)
        try await client.subscribe("a/+") { report.yield(String(decoding: $0.bytes, as: UTF8.self)) }
        var other = try await client.listen(to: "url/x").makeAsyncIterator()
        await client.filtersAreComplete()
        for (topic, word) in [("a/b", "1"), ("url/x", "2"), ("url/y", "3"), ("a/c", "4")] {
            #expect(await client.publish(Payload(text: word, topic: topic)) == .acknowledged)
        }
        var seen = words.makeAsyncIterator()
        #expect(await seen.next() == "1")
        #expect(await seen.next() == "4")
        #expect(text(try await other.next()) == "2")
        #expect(await client.unclaimedCount() == 1)
        await client.close()
        await server.stop()
    }

    /// Two members of a group get 40 messages, each of them one, and a third client gets all of them.
    private func share(_ base: String, _ prefix: String) async throws {
        let registry = TransportRegistry.standard
        let clients = try await withThrowingTaskGroup(of: MQTTClient.self) { group in
            for _ in 0..<3 { group.addTask { try MQTTClient(try await registry.connect("\(base)?qos=1")) } }
            return try await group.reduce(into: [MQTTClient]()) { $0.append($1) }
        }
        let seen = AsyncStream.makeStream(of: String.self)
        for client in clients.prefix(2) {
            try await client.subscribe("\(prefix)rooms/+") { message in
                seen.continuation.yield(String(decoding: message.bytes, as: UTF8.self))
            }
        }
        var all = try await clients[2].subscribe("rooms/#").makeAsyncIterator()
        for number in 0..<40 {
            #expect(await clients[2].publish(Payload(text: "\(number)", topic: "rooms/\(number)")) == .acknowledged)
        }
        var shared = seen.stream.makeAsyncIterator()
        var received: [String] = []
        while received.count < 40, let text = await shared.next() { received.append(text) }
        #expect(Set(received).count == 40)
        for number in 0..<40 { #expect(text(try await all.next()) == "\(number)") }
        for client in clients { await client.close() }
    }

    @Test(
        "Each message of a shared subscription goes to one member of the group",
        arguments: schemes,
        ["$share/group/", "$queue/"]
    )
    func shared(scheme: String, prefix: String) async throws {
        let server = try await EmbeddedServer.start("\(scheme)://127.0.0.1:0")
        try await share("\(scheme)://127.0.0.1:\(try #require(server.endpoint.port))/", prefix)
        await server.stop()
    }

    @Test("Each message of mosquitto's shared subscriptions goes to one member", .enabled(if: Peers.mosquitto != nil))
    func sharedByMosquitto() async throws {
        let broker = try await PeerTests.Mosquitto()
        try await share("mqtt://127.0.0.1:\(broker.port)/", "$share/group/")
    }

    @Test("A member without a connection leaves its messages to the others, and gets no retained ones")
    func sharedByAbsent() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let base = "mqtt://127.0.0.1:\(try #require(server.endpoint.port))/"
        let registry = TransportRegistry.standard
        let kept = "\(base)?qos=1&client-id=ann&clean-session=off&subscribe=%24share/g/t"
        await (try await registry.connect(kept)).close()
        let client = try MQTTClient(try await connect(server))
        #expect(await client.publish(Payload(Array("kept".utf8), topic: "t", isRetained: true)) == .acknowledged)
        var messages = try await client.subscribe("$share/g/t").makeAsyncIterator()
        for number in 0..<10 { #expect(await client.publish(Payload(text: "\(number)", topic: "t")) == .acknowledged) }
        for number in 0..<10 { #expect(text(try await messages.next()) == "\(number)") }
        // The first message came when only the absent member was there.
        let ann = try await registry.connect(kept)
        #expect(text(try await ann.receive()) == "kept")
        for connection in [ann] { await connection.close() }
        await client.close()
        await server.stop()
    }

    @Test("A message that waits for the window is sent when SUBACK has made room", arguments: schemes)
    func publishBehindSubscribe(scheme: String) async throws {
        let server = try await EmbeddedServer.start("\(scheme)://127.0.0.1:0")
        let client = try MQTTClient(try await connect(server, "qos=1&in-flight=1&keep-alive=0"))
        for number in 0..<20 {
            async let subscription = client.subscribe("rooms/\(number)")
            #expect(await client.publish(Payload(text: "soup", topic: "rooms/lunch")) == .acknowledged)
            _ = try await subscription
        }
        await client.close()
        await server.stop()
    }

    @Test("A refused filter fails with a typed error, and the connection stays open")
    func refused() async throws {
        // In point-to-point mode, a server keeps up to a hundred filters of a client.
        let listener = try await TransportRegistry.standard.listen("mqtt://127.0.0.1:0")
        let port = try #require(listener.endpoint.port)
        let client = try MQTTClient(try await TransportRegistry.standard.connect("mqtt://127.0.0.1:\(port)"))
        for number in 0..<100 { try await client.subscribe("t/\(number)") }
        let error = await #expect(throws: TransportError.self) { try await client.subscribe("one/too/many") }
        #expect(error?.code == .forbidden && error?.detail == 0x80 && error?.phase == .open)
        let malformed = await #expect(throws: TransportError.self) { try await client.subscribe("a#") }
        #expect(malformed?.code == .invalidConfiguration)
        try await client.unsubscribe("t/0")
        try await client.subscribe("one/too/many")
        await client.close()
        let late = await #expect(throws: TransportError.self) { try await client.subscribe("t") }
        #expect(late?.code == .closedByUser)
        await listener.close()
    }

    @Test("A wait for the broker's answer ends when the connection ends or the task is cancelled")
    func unanswered() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let proxy = try await FaultProxy.start(to: server.endpoint, seed: 1)
        let port = try #require(proxy.endpoint.port)
        let connection = try await TransportRegistry.standard.connect("mqtt://127.0.0.1:\(port)")
        let client = try MQTTClient(connection)
        await proxy.set(PathFaults(blackHoleToClient: true))
        let sent = await connection.statistics().controlFrames
        let cancelled = Task { try await client.subscribe("a") }
        try await Task.yield(while: await connection.statistics().controlFrames == sent)
        cancelled.cancel()
        let first = await #expect(throws: TransportError.self) { _ = try await cancelled.value }
        #expect(first?.code == .cancelled)
        let waiting = Task(executorPreference: EventLoop.shared) { try await client.subscribe("b") }
        await proxy.cut(.reset)
        let second = await #expect(throws: TransportError.self) { _ = try await waiting.value }
        #expect(second?.code == .connectionReset || second?.code == .connectionLost)
        await proxy.stop()
        await server.stop()
    }

    @Test("An unread sequence blocks its connection and not the broker, and loses nothing when it is read")
    func backpressure() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0/?stall-timeout=1h")
        let publisher = try await connect(server, "publish=t&qos=1")
        let client = try MQTTClient(try await connect(server, "qos=1&inbox=4"), buffer: 4)
        var messages = try await client.subscribe("t").makeAsyncIterator()
        for number in 0..<500 { #expect(await publisher.send(Payload(text: "\(number)")) == .acknowledged) }
        for number in 0..<500 { #expect(text(try await messages.next()) == "\(number)") }
        await client.close()
        await publisher.close()
        await server.stop()
    }

    @Test("A sequence keeps its client and connection alive, and ends with the connection's error")
    func keepsClient() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let proxy = try await FaultProxy.start(to: server.endpoint, seed: 1)
        let port = try #require(proxy.endpoint.port)
        let publisher = try await connect(server, "publish=t&qos=1")
        func subscribe() async throws -> TopicMessages {
            let connection = try await TransportRegistry.standard.connect("mqtt://127.0.0.1:\(port)")
            return try await MQTTClient(connection).subscribe("t")
        }
        var messages = try await subscribe().makeAsyncIterator()
        #expect(await publisher.send(Payload(text: "tea")) == .acknowledged)
        #expect(text(try await messages.next()) == "tea")
        await proxy.cut(.reset)
        let error = await #expect(throws: TransportError.self) { try await messages.next() }
        #expect(error?.code == .connectionReset || error?.code == .connectionLost)
        #expect(try await messages.next() == nil)
        await publisher.close()
        await proxy.stop()
        await server.stop()
    }

    @Test("A client refuses a connection without topics")
    func otherTransport() async throws {
        let server = try await EmbeddedServer.start("tcp://127.0.0.1:0")
        let connection = try await connect(server, "")
        let error = #expect(throws: TransportError.self) { _ = try MQTTClient(connection) }
        #expect(error?.code == .unsupported)
        await connection.close()
        await server.stop()
    }
}
