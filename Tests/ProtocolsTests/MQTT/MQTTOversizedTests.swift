import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// Messages that are larger than allowed.
@Suite("MQTT messages beyond max-message")
struct MQTTOversizedTests {
    private static let limit = 100
    private static let sizes: [Int] = [101, 5000, 65_000, 70_000]

    /// A PUBLISH on topic `t` with packet identifier 7.
    private func publish(_ size: Int, _ qos: MQTTQoS, isDuplicate: Bool = false, topic: String = "t") -> [UInt8] {
        var publish = MQTTPublish(topic: topic, payload: [UInt8](repeating: 1, count: size))
        publish.qos = qos
        publish.isDuplicate = isDuplicate
        publish.packetID = qos == .atMostOnce ? 0 : 7
        return encoded(.publish(publish))
    }

    private func configuration(_ subscriptions: [MQTTSubscription] = []) -> MQTTConfiguration {
        var configuration = MQTTConfiguration()
        configuration.clientID = "ann"
        configuration.cleanSession = false
        configuration.maximumMessageSize = Self.limit
        configuration.subscriptions = subscriptions
        return configuration
    }

    /// The next connection of a kept session.
    private func connection(_ session: MQTTSession) throws -> MQTTClientHarness {
        var client = MQTTClientHarness(try MQTTClientCore(configuration(), session: session))
        client.start()
        client.feed([0x20, 2, 1, 0])
        _ = client.takeOutput()
        return client
    }

    @Test(
        "A payload of one byte too many ends the connection in both roles, and is not acknowledged",
        arguments: MQTTQoS.allCases,
        sizes
    )
    func refused(qos: MQTTQoS, size: Int) throws {
        for slice in [Int.max, 1] {
            var client = try mqttClient { $0.maximumMessageSize = Self.limit }
            client.openByHand()
            var broker = try mqttServer {
                $0.routesSignals = true
                $0.maximumMessageSize = Self.limit
                $0.sessions = MQTTSessions()
            }
            broker.start()
            var hello = MQTTConnect(clientID: "bob")
            hello.cleanSession = false
            broker.feed(encoded(.connect(hello)))
            _ = broker.takeOutput()
            var kept = try connection(MQTTSession())
            // The largest payload that is allowed.
            let allowed = publish(Self.limit, .atMostOnce)
            for packet in [allowed, publish(size, qos)] {
                client.feed(packet, slice: slice)
                broker.feed(packet, slice: slice)
                kept.feed(packet, slice: slice)
            }
            #expect(client.messages.count == 1 && kept.messages.count == 1 && broker.signals.count == 2)
            for failure in [client.failure, kept.failure, broker.failure] {
                #expect(failure?.code == .messageTooLarge && failure?.phase == .open)
            }
            #expect(client.takeOutput().isEmpty && kept.takeOutput().isEmpty && broker.takeOutput().isEmpty)
        }
    }

    @Test("A broker also rejects an oversized message that a client sends again")
    func refusedByBroker() throws {
        var broker = try mqttServer {
            $0.routesSignals = true
            $0.maximumMessageSize = Self.limit
            $0.sessions = MQTTSessions()
        }
        broker.start()
        var hello = MQTTConnect(clientID: "bob")
        hello.cleanSession = false
        broker.feed(encoded(.connect(hello)) + publish(5000, .atLeastOnce, isDuplicate: true))
        #expect(broker.failure?.code == .messageTooLarge)
        #expect(broker.takeOutput() == [0x20, 2, 0, 0])
    }

    @Test(
        "A kept session skips a repeated oversized message without buffering it, and acknowledges and reports it",
        arguments: [MQTTQoS.atLeastOnce, .exactlyOnce],
        sizes
    )
    func skipped(qos: MQTTQoS, size: Int) throws {
        let session = MQTTSession()
        var first = try connection(session)
        first.feed(publish(size, qos))
        #expect(first.failure?.code == .messageTooLarge)
        var second = try connection(session)
        let packet = publish(size, qos, isDuplicate: true)
        var kept = 0
        for byte in packet.dropLast() {
            second.feed([byte])
            kept = max(kept, second.input.count)
        }
        // The fixed header, the topic and the identifier.
        #expect(kept <= 9)
        #expect(second.takeOutput().isEmpty && second.discarded.isEmpty)
        second.feed(packet.suffix(1) + encoded(.publish(MQTTPublish(topic: "t", payload: [2]))))
        #expect(second.discarded == [DiscardedMessage(topic: "t", size: size)])
        #expect(second.takeOutput() == (qos == .atLeastOnce ? [0x40, 2, 0, 7] : [0x50, 2, 0, 7]))
        #expect(second.messages.map(\.bytes) == [[2]])
        if qos == .exactlyOnce {
            // The next connection brings it again, because PUBREC was lost. It is answered, but not reported again.
            second = try connection(session)
            second.feed(packet)
            #expect(second.takeOutput() == [0x50, 2, 0, 7] && second.discarded.isEmpty)
            second.feed([0x62, 2, 0, 7])
            #expect(second.takeOutput() == [0x70, 2, 0, 7])
        }
        #expect(second.failure == nil)
    }

