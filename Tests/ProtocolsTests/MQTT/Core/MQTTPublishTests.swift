import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("MQTT messages")
struct MQTTPublishTests {
    @Test("Messages flow both ways at each QoS", arguments: MQTTQoS.allCases, [Int.max, 1, 5])
    func bothWays(qos: MQTTQoS, slice: Int) throws {
        var client = try mqttClient {
            $0.qos = qos
            $0.publishTopic = "up"
            $0.subscriptions = [MQTTSubscription("down", qos: qos)]
        }
        var server = try mqttServer { $0.qos = qos }
        connect(&client, &server, slice: slice)
        let status: SendStatus = qos == .atMostOnce ? .written : .awaitingAcknowledgement
        for id in 0..<20 as Range<UInt64> {
            let body = Array(repeating: UInt8(id), count: Int(id) * 20)
            #expect(try client.send(Payload(body), id: id) == status)
            #expect(try server.send(Payload(body), id: 100 + id) == status)
            exchange(&client, &server, slice: slice)
        }
        #expect(client.failure == nil && server.failure == nil)
        #expect(server.messages.map(\.bytes.count) == (0..<20).map { $0 * 20 })
        #expect(server.messages.allSatisfy { $0.topic == "up" })
        #expect(client.messages.map(\.bytes) == server.messages.map(\.bytes))
        #expect(client.messages.allSatisfy { $0.topic == "down" })
        #expect(client.acknowledged == (qos == .atMostOnce ? [] : Array(0..<20)))
        #expect(server.acknowledged == (qos == .atMostOnce ? [] : Array(100..<120)))
        #expect(client.core.capabilities.acknowledgesMessages == (qos != .atMostOnce))
    }

    @Test("A PUBLISH has the bytes of the specification")
    func bytes() throws {
        var client = try mqttClient { $0.publishTopic = "a/b" }
        client.openByHand()
        #expect(try client.send(Payload([1, 2])) == .written)
        #expect(client.takeOutput() == [0x30, 7, 0, 3, 0x61, 0x2f, 0x62, 1, 2])
        #expect(try client.send(Payload([], topic: "x")) == .written)
        #expect(client.takeOutput() == [0x30, 3, 0, 1, 0x78])
    }

