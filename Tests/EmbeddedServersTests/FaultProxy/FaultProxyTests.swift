import Dispatch
import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI

@Suite("Fault proxy", .timeLimit(.minutes(5)), .ownThread)
struct FaultProxyTests {
    private func echo(_ connection: any Connection, _ bytes: [UInt8]) async throws {
        #expect(await connection.send(Payload(bytes)).isSuccess)
        #expect(try await connection.receive()?.bytes == bytes)
    }

    @Test("A good path changes nothing", arguments: ProxiedServer.names)
    func unchanged(name: String) async throws {
        let proxied = try await ProxiedServer(name)
        #expect(proxied.proxy.endpoint.scheme == name && proxied.proxy.endpoint.port != proxied.server.endpoint.port)
        let connection = try await proxied.connect()
        for size in [0, 1, 1000, min(connection.capabilities.maximumMessageSize, 2_000_000)] {
            try await echo(connection, longBytes(size))
        }
        let statistics = await proxied.proxy.statistics()
        // One connection over HTTP uses two below it.
        let count = name.hasPrefix("http") ? 2 : 1
        #expect(statistics.connections == count && statistics.openConnections == count)
        #expect(statistics.bytesToServer > 1000 && statistics.bytesToClient > 1000)
        await proxied.stop(connection)
    }

    @Test("A close passes the proxy, and both of its connections end", arguments: ProxiedServer.streams)
    func close(name: String) async throws {
        let proxied = try await ProxiedServer(name)
        let connection = try await proxied.connect()
        await connection.close()
        #expect(await connection.closed().initiator == .user)
        await proxied.proxy.wait { $0.openConnections == 0 }
        await proxied.stop()
    }

    @Test("The proxy's endpoint keeps path, options and credentials of the target")
    func endpoint() async throws {
        let proxy = try await FaultProxy.start(
            to: Endpoint("mqtt://ann:secret@localhost:1/x?publish=a"),
            seed: 1
        )
        let endpoint = proxy.endpoint
        #expect(endpoint.host == "127.0.0.1" && endpoint.port != 1 && endpoint.path == "/x")
        #expect(endpoint.user == "ann" && endpoint.password == "secret" && endpoint.options.map(\.name) == ["publish"])
        await proxy.stop()
    }

    @Test("A proxy refuses a transport without a network")
    func noNetwork() async throws {
        let error = await #expect(throws: TransportError.self) {
            _ = try await FaultProxy.start(to: Endpoint("memory://a:1"), seed: 1)
        }
        #expect(error?.code == .invalidConfiguration && error?.reason.contains("such as tcp://127.0.0.1") == true)
    }

    @Test("Clients that connect all at once do not keep the loop of a proxy from other work")
    func manyAtOnce() async throws {
        let (own, others) = (try EventLoop(name: "proxy"), try EventLoop(name: "clients"))
        let server = try await EmbeddedServer.start("tcp://127.0.0.1:0", on: others)
        let proxy = try await FaultProxy.start(to: server.endpoint, on: own, seed: 1)
        let port = try #require(proxy.endpoint.port)
        // The kernel accepts the clients while the loop is busy.
        let mayContinue = DispatchSemaphore(value: 0)
        own.execute { mayContinue.wait() }
        var clients: [LoopBound<StreamSocket>] = []
        for _ in 0..<Self.crowd {
            let deadline = MonotonicClock.now() + 60_000_000_000
            clients.append(try await StreamSocket.connect(to: "127.0.0.1", port: port, on: others, deadline: deadline))
        }
        mayContinue.signal()
        // On the loop itself, no step is missed.
        let counts = await withTaskExecutorPreference(own) {
            var counts: [UInt64] = []
            while counts.last ?? 0 < Self.crowd { counts.append(await proxy.statistics().connections) }
            return counts
        }
        #expect(counts.contains { $0 > 0 && $0 < Self.crowd })
        for client in clients { others.execute { client.value.close(abort: true) } }
        await proxy.stop()
        await server.stop()
    }

    private static let crowd: UInt64 = 100

    // MARK: Cuts

    @Test(
        "A client sees a reset as a reset and a FIN as a FIN",
        arguments: single,
        FaultProxy.Cut.allCases
    )
    func cut(name: String, how: FaultProxy.Cut) async throws {
        let proxied = try await ProxiedServer(name)
        let connection = try await proxied.connect()
        try await echo(connection, [1])
        await proxied.proxy.cut(how)
        let reason = await connection.closed()
        switch how {
        case .reset: #expect(reason.error?.code == .connectionReset)
        // An MQTT server has no close frame. A FIN is its regular close.
        case .finish: #expect(reason.error?.code == .connectionLost || reason == CloseReason(.peer, text: reason.text))
        }
        await proxied.proxy.wait { $0.openConnections == 0 }
        let next = try await proxied.connect()
        try await echo(next, [2])
        await proxied.stop(next)
    }

    @Test("A FIN comes after the bytes in flight")
    func finishBehindData() async throws {
        let pair = try await ProxiedPair("tcp://127.0.0.1:0")
        await pair.proxy.set(.dead)
        let bytes = [UInt8](repeating: 7, count: 10_000)
        #expect(await pair.client.send(Payload(bytes)).isSuccess)
        await pair.proxy.wait { $0.bufferedBytes >= bytes.count }
        await pair.proxy.cut(.finish)
        await pair.proxy.set(.none)
        #expect(try await pair.server.receive()?.bytes == bytes)
        #expect(await pair.server.closed().error?.code == .connectionLost)
        await pair.stop()
    }

    @Test("A proxy resets a client whose server does not exist")
    func noServer() async throws {
        let proxied = try await ProxiedServer("tcp")
        await proxied.server.stop()
        let connection = try await proxied.connect()
        #expect(await connection.closed().error?.code == .connectionReset)
        #expect(await proxied.proxy.statistics().failedConnections == 1)
        await proxied.stop(connection)
    }

    // MARK: Refusing

    @Test("A proxy can refuse connections and then listen again on the same port", arguments: ProxiedServer.names)
    func refuse(name: String) async throws {
        let proxied = try await ProxiedServer(name)
        for _ in 0..<3 {
            try await proxied.proxy.refuse(true)
            let error = await #expect(throws: TransportError.self) { _ = try await proxied.connect() }
            #expect(error?.code == .refused)
            try await proxied.proxy.refuse(false)
            let connection = try await proxied.connect()
            try await echo(connection, [1])
            await connection.close()
        }
        await proxied.stop()
    }

    @Test("Open connections survive while the proxy refuses new ones", arguments: ProxiedServer.streams)
    func refuseKeeps(name: String) async throws {
        let proxied = try await ProxiedServer(name)
        let connection = try await proxied.connect()
        // All connections below are open then.
        try await echo(connection, [0])
        try await proxied.proxy.refuse(true)
        try await echo(connection, [1])
        await proxied.stop(connection)
    }

    /// A connection over HTTP tries to replace those below it.
    private static let single = ProxiedServer.streams.filter { !$0.hasPrefix("http") }

    @Test("A stopped proxy refuses new connections and resets the open ones", arguments: single)
    func stop(name: String) async throws {
        let proxied = try await ProxiedServer(name)
        let connection = try await proxied.connect()
        await proxied.proxy.stop()
        #expect(await connection.closed().error?.code == .connectionReset)
        let error = await #expect(throws: TransportError.self) { _ = try await proxied.connect() }
        #expect(error?.code == .refused)
        await proxied.stop()
    }
}
