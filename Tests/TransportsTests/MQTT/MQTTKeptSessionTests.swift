import TestSupport
import Testing
import TransportAPI

@testable import Transports

@Suite("Clients with a kept MQTT session", .timeLimit(.minutes(5)), .ownThread)
struct MQTTKeptSessionTests {
    /// Options of a client that subscribes at QoS 1. A `send` of the server ends with the client's PUBACK.
    private static func options(_ cleanSession: String) -> String {
        "subscribe=in&qos=1&client-id=ann&clean-session=\(cleanSession)"
    }

    @Test(
        "The next `receive` confirms a message in a kept session, and a clean session confirms at once",
        arguments: ["off", "on"]
    )
    func confirmation(cleanSession: String) async throws {
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

    /// A supervisor with room for one message, the server's side of its connection, and the listener.
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
        // The server knows no topic to send to until the client has subscribed.
        while let state = await states.next(), !state.isOpen {}
        return (supervisor, server, listener)
    }

    @Test("A supervisor confirms the message that fills its buffer, and not the one behind it")
    func filling() async throws {
        let (supervisor, server, listener) = try await connected()
        var messages = supervisor.messages.makeAsyncIterator()
        // The app has not taken the message, but the broker need not send it again over the next connection.
        #expect(await server.send(Payload(text: "1")) == .acknowledged)
        async let second = server.send(Payload(text: "2"))
        await supervisor.close()
        #expect(await second.isSuccess == false)
        #expect(await messages.next()?.bytes == Array("1".utf8))
        #expect(await messages.next() == nil)
        await listener.close()
    }

    @Test("A suspended supervisor has confirmed only messages that it delivers")
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
