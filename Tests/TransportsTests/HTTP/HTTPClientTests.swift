import EmbeddedServers
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

@Suite("Messages over HTTP, client and server", .timeLimit(.minutes(2)))
struct HTTPClientTests {
    static let modes = ["mode=sse", "mode=long-poll", "mode=poll&interval=20ms"]

    private static func text(_ number: Int) -> String { "message \(number)" }

    @Test("Texts, binary messages and large ones come back as they were, in order", arguments: modes)
    func echo(mode: String) async throws {
        let server = try await EmbeddedServer.start("http://127.0.0.1:0/chat")
        let client = try await TransportRegistry.standard.connect("\(server.endpoint)?\(mode)")
        let large = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let messages = [
            Payload(text: "hello"), Payload(text: "two\nlines"), Payload(text: "a return\r\n"), Payload(text: ""),
            Payload([0, 1, 2, 255]), Payload([]), Payload(large), Payload(text: String(repeating: "ä", count: 40_000)),
        ]
        for message in messages { #expect(await client.send(message) == .written) }
        for message in messages { #expect(try await client.receive() == message) }
        #expect(try await client.ping() > .zero)
        await client.close()
        await server.stop()
    }

    @Test("A connection is open once a message can leave, and counts both connections below", arguments: modes)
    func opening(mode: String) async throws {
        let server = try await EmbeddedServer.start("http://127.0.0.1:0/chat")
        let client = try await TransportRegistry.standard.connect("\(server.endpoint)?\(mode)")
        // The connection to the server, and the request that opens the session. The second connection is opened meanwhile.
        #expect(await client.statistics().handshakeRoundTrips == 2)
        await client.close()
        await server.stop()
    }

    @Test("Over TLS, both handshakes count", .enabled(if: hasOpenSSL), arguments: [("1.2", 6), ("1.3", 4)])
    func openingOverTLS(version: String, roundTrips: Int) async throws {
        let registry = TransportRegistry.available
        let listener = try await registry.listen("https://localhost:0/chat")
        var endpoint = listener.endpoint
        endpoint.options =
            try registry.transport(named: "https").loopback("opening")
            + [("max-tls", version), ("resumption", "off")].map { .init(name: $0, value: $1) }
        let client = try await registry.connect(endpoint)
        #expect(await client.statistics().handshakeRoundTrips == roundTrips)
        await client.close()
        await listener.close()
    }

    @Test("Nothing is lost or doubled while the connections below are reset again and again", arguments: modes)
    func cuts(mode: String) async throws {
        let server = try await EmbeddedServer.start("http://127.0.0.1:0/chat")
        let proxy = try await FaultProxy.start(to: server.endpoint, seed: 1)
        let client = try await TransportRegistry.standard.connect("\(proxy.endpoint)?\(mode)")
        let count = 400
        async let sending: Void = {
            for number in 0..<count {
                #expect(await client.send(Payload(text: Self.text(number))) == .written)
                if number % 50 == 25 { await proxy.cut(number % 100 == 25 ? .reset : .finish) }
            }
        }()
        for number in 0..<count {
            let received = try await client.receive()
            guard received == Payload(text: Self.text(number)) else {
                Issue.record("\(number): \(String(describing: received))")
                break
            }
        }
        await sending
        await client.close()
        await proxy.stop()
        await server.stop()
    }

    @Test("The server ends the connection of a client that closes, and the other way round", arguments: modes)
    func closing(mode: String) async throws {
        let listener = try await TransportRegistry.standard.listen("http://127.0.0.1:0/chat")
        for closesClient in [true, false] {
            let client = try await TransportRegistry.standard.connect("\(listener.endpoint)?\(mode)")
            let server = try #require(try await listener.accept())
            let (first, second) = closesClient ? (client, server) : (server, client)
            #expect(await first.send(Payload(text: "last")) == .written)
            async let undelivered = first.close(.user)
            #expect(try await second.receive() == Payload(text: "last"))
            #expect(try await second.receive() == nil)
            #expect(await second.closed().initiator == .peer)
            #expect(await undelivered == 0)
        }
        await listener.close()
    }

    @Test("A connection whose server has gone ends after resume-timeout")
    func gone() async throws {
        let server = try await EmbeddedServer.start("http://127.0.0.1:0/chat")
        let proxy = try await FaultProxy.start(to: server.endpoint, seed: 1)
        let client = try await TransportRegistry.standard.connect("\(proxy.endpoint)?resume-timeout=100ms")
        await proxy.stop()
        let reason = await client.closed()
        #expect(reason.error?.code == .connectionLost && reason.error?.reason.contains("over HTTP") == true)
        await server.stop()
    }

    @Test("The server's decision sees the request that opens the session, and gives the identity")
    func decision() async throws {
        let listener = try await TransportRegistry.standard.listen(
            "http://127.0.0.1:0/chat",
            decide: { request in
                guard request.path == "/chat", request.query == "user=ann" else { return .refuse(status: 400) }
                return request.header("Authorization") == "Bearer good"
                    ? .acceptAs(Identity("ann")) : .refuse(status: 401)
            }
        )
        let url = "\(listener.endpoint)?query=user%3Dann"
        let client = try await TransportRegistry.standard.connect("\(url)&header=Authorization:Bearer%20good")
        let server = try #require(try await listener.accept())
        #expect(server.identity == Identity("ann"))
        await client.close()
        let error = await #expect(throws: TransportError.self) {
            try await TransportRegistry.standard.connect("\(url)&header=Authorization:Bearer%20bad")
        }
        #expect(error?.code == .authenticationFailed)
        await listener.close()
    }

    @Test("A server that does not offer sessions gets an error that names WebSocket")
    func otherServer() async throws {
        let server = try await EmbeddedServer.start("ws://127.0.0.1:0/chat")
        let port = try #require(server.endpoint.port)
        let error = await #expect(throws: TransportError.self) {
            try await TransportRegistry.standard.connect("http://127.0.0.1:\(port)/chat")
        }
        #expect(error?.reason.contains("write ws://") == true, "\(String(describing: error))")
        await server.stop()
    }
}
