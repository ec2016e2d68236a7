import EmbeddedServers
import Protocols
import SocketIO
import Testing
import TransportAPI
import Transports

// Connecting, listening, and the servers that every transport has.

extension ContractTests {
    @Test("does not connect where nobody listens", arguments: names)
    func refused(name: String) async throws {
        let scheme = String(name.prefix { $0 != "?" })
        let port = try ReservedPort.serving(scheme)
        let listener = try await registry.listen("\(scheme)://127.0.0.1:\(port?.port ?? 0)")
        let transport = try registry.transport(for: listener.endpoint)
        await listener.close()
        let error = await #expect(throws: TransportError.self) {
            _ = try await transport.connect(timeout: .seconds(20))
        }
        #expect(error?.code == .refused)
        #expect(error?.isRetryable == true)
        withExtendedLifetime(port) {}
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

    @Test("stops accepting when the listener is closed, and accepted connections live on", arguments: names)
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
            endpoint.options = try ContractTests.loopback(name, "echo")
            let connection = try await registry.transport(for: endpoint).connect(timeout: .seconds(10))
            for number in 0..<20 {
                #expect(await connection.send(message("\(number)")).isSuccess)
                #expect(try await connection.receive()?.bytes == Array("\(number)".utf8))
            }
            await connection.close()
        }
        await server.stop()
    }

    /// - Parameter jobs: how many stand in the loop's queue each time; more than one turn works off, or none.
    @Test("serves an actor that lives on its loop without leaving the loop", arguments: names, [0, 5000])
    func resident(name: String, jobs: Int) async throws {
        let server = try await EmbeddedServer.start(Self.url(name), .echo)
        var endpoint = server.endpoint
        endpoint.options = try ContractTests.loopback(name, "resident")
        let connection = try await registry.transport(for: endpoint).connect(timeout: .seconds(10))
        let resident = Resident()
        for number in 0..<20 {
            for _ in 0..<jobs { EventLoop.shared.execute {} }
            let echo = try await resident.echo(connection, message("\(number)"))
            #expect(echo?.bytes == Array("\(number)".utf8))
        }
        await connection.close()
        await server.stop()
    }

    @Test("fans a message out to all clients", arguments: names)
    func fanOut(name: String) async throws {
        let server = try await EmbeddedServer.start(Self.url(name), .fanOut)
        var endpoint = server.endpoint
        endpoint.options = try ContractTests.loopback(name, "room")
        var connections: [any Connection] = []
        for _ in 0..<5 {
            connections.append(try await registry.transport(for: endpoint).connect(timeout: .seconds(10)))
        }
        // The last to connect may be known to the server later than its own handshake ends; its first message is not.
        for connection in connections.reversed() {
            #expect(await connection.send(message("hello")).isSuccess)
            #expect(try await connection.receive()?.bytes == Array("hello".utf8))
        }
        await server.stop()
        for connection in connections { await connection.close() }
    }

    @Test("tells its clients when an embedded server stops", arguments: names)
    func serverStops(name: String) async throws {
        let server = try await EmbeddedServer.start(Self.url(name), .echo)
        var endpoint = server.endpoint
        endpoint.options = try ContractTests.loopback(name, "stop")
        let connection = try await registry.transport(for: endpoint).connect(timeout: .seconds(10))
        await server.stop()
        #expect(try await connection.receive() == nil)
        await connection.close()
    }
}
