import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// A client of `ws://` that writes frames of STOMP by hand.
@Suite("STOMP over plain WebSocket", .timeLimit(.minutes(1)), .ownThread)
struct PlainWebSocketTests {
    private func pair() async throws -> (client: any Connection, server: any Connection, listener: any Listener) {
        let registry = TransportRegistry.standard
        let listener = try await registry.listen("ws://127.0.0.1:0")
        async let accepted = listener.accept()
        let client = try await registry.connect("ws://127.0.0.1:\(try #require(listener.endpoint.port))")
        return (client, try #require(try await accepted), listener)
    }

    @Test(
        "The reason for the end of a connection without an answer names the scheme, whoever ends it",
        arguments: [true, false]
    )
    func silence(endsHere: Bool) async throws {
        let (client, server, listener) = try await pair()
        #expect(await client.send(Payload(text: "SUBSCRIBE\nid:0\ndestination:/topic/a\n")) == .written)
        _ = try await server.receive()
        if endsHere { await client.close() } else { await server.close() }
        let reason = await client.closed()
        #expect(reason.initiator == (endsHere ? .user : .peer))
        #expect(reason.text.contains("use stomp+ws://"), "\(reason)")
        #expect(try await client.receive() == nil)
        await server.close()
        #expect(await server.closed().text == "")
        await listener.close()
    }

    @Test("The reason for the end after an ERROR names the scheme, and the app has the ERROR")
    func refusal() async throws {
        let (client, server, listener) = try await pair()
        #expect(await client.send(Payload(text: "SUBSCRIBE\nid:0\ndestination:/topic/a\n\n\0")) == .written)
        _ = try await server.receive()
        let refusal = Payload(text: "ERROR\nmessage:no CONNECT\n\n\0")
        #expect(await server.send(refusal) == .written)
        await server.close()
        #expect(try await client.receive() == refusal)
        #expect(try await client.receive() == nil)
        #expect(await client.closed().text.contains("the server speaks STOMP"))
        guard case .rejected(let error) = await client.send(refusal) else {
            Issue.record("sent")
            return
        }
        #expect(error.reason.contains("use stomp+ws://"))
        await listener.close()
    }
}
