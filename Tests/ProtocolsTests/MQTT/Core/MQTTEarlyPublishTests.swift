import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// A client that sends messages before CONNACK (MQTT 3.1.1, section 3.1.4).
@Suite("MQTT early publish")
struct MQTTEarlyPublishTests {
    /// A client that is open before CONNACK.
    private func early(_ change: (inout MQTTConfiguration) -> Void = { _ in }) throws -> MQTTClientHarness {
        var client = try mqttClient {
            $0.publishesEarly = true
            $0.publishTopic = "t"
            change(&$0)
        }
        client.start()
        client.drain()
        return client
    }

    @Test("The client is open once CONNECT and SUBSCRIBE are written, and its first message follows them")
    func bytes() throws {
        var client = try early { $0.subscriptions = [MQTTSubscription("t", qos: .atLeastOnce)] }
        #expect(client.isOpen && client.events.count == 1)
        #expect(client.core.acknowledges(Payload([1])))
        #expect(try client.send(Payload([1]), id: 1) == .awaitingAcknowledgement)
        let packets = readPackets(client.takeOutput()).packets
        guard packets.count == 3, case .connect(let connect) = packets[0] else {
            Issue.record("CONNECT, SUBSCRIBE and PUBLISH were not written: \(packets)")
            return
        }
        #expect(connect.clientID == "ann" && connect.cleanSession)
        #expect(packets[1] == .subscribe(1, [MQTTSubscription("t", qos: .atLeastOnce)]))
        #expect(packets[2] == .publish(MQTTPublish(topic: "t", payload: [1])))
    }

    @Test("Messages at QoS 0 are written when CONNACK accepts the connection, and later ones at once")
    func accepted() throws {
        var client = try early()
        for id in 1...3 as ClosedRange<UInt64> {
            #expect(try client.send(Payload([UInt8(id)]), id: id) == .awaitingAcknowledgement)
        }
        #expect(client.outcomes.isEmpty)
        client.feed([0x20, 2, 0, 0])
        #expect(client.outcomes == [.written(1), .written(2), .written(3)])
        #expect(!client.core.acknowledges(Payload([1])))
        #expect(try client.send(Payload([4]), id: 4) == .written)
        #expect(client.failure == nil)
    }

    @Test("Messages at QoS 1 and 2 wait for their own acknowledgements", arguments: [Int.max, 1, 3])
    func acknowledged(slice: Int) throws {
        var client = try early { $0.subscriptions = [MQTTSubscription("t", qos: .exactlyOnce)] }
        var server = try mqttServer()
        server.start()
        #expect(try client.send(Payload([0]), id: 1) == .awaitingAcknowledgement)
        #expect(try client.send(Payload([1], qos: .atLeastOnce), id: 2) == .awaitingAcknowledgement)
        #expect(try client.send(Payload([2], qos: .exactlyOnce), id: 3) == .awaitingAcknowledgement)
        exchange(&client, &server, slice: slice)
        #expect(client.outcomes.first == .written(1))
        #expect(client.acknowledged.sorted() == [2, 3] && client.outcomes.count == 3)
        #expect(server.messages.map(\.bytes) == [[0], [1], [2]])
        #expect(client.failure == nil && server.failure == nil)
    }

