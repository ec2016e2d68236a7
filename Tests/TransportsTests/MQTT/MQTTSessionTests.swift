import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

/// Clients of sessions that outlive their connections: what they have not taken stays the broker's.
@Suite("MQTT sessions that outlive a connection", .timeLimit(.minutes(5)), .ownThread)
struct MQTTSessionTests {
    private func client() throws -> MQTTHarness {
        try mqttClient {
            $0.cleanSession = false
            $0.subscriptions = [MQTTSubscription("in", qos: .atLeastOnce)]
        }
    }

    @Test("PUBACK waits until the message is confirmed, in order, also for what came before SUBACK")
    func confirmed() throws {
        var client = try client()
        client.start()
        client.feed([0x20, 2, 1, 0])
        // The broker may go on at once with what it holds; SUBSCRIBE is asked for all the same.
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
        "a message that the broker has kept for the session opens the connection before SUBACK",
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

    @Test("nothing is confirmed behind DISCONNECT")
    func closed() throws {
        var client = try client()
        client.start()
        client.feed([0x20, 2, 1, 0, 0x90, 3, 0, 1, 1, 0x32, 7, 0, 2, 0x69, 0x6e, 0, 9, 1])
        client.core.close(.user, &client.context)
        client.core.confirmReceipt(&client.context)
        #expect(client.takeOutput().suffix(2) == [0xe0, 0])
    }

    /// A listener's side of a client that subscribes at QoS 1; its `send` ends by the client's PUBACK.
    private static func options(_ cleanSession: String) -> String {
        "subscribe=in&qos=1&client-id=ann&clean-session=\(cleanSession)"
    }

    @Test(
        "asking for the next message confirms the one before; a clean session confirms at once",
        arguments: ["off", "on"]
    )
    func asking(cleanSession: String) async throws {
        let registry = TransportRegistry.standard
        let listener = try await registry.listen("mqtt://127.0.0.1:0/?qos=1")
        let port = try #require(listener.endpoint.port)
        async let accepted = listener.accept()
        let client = try await registry.connect("mqtt://127.0.0.1:\(port)/?\(Self.options(cleanSession))")
        let server = try #require(try await accepted)
        async let first = server.send(Payload(text: "1"))
        #expect(try await client.receive()?.bytes == Array("1".utf8))
        async let second = server.send(Payload(text: "2"))
        #expect(try await client.receive()?.bytes == Array("2".utf8))
        #expect(await first == .acknowledged)
        await client.close()
        #expect(await second.isSuccess == (cleanSession == "on"))
        await listener.close()
    }

    /// A supervisor with room for one message, the server's side of its connection, and the server.
    private func connected() async throws -> (Supervisor, any Connection, any Listener) {
        let listener = try await TransportRegistry.standard.listen("mqtt://127.0.0.1:0/?qos=1")
        let port = try #require(listener.endpoint.port)
        async let accepted = listener.accept()
        var configuration = SupervisorConfiguration()
        configuration.messageBuffer = 1
        let supervisor = try Supervisor("mqtt://127.0.0.1:\(port)/?\(Self.options("off"))", configuration)
        var states = supervisor.states.makeAsyncIterator()
        supervisor.connect()
        let server = try #require(try await accepted)
        // Until the client has subscribed, the server knows of no topic to send to.
        while let state = await states.next(), !state.isOpen {}
        return (supervisor, server, listener)
    }

    @Test("a supervisor confirms the message that fills its buffer, and not the one behind it")
    func filling() async throws {
        let (supervisor, server, listener) = try await connected()
        var messages = supervisor.messages.makeAsyncIterator()
        // Nobody takes it, yet the broker need not send it again over the next connection.
        #expect(await server.send(Payload(text: "1")) == .acknowledged)
        async let second = server.send(Payload(text: "2"))
        await supervisor.close()
        #expect(await second.isSuccess == false)
        #expect(await messages.next()?.bytes == Array("1".utf8))
        #expect(await messages.next() == nil)
        await listener.close()
    }

    @Test("a suspended supervisor has confirmed no message that it does not hand on")
    func suspended() async throws {
        let (supervisor, server, listener) = try await connected()
        var messages = supervisor.messages.makeAsyncIterator()
        let sending = (0..<20).map { number in Task { await server.send(Payload(text: "\(number)")) } }
        var received = await messages.next() == nil ? 0 : 1
        supervisor.suspend()
        var confirmed = 0
        for task in sending where await task.value == .acknowledged { confirmed += 1 }
        await supervisor.close()
        while await messages.next() != nil { received += 1 }
        #expect(confirmed <= received && received < sending.count)
        await listener.close()
    }
}
