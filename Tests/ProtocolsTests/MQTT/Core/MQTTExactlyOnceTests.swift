import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// QoS 2, byte by byte (MQTT 3.1.1, section 4.3.3).
@Suite("MQTT at QoS 2")
struct MQTTExactlyOnceTests {
    private func publisher(_ session: MQTTSession? = nil, present: Bool = false) throws -> MQTTHarness {
        var configuration = MQTTConfiguration()
        configuration.clientID = "ann"
        configuration.qos = .exactlyOnce
        configuration.maximumExactlyOnceInFlight = 64
        configuration.publishTopic = "t"
        configuration.cleanSession = session == nil
        var client = MQTTHarness(try MQTTCore(client: configuration, session: session))
        client.start()
        _ = client.takeOutput()
        client.feed([0x20, 2, present ? 1 : 0, 0])
        return client
    }

    private static let publish: [UInt8] = [0x34, 6, 0, 1, 0x74, 0, 1, 9]
    private static let pubrec: [UInt8] = [0x50, 2, 0, 1]
    private static let pubrel: [UInt8] = [0x62, 2, 0, 1]
    private static let pubcomp: [UInt8] = [0x70, 2, 0, 1]

    @Test("a sender's PUBLISH, PUBREL and end; the identifier is taken until PUBCOMP")
    func sender() throws {
        var client = try publisher()
        #expect(try client.send(Payload([9]), id: 7) == .awaitingAcknowledgement)
        #expect(client.takeOutput() == Self.publish)
        client.feed(Self.pubrec)
        #expect(client.takeOutput() == Self.pubrel && client.acknowledged.isEmpty)
        client.feed(Self.pubcomp)
        #expect(client.acknowledged == [7] && client.failure == nil)
    }

    @Test("PUBREC of what is not in flight is a violation; PUBCOMP before PUBREC is ignored and counted")
    func strayAcknowledgement() throws {
        var client = try publisher()
        _ = try client.send(Payload([9]), id: 7)
        client.feed(Self.pubcomp)
        #expect(client.failure == nil && client.context.counters.unexpectedAcknowledgements == 1)
        client.feed([0x50, 2, 0, 2])
        #expect(client.failure?.code == .protocolViolation)
    }

    @Test(
        "A broker that answers QoS 2 with PUBACK ends the connection with an error that says so",
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

    @Test("a receiver delivers once what comes twice before PUBREL, and again what comes behind it")
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

    @Test("the next connection sends an unacknowledged PUBLISH again, with DUP and its identifier, before anything new")
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
        // Nobody on this connection waits for it.
        #expect(second.acknowledged.isEmpty && second.failure == nil)
        var third = try publisher(session, present: true)
        #expect(third.takeOutput().count == 16)
    }

    @Test("the next connection sends an unanswered PUBREL again, and not the message, in the order of the PUBRECs")
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
        "what the next connection completes is complete, whichever identifiers are left over, and no later connection sends it"
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

    @Test("a broker that has forgotten the session gets what it did not confirm, and no PUBREL")
    func forgotten() throws {
        let session = MQTTSession()
        var first = try publisher(session)
        _ = try first.send(Payload([9]), id: 1)
        _ = try first.send(Payload([8]), id: 2)
        first.feed(Self.pubrec)
        var second = try publisher(session, present: false)
        #expect(second.takeOutput() == [0x3c, 6, 0, 1, 0x74, 0, 2, 8])
    }

    @Test("a clean session hands on nothing")
    func clean() throws {
        var first = try publisher()
        _ = try first.send(Payload([9]), id: 1)
        var second = try publisher()
        #expect(second.takeOutput().isEmpty)
    }

    @Test("in a session that is kept, a message is not delivered again over the next connection once it was confirmed")
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
        "in a session that is kept, an acknowledgement that comes twice ends nothing; PUBREC is answered all the same"
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
        // But not one of the wrong kind.
        _ = try client.send(Payload([9]), id: 8)
        client.feed([0x40, 2, 0, 2])
        #expect(client.failure?.code == .unsupported)
    }

    @Test(
        "an answer to what was sent over the last connection may come before SUBACK",
        arguments: [pubrec, pubcomp, [0x40, 2, 0, 1]]
    )
    func lateBeforeSuback(_ answer: [UInt8]) throws {
        var configuration = MQTTConfiguration()
        configuration.clientID = "ann"
        configuration.cleanSession = false
        configuration.subscriptions = [MQTTSubscription("x", qos: .exactlyOnce)]
        var client = MQTTHarness(try MQTTCore(client: configuration, session: MQTTSession()))
        client.start()
        client.feed([0x20, 2, 1, 0] + answer + [0x90, 3, 0, 1, 2])
        #expect(client.isOpen && client.failure == nil)
    }

    @Test("a connection that another has followed changes nothing of their session")
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

    @Test("a window that the connection before has filled does not keep the next from subscribing")
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
            var client = MQTTHarness(try MQTTCore(client: configuration, session: session))
            client.start()
            client.feed([0x20, 2, present ? 1 : 0, 0])
            client.feed([0x90, 3, 0, present ? 3 : 1, 2])
            #expect(client.isOpen && client.failure == nil)
            #expect(try client.send(Payload([9]), id: 1) == (present ? .blocked : .awaitingAcknowledgement))
        }
    }
}
