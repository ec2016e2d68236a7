import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

/// What every registered transport promises, whatever lies below it. A new transport is tested here by being registered.
@Suite("Every transport", .timeLimit(.minutes(5)), .ownThread)
struct ContractTests {
    /// The transports, and modes of them that promise more, by the options of their clients.
    static let names = TransportRegistry.standard.transports.map(\.name) + ["udp?reliable=ordered"]
    var registry: TransportRegistry { .standard }

    /// A listening URL of a transport, on a port of the system's choice.
    static func url(_ name: String) -> String {
        "\(name.prefix { $0 != "?" })://127.0.0.1:0"
    }

    /// The options of a client whose messages shall come back to it.
    static func loopback(_ name: String, _ client: String) throws -> [Endpoint.Option] {
        let scheme = String(name.prefix { $0 != "?" })
        let mode = try Endpoint("\(scheme)://host\(name.dropFirst(scheme.count))").options
        return try TransportRegistry.standard.transport(named: scheme).loopback(client) + mode
    }

    /// Two ends of one connection: the client's, and the server's as `accept` gives it.
    struct Pair {
        let listener: any Listener
        let client: any Connection
        let server: any Connection

        init(_ name: String, options: [Endpoint.Option] = []) async throws {
            let registry = TransportRegistry.standard
            let listener = try await registry.listen(ContractTests.url(name))
            var endpoint = listener.endpoint
            endpoint.options = try ContractTests.loopback(name, "pair") + options
            async let accepted = listener.accept()
            client = try await registry.transport(for: endpoint).connect(timeout: .seconds(10))
            server = try #require(try await accepted)
            self.listener = listener
        }

        func close() async {
            await client.close()
            await server.close()
            await listener.close()
        }
    }

    /// A message that a transport without topics carries unchanged.
    func message(_ text: String) -> Payload {
        Payload(Array(text.utf8))
    }

    @Test("has the keepalive interval of its descriptor at both ends, unless the URL says otherwise", arguments: names)
    func keepaliveInterval(name: String) async throws {
        let scheme = String(name.prefix { $0 != "?" })
        let interval = try registry.transport(named: scheme).keepaliveInterval
        let pair = try await Pair(name)
        #expect(pair.client.capabilities.keepaliveInterval == interval)
        #expect(pair.server.capabilities.keepaliveInterval == interval)
        await pair.close()
        let other = try await Pair(name, options: [.init(name: "keepalive-interval", value: "7s")])
        #expect(other.client.capabilities.keepaliveInterval == .seconds(7))
        await other.close()
        var endpoint = try Endpoint(Self.url(name))
        endpoint.options.append(.init(name: "keepalive-interval", value: "7s"))
        let transport = try registry.transport(for: endpoint)
        #expect(transport.capabilities.keepaliveInterval == .seconds(7))
        endpoint.options[0].value = "0s"
        #expect(throws: TransportError.self) { try registry.transport(for: endpoint) }
    }

    @Test("asks for a sign of life before what lies on its paths forgets the connection")
    func keepaliveDefaults() throws {
        let expected = ["udp": 25, "ws": 30, "mqtt+ws": 30, "tcp": 60, "mqtt": 60]
        for (name, seconds) in expected {
            #expect(try registry.transport(named: name).keepaliveInterval == .seconds(seconds))
        }
    }

    @Test("carries messages both ways, in order while nothing is lost", arguments: names, Caller.allCases)
    func bothWays(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name)
            for number in 0..<50 {
                #expect(await pair.client.send(message("to server \(number)")) == .written)
                #expect(try await pair.server.receive()?.bytes == Array("to server \(number)".utf8))
                #expect(await pair.server.send(message("to client \(number)")).isSuccess)
                #expect(try await pair.client.receive()?.bytes == Array("to client \(number)".utf8))
            }
            await pair.close()
        }
    }

    @Test("keeps the order of a burst", arguments: names)
    func burst(name: String) async throws {
        let pair = try await Pair(name)
        for number in 0..<200 { #expect(await pair.client.send(message("\(number)")).isSuccess) }
        for number in 0..<200 { #expect(try await pair.server.receive()?.bytes == Array("\(number)".utf8)) }
        await pair.close()
    }

    @Test("carries an empty message, one of every byte, and its largest", arguments: names)
    func sizes(name: String) async throws {
        let pair = try await Pair(name)
        let largest = min(pair.client.capabilities.maximumMessageSize, 3_000_000)
        for size in [0, 1, 256, largest] {
            let bytes = longBytes(size)
            async let outcome = pair.client.send(Payload(bytes))
            #expect(try await pair.server.receive()?.bytes == bytes)
            #expect(await outcome.isSuccess)
        }
        await pair.close()
    }

    @Test("refuses a message beyond its limit with a typed error, and lives on", arguments: names)
    func tooLarge(name: String) async throws {
        let pair = try await Pair(name, options: [.init(name: "max-message", value: "1000")])
        guard case .rejected(let error) = await pair.client.send(Payload([UInt8](repeating: 1, count: 1001))) else {
            Issue.record("was not rejected")
            return
        }
        #expect(error.code == .messageTooLarge)
        #expect(await pair.client.send(message("still here")).isSuccess)
        #expect(try await pair.server.receive()?.bytes == Array("still here".utf8))
        await pair.close()
    }

    @Test("never drops a topic that it can't carry", arguments: names)
    func topics(name: String) async throws {
        let pair = try await Pair(name)
        let outcome = await pair.client.send(Payload([1], topic: "a/b"))
        if pair.client.capabilities.routesByTopic {
            #expect(outcome.isSuccess)
            #expect(try await pair.server.receive()?.topic == "a/b")
        } else {
            guard case .rejected(let error) = outcome else {
                Issue.record("was not rejected")
                return
            }
            #expect(error.code == .unsupported)
        }
        await pair.close()
    }

    @Test("never drops the wish to retain a message", arguments: names)
    func retained(name: String) async throws {
        let pair = try await Pair(name)
        let topic = pair.client.capabilities.routesByTopic ? "a/b" : nil
        let outcome = await pair.client.send(Payload([1], topic: topic, isRetained: true))
        if pair.client.capabilities.routesByTopic {
            #expect(outcome.isSuccess)
            #expect(try await pair.server.receive()?.isRetained == true)
        } else {
            guard case .rejected(let error) = outcome else {
                Issue.record("was not rejected")
                return
            }
            #expect(error.code == .unsupported)
        }
        await pair.close()
    }

    @Test("measures a round trip where it has a ping, and says so where it has none", arguments: names, Caller.allCases)
    func ping(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name)
            for connection in [pair.client, pair.server] {
                if connection.capabilities.hasNativePing {
                    #expect(try await connection.ping() > .zero)
                } else {
                    let error = await #expect(throws: TransportError.self) { _ = try await connection.ping() }
                    #expect(error?.code == .unsupported)
                }
            }
            await pair.close()
        }
    }

    @Test("counts what it sends and receives", arguments: names)
    func statistics(name: String) async throws {
        let pair = try await Pair(name)
        let payload = Payload([UInt8](repeating: 5, count: 100))
        for _ in 0..<10 {
            #expect(await pair.client.send(payload).isSuccess)
            _ = try await pair.server.receive()
        }
        let sent = await pair.client.statistics()
        let received = await pair.server.statistics()
        #expect(sent.messagesSent == 10 && received.messagesReceived == 10)
        // A stateless server can't count what came before there was a session.
        #expect(received.bytesReceived >= 1000 && sent.bytesSent >= received.bytesReceived)
        #expect(sent.handshakeDuration > .zero)
        await pair.close()
    }
}
