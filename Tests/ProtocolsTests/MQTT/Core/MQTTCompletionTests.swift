import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// How the next connection of a kept session reports messages that the previous one left unacknowledged.
@Suite("MQTT: messages that the next connection completes")
struct MQTTCompletionTests {
    private static let name = SendID.named | 5
    private let session = MQTTSession()

    private func connection(_ qos: MQTTQoS, isPresent: Bool) throws -> MQTTClientHarness {
        var configuration = MQTTConfiguration()
        configuration.clientID = "ann"
        configuration.qos = qos
        configuration.publishTopic = "t"
        configuration.cleanSession = false
        var client = MQTTClientHarness(try MQTTClientCore(configuration, session: session))
        client.start()
        client.feed([0x20, 2, isPresent ? 1 : 0, 0])
        return client
    }

    /// The answers of a broker that complete the message with packet identifier 1.
    private func answers(_ qos: MQTTQoS) -> [UInt8] {
        qos == .atLeastOnce ? [0x40, 2, 0, 1] : [0x50, 2, 0, 1, 0x70, 2, 0, 1]
    }

    @Test(
        "A message in flight is pending, and is acknowledged under its id",
        arguments: [MQTTQoS.atLeastOnce, .exactlyOnce]
    )
    func pending(qos: MQTTQoS) throws {
        var first = try connection(qos, isPresent: false)
        _ = try first.send(Payload([9]), id: Self.name)
        var second = try connection(qos, isPresent: true)
        #expect(second.core.capabilities.completesSends)
        #expect(second.completion(of: Self.name) == .pending)
        second.feed(answers(qos))
        #expect(second.acknowledged == [Self.name])
        #expect(second.completion(of: Self.name) == nil)
    }

    @Test(
        "A message that completes before its caller queries it is acknowledged, also on a later connection",
        arguments: [false, true]
    )
    func acknowledged(isLater: Bool) throws {
        var first = try connection(.exactlyOnce, isPresent: false)
        _ = try first.send(Payload([9]), id: Self.name)
        var second = try connection(.exactlyOnce, isPresent: true)
        second.feed(answers(.exactlyOnce))
        #expect(second.acknowledged.isEmpty)
        var last = isLater ? try connection(.exactlyOnce, isPresent: true) : second
        #expect(last.completion(of: Self.name) == .acknowledged)
        #expect(last.completion(of: Self.name) == nil)
    }

    @Test(
        "A client that makes its subscriptions itself repeats messages only after them",
        arguments: [MQTTQoS.atLeastOnce, .exactlyOnce],
        [false, true]
    )
    func subscriptionsFirst(qos: MQTTQoS, isPresent: Bool) throws {
        var first = try connection(qos, isPresent: false)
        first.core.holdMessages(alsoLater: true)
        #expect(try first.send(Payload([8]), id: 4) == .blocked)
        first.core.releaseMessages(&first.context)
        #expect(try first.send(Payload([9]), id: Self.name) == .awaitingAcknowledgement)
        var second = try connection(qos, isPresent: isPresent)
        _ = second.takeOutput()
        second.core.holdMessages(alsoLater: true)
        #expect(try second.send(Payload([8]), id: 4) == .blocked)
        try second.core.subscribe([MQTTSubscription("t")], id: 1, &second.context)
        #expect(second.completion(of: Self.name) == .pending)
        second.core.releaseMessages(&second.context)
        let output = second.takeOutput()
        // SUBSCRIBE, then PUBLISH with DUP.
        #expect(output.first == 0x82)
        #expect(output.dropFirst(2 + Int(output[1])).first == (qos == .atLeastOnce ? 0x3a : 0x3c))
        second.core.releaseMessages(&second.context)
        #expect(second.takeOutput().isEmpty)
        #expect(try second.send(Payload([8]), id: 4) == .awaitingAcknowledgement)
    }

    @Test("The state of a message is unknown to another session, and after the broker has lost the session")
    func unknown() throws {
        var first = try connection(.exactlyOnce, isPresent: false)
        #expect(first.completion(of: Self.name) == nil)
        _ = try first.send(Payload([9]), id: Self.name)
        first.feed([0x50, 2, 0, 1])
        var second = try connection(.exactlyOnce, isPresent: false)
        #expect(second.completion(of: Self.name) == nil)
        let clean = try mqttClient()
        #expect(!clean.core.capabilities.completesSends)
    }
}
