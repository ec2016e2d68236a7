import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// ``MQTTClient`` over a supervisor, whose connections come and go.
@Suite("Subscriptions over a supervisor", .timeLimit(.minutes(5)), .ownThread)
struct SupervisedClientTests {
    private static let schemes = ["mqtt", "mqtt+ws"]
    private static let kept = "client-id=ann&clean-session=off"

    private func text(_ payload: Payload?) -> String? {
        payload.map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    @Test("a broker without the session is asked for each filter again", arguments: schemes, ["", kept])
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

    @Test(
        "a cut connection is followed by one with the same subscriptions, over a clean session and over a kept one",
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
                // In a session that is present nothing is asked for twice: the next answer is to something new.
                if options.isEmpty { #expect(await grants.next()?.filter == "t") }
                try await rig.client.subscribe("new/\(round)")
                if options.isEmpty { for _ in 0..<round { _ = await grants.next() } }
                #expect(await grants.next()?.filter == "new/\(round)")
                try await rig.publish("\(round)", to: "t")
                var answer = text(try await messages.next())
                // What the cut kept from being acknowledged, the broker sends again (MQTT 3.1.1, section 4.4).
                while !options.isEmpty, let number = answer.flatMap({ Int($0) }), number < round {
                    answer = text(try await messages.next())
                }
                #expect(answer == "\(round)")
            }
            await rig.stop()
        }
    }

    @Test("what is subscribed to without a connection, the next connection subscribes to", arguments: ["", kept])
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
        "what is unsubscribed without a connection ends at once, and the next connection tells a broker that still has it",
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
        // Behind all that the connection has begun with.
        try await rig.client.subscribe("fence")
        #expect(await rig.server.brokerStatistics()?.subscriptions == 2)
        try await rig.publish("no", to: "gone")
        try await rig.publish("yes", to: "stays")
        #expect(text(try await stays.next()) == "yes")
        #expect(await rig.client.unclaimed() == 0)
        await rig.stop()
    }

    @Test("a filter that is refused on the way back ends its sequences with that, and nothing else")
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
        // It is not asked for again, unless the app does.
        try await rig.restart()
        #expect(await grants.next()?.filter == "t")
        try await rig.client.subscribe("a/b/c/d")
        #expect(await grants.next() == MQTTGrant(filter: "a/b/c/d", qos: .atLeastOnce))
        #expect(await rig.supervisor.state().isOpen)
        await rig.stop()
    }

    @Test("a connection that ends before the answer leaves the question to the next one")
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
        "mosquitto, too, keeps the subscriptions of a session and is not asked twice",
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

    @Test("many filters come back, within what a broker lets a client ask for in a second")
    func many() async throws {
        let rig = try await SubscriberRig(serving: "?control-rate=300")
        var grants = rig.client.grants.makeAsyncIterator()
        let asking = (0..<900).map { number in
            rig.begin { [client = rig.client] in try await client.subscribe("t/\(number)") }
        }
        rig.supervisor.connect()
        for number in 0..<900 { #expect(await grants.next() == MQTTGrant(filter: "t/\(number)", qos: .atLeastOnce)) }
        for task in asking { _ = try await task.value }
        await rig.cut()
        for number in 0..<900 { #expect(await grants.next() == MQTTGrant(filter: "t/\(number)", qos: .atLeastOnce)) }
        #expect(await rig.server.brokerStatistics()?.subscriptions == 900)
        await rig.stop()
    }

    @Test("when the supervisor has given up, sequences and those who wait are told why")
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
        "a client takes over a connection that is there, and when it is let go its messages are the supervisor's again"
    )
    func letGo() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let supervisor = try Supervisor("mqtt://127.0.0.1:\(try #require(server.endpoint.port))/?publish=t&qos=1")
        supervisor.connect()
        #expect(await supervisor.send(Payload(text: "to nobody")) == .acknowledged)
        do {
            var messages = try await MQTTClient(supervisor).subscribe("t").makeAsyncIterator()
            #expect(await supervisor.send(Payload(text: "first")) == .acknowledged)
            #expect(text(try await messages.next()) == "first")
        }
        // Somewhen in between the client is gone. Nobody listens then, so that the supervisor keeps what comes.
        for number in 0..<100 { #expect(await supervisor.send(Payload(text: "\(number)")) == .acknowledged) }
        var kept = supervisor.messages.makeAsyncIterator()
        #expect(await kept.next() != nil)
        await supervisor.close()
        await server.stop()
    }
}
