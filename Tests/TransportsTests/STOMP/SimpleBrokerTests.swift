import Testing
import TransportAPI

@testable import Transports

/// Spring's simple broker gives no receipt of any frame but DISCONNECT, and its CONNECTED does not name a server.
@Suite("STOMP at a broker without receipts")
struct SimpleBrokerTests {
    private static func frame(_ text: String) -> [UInt8] { Array("\(text)\0".utf8) }

    @Test("A client subscribes without a receipt", arguments: ["", "?subscribe-receipt=off"])
    func subscribes(query: String) async throws {
        let name = query.isEmpty ? "" : "server:Broker/1\n"
        let broker = try RawServer(
            .exchange([
                Self.frame("CONNECTED\nversion:1.2\nheart-beat:0,0\n\(name)\n"),
                Self.frame("MESSAGE\ndestination:/topic/a\nmessage-id:1\nsubscription:65536\n\nsoup"),
            ])
        )
        defer { broker.stop() }
        let connection = try await TransportRegistry.standard.connect("stomp://127.0.0.1:\(broker.port)/\(query)")
        let client = try STOMPClient(connection)
        var messages = try await client.subscribe("/topic/a").makeAsyncIterator()
        #expect(try await messages.next()?.bytes == Array("soup".utf8))
        await client.close()
    }

    @Test("A client with a subscription in its URL is open without a receipt")
    func opens() async throws {
        let broker = try RawServer(
            .exchange([
                Self.frame("CONNECTED\nversion:1.2\nheart-beat:0,0\n\n"),
                Self.frame("MESSAGE\ndestination:/topic/a\nmessage-id:1\nsubscription:1\n\nsoup"),
            ])
        )
        defer { broker.stop() }
        let url = "stomp://127.0.0.1:\(broker.port)/?subscribe=/topic/a"
        let connection = try await TransportRegistry.standard.connect(url)
        #expect(try await connection.receive()?.bytes == Array("soup".utf8))
        await connection.close()
    }
}
