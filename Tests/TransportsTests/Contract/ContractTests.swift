import EmbeddedServers
import SocketIO
import Testing
import TransportAPI

@testable import Transports

/// What every registered transport promises, whatever lies below it. A new transport is tested here by being registered.
@Suite("Every transport", .timeLimit(.minutes(2)))
struct ContractTests {
    static let names = TransportRegistry.standard.transports.map(\.name)
    private var registry: TransportRegistry { .standard }

    /// A listening URL of a transport, on a port of the system's choice.
    private static func url(_ name: String) -> String {
        "\(name)://127.0.0.1:0"
    }

    /// Two ends of one link: the client's, and the server's as `accept` gives it.
    struct Pair {
        let listener: any Listener
        let client: any Link
        let server: any Link

        init(_ name: String, options: [Endpoint.Option] = []) async throws {
            let registry = TransportRegistry.standard
            let listener = try await registry.listen(ContractTests.url(name))
            var endpoint = listener.endpoint
            endpoint.options = try registry.transport(named: name).loopback("pair") + options
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
    private func message(_ text: String) -> Payload {
        Payload(Array(text.utf8))
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
            let bytes = (0..<size).map { UInt8(truncatingIfNeeded: $0) }
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

    @Test("measures a round trip where it has a ping, and says so where it has none", arguments: names, Caller.allCases)
    func ping(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name)
            for link in [pair.client, pair.server] {
                if link.capabilities.hasNativePing {
                    #expect(try await link.ping() > .zero)
                } else {
                    let error = await #expect(throws: TransportError.self) { _ = try await link.ping() }
                    #expect(error?.code == .unsupported)
                }
            }
            await pair.close()
        }
    }

    @Test("ends `receive` with nil on both sides after a goodbye, and rejects what is sent later", arguments: names)
    func goodbye(name: String) async throws {
        let pair = try await Pair(name)
        #expect(await pair.client.send(message("last words")).isSuccess)
        await pair.client.close()
        #expect(try await pair.client.receive() == nil)
        #expect(await pair.client.closed().initiator == .user)
        #expect(try await pair.server.receive()?.bytes == Array("last words".utf8))
        #expect(try await pair.server.receive() == nil)
        #expect(await pair.server.closed().initiator == .peer)
        for link in [pair.client, pair.server] {
            guard case .rejected = await link.send(message("too late")) else {
                Issue.record("was not rejected")
                return
            }
            let error = await #expect(throws: TransportError.self) { _ = try await link.ping() }
            #expect(error != nil)
        }
        await pair.close()
    }

    @Test("closes although its inbox is full and nobody reads", arguments: names)
    func closesUnread(name: String) async throws {
        let pair = try await Pair(name, options: [.init(name: "inbox", value: "2")])
        #expect(await pair.client.send(message("hello")).isSuccess)
        _ = try await pair.server.receive()
        for number in 0..<20 { #expect(await pair.server.send(message("\(number)")).isSuccess) }
        // The answers to these are behind all that.
        if pair.client.capabilities.hasNativePing, !pair.client.capabilities.isReliable {
            _ = try await pair.client.ping()
        }
        await pair.client.close()
        #expect(await pair.client.closed().initiator == .user)
        await pair.close()
    }

    @Test("ends a waiting `receive` when its own side closes", arguments: names, Caller.allCases)
    func closeWhileReceiving(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name)
            let waiting = Task(executorPreference: EventLoop.shared) { try await pair.client.receive() }
            await pair.client.close()
            #expect(try await waiting.value == nil)
            await pair.close()
        }
    }

    @Test(
        "ends a waiting `receive` at once when its task is cancelled, and lives on",
        arguments: names,
        Caller.allCases
    )
    func cancelReceive(name: String, caller: Caller) async throws {
        let pair = try await Pair(name)
        let error = try await caller.run {
            let task = Task { try await pair.client.receive() }
            task.cancel()
            return await #expect(throws: TransportError.self) { _ = try await task.value }
        }
        #expect(error?.code == .cancelled)
        // Something that this client has sent tells MQTT's server where to answer.
        #expect(await pair.client.send(message("hello")).isSuccess)
        _ = try await pair.server.receive()
        #expect(await pair.server.send(message("alive")).isSuccess)
        #expect(try await pair.client.receive()?.bytes == Array("alive".utf8))
        await pair.close()
    }