    @Test(
        "A session recognizes a message that it has rejected even without DUP, which retained messages lack",
        arguments: MQTTQoS.allCases
    )
    func known(qos: MQTTQoS) throws {
        let session = MQTTSession()
        var first = try connection(session)
        first.feed(publish(5000, qos))
        #expect(first.failure?.code == .messageTooLarge)
        var second = try connection(session)
        second.feed(publish(5000, qos))
        #expect(second.failure == nil && second.discarded == [DiscardedMessage(topic: "t", size: 5000)])
        second.feed(publish(5000, qos, topic: "u"))
        #expect(second.failure?.code == .messageTooLarge)
    }

    @Test("The acknowledgement of a skipped message waits for those of the messages before it")
    func inOrder() throws {
        var client = try connection(MQTTSession())
        client.feed([0x32, 6, 0, 1, 0x74, 0, 1, 9] + publish(5000, .atLeastOnce, isDuplicate: true))
        client.feed([0x32, 6, 0, 1, 0x74, 0, 2, 8])
        #expect(client.messages.count == 2 && client.discarded.count == 1)
        #expect(client.takeOutput().isEmpty)
        client.core.confirmReceipt(&client.context)
        #expect(client.takeOutput() == [0x40, 2, 0, 1, 0x40, 2, 0, 7])
        client.core.confirmReceipt(&client.context)
        #expect(client.takeOutput() == [0x40, 2, 0, 2])
    }

    @Test(
        "An oversized message before SUBACK opens the connection first, and a skipped one is reported after that"
    )
    func beforeSuback() throws {
        let session = MQTTSession()
        func connection() throws -> MQTTClientHarness {
            let filters = [MQTTSubscription("t", qos: .atLeastOnce)]
            var client = MQTTClientHarness(try MQTTClientCore(configuration(filters), session: session))
            client.start()
            client.feed([0x20, 2, 1, 0])
            _ = client.takeOutput()
            return client
        }
        var first = try connection()
        first.feed(publish(5000, .atLeastOnce))
        #expect(first.isOpen && first.failure?.code == .messageTooLarge && first.failure?.phase == .open)
        var second = try connection()
        second.feed(publish(5000, .atLeastOnce, isDuplicate: true))
        #expect(!second.isOpen && second.takeOutput() == [0x40, 2, 0, 7])
        second.feed([0x90, 3, 0, 1, 1])
        guard case .opened? = second.events.first else {
            Issue.record("\(second.events)")
            return
        }
        #expect(second.discarded == [DiscardedMessage(topic: "t", size: 5000)] && second.events.count == 2)
    }

    @Test("A skipped message is a sign of life, and a stream that ends within it is a loss")
    func signOfLife() throws {
        var client = try connection(MQTTSession())
        let packet = publish(5000, .atLeastOnce, isDuplicate: true)
        client.feed(Array(packet.prefix(20)))
        client.advance(by: .seconds(46))
        for byte in packet.dropFirst(20).prefix(20) {
            client.feed([byte])
            client.advance(by: .seconds(9))
        }
        #expect(client.failure == nil)
        client.endInput()
        #expect(client.failure?.code == .connectionLost)
    }

    @Test(
        "An oversized message is also skipped over WebSocket, however long the WebSocket message is",
        arguments: [Int.max, 1000]
    )
    func overWebSocket(slice: Int) throws {
        let session = MQTTSession()
        let size = 1 << 20
        func open() throws -> CoreHarness<WebSocketCarrier<MQTTClientCore>> {
            let inner = try MQTTClientCore(configuration(), session: session)
            var client = CoreHarness(try WebSocketCarrier(inner, over: WebSocketConfiguration()))
            client.start()
            _ = client.takeOutput()
            client.feed(response(key: client.core.outer.key, with: ["Sec-WebSocket-Protocol: mqtt"]))
            client.feed(frame(to: .client, 0x82, [0x20, 2, 1, 0]))
            _ = client.takeOutput()
            return client
        }
        var first = try open()
        first.feed(frame(to: .client, 0x82, publish(size, .atLeastOnce)), slice: slice)
        #expect(first.failure?.code == .messageTooLarge)
        var second = try open()
        let rest = frame(to: .client, 0x82, publish(size, .atLeastOnce, isDuplicate: true))
        for start in stride(from: 0, to: rest.count, by: 1000) {
            second.feed(Array(rest[start..<min(start + 1000, rest.count)]))
            #expect(second.core.bufferedBytes < 10_000)
        }
        second.feed(frame(to: .client, 0x82, encoded(.publish(MQTTPublish(topic: "t", payload: [2])))))
        #expect(second.failure == nil && second.messages.map(\.bytes) == [[2]])
        #expect(second.takeOutput().count == 2 + 4 + 4)
        let discarded = second.events.compactMap { if case .discarded(let message) = $0 { message } else { nil } }
        #expect(discarded == [DiscardedMessage(topic: "t", size: size)])
    }
}

extension MQTTClientHarness {
    fileprivate var discarded: [DiscardedMessage] {
        events.compactMap { if case .discarded(let message) = $0 { message } else { nil } }
    }
}