    @Test("A message without a topic is rejected if none is configured, and the connection stays open")
    func noTopic() throws {
        var client = try mqttClient()
        client.openByHand()
        do throws(TransportError) {
            _ = try client.send(Payload([1]))
            Issue.record("the message was sent")
        } catch {
            #expect(error.code == .invalidConfiguration && error.reason.hasPrefix("publish"))
        }
        for topic in ["", "a/+", "#", "a\u{0}"] {
            #expect(
                codeOf { () throws(TransportError) in try client.send(Payload([1], topic: topic)) }
                    == .invalidConfiguration
            )
        }
        #expect(client.takeOutput().isEmpty)
        #expect(try client.send(Payload([1], topic: "t")) == .written)
    }

    @Test("A message at the limit is sent and received, and one byte more is rejected")
    func limit() throws {
        var client = try mqttClient {
            $0.maximumMessageSize = 1000
            $0.publishTopic = String(repeating: "t", count: 65_535)
        }
        var server = try mqttServer { $0.maximumMessageSize = 1000 }
        connect(&client, &server)
        #expect(client.core.capabilities.maximumMessageSize == 1000)
        #expect(try client.send(Payload(Array(repeating: 1, count: 1000))) == .written)
        exchange(&client, &server)
        #expect(server.messages.first?.bytes.count == 1000)
        let beyond = Payload(Array(repeating: 1, count: 1001))
        #expect(codeOf { () throws(TransportError) in try client.send(beyond) } == .messageTooLarge)
        #expect(client.takeOutput().isEmpty)
    }

    @Test("A full window blocks and writes nothing, and opens with an acknowledgement in any order")
    func window() throws {
        var client = try mqttClient {
            $0.qos = .atLeastOnce
            $0.publishTopic = "t"
            $0.maximumInFlight = 3
        }
        client.openByHand()
        for id in 0..<3 as Range<UInt64> { #expect(try client.send(Payload([]), id: id) == .awaitingAcknowledgement) }
        _ = client.takeOutput()
        #expect(try client.send(Payload([]), id: 3) == .blocked)
        #expect(client.takeOutput().isEmpty)
        client.feed([0x40, 2, 0, 2])
        #expect(client.acknowledged == [1])
        #expect(try client.send(Payload([]), id: 3) == .awaitingAcknowledgement)
        client.feed([0x40, 2, 0, 1, 0x40, 2, 0, 3])
        #expect(client.acknowledged == [1, 0, 2])
    }

    @Test("PUBACK and PUBCOMP for no message in flight are ignored and counted", arguments: [false, true])
    func strayAcknowledgement(isKept: Bool) throws {
        var configuration = MQTTConfiguration()
        configuration.clientID = "ann"
        configuration.qos = .atLeastOnce
        configuration.publishTopic = "t"
        configuration.cleanSession = !isKept
        var client = MQTTClientHarness(try MQTTClientCore(configuration, session: MQTTSession()))
        client.openByHand()
        _ = try client.send(Payload([]), id: 1)
        client.feed([0x70, 2, 0, 1, 0x40, 2, 0, 1, 0x40, 2, 0, 1, 0x40, 2, 0, 9])
        #expect(client.acknowledged == [1] && client.failure == nil)
        #expect(client.context.counters.unexpectedAcknowledgements == 3)
        // They also count towards `control-rate`, unless a kept session may explain them.
        #expect(client.context.counters.controlWork == (isKept ? 0 : 3))
        _ = try client.send(Payload([]), id: 2)
        client.feed([0x40, 2, 0, 2])
        #expect(client.acknowledged == [1, 2])
    }

    @Test(
        "Each message may choose its QoS, whatever the configuration says",
        arguments: MQTTQoS.allCases,
        MQTTQoS.allCases
    )
    func chosen(configured: MQTTQoS, wanted: MQTTQoS) throws {
        var client = try mqttClient {
            $0.qos = configured
            $0.publishTopic = "t"
        }
        var server = try mqttServer()
        connect(&client, &server)
        let payload = Payload([1], qos: wanted)
        #expect(client.core.acknowledges(payload) == (wanted != .atMostOnce))
        #expect(try client.send(payload, id: 1) == (wanted == .atMostOnce ? .written : .awaitingAcknowledgement))
        exchange(&client, &server)
        #expect(server.messages == [Payload([1], topic: "t", qos: wanted)])
        #expect(client.acknowledged == (wanted == .atMostOnce ? [] : [1]))
    }

    @Test(
        "A server sends at the QoS of the message, but not above the QoS that its client was granted",
        arguments: MQTTQoS.allCases
    )
    func chosenByServer(granted: MQTTQoS) throws {
        var client = try mqttClient { $0.subscriptions = [MQTTSubscription("t", qos: granted)] }
        var server = try mqttServer()
        connect(&client, &server)
        for qos in MQTTQoS.allCases {
            _ = try server.send(Payload([1], qos: qos), id: 1 + UInt64(qos.rawValue))
            exchange(&client, &server)
        }
        #expect(client.messages.map(\.qos) == MQTTQoS.allCases.map { min($0, granted) })
    }

    @Test("The DUP flag of a received message can be read")
    func duplicate() throws {
        var client = try mqttClient()
        client.openByHand()
        client.feed([0x3a, 6, 0, 1, 0x74, 1, 2, 9, 0x32, 6, 0, 1, 0x74, 1, 3, 9])
        #expect(client.messages.map(\.isDuplicate) == [true, false])
        #expect(client.messages.map(\.qos) == [.atLeastOnce, .atLeastOnce])
    }

    @Test("Messages of QoS 2 have a window of their own within the window of all messages")
    func exactlyOnceWindow() throws {
        var client = try mqttClient {
            $0.publishTopic = "t"
            $0.maximumInFlight = 4
            $0.maximumExactlyOnceInFlight = 2
        }
        client.openByHand()
        let (first, second) = (Payload([], qos: .atLeastOnce), Payload([], qos: .exactlyOnce))
        for id in 1...2 as ClosedRange<UInt64> { #expect(try client.send(second, id: id) == .awaitingAcknowledgement) }
        #expect(try client.send(second, id: 3) == .blocked)
        for id in 3...4 as ClosedRange<UInt64> { #expect(try client.send(first, id: id) == .awaitingAcknowledgement) }
        #expect(try client.send(first, id: 5) == .blocked)
        client.feed([0x50, 2, 0, 1])
        #expect(try client.send(second, id: 5) == .blocked)
        client.feed([0x70, 2, 0, 1])
        #expect(try client.send(second, id: 5) == .awaitingAcknowledgement)
    }

    @Test("A message that is not acknowledged in time ends the connection")
    func acknowledgementTimeout() throws {
        var client = try mqttClient {
            $0.qos = .atLeastOnce
            $0.publishTopic = "t"
            $0.keepAlive = 0
        }
        client.openByHand()
        #expect(client.core.deadline == nil)
        _ = try client.send(Payload([]), id: 1)
        client.advance(by: .seconds(20))
        _ = try client.send(Payload([]), id: 2)
        client.feed([0x40, 2, 0, 1])
        client.advance(by: .seconds(29))
        #expect(client.failure == nil)
        client.advance(by: .seconds(1))
        #expect(client.failure?.code == .acknowledgementTimeout)
        var calm = try mqttClient { $0.keepAlive = 0 }
        calm.openByHand()
        _ = try calm.send(Payload([], topic: "t", qos: .atLeastOnce), id: 3)
        calm.feed([0x40, 2, 0, 1])
        #expect(calm.core.deadline == nil)
    }

    @Test("A message of QoS 1 is acknowledged when it is received")
    func receiving() throws {
        var client = try mqttClient()
        client.openByHand()
        client.feed([0x3a, 6, 0, 1, 0x74, 1, 2, 9])
        #expect(client.messages.map(\.bytes) == [[9]])
        #expect(client.takeOutput() == [0x40, 2, 1, 2])
    }

    @Test("Point to point, a server sends to the topic of its client's subscription, or else of its last message")
    func serverTopics() throws {
        var server = try mqttServer { $0.qos = .atLeastOnce }
        server.acceptByHand()
        #expect(codeOf { () throws(TransportError) in try server.send(Payload([1])) } == .invalidConfiguration)
        server.feed(encoded(.publish(MQTTPublish(topic: "said", payload: []))))
        _ = try server.send(Payload([1]), id: 1)
        #expect(server.takeOutput() == [0x32, 9, 0, 4] + Array("said".utf8) + [0, 1, 1])
        let filters = [MQTTSubscription("x/#", qos: .atLeastOnce), MQTTSubscription("heard", qos: .atMostOnce)]
        server.feed(encoded(.subscribe(5, filters)))
        #expect(server.takeOutput() == [0x90, 4, 0, 5, 1, 0])
        _ = try server.send(Payload([2]), id: 2)
        #expect(server.takeOutput() == [0x30, 8, 0, 5] + Array("heard".utf8) + [2])
        _ = try server.send(Payload([3], topic: "x/y"), id: 3)
        #expect(server.takeOutput() == [0x32, 8, 0, 3] + Array("x/y".utf8) + [0, 2, 3])
        server.feed(encoded(.unsubscribe(6, ["heard"])))
        #expect(server.takeOutput() == [0xb0, 2, 0, 6])
        _ = try server.send(Payload([4]), id: 4)
        #expect(server.takeOutput() == [0x32, 9, 0, 4] + Array("said".utf8) + [0, 3, 4])
    }

    @Test("A server grants the requested QoS, and only a limited number of filters")
    func grants() throws {
        var server = try mqttServer { $0.maximumSubscriptions = 2 }
        server.acceptByHand()
        let filters = ["a", "b", "c"].map { MQTTSubscription($0, qos: .exactlyOnce) }
        server.feed(encoded(.subscribe(1, filters)))
        #expect(server.takeOutput() == [0x90, 5, 0, 1, 2, 2, 0x80])
        server.feed(encoded(.subscribe(2, [MQTTSubscription("a")])))
        #expect(server.takeOutput() == [0x90, 3, 0, 2, 0])
    }

    @Test("A client subscribes and unsubscribes on an open connection")
    func laterSubscriptions() throws {
        var client = try mqttClient()
        var server = try mqttServer { $0.maximumSubscriptions = 1 }
        connect(&client, &server)
        let filters = [MQTTSubscription("a", qos: .atLeastOnce), MQTTSubscription("b")]
        try client.core.subscribe(filters, id: 7, &client.context)
        try client.core.unsubscribe(["a"], id: 8, &client.context)
        exchange(&client, &server)
        #expect(client.answers == [.subscribed(7, [.atLeastOnce, nil]), .unsubscribed(8)])
        #expect(client.failure == nil)
        for bad in [[], [MQTTSubscription("a#")]] as [[MQTTSubscription]] {
            #expect(
                codeOf { () throws(TransportError) in try client.core.subscribe(bad, id: 9, &client.context) }
                    == .invalidConfiguration
            )
        }
        #expect(client.takeOutput().isEmpty)
    }

    @Test("A broker receives every packet as a signal, and chooses what it publishes")
    func routed() throws {
        var client = try mqttClient {
            $0.qos = .atLeastOnce
            $0.publishTopic = "up"
            $0.subscriptions = [MQTTSubscription("down/#", qos: .atLeastOnce)]
            $0.will = MQTTWill(topic: "gone", payload: [1])
        }
        var server = try mqttServer { $0.routesSignals = true }
        connect(&client, &server)
        guard case .opened? = server.events.first, case .connected(let hello)? = server.signals.first else {
            Issue.record("opened and connected are not first")
            return
        }
        #expect(hello.clientID == "ann" && hello.will?.topic == "gone")
        #expect(server.signals.dropFirst() == [.subscribed(1, [MQTTSubscription("down/#", qos: .atLeastOnce)])])
        #expect(client.isOpen == false)
        server.core.grant(1, [.atLeastOnce], &server.context)
        exchange(&client, &server)
        #expect(client.isOpen == true)
        _ = try client.send(Payload([5]), id: 1)
        try client.core.unsubscribe(["down/#"], id: 2, &client.context)
        exchange(&client, &server)
        var expected = MQTTPublish(topic: "up", payload: [5])
        expected.qos = .atLeastOnce
        expected.packetID = 2
        #expect(server.signals.suffix(2) == [.published(expected), .unsubscribed(3, ["down/#"])])
        #expect(client.signals.isEmpty)
        server.core.confirmUnsubscribe(3, &server.context)
        exchange(&client, &server)
        #expect(client.answers == [.unsubscribed(2)])
        #expect(client.acknowledged == [1])
        #expect(server.messages.isEmpty)

        var packet = ByteBuffer()
        try MQTTServerCore.encode(topic: "down/x", payload: [6], retain: true, into: &packet)
        packet.withUnsafeReadableBytes { server.core.sendEncoded($0, &server.context) }
        let status = try server.core.publish(topic: "down/y", payload: [7], qos: .atLeastOnce, id: 9, &server.context)
        #expect(status == .awaitingAcknowledgement)
        exchange(&client, &server)
        let expectedMessages = [
            Payload([6], topic: "down/x", qos: .atMostOnce, isRetained: true),
            Payload([7], topic: "down/y", qos: .atLeastOnce),
        ]
        #expect(client.messages == expectedMessages)
        #expect(server.acknowledged == [9])
    }
}