    @Test("lets one task receive at a time, and tells a second one", arguments: names)
    func busy(name: String) async throws {
        let pair = try await Pair(name)
        try await Caller.onLoop.run {
            let first = Task(executorPreference: EventLoop.shared) { try await pair.client.receive() }
            await Task.yield()
            let error = await #expect(throws: TransportError.self) { _ = try await pair.client.receive() }
            #expect(error?.code == .busy)
            first.cancel()
            _ = try? await first.value
        }
        await pair.close()
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

    @Test("does not connect where nobody listens", arguments: names)
    func refused(name: String) async throws {
        let nobody = try Away(name)
        let transport = try registry.transport(for: nobody.endpoint)
        let error = await #expect(throws: TransportError.self) {
            _ = try await transport.connect(timeout: .seconds(20))
        }
        #expect(error?.code == .refused)
        #expect(error?.isRetryable == true)
    }

    @Test("ends an attempt at once when its task is cancelled", arguments: names)
    func cancelConnect(name: String) async throws {
        let transport = try registry.transport(for: Endpoint(Self.url(name).replacing(":0", with: ":9")))
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await transport.connect(timeout: .seconds(600))
        }
        let error = await #expect(throws: TransportError.self) { _ = try await task.value }
        #expect(error?.code == .cancelled || error?.code == .refused)
    }

    @Test("stops accepting when the listener is closed, and accepted links live on", arguments: names)
    func listenerCloses(name: String) async throws {
        let pair = try await Pair(name)
        let waiting = Task { try await pair.listener.accept() }
        await pair.listener.close()
        #expect(try await waiting.value == nil)
        #expect(await pair.client.send(message("after")).isSuccess)
        #expect(try await pair.server.receive()?.bytes == Array("after".utf8))
        await pair.close()
    }

    @Test("refuses an option that it does not have, and names those it has", arguments: names)
    func unknownOption(name: String) async throws {
        var endpoint = try Endpoint(Self.url(name))
        endpoint.options = [.init(name: "colour", value: "red")]
        let error = #expect(throws: TransportError.self) { _ = try registry.transport(for: endpoint) }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.reason.contains("colour") == true && error?.reason.contains("max-message") == true)
    }

    @Test("gives every message back through an embedded echo server", arguments: names, Caller.allCases)
    func echo(name: String, caller: Caller) async throws {
        let server = try await EmbeddedServer.start(Self.url(name), .echo)
        try await caller.run {
            var endpoint = server.endpoint
            endpoint.options = try registry.transport(named: name).loopback("echo")
            let link = try await registry.transport(for: endpoint).connect(timeout: .seconds(10))
            for number in 0..<20 {
                #expect(await link.send(message("\(number)")).isSuccess)
                #expect(try await link.receive()?.bytes == Array("\(number)".utf8))
            }
            await link.close()
        }
        await server.stop()
    }

    @Test("serves an actor that lives on its loop without leaving the loop", arguments: names)
    func resident(name: String) async throws {
        let server = try await EmbeddedServer.start(Self.url(name), .echo)
        var endpoint = server.endpoint
        endpoint.options = try registry.transport(named: name).loopback("resident")
        let link = try await registry.transport(for: endpoint).connect(timeout: .seconds(10))
        let resident = Resident()
        for number in 0..<20 {
            let echo = try await resident.echo(link, message("\(number)"))
            #expect(echo?.bytes == Array("\(number)".utf8))
        }
        await link.close()
        await server.stop()
    }

    @Test("fans a message out to all clients", arguments: names)
    func fanOut(name: String) async throws {
        let server = try await EmbeddedServer.start(Self.url(name), .fanOut)
        var endpoint = server.endpoint
        endpoint.options = try registry.transport(named: name).loopback("room")
        var links: [any Link] = []
        for _ in 0..<5 { links.append(try await registry.transport(for: endpoint).connect(timeout: .seconds(10))) }
        // The last to connect may be known to the server later than its own handshake ends; its first message is not.
        for link in links.reversed() {
            #expect(await link.send(message("hello")).isSuccess)
            #expect(try await link.receive()?.bytes == Array("hello".utf8))
        }
        await server.stop()
        for link in links { await link.close() }
    }

    @Test("tells its clients when an embedded server stops", arguments: names)
    func serverStops(name: String) async throws {
        let server = try await EmbeddedServer.start(Self.url(name), .echo)
        var endpoint = server.endpoint
        endpoint.options = try registry.transport(named: name).loopback("stop")
        let link = try await registry.transport(for: endpoint).connect(timeout: .seconds(10))
        await server.stop()
        #expect(try await link.receive() == nil)
        await link.close()
    }
}