    @Test(
        "After a refusal each message is refused once, in its order, and then the connection ends",
        arguments: MQTTConnackCode.allCases.filter { $0 != .accepted },
        [Int.max, 1]
    )
    func refused(code: MQTTConnackCode, slice: Int) throws {
        var client = try early { $0.subscriptions = [MQTTSubscription("t")] }
        var server = try mqttServer { $0.authentication = { _, _, _ in code } }
        server.start()
        for (id, qos) in zip(1...3 as ClosedRange<UInt64>, MQTTQoS.allCases) {
            #expect(try client.send(Payload([1], qos: qos), id: id) == .awaitingAcknowledgement)
        }
        exchange(&client, &server, slice: slice)
        let error = TransportError.connack(code.rawValue)
        #expect(client.outcomes == (1...3 as ClosedRange<UInt64>).map { Outcome.refused($0, error.code) })
        #expect(client.failure?.code == error.code && client.failure?.detail == error.detail)
        // A supervisor can send the messages over its next connection, because the refusal is no property of them.
        for case .refused(_, let error) in client.events { #expect(error.phase == .closing) }
        #expect(!server.isOpen && server.messages.isEmpty)
    }

    @Test("A server routes what follows CONNECT only after it has accepted the client")
    func routed() throws {
        var client = try early()
        var server = try mqttServer { $0.routesSignals = true }
        server.start()
        _ = try client.send(Payload([1]), id: 1)
        exchange(&client, &server)
        guard server.signals.count == 2, case .connected = server.signals[0],
            case .published(let publish) = server.signals[1]
        else {
            Issue.record("\(server.signals)")
            return
        }
        #expect(publish.payload == [1])
    }

    @Test("Before CONNACK, only as many messages leave as may be in flight, and the next one waits")
    func limit() throws {
        var client = try early { $0.maximumInFlight = 2 }
        #expect(try client.send(Payload([1]), id: 1) == .awaitingAcknowledgement)
        #expect(try client.send(Payload([2]), id: 2) == .awaitingAcknowledgement)
        #expect(try client.send(Payload([3]), id: 3) == .blocked)
        client.feed([0x20, 2, 0, 0])
        #expect(try client.send(Payload([3]), id: 3) == .written)
        #expect(client.outcomes == [.written(1), .written(2)])
    }

    @Test("A broker that says nothing, or closes, ends the connection as in a handshake")
    func noAnswer() throws {
        var silent = try early { $0.handshakeTimeout = .seconds(3) }
        _ = try silent.send(Payload([1]), id: 1)
        silent.advance(by: .seconds(3))
        #expect(silent.failure?.code == .timedOut && silent.failure?.phase == .handshake)
        #expect(silent.failure?.reason.hasPrefix("no CONNACK") == true)
        var closed = try early()
        closed.endInput()
        #expect(closed.failure?.code == .closedByPeer && closed.failure?.phase == .handshake)
        var foreign = try early()
        foreign.feed(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
        #expect(foreign.failure?.code == .handshakeFailed)
        #expect(silent.outcomes.isEmpty && closed.outcomes.isEmpty && foreign.outcomes.isEmpty)
    }

    @Test(
        "Nothing but CONNACK may come first",
        arguments: [[0x40, 2, 0, 1], [0x90, 3, 0, 1, 0], [0xd0, 0]] as [[UInt8]]
    )
    func otherPacketFirst(packet: [UInt8]) throws {
        var client = try early { $0.subscriptions = [MQTTSubscription("t")] }
        _ = try client.send(Payload([1], qos: .atLeastOnce), id: 1)
        client.feed(packet)
        #expect(client.failure?.code == .protocolViolation || client.failure?.code == .handshakeFailed)
    }

    @Test("Messages that come before SUBACK are delivered at once, and a refused filter ends the connection")
    func suback() throws {
        var client = try early { $0.subscriptions = [MQTTSubscription("t")] }
        client.feed([0x20, 2, 0, 0] + encoded(.publish(MQTTPublish(topic: "t", payload: [7]))))
        #expect(client.messages.map(\.bytes) == [[7]])
        client.feed([0x90, 3, 0, 1, 0x80])
        #expect(client.failure?.code == .forbidden && client.failure?.detail == 0x80)
    }

    @Test("SUBACK that does not come in time ends the connection")
    func lateSuback() throws {
        var client = try early {
            $0.subscriptions = [MQTTSubscription("t")]
            $0.acknowledgementTimeout = .seconds(5)
        }
        client.feed([0x20, 2, 0, 0])
        client.advance(by: .seconds(6))
        #expect(client.failure?.code == .acknowledgementTimeout)
    }

    @Test("A connection that its user closes before CONNACK sends DISCONNECT")
    func closed() throws {
        var client = try early()
        _ = client.takeOutput()
        client.core.close(.user, &client.context)
        client.drain()
        #expect(client.takeOutput() == [0xe0, 0])
        #expect(client.closeReason == .user)
    }

    @Test("A kept session excludes it, and the error says why")
    func keptSession() throws {
        var configuration = MQTTConfiguration()
        (configuration.clientID, configuration.cleanSession, configuration.publishesEarly) = ("ann", false, true)
        do throws(TransportError) {
            try configuration.validate()
            Issue.record("the configuration was accepted")
        } catch {
            #expect(error.code == .invalidConfiguration)
            #expect(error.reason.hasPrefix("early-publish is on, but clean-session is off"))
        }
    }
}

/// The outcome of a message.
private enum Outcome: Equatable {
    case written(UInt64)
    case acknowledged(UInt64)
    case refused(UInt64, TransportError.Code)
}

extension MQTTClientHarness {
    /// The outcome of each message, in the order in which they were reported.
    fileprivate var outcomes: [Outcome] {
        events.compactMap { event in
            switch event {
            case .written(let id): .written(id)
            case .acknowledged(let id): .acknowledged(id)
            case .refused(let id, let error): .refused(id, error.code)
            default: nil
            }
        }
    }
}
