import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// QoS 2, byte by byte (MQTT 3.1.1, section 4.3.3).
@Suite("MQTT at QoS 2")
struct MQTTExactlyOnceTests {
    private func publisher(_ session: MQTTSession? = nil, present: Bool = false) throws -> MQTTClientHarness {
        var configuration = MQTTConfiguration()
        configuration.clientID = "ann"
        configuration.qos = .exactlyOnce
        configuration.maximumExactlyOnceInFlight = 64
        configuration.publishTopic = "t"
        configuration.cleanSession = session == nil
        var client = MQTTClientHarness(try MQTTClientCore(configuration, session: session))
        client.start()
        _ = client.takeOutput()
        client.feed([0x20, 2, present ? 1 : 0, 0])
        return client
    }

    private static let publish: [UInt8] = [0x34, 6, 0, 1, 0x74, 0, 1, 9]
    private static let pubrec: [UInt8] = [0x50, 2, 0, 1]
    private static let pubrel: [UInt8] = [0x62, 2, 0, 1]
    private static let pubcomp: [UInt8] = [0x70, 2, 0, 1]

    @Test("A sender sends PUBLISH, then PUBREL, and the message is acknowledged by PUBCOMP")
    func sender() throws {
        var client = try publisher()
        #expect(try client.send(Payload([9]), id: 7) == .awaitingAcknowledgement)
        #expect(client.takeOutput() == Self.publish)
        client.feed(Self.pubrec)
        #expect(client.takeOutput() == Self.pubrel && client.acknowledged.isEmpty)
        client.feed(Self.pubcomp)
        #expect(client.acknowledged == [7] && client.failure == nil)
    }

    @Test("PUBREC for no message in flight is a violation, and PUBCOMP before PUBREC is ignored and counted")
    func strayAcknowledgement() throws {
        var client = try publisher()
        _ = try client.send(Payload([9]), id: 7)
        client.feed(Self.pubcomp)
        #expect(client.failure == nil && client.context.counters.unexpectedAcknowledgements == 1)
        client.feed([0x50, 2, 0, 2])
        #expect(client.failure?.code == .protocolViolation)
    }

    @Test(
        "PUBACK for a message of QoS 2 ends the connection with an error that says so",
        arguments: [false, true]
    )
    func withoutExactlyOnce(isKept: Bool) throws {
        var client = try publisher(isKept ? MQTTSession() : nil)
        _ = try client.send(Payload([9]), id: 7)
        client.feed([0x40, 2, 0, 1])
        #expect(client.failure?.code == .unsupported)
        #expect(client.failure?.reason.contains("QoS 2 with PUBACK") == true)
        #expect(client.acknowledged.isEmpty)
    }

    @Test("A receiver delivers a repeated message once before PUBREL, and again after PUBREL")
    func receiver() throws {
        var server = try mqttServer()
        server.acceptByHand()
        server.feed(Self.publish)
        server.feed([0x3c] + Self.publish.dropFirst())
        #expect(server.takeOutput() == Self.pubrec + Self.pubrec)
        #expect(server.messages.count == 1)
        server.feed(Self.pubrel + Self.pubrel)
        #expect(server.takeOutput() == Self.pubcomp + Self.pubcomp)
        server.feed(Self.publish)
        #expect(server.messages.count == 2 && server.failure == nil)
    }

    @Test("The next connection repeats unacknowledged messages first, with DUP and their identifiers")
    func resendPublish() throws {
        let session = MQTTSession()
        var first = try publisher(session)
        _ = try first.send(Payload([9]), id: 1)
        _ = try first.send(Payload([8]), id: 2)
        var second = try publisher(session, present: true)
        #expect(second.takeOutput() == [0x3c, 6, 0, 1, 0x74, 0, 1, 9, 0x3c, 6, 0, 1, 0x74, 0, 2, 8])
        _ = try second.send(Payload([7]), id: 1)
        #expect(second.takeOutput() == [0x34, 6, 0, 1, 0x74, 0, 3, 7])
        second.feed(Self.pubrec + Self.pubcomp)
        // No caller on this connection waits for it.
        #expect(second.acknowledged.isEmpty && second.failure == nil)
        var third = try publisher(session, present: true)
        #expect(third.takeOutput().count == 16)
    }

    @Test("The next connection repeats unanswered PUBRELs and not the messages, in the order of the PUBRECs")
    func resendRelease() throws {
        let session = MQTTSession()
        var first = try publisher(session)
        _ = try first.send(Payload([9]), id: 1)
        _ = try first.send(Payload([8]), id: 2)
        first.feed([0x50, 2, 0, 2] + Self.pubrec)
        var second = try publisher(session, present: true)
        #expect(second.takeOutput() == [0x62, 2, 0, 2] + Self.pubrel)
        second.feed(Self.pubcomp + [0x70, 2, 0, 2])
        #expect(second.failure == nil)
        var third = try publisher(session, present: true)
        #expect(third.takeOutput().isEmpty)
    }

