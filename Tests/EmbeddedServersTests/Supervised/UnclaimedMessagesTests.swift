import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests what an ``MQTTClient`` does with messages that come before their filter.
@Suite("Messages that match no filter yet", .timeLimit(.minutes(5)), .ownThread)
struct UnclaimedMessagesTests {
    private static let kept = "client-id=ann&clean-session=off&qos=1"

    private func text(_ payload: Payload?) -> String? {
        payload.map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    /// A broker, and what a test does with it as another client.
    private struct Rig {
        let base: String
        let publisher: any Connection

        init(_ base: String) async throws {
            self.base = base
            publisher = try await TransportRegistry.standard.connect("\(base)?qos=1")
        }

        /// A new process of ann.
        func ann(_ options: String = "", buffer: Int = 1024, _ observer: Recorder? = nil) throws -> Supervisor {
            var configuration = SupervisorConfiguration()
            configuration.messageBuffer = buffer
            let whole = TransportConfiguration(
                endpoints: [try Endpoint("\(base)?\(UnclaimedMessagesTests.kept)&\(options)")],
                supervisor: configuration
            )
            return try Supervisor(whole) { $0.observer = observer }
        }

        /// Lets a first process of ann subscribe, and end.
        func subscribe(_ filters: String..., qos: Payload.QoS = .atLeastOnce) async throws {
            let supervisor = try ann()
            let client = MQTTClient(supervisor)
            supervisor.connect()
            for filter in filters { try await client.subscribe(filter, qos: qos) }
            await client.close()
        }

        func publish(_ text: String, to topic: String, qos: Payload.QoS = .atLeastOnce) async {
            #expect(await publisher.send(Payload(Array(text.utf8), topic: topic, qos: qos)).isSuccess)
        }
    }

    /// Counts the events of a supervisor.
    private final class Recorder: SupervisorObserver {
        let received = AsyncStream<Void>.makeStream()
        let unclaimed = AsyncStream<DiscardedMessage>.makeStream()

        func note(_ note: SupervisorEvent, at time: Instant) {
            switch note {
            case .received: received.continuation.yield()
            case .unclaimed(let message): unclaimed.continuation.yield(message)
            default: break
            }
        }

        func waitForMessages(_ count: Int) async {
            var iterator = received.stream.makeAsyncIterator()
            for _ in 0..<count { _ = await iterator.next() }
        }
    }

    /// Subscribes one after the other, as an app does after its restart.
    private func restarted(_ rig: Rig) async throws {
        try await rig.subscribe("rooms/lunch", "presence/+")
        for number in 0..<5 {
            await rig.publish("\(number)", to: number % 2 == 0 ? "presence/ben" : "rooms/lunch")
        }
        let supervisor = try rig.ann()
        let client = MQTTClient(supervisor)
        supervisor.connect()
        var lunch = try await client.subscribe("rooms/lunch").makeAsyncIterator()
        var presence = try await client.subscribe("presence/+").makeAsyncIterator()
        await client.filtersAreComplete()
        for number in ["0", "2", "4"] { #expect(text(try await presence.next()) == number) }
        for number in ["1", "3"] { #expect(text(try await lunch.next()) == number) }
        #expect(await client.unclaimedCount() == 0)
        await client.close()
        await rig.publisher.close()
    }

    @Test(
        "Messages of a kept session wait until an app has made all its subscriptions, one after the other",
        arguments: ["mqtt", "mqtt+ws"]
    )
    func oneAfterTheOther(scheme: String) async throws {
        let server = try await EmbeddedServer.start("\(scheme)://127.0.0.1:0")
        try await restarted(try await Rig("\(scheme)://127.0.0.1:\(try #require(server.endpoint.port))/"))
        await server.stop()
    }

    @Test(
        "Messages that mosquitto has kept wait until an app has made all its subscriptions",
        .enabled(if: Peers.mosquitto != nil)
    )
    func mosquitto() async throws {
        let broker = try await PersistentMosquitto()
        try await restarted(try await Rig("mqtt://127.0.0.1:\(broker.port)/"))
    }

    @Test("Messages that wait for a filter are not acknowledged, so the next process gets them", arguments: 1...2)
    func unacknowledged(qos: Int) async throws {
        let quality = try #require(Payload.QoS(rawValue: UInt8(qos)))
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let rig = try await Rig("mqtt://127.0.0.1:\(try #require(server.endpoint.port))/")
        try await rig.subscribe("a", "b", qos: quality)
        for number in 0..<6 { await rig.publish("\(number)", to: number % 2 == 0 ? "a" : "b", qos: quality) }
        let recorder = Recorder()
        let second = try rig.ann("", recorder)
        let client = MQTTClient(second)
        var early = try await {
            second.connect(); return try await client.subscribe("b", qos: quality)
        }()
        .makeAsyncIterator()
        await recorder.waitForMessages(6)
        for number in ["1", "3", "5"] { #expect(text(try await early.next()) == number) }
        await client.close()
        // Acknowledgements are in order, so the message "0" has held up those for "b".
        let third = try rig.ann()
        let last = MQTTClient(third)
        third.connect()
        var again = try await last.subscribe("a", qos: quality).makeAsyncIterator()
        for number in ["0", "2", "4"] { #expect(text(try await again.next()) == number) }
        await last.close()
        await rig.publisher.close()
        await server.stop()
    }

    @Test("After a cut, a message that waits for a filter comes again, and reaches its listener once", arguments: 1...2)
    func cut(qos: Int) async throws {
        let quality = try #require(Payload.QoS(rawValue: UInt8(qos)))
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let rig = try await Rig("mqtt://127.0.0.1:\(try #require(server.endpoint.port))/")
        try await rig.subscribe("a", "b", qos: quality)
        for number in 0..<3 { await rig.publish("\(number)", to: "a", qos: quality) }
        let recorder = Recorder()
        let proxy = try await FaultProxy.start(to: server.endpoint, seed: 1)
        let proxied = "mqtt://127.0.0.1:\(try #require(proxy.endpoint.port))/?\(Self.kept)"
        let whole = TransportConfiguration(endpoints: [try Endpoint(proxied)])
        let supervisor = try Supervisor(whole) { $0.observer = recorder }
        let client = MQTTClient(supervisor)
        supervisor.connect()
        await recorder.waitForMessages(3)
        await proxy.cut(.reset)
        // The messages come again.
        await recorder.waitForMessages(3)
        var messages = try await client.subscribe("a", qos: quality).makeAsyncIterator()
        await rig.publish("3", to: "a", qos: quality)
        for number in 0..<4 { #expect(text(try await messages.next()) == "\(number)") }
        await client.close()
        await proxy.stop()
        await rig.publisher.close()
        await server.stop()
    }

    /// The broker restarts without its sessions. An attempt that fails after CONNACK begins a new one, which the next attempt
    /// continues.
    @Test(
        "Messages that wait for a filter stay if the broker has lost them, also after an attempt that failed",
        arguments: 1...2
    )
    func lostByBroker(qos: Int) async throws {
        let quality = try #require(Payload.QoS(rawValue: UInt8(qos)))
        let first = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let rig = try await Rig("mqtt://127.0.0.1:\(try #require(first.endpoint.port))/")
        try await rig.subscribe("a", qos: quality)
        for number in 0..<3 { await rig.publish("\(number)", to: "a", qos: quality) }
        let recorder = Recorder()
        let attempts = Locked(0)
        let file = """
            {
              "endpoints": ["\(rig.base)?\(Self.kept)"],
              "backoff": {"policy": "exponential", "initial": "20ms", "maximum": "200ms", "jitter": "equal"}
            }
            """
        let supervisor = try Supervisor(TransportConfiguration(json: file.utf8)) {
            $0.observer = recorder
            $0.greeting = { _, _ in
                let number = attempts.withLock {
                    $0 += 1
                    return $0
                }
                if number == 2 { throw TransportError(.serverUnavailable, .handshake, "not now") }
            }
        }
        var states = supervisor.states.makeAsyncIterator()
        let client = MQTTClient(supervisor)
        supervisor.connect()
        while let state = await states.next(), !state.isOpen {}
        await recorder.waitForMessages(3)
        await first.stop()
        let second = try await EmbeddedServer.start("\(rig.base)")
        while let state = await states.next(), !state.isOpen {}
        #expect(attempts.withLock { $0 } == 3)
        let messages = try await client.subscribe("a", qos: quality)
        let publisher = try await TransportRegistry.standard.connect("\(rig.base)?qos=1")
        #expect(await publisher.send(Payload(Array("end".utf8), topic: "a")).isSuccess)
        var seen: [String?] = []
        for try await message in messages {
            seen.append(text(message))
            if seen.last == "end" { break }
        }
        #expect(seen == ["0", "1", "2", "end"])
        await client.close()
        await publisher.close()
        await second.stop()
    }

    @Test(
        "A filter that the app has forgotten holds up another one until the wait is over, and is unsubscribed",
        .enabled(if: Peers.mosquitto != nil),
        arguments: [true, false]
    )
    func forgotten(saysSo: Bool) async throws {
        let broker = try await PersistentMosquitto(["max_inflight_messages 20"])
        let rig = try await Rig("mqtt://127.0.0.1:\(broker.port)/")
        try await rig.subscribe("old/+/state", "rooms/lunch")
        for number in 0..<30 { await rig.publish("\(number)", to: "old/\(number % 3)/state") }
        for number in 0..<100 { await rig.publish("\(number)", to: "rooms/lunch") }
        let recorder = Recorder()
        let supervisor = try rig.ann(saysSo ? "" : "unclaimed-wait=300ms", recorder)
        let client = MQTTClient(supervisor)
        supervisor.connect()
        var lunch = try await client.subscribe("rooms/lunch").makeAsyncIterator()
        if saysSo { await client.filtersAreComplete() }
        for number in 0..<100 { #expect(text(try await lunch.next()) == "\(number)") }
        #expect(await client.unclaimedCount() == 30)
        var dropped = recorder.unclaimed.stream.makeAsyncIterator()
        for number in 0..<30 {
            let expected = DiscardedMessage(topic: "old/\(number % 3)/state", size: "\(number)".utf8.count)
            #expect(await dropped.next() == expected)
        }
        await client.close()
        // mosquitto has forgotten the filter, so the next process does not get its messages.
        await rig.publish("no", to: "old/1/state")
        await rig.publish("yes", to: "rooms/lunch")
        let next = try rig.ann()
        let last = MQTTClient(next)
        next.connect()
        var again = try await last.subscribe("rooms/lunch").makeAsyncIterator()
        await last.filtersAreComplete()
        #expect(text(try await again.next()) == "yes")
        #expect(await last.unclaimedCount() == 0)
        await last.close()
        await rig.publisher.close()
    }

    @Test("An app that listens to unclaimed messages gets them, also later ones")
    func sequence() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let rig = try await Rig("mqtt://127.0.0.1:\(try #require(server.endpoint.port))/")
        try await rig.subscribe("old")
        for number in 0..<3 { await rig.publish("\(number)", to: "old") }
        let supervisor = try rig.ann()
        let client = MQTTClient(supervisor)
        var unclaimed = client.unclaimed.makeAsyncIterator()
        supervisor.connect()
        await client.filtersAreComplete()
        for number in 0..<3 { #expect(text(await unclaimed.next()) == "\(number)") }
        // The filter is still the app's, so it is not unsubscribed.
        await rig.publish("3", to: "old")
        #expect(text(await unclaimed.next()) == "3")
        await client.close()
        #expect(await unclaimed.next() == nil)
        await rig.publisher.close()
        await server.stop()
    }

    @Test("More messages than the buffer holds wait at the broker, and none is lost", arguments: [1, 4, 1024])
    func limit(buffer: Int) async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let rig = try await Rig("mqtt://127.0.0.1:\(try #require(server.endpoint.port))/")
        try await rig.subscribe("a", "b")
        for number in 0..<200 { await rig.publish("\(number)", to: number < 100 ? "a" : "b") }
        let supervisor = try rig.ann("inbox=1", buffer: buffer)
        let client = MQTTClient(supervisor)
        supervisor.connect()
        var second = try await client.subscribe("b").makeAsyncIterator()
        var first = try await client.subscribe("a").makeAsyncIterator()
        for number in 0..<100 { #expect(text(try await first.next()) == "\(number)") }
        for number in 100..<200 { #expect(text(try await second.next()) == "\(number)") }
        #expect(await client.unclaimedCount() == 0)
        await client.close()
        await rig.publisher.close()
        await server.stop()
    }

    @Test("Retained messages of a filter in the URL wait for `listen(to:)`", arguments: [false, true], ["0", "1"])
    func retained(isSupervised: Bool, qos: String) async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let rig = try await Rig("mqtt://127.0.0.1:\(try #require(server.endpoint.port))/")
        for name in ["ann", "ben"] {
            let message = Payload(Array(name.utf8), topic: "presence/\(name)", isRetained: true)
            #expect(await rig.publisher.send(message) == .acknowledged)
        }
        let url = "\(rig.base)?subscribe=presence/%2B&qos=\(qos)"
        let client: MQTTClient
        if isSupervised {
            let supervisor = try Supervisor(url)
            client = MQTTClient(supervisor)
            supervisor.connect()
        } else {
            client = try MQTTClient(try await TransportRegistry.standard.connect(url))
        }
        // The answer to this filter comes after the retained messages.
        try await client.subscribe("fence")
        var presence = try await client.listen(to: "presence/+").makeAsyncIterator()
        var names: Set<String?> = []
        for _ in 0..<2 { names.insert(text(try await presence.next())) }
        #expect(names == ["ann", "ben"])
        await client.close()
        await rig.publisher.close()
        await server.stop()
    }

    @Test("An app that listens to all messages of the supervisor gets those without a filter at once")
    func heard() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let rig = try await Rig("mqtt://127.0.0.1:\(try #require(server.endpoint.port))/")
        let supervisor = try rig.ann("subscribe=all/%23", buffer: 4)
        let client = MQTTClient(supervisor)
        var messages = supervisor.messages.makeAsyncIterator()
        supervisor.connect()
        var room = try await client.subscribe("room").makeAsyncIterator()
        for number in 0..<50 {
            await rig.publish("\(number)", to: "all/\(number)")
            #expect(text(await messages.next()) == "\(number)")
        }
        await rig.publish("end", to: "room")
        #expect(text(try await room.next()) == "end")
        await client.close()
        await rig.publisher.close()
        await server.stop()
    }

    @Test(
        "A client subscribes before it repeats unacknowledged messages at a broker that has lost the session",
        arguments: ["mqtt", "mqtt+ws"],
        [1, 100]
    )
    func subscribesFirst(scheme: String, filters: Int) async throws {
        let rig = try await SubscriberRig(scheme, "client-id=ann&clean-session=off")
        await rig.connect()
        for number in 1..<filters { try await rig.client.subscribe("other/\(number)") }
        var messages = try await rig.client.subscribe("t").makeAsyncIterator()
        await rig.proxy.set(PathFaults(blackHoleToClient: true))
        let sends = (0..<10).map { number in
            rig.begin { [client = rig.client] in await client.publish(Payload(text: "\(number)", topic: "t")) }
        }
        // The broker has the messages, and its answers do not arrive.
        await rig.proxy.wait { $0.bufferedBytes > 0 }
        await rig.server.stop()
        await rig.proxy.cut(.reset)
        await rig.proxy.set(.none)
        try await rig.restart()
        var seen: Set<String?> = []
        for send in sends { #expect(try await send.value == .acknowledged) }
        while seen.count < 10 { seen.insert(text(try await messages.next())) }
        await rig.stop()
    }
}
