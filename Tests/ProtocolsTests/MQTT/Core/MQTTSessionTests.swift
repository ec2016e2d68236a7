import TestSupport
import Testing

@testable import Protocols

/// Clients whose sessions outlive their connections. The broker keeps the messages that a client has not confirmed.
@Suite("MQTT sessions that outlive a connection")
struct MQTTSessionTests {
    private func client() throws -> MQTTClientHarness {
        try mqttClient {
            $0.cleanSession = false
            $0.subscriptions = [MQTTSubscription("in", qos: .atLeastOnce)]
        }
    }

    @Test("PUBACK waits until its message is confirmed, in order, also for messages before SUBACK")
    func confirmed() throws {
        var client = try client()
        client.start()
        client.feed([0x20, 2, 1, 0])
        // The broker may send queued messages at once. The client sends SUBSCRIBE all the same.
        #expect(client.takeOutput().suffix(9) == [0x82, 7, 0, 1, 0, 2, 0x69, 0x6e, 1])
        let repeated: [UInt8] = [0x3a, 7, 0, 2, 0x69, 0x6e, 0, 9, 1]
        client.feed(repeated + encoded(.publish(MQTTPublish(topic: "in", payload: [2]))))
        client.feed([0x90, 3, 0, 1, 1, 0x32, 7, 0, 2, 0x69, 0x6e, 0, 10, 3])
        #expect(client.messages.map(\.bytes) == [[1], [2], [3]])
        #expect(client.takeOutput().isEmpty)
        client.core.confirmReceipt(&client.context)
        #expect(client.takeOutput() == [0x40, 2, 0, 9])
        client.core.confirmReceipt(&client.context)
        #expect(client.takeOutput().isEmpty)
        client.core.confirmReceipt(&client.context)
        #expect(client.takeOutput() == [0x40, 2, 0, 10])
        client.core.confirmReceipt(&client.context)
        #expect(client.takeOutput().isEmpty)
    }

    @Test(
        "A message that the broker has kept for the session opens the connection before SUBACK",
        arguments: [1, 0x80]
    )
    func messageBeforeSuback(answer: UInt8) throws {
        var client = try mqttClient {
            $0.cleanSession = false
            $0.subscriptions = [MQTTSubscription("in", qos: .atLeastOnce)]
            $0.maximumMessageSize = 100
        }
        client.start()
        client.feed([0x20, 2, 1, 0])
        let message = [0x32, 66, 0, 2, 0x69, 0x6e, 0, 9] + [UInt8](repeating: 7, count: 60)
        client.feed(message)
        #expect(client.isOpen && client.messages.count == 1)
        client.feed(message + message)
        #expect(client.isOpen && client.messages.count == 3)
        #expect(client.failure == nil)
        client.feed([0x90, 3, 0, 1, answer])
        #expect(client.failure?.code == (answer == 1 ? nil : .forbidden))
        #expect(client.events.count == 4)
    }

    @Test("Nothing is confirmed after DISCONNECT")
    func closed() throws {
        var client = try client()
        client.start()
        client.feed([0x20, 2, 1, 0, 0x90, 3, 0, 1, 1, 0x32, 7, 0, 2, 0x69, 0x6e, 0, 9, 1])
        client.core.close(.user, &client.context)
        client.core.confirmReceipt(&client.context)
        #expect(client.takeOutput().suffix(2) == [0xe0, 0])
    }
}
