import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("A client of plain WebSocket at a server of STOMP")
struct STOMPSignsTests {
    private func client(subprotocol: String? = nil) throws -> WebSocketHarness {
        guard let subprotocol else { return try openCore(.client) }
        var configuration = WebSocketConfiguration()
        configuration.subprotocols = [subprotocol]
        var harness = WebSocketHarness(try WebSocketCore(.client, configuration), seed: 1)
        harness.start()
        harness.feed(response(key: harness.core.key, with: ["Sec-WebSocket-Protocol: \(subprotocol)"]))
        #expect(harness.isOpen == true)
        return harness
    }

    private func mistake(_ client: borrowing WebSocketHarness) -> String? {
        client.core.likelyMistake(isEncrypted: false)
    }

    @Test(
        "A message that begins like a frame and stays without an answer names the scheme",
        arguments: ["SUBSCRIBE\nid:0\n", "CONNECT\r\naccept-version:1.2\n\n", "SEND\n"]
    )
    func unanswered(sent: String) throws {
        var client = try client()
        #expect(mistake(client) == nil)
        _ = try client.send(Payload(text: "hello"))
        #expect(mistake(client) == nil)
        _ = try client.send(Payload(text: sent))
        #expect(mistake(client)?.contains("has not answered") == true)
        #expect(mistake(client)?.contains("use stomp+ws://") == true)
        #expect(client.core.likelyMistake(isEncrypted: true)?.contains("use stomp+wss://") == true)
        client.feed(frame(to: .client, 0x8a))
        #expect(mistake(client) != nil, "a pong is no answer")
        client.feed(frame(to: .client, 0x81, text("thanks")))
        #expect(mistake(client) == nil)
        _ = try client.send(Payload(text: sent))
        #expect(mistake(client) == nil, "the server has answered something else")
    }

    @Test(
        "Other texts are no sign",
        arguments: ["SUBSCRIBE", "subscribe\n", "SUBSCRIBER\n", "", "\n", "UNSUBSCRIBE id\n"]
    )
    func others(sent: String) throws {
        var client = try client()
        _ = try client.send(Payload(text: sent))
        #expect(mistake(client) == nil)
    }

    @Test("An app that has sent sixteen messages of another kind speaks no STOMP")
    func many() throws {
        for (count, isSign) in [(15, true), (16, false), (300, false)] {
            var client = try client()
            for _ in 0..<count { _ = try client.send(Payload(text: "hello")) }
            _ = try client.send(Payload(text: "SUBSCRIBE\n"))
            #expect((mistake(client) != nil) == isSign)
            client.feed(frame(to: .client, 0x81, text("ERROR\n\n\0")))
            #expect(mistake(client)?.contains("the server speaks STOMP") == true)
        }
    }

    @Test("ERROR as the first message of the server names the scheme, and another one does not")
    func refused() throws {
        for (message, isSign) in [("ERROR\nmessage:no\n\n\0", true), ("CONNECTED\n", false), ("ERROR: no", false)] {
            var client = try client()
            _ = try client.send(Payload(text: "SUBSCRIBE\n"))
            client.feed(frame(to: .client, 0x81, text(message)))
            #expect(client.messages.count == 1, "the app gets it all the same")
            #expect((mistake(client)?.contains("the server speaks STOMP") ?? false) == isSign)
            client.feed(frame(to: .client, 0x81, text("ERROR\n\n\0")))
            #expect((mistake(client) != nil) == isSign)
        }
    }

    @Test("A client that has agreed on a subprotocol speaks that, and a server of WebSocket is not concerned")
    func agreed() throws {
        var client = try client(subprotocol: "v12.stomp")
        _ = try client.send(Payload(text: "SUBSCRIBE\n"))
        #expect(mistake(client) == nil)
        client.feed(frame(to: .client, 0x81, text("ERROR\n\n\0")))
        #expect(mistake(client) == nil)
        var server = try openCore(.server)
        _ = try server.send(Payload(text: "SUBSCRIBE\n"))
        server.feed(frame(to: .server, 0x81, text("ERROR\n\n\0")))
        #expect(mistake(server) == nil)
    }
}
