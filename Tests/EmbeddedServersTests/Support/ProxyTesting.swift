import EmbeddedServers
import SocketIO
import Testing
import TransportAPI
import Transports
import TrialCertificates

/// A proxy in front of a server, and connections through it.
struct ProxiedServer {
    static let registry = TransportRegistry.available
    /// The transports that have a network below them.
    static let names = registry.transports.filter { $0.defaultPort != nil }.map(\.name)
    static let streams = registry.transports.filter { $0.defaultPort != nil && !$0.isDatagram }.map(\.name)

    let server: EmbeddedServer
    let proxy: FaultProxy
    /// Keeps the server's port reserved when the server has stopped.
    private let port: ReservedPort

    /// An echo server behind a good path. For MQTT it is a broker.
    init(_ name: String) async throws {
        port = try ReservedPort(isDatagram: Self.registry.transport(named: name).isDatagram)
        server = try await EmbeddedServer.start("\(name)://\(port.address)", registry: Self.registry)
        proxy = try await FaultProxy.start(to: server.endpoint, seed: 1)
    }

    /// A client whose messages come back to it.
    func connect() async throws -> any Connection {
        var endpoint = proxy.endpoint
        endpoint.options += try Self.registry.transport(named: endpoint.scheme).loopback("proxied")
        return try await Self.registry.transport(for: endpoint).connect(timeout: .seconds(20))
    }

    func stop(_ connections: any Connection...) async {
        for connection in connections { await connection.close() }
        await proxy.stop()
        await server.stop()
    }
}

/// A client and the server's connection from `accept`, with a proxy in between.
struct ProxiedPair {
    let listener: any Listener
    let proxy: FaultProxy
    let client: any Connection
    let server: any Connection

    init(_ url: String, seed: UInt64 = 1) async throws {
        let registry = TransportRegistry.trial
        let listener = try await registry.listen(url)
        proxy = try await FaultProxy.start(to: listener.endpoint, seed: seed)
        async let accepted = listener.accept()
        let connection = try await registry.transport(for: proxy.endpoint).connect(timeout: .seconds(20))
        // A server of plain datagrams knows its client from the first datagram on.
        #expect(await connection.send(Payload(text: "hello")).isSuccess)
        let other = try #require(try await accepted)
        #expect(try await other.receive()?.bytes == Array("hello".utf8))
        (self.listener, client, server) = (listener, connection, other)
    }

    func stop() async {
        await proxy.set(.none)
        await client.close()
        await server.close()
        await proxy.stop()
        await listener.close()
    }
}

extension FaultProxy {
    /// Waits until the statistics satisfy `condition`. The suite's time limit ends a wait without end.
    @discardableResult
    func wait(until condition: (FaultStatistics) -> Bool) async -> FaultStatistics {
        while true {
            let statistics = await statistics()
            if condition(statistics) { return statistics }
            // Polling without a pause would take the processor from the code that the test waits for.
            await withCheckedContinuation { continuation in
                EventLoop.shared.execute {
                    let soon = MonotonicClock.now() + 2_000_000
                    _ = EventLoop.shared.schedule(at: soon) { continuation.resume() }
                }
            }
        }
    }
}
