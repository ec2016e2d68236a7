import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests ``MQTTClient`` over a supervisor, whose connections change.
@Suite("Subscriptions over a supervisor", .timeLimit(.minutes(5)), .ownThread)
struct SupervisedClientTests {
    private static let schemes = ["mqtt", "mqtt+ws"]
    private static let kept = "client-id=ann&clean-session=off"

    private func text(_ payload: Payload?) -> String? {
        payload.map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    @Test(
        "A client subscribes to each filter again at a broker that has lost the session",
        arguments: schemes,
        ["", kept]
    )
    func forgotten(scheme: String, options: String) async throws {
        let rig = try await SubscriberRig(scheme, options)
        await rig.connect()
        var lunch = try await rig.client.subscribe("rooms/lunch").makeAsyncIterator()
        var all = try await rig.client.subscribe("rooms/#", qos: .exactlyOnce).makeAsyncIterator()
        try await rig.client.subscribe("gone")
        try await rig.client.unsubscribe("gone")
        var grants = rig.client.grants.makeAsyncIterator()
        try await rig.restart()
        #expect(await grants.next() == MQTTGrant(filter: "rooms/lunch", qos: .atLeastOnce))
        #expect(await grants.next() == MQTTGrant(filter: "rooms/#", qos: .exactlyOnce))
        for word in ["soup", "salad"] { try await rig.publish(word, to: "rooms/lunch") }
        for word in ["soup", "salad"] {
            #expect(text(try await lunch.next()) == word)
            #expect(text(try await all.next()) == word)
        }
        #expect(await rig.server.brokerStatistics()?.subscriptions == 2)
        await rig.supervisor.close()
        #expect(try await lunch.next() == nil)
        #expect(await grants.next() == nil)
        await rig.stop()
    }

    @Test("A refused filter with many levels says that brokers limit them")
    func tooManyLevels() async throws {
        let rig = try await SubscriberRig("mqtt", "")
        await rig.connect()
        var grants = rig.client.grants.makeAsyncIterator()
        let deep = Array(repeating: "a", count: 33).joined(separator: "/")
        let error = await #expect(throws: TransportError.self) { try await rig.client.subscribe(deep) }
        #expect(error?.code == .forbidden && error?.reason.contains("33 levels") == true)
        let grant = try #require(await grants.next())
        #expect(grant.filter == deep && grant.qos == nil)
        #expect(grant.refusal?.contains("33 levels") == true && grant.refusal?.contains("max-filter-levels") == true)
        await rig.stop()
    }

    @Test(
        "The connection after a cut has the same subscriptions, in a clean session and in a kept one",
        arguments: schemes
    )
    func cut(scheme: String) async throws {
        for options in ["", Self.kept] {
            let rig = try await SubscriberRig(scheme, options)
            await rig.connect()
            var messages = try await rig.client.subscribe("t").makeAsyncIterator()
            var grants = rig.client.grants.makeAsyncIterator()
            for round in 0..<3 {
                await rig.cut()
                // In a present session no filter is requested twice, so the next answer is for a new filter.
                if options.isEmpty { #expect(await grants.next()?.filter == "t") }
                try await rig.client.subscribe("new/\(round)")
                if options.isEmpty { for _ in 0..<round { _ = await grants.next() } }
                #expect(await grants.next()?.filter == "new/\(round)")
                try await rig.publish("\(round)", to: "t")
                var answer = text(try await messages.next())
                // The broker sends the messages again that the cut left unacknowledged (MQTT 3.1.1, section 4.4).
                while !options.isEmpty, let number = answer.flatMap({ Int($0) }), number < round {
                    answer = text(try await messages.next())
                }
                #expect(answer == "\(round)")
            }
            await rig.stop()
        }
    }

    @Test(
        "A filter that is subscribed without a connection is requested over the next connection",
        arguments: ["", kept]
    )
    func offline(options: String) async throws {
        let rig = try await SubscriberRig("mqtt", options)
        let first = rig.begin { [client = rig.client] in try await client.subscribe("first") }
        let cancelled = rig.begin { [client = rig.client] in try await client.subscribe("cancelled") }
        let undone = rig.begin { [client = rig.client] in try await client.subscribe("undone") }
        let undoing = rig.begin { [client = rig.client] in try await client.unsubscribe("undone") }
        cancelled.cancel()
        for task in [cancelled, undone] {
            let error = await #expect(throws: TransportError.self) { try await task.value }
            #expect(error?.code == .cancelled)
        }
        try await undoing.value
        await rig.connect()
        var messages = try await first.value.makeAsyncIterator()
        await rig.suspend()
        let second = rig.begin { [client = rig.client] in try await client.subscribe("second") }
        await rig.resume()
        var others = try await second.value.makeAsyncIterator()
        try await rig.publish("1", to: "first")
        try await rig.publish("2", to: "second")
        #expect(text(try await messages.next()) == "1")
        #expect(text(try await others.next()) == "2")
        #expect(await rig.server.brokerStatistics()?.subscriptions == 2)
        await rig.stop()
    }

    @Test(
        "A filter that is unsubscribed without a connection ends at once, and the next connection tells the broker",
        arguments: ["", kept]
    )
    func unsubscribedOffline(options: String) async throws {
        let rig = try await SubscriberRig("mqtt", options)
        await rig.connect()
        var gone = try await rig.client.subscribe("gone").makeAsyncIterator()
        var stays = try await rig.client.subscribe("stays").makeAsyncIterator()
        await rig.suspend()
        try await rig.client.unsubscribe("gone")
        #expect(try await gone.next() == nil)
        await rig.resume()
        // This comes after all requests from the start of the connection.
        try await rig.client.subscribe("fence")
        #expect(await rig.server.brokerStatistics()?.subscriptions == 2)
        try await rig.publish("no", to: "gone")
        try await rig.publish("yes", to: "stays")
        #expect(text(try await stays.next()) == "yes")
        #expect(await rig.client.unclaimedCount() == 0)
        await rig.stop()
    }

    @Test("A filter that is refused after a reconnect ends its sequences with that error, and nothing else")
    func refusedAgain() async throws {
        let rig = try await SubscriberRig()
        await rig.connect()
        var deep = try await rig.client.subscribe("a/b/c/d").makeAsyncIterator()
        var flat = try await rig.client.subscribe("t").makeAsyncIterator()
        var grants = rig.client.grants.makeAsyncIterator()
        var limits = BrokerLimits()
        limits.filterLevelsPerSession = 2
        try await rig.restart(limits)
        let error = await #expect(throws: TransportError.self) { try await deep.next() }
        #expect(error?.code == .forbidden && error?.detail == 0x80)
        #expect(try await deep.next() == nil)
        #expect(await grants.next() == MQTTGrant(filter: "a/b/c/d", qos: nil))
        #expect(await grants.next() == MQTTGrant(filter: "t", qos: .atLeastOnce))
        try await rig.publish("tea", to: "t")
        #expect(text(try await flat.next()) == "tea")
        // The client does not request the filter again unless the app does.
        try await rig.restart()
        #expect(await grants.next()?.filter == "t")
        try await rig.client.subscribe("a/b/c/d")
        #expect(await grants.next() == MQTTGrant(filter: "a/b/c/d", qos: .atLeastOnce))
        #expect(await rig.supervisor.state().isOpen)
        await rig.stop()
    }

    @Test("A request whose answer is lost with its connection is sent again over the next one")
    func unanswered() async throws {
        let rig = try await SubscriberRig()
        await rig.connect()
        await rig.proxy.set(PathFaults(blackHoleToClient: true))
        let waiting = rig.begin { [client = rig.client] in try await client.subscribe("t") }
        await rig.proxy.wait { $0.bufferedBytes > 0 }
        await rig.proxy.cut(.reset)
        await rig.proxy.set(.none)
        var messages = try await waiting.value.makeAsyncIterator()
        try await rig.publish("tea", to: "t")
        #expect(text(try await messages.next()) == "tea")
        await rig.stop()
    }

    @Test(
        "mosquitto keeps the subscriptions of a session, and no filter is requested twice",
        .enabled(if: Peers.mosquitto != nil)
    )
    func mosquitto() async throws {
        let broker = try await PeerTests.Mosquitto()
        let proxy = try await FaultProxy.start(to: Endpoint("mqtt://127.0.0.1:\(broker.port)"), seed: 1)
        let proxied = try #require(proxy.endpoint.port)
        let supervisor = try Supervisor("mqtt://127.0.0.1:\(proxied)/?qos=1&\(Self.kept)")
        let client = MQTTClient(supervisor)
        var states = supervisor.states.makeAsyncIterator()
        supervisor.connect()
        var messages = try await client.subscribe("t").makeAsyncIterator()
        var grants = client.grants.makeAsyncIterator()
        while let state = await states.next(), !state.isOpen {}
        await proxy.cut(.reset)
        while let state = await states.next(), !state.isOpen {}
        try await client.subscribe("new")
        #expect(await grants.next()?.filter == "new")
        let publisher = try await TransportRegistry.standard.connect("mqtt://127.0.0.1:\(broker.port)/?qos=1")
        #expect(await publisher.send(Payload(text: "tea", topic: "t")) == .acknowledged)
        #expect(text(try await messages.next()) == "tea")
        await publisher.close()
        await client.close()
        await proxy.stop()
    }

    @Test("Many filters are requested again within the broker's rate limit")
    func many() async throws {
        let rig = try await SubscriberRig(serving: "?control-rate=300")
        var grants = rig.client.grants.makeAsyncIterator()
        let requests = (0..<900).map { number in
            rig.begin { [client = rig.client] in try await client.subscribe("t/\(number)") }
        }
        rig.supervisor.connect()
        for number in 0..<900 { #expect(await grants.next() == MQTTGrant(filter: "t/\(number)", qos: .atLeastOnce)) }
        for task in requests { _ = try await task.value }
        await rig.cut()
        for number in 0..<900 { #expect(await grants.next() == MQTTGrant(filter: "t/\(number)", qos: .atLeastOnce)) }
        #expect(await rig.server.brokerStatistics()?.subscriptions == 900)
        await rig.stop()
    }

    @Test("Sequences and waiting requests end with the error of a supervisor that has given up")
    func givenUp() async throws {
        let isShut = Locked(false)
        let server = try await EmbeddedServer.startBroker("mqtt://127.0.0.1:0") { _ in
            isShut.withLock { $0 } ? .wrongCredentials : .accept
        }
        let supervisor = try Supervisor("mqtt://127.0.0.1:\(try #require(server.endpoint.port))")
        let client = MQTTClient(supervisor)
        supervisor.connect()
        var messages = try await client.subscribe("t").makeAsyncIterator()
        isShut.withLock { $0 = true }
        supervisor.suspend()
        let waiting = Task(executorPreference: EventLoop.shared) { try await client.subscribe("late") }
        supervisor.resume()
        let late = await #expect(throws: TransportError.self) { try await waiting.value }
        #expect(late?.code == .authenticationFailed)
        let error = await #expect(throws: TransportError.self) { try await messages.next() }
        #expect(error?.code == .authenticationFailed)
        #expect(try await messages.next() == nil)
        await server.stop()
    }

    @Test(
        "A client takes the messages of an open connection, and returns them to the supervisor when it is released"
    )
    func released() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let supervisor = try Supervisor("mqtt://127.0.0.1:\(try #require(server.endpoint.port))/?publish=t&qos=1")
        supervisor.connect()
        #expect(await supervisor.send(Payload(text: "unread")) == .acknowledged)
        do {
            var messages = try await MQTTClient(supervisor).subscribe("t").makeAsyncIterator()
            #expect(await supervisor.send(Payload(text: "first")) == .acknowledged)
            #expect(text(try await messages.next()) == "first")
        }
        // The client is released at some point in between. Then no listener is left, so the supervisor keeps the
        // messages.
        for number in 0..<100 { #expect(await supervisor.send(Payload(text: "\(number)")) == .acknowledged) }
        var kept = supervisor.messages.makeAsyncIterator()
        #expect(await kept.next() != nil)
        await supervisor.close()
        await server.stop()
    }
}