    @Test(
        "A message that the next connection completes is not sent by a later one, whatever else is in flight"
    )
    func completedByTheNext() throws {
        let session = MQTTSession()
        var first = try publisher(session)
        for id in 1...24 as ClosedRange<UInt64> { _ = try first.send(Payload([9]), id: id) }
        for id in 1...23 as ClosedRange<UInt8> where id != 16 { first.feed([0x50, 2, 0, id, 0x70, 2, 0, id]) }
        var second = try publisher(session, present: true)
        #expect(second.takeOutput() == [0x3c, 6, 0, 1, 0x74, 0, 16, 9, 0x3c, 6, 0, 1, 0x74, 0, 24, 9])
        second.feed([0x50, 2, 0, 16, 0x50, 2, 0, 24])
        #expect(second.takeOutput() == [0x62, 2, 0, 16, 0x62, 2, 0, 24])
        second.feed([0x70, 2, 0, 16, 0x70, 2, 0, 24])
        #expect(second.acknowledged.isEmpty)
        var third = try publisher(session, present: true)
        #expect(third.takeOutput().isEmpty)
    }

    @Test("A broker that has lost the session gets unconfirmed messages again, and no PUBREL")
    func forgotten() throws {
        let session = MQTTSession()
        var first = try publisher(session)
        _ = try first.send(Payload([9]), id: 1)
        _ = try first.send(Payload([8]), id: 2)
        first.feed(Self.pubrec)
        var second = try publisher(session, present: false)
        #expect(second.takeOutput() == [0x3c, 6, 0, 1, 0x74, 0, 2, 8])
    }

    @Test("A clean session hands nothing on to the next connection")
    func clean() throws {
        var first = try publisher()
        _ = try first.send(Payload([9]), id: 1)
        var second = try publisher()
        #expect(second.takeOutput().isEmpty)
    }

    @Test("In a kept session, a confirmed message is not delivered again over the next connection")
    func receivedIdentifiers() throws {
        let session = MQTTSession()
        var first = try publisher(session)
        first.feed(Self.publish)
        #expect(first.takeOutput().isEmpty)
        // A copy before the confirmation is the same message.
        first.feed([0x3c] + Self.publish.dropFirst())
        #expect(first.messages.count == 1)
        first.core.confirmReceipt(&first.context)
        #expect(first.takeOutput() == Self.pubrec)
        var second = try publisher(session, present: true)
        second.feed([0x3c] + Self.publish.dropFirst())
        #expect(second.messages.isEmpty && second.takeOutput() == Self.pubrec)
        second.feed(Self.pubrel)
        #expect(second.takeOutput() == Self.pubcomp)
        second.feed(Self.publish)
        #expect(second.messages.count == 1)
    }

    @Test(
        "In a kept session, a repeated acknowledgement ends nothing, and a repeated PUBREC is answered"
    )
    func lateAcknowledgement() throws {
        let session = MQTTSession()
        var client = try publisher(session)
        _ = try client.send(Payload([9]), id: 7)
        _ = client.takeOutput()
        client.feed(Self.pubrec + Self.pubrec)
        #expect(client.takeOutput() == Self.pubrel + Self.pubrel)
        client.feed(Self.pubcomp + Self.pubcomp + Self.pubrec + [0x40, 2, 0, 1])
        #expect(client.takeOutput() == Self.pubrel && client.acknowledged == [7] && client.failure == nil)
        // An acknowledgement of the wrong kind is still an error.
        _ = try client.send(Payload([9]), id: 8)
        client.feed([0x40, 2, 0, 2])
        #expect(client.failure?.code == .unsupported)
    }

    @Test(
        "An answer to a packet of the previous connection may come before SUBACK",
        arguments: [pubrec, pubcomp, [0x40, 2, 0, 1]]
    )
    func lateBeforeSuback(_ answer: [UInt8]) throws {
        var configuration = MQTTConfiguration()
        configuration.clientID = "ann"
        configuration.cleanSession = false
        configuration.subscriptions = [MQTTSubscription("x", qos: .exactlyOnce)]
        var client = MQTTClientHarness(try MQTTClientCore(configuration, session: MQTTSession()))
        client.start()
        client.feed([0x20, 2, 1, 0] + answer + [0x90, 3, 0, 1, 2])
        #expect(client.isOpen && client.failure == nil)
    }

    @Test("A connection that another has followed changes nothing in their session")
    func overtaken() throws {
        let session = MQTTSession()
        var first = try publisher(session)
        _ = try first.send(Payload([9]), id: 1)
        var second = try publisher(session, present: true)
        first.feed(Self.pubrec + Self.pubcomp)
        _ = try first.send(Payload([8]), id: 2)
        var third = try publisher(session, present: true)
        #expect(second.takeOutput() == third.takeOutput())
    }

    @Test("A window that the previous connection has filled does not prevent the next one from subscribing")
    func fullWindow() throws {
        var configuration = MQTTConfiguration()
        configuration.clientID = "ann"
        configuration.cleanSession = false
        configuration.maximumInFlight = 1
        configuration.qos = .exactlyOnce
        configuration.publishTopic = "t"
        configuration.subscriptions = [MQTTSubscription("s", qos: .exactlyOnce)]
        let session = MQTTSession()
        for present in [false, true] {
            var client = MQTTClientHarness(try MQTTClientCore(configuration, session: session))
            client.start()
            client.feed([0x20, 2, present ? 1 : 0, 0])
            client.feed([0x90, 3, 0, present ? 3 : 1, 2])
            #expect(client.isOpen && client.failure == nil)
            #expect(try client.send(Payload([9]), id: 1) == (present ? .blocked : .awaitingAcknowledgement))
        }
    }
}
