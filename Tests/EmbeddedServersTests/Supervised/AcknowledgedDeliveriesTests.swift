import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests an app that acknowledges the messages of a broker that keeps its session.
@Suite("Deliveries of a kept MQTT session", .timeLimit(.minutes(5)), .ownThread)
struct AcknowledgedDeliveriesTests {
    /// Passes on the reports about unacknowledged messages.
    private struct Observer: SupervisorObserver {
        let reports: AsyncStream<UnacknowledgedMessages>.Continuation

        func note(_ note: SupervisorEvent, at time: Instant) {
            if case .unacknowledged(let messages) = note { reports.yield(messages) }
        }
    }

    private typealias Deliveries = Subscription<ReceivedMessage>.Iterator

    private func take(_ count: Int, from deliveries: inout Deliveries) async throws -> [ReceivedMessage] {
        var messages: [ReceivedMessage] = []
        while messages.count < count { messages.append(try #require(await deliveries.next())) }
        return messages
    }

    private func open(_ supervisor: Supervisor) async {
        var states = supervisor.states.makeAsyncIterator()
        supervisor.connect()
        while let state = await states.next(), !state.isOpen {}
    }

    // MARK: Unacknowledged messages

    @Test(
        "A broker sends unacknowledged messages again, over the next connection and to the next process",
        arguments: [1, 2],
        [true, false]
    )
    func embedded(qos: Int, isHere: Bool) async throws {
        let broker = try await EmbeddedServer.startBroker("mqtt://127.0.0.1:0")
        try await checkAgain(try #require(broker.endpoint.port), qos, isHere: isHere)
        await broker.stop()
    }

    @Test(
        "mosquitto sends unacknowledged messages again",
        .enabled(if: Peers.mosquitto != nil),
        arguments: [1, 2],
        [true, false]
    )
    func mosquitto(qos: Int, isHere: Bool) async throws {
        let broker = try await PersistentMosquitto()
        try await checkAgain(broker.port, qos, isHere: isHere)
        withExtendedLifetime(broker) {}
    }

    /// - Parameter isHere: Whether connections live on the supervisor's loop.
    private func checkAgain(_ port: UInt16, _ qos: Int, isHere: Bool) async throws {
        let proxy = try await FaultProxy.start(to: Endpoint("mqtt://127.0.0.1:\(port)"), seed: 1)
        let proxied = try #require(proxy.endpoint.port)
        let url = "mqtt://127.0.0.1:\(proxied)/?client-id=ben&clean-session=off&subscribe=t&publish=other&qos=\(qos)"
        let other = try EventLoop(name: "connections")
        func makeBen() throws -> Supervisor {
            try Supervisor(TransportConfiguration(endpoints: [try Endpoint(url)])) { setup in
                guard !isHere else { return }
                setup.factory = { (endpoint) throws(TransportError) in
                    try TransportRegistry.standard.transport(for: endpoint, on: other)
                }
            }
        }
        let ben = try makeBen()
        var deliveries = ben.deliveries.makeAsyncIterator()
        await open(ben)
        let ann = try Supervisor("mqtt://127.0.0.1:\(port)/?publish=t&qos=\(qos)")
        await open(ann)
        for number in 1...4 { #expect(await ann.send(Payload(text: "\(number)")) == .acknowledged) }
        let messages = try await take(4, from: &deliveries)
        #expect(messages.map(\.payload.string) == ["1", "2", "3", "4"])
        // The acknowledgement of the third message waits for the second.
        for index in [2, 0, 0] { messages[index].acknowledge() }
        // The broker has read this message after the acknowledgements.
        #expect(await ben.send(Payload(text: "on")) == .acknowledged)
        var states = ben.states.makeAsyncIterator()
        await proxy.cut(.reset)
        while let state = await states.next(), state.isOpen {}
        // These acknowledgements are too late for the broker.
        for message in messages { message.acknowledge() }
        var again = try await take(3, from: &deliveries)
        #expect(again.map(\.payload.string) == ["2", "3", "4"])
        for message in again.dropLast() { message.acknowledge() }
        #expect(await ben.send(Payload(text: "on")) == .acknowledged)
        await ben.close()
        again[2].acknowledge()

        let next = try makeBen()
        deliveries = next.deliveries.makeAsyncIterator()
        await open(next)
        #expect(await ann.send(Payload(text: "5")) == .acknowledged)
        again = try await take(2, from: &deliveries)
        #expect(again.map(\.payload.string) == ["4", "5"])
        for message in again { message.acknowledge() }
        await next.close()
        await ann.close()
        await proxy.stop()
    }

    // MARK: Limits

    @Test(
        "An app that never acknowledges receives messages up to its limit, and its supervisor reports that",
        arguments: [1, 2]
    )
    func limited(qos: Int) async throws {
        let broker = try await EmbeddedServer.startBroker("mqtt://127.0.0.1:0")
        try await checkLimit(try #require(broker.endpoint.port), qos, buffer: 4, limit: 4)
        await broker.stop()
    }

    @Test(
        "An app that never acknowledges receives messages up to mosquitto's window, and its supervisor reports that",
        .enabled(if: Peers.mosquitto != nil),
        arguments: [1, 2]
    )
    func limitedByMosquitto(qos: Int) async throws {
        let broker = try await PersistentMosquitto(["max_inflight_messages 6"])
        try await checkLimit(broker.port, qos, buffer: 1024, limit: 6)
        withExtendedLifetime(broker) {}
    }

    @Test(
        "An app that never acknowledges receives no message beyond its limit over further connections",
        arguments: [1, 2]
    )
    func limitedAcrossConnections(qos: Int) async throws {
        let broker = try await EmbeddedServer.startBroker("mqtt://127.0.0.1:0")
        let port = try #require(broker.endpoint.port)
        let proxy = try await FaultProxy.start(to: Endpoint("mqtt://127.0.0.1:\(port)"), seed: 1)
        let proxied = try #require(proxy.endpoint.port)
        let url = "mqtt://127.0.0.1:\(proxied)/?client-id=ben&clean-session=off&subscribe=t&publish=other&qos=\(qos)"
        var configuration = TransportConfiguration(endpoints: [try Endpoint(url)])
        configuration.supervisor.messageBuffer = 4
        configuration.supervisor.backoff = .fixed(.milliseconds(1))
        let ben = try Supervisor(configuration)
        var deliveries = ben.deliveries.makeAsyncIterator()
        await open(ben)
        let ann = try Supervisor("mqtt://127.0.0.1:\(port)/?publish=t&qos=\(qos)")
        await open(ann)
        for number in 1...20 { #expect(await ann.send(Payload(text: "\(number)")) == .acknowledged) }
        let held = try await take(4, from: &deliveries)
        var states = ben.states.makeAsyncIterator()
        for _ in 0..<5 {
            await proxy.cut(.reset)
            while let state = await states.next(), state.isOpen {}
            while let state = await states.next(), !state.isOpen {}
            // The broker has sent the messages of the session before this acknowledgement.
            #expect(await ben.send(Payload(text: "on")) == .acknowledged)
        }
        for message in held { message.acknowledge() }
        var texts: [String] = []
        while texts.last != "20" {
            let message = try #require(await deliveries.next())
            texts.append(message.payload.string)
            message.acknowledge()
        }
        // The messages that the first connection had given the app beside those that it holds, and then all of the last one.
        #expect(texts.count <= 24 && texts.suffix(20) == (1...20).map { "\($0)" })
        await ben.close()
        await ann.close()
        await proxy.stop()
        await broker.stop()
    }

    private func checkLimit(_ port: UInt16, _ qos: Int, buffer: Int, limit: Int) async throws {
        let (reports, sink) = AsyncStream.makeStream(of: UnacknowledgedMessages.self)
        let url = "mqtt://127.0.0.1:\(port)/?client-id=ben&clean-session=off&subscribe=t&qos=\(qos)"
        var configuration = TransportConfiguration(endpoints: [try Endpoint(url)])
        configuration.supervisor.messageBuffer = buffer
        configuration.supervisor.delivery.acknowledgementReminder = .milliseconds(5)
        let ben = try Supervisor(configuration) { $0.observer = Observer(reports: sink) }
        var deliveries = ben.deliveries.makeAsyncIterator()
        await open(ben)
        let ann = try Supervisor("mqtt://127.0.0.1:\(port)/?publish=t&qos=\(qos)")
        await open(ann)
        for number in 1...20 { #expect(await ann.send(Payload(text: "\(number)")) == .acknowledged) }
        var count = 0
        for await report in reports {
            #expect(report.count <= limit && !report.isAbandoned)
            count = report.count
            if count == limit { break }
        }
        #expect(count == limit)
        let held = try await take(limit, from: &deliveries)
        for message in held.reversed() { message.acknowledge() }
        var texts = held.map(\.payload.string)
        while texts.count < 20 {
            let message = try #require(await deliveries.next())
            texts.append(message.payload.string)
            message.acknowledge()
        }
        #expect(texts == (1...20).map { "\($0)" })
        await ben.close()
        await ann.close()
    }
}

extension Payload {
    fileprivate var string: String { String(decoding: bytes, as: UTF8.self) }
}
