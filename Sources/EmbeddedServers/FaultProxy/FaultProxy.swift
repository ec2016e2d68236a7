import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports

/// A proxy between clients and a server that adds the faults of a bad network path. It is a TCP proxy for transports
/// over streams, and a UDP proxy for those over datagrams. It never changes the bytes.
///
/// ```swift
/// let proxy = try await FaultProxy.start(to: server.endpoint, seed: 7)
/// let connection = try await TransportRegistry.standard.transport(for: proxy.endpoint).connect(timeout: .seconds(10))
/// await proxy.set(PathFaults(delay: .milliseconds(80), loss: 0.02))
/// ```
///
/// The proxy buffers at most 256 KiB of each connection and direction. Beyond that, streams are not read and datagrams are
/// lost. The proxy cannot keep a kernel from answering. A TCP connection is accepted even if the path is dead, but nothing
/// arrives over it. A UDP server that does not exist appears as silent.
public final class FaultProxy: Sendable {
    /// How connections are closed by ``cut(_:)``.
    public enum Cut: String, Sendable, Hashable, CaseIterable {
        /// By RST to both sides. Bytes in flight are lost.
        case reset
        /// By FIN to both sides, after the bytes in flight.
        case finish
    }

    /// The largest number of connections at a time. Further ones wait in the kernel. Over UDP, they replace the client
    /// that has been silent for longest.
    public static let maximumClients = 1024
    /// The largest number of bytes that are buffered for one direction of one connection, not counting a reordered
    /// datagram.
    public static let maximumBufferedBytes = DelayLine.maximumBytes

    /// The endpoint for clients: the target's endpoint, with this machine's address and a port that the system chose.
    public let endpoint: Endpoint
    private let engine: LoopBound<Box<any ProxyEngine>>

    /// Starts a proxy without faults.
    ///
    /// Over TCP, each connection of a client has its own connection to the server. It is reset if that one cannot be
    /// opened within 10 s. Over UDP, the first address of the host is used, and each client's address has its own
    /// socket to it.
    ///
    /// - Parameters:
    ///   - target: the endpoint of the server.
    ///   - loop: the loop of the proxy; the shared one by default.
    ///   - seed: determines the faults of each datagram. They are the same for the same seed and the same order of
    ///     datagrams.
    ///   - registry: the transports for `target`; the standard ones by default.
    ///   - host: the address at which clients reach the proxy, as a number; by default 127.0.0.1.
    /// - Throws: `.invalidConfiguration` if the transport is unknown or uses no network, or the error of the resolver
    ///   or of the system.
    public static func start(
        to target: Endpoint,
        on loop: EventLoop = .shared,
        seed: UInt64,
        registry: TransportRegistry = .standard,
        host: String = "127.0.0.1"
    ) async throws(TransportError) -> FaultProxy {
        let descriptor = try registry.transport(named: target.scheme)
        guard let port = target.port ?? descriptor.defaultPort, descriptor.defaultPort != nil else {
            let problem =
                "is \"\(target.scheme)\", which uses no network that could fail; use a transport over a network, such as "
                + "tcp://127.0.0.1, in its place"
            throw .configuration("scheme", problem)
        }
        let addresses: [SocketAddress]
        do throws(ConnectError) {
            let deadline = MonotonicClock.now() + 10_000_000_000
            addresses = try await Resolver.resolve(target.host, port: port, on: loop, deadline: deadline)
        } catch {
            throw TransportError(error)
        }
        guard let first = addresses.first else {
            throw TransportError(.nameNotFound, .resolve, "\(target.host) has no address")
        }
        let isDatagram = descriptor.isDatagram
        let made: Result<FaultProxy, TransportError> = await loop.run {
            do throws(SystemError) {
                let path = ProxyPath(seed: seed, on: loop)
                let engine: any ProxyEngine =
                    isDatagram
                    ? try DatagramProxy(to: first, path, at: host)
                    : try StreamProxy(to: target.host, port: port, path, at: host)
                return .success(FaultProxy(target, engine, on: loop))
            } catch {
                return .failure(TransportError(error, .connect))
            }
        }
        return try made.get()
    }

    private init(_ target: Endpoint, _ engine: any ProxyEngine, on loop: EventLoop) {
        var endpoint = target
        endpoint.host = engine.address.host
        endpoint.port = engine.address.port
        self.endpoint = endpoint
        self.engine = LoopBound(Box(engine), to: loop)
    }

    deinit {
        engine.loop.execute { [engine] in engine.value.value.stop() }
    }

    /// Sets the faults of the path, which also apply to bytes in flight.
    ///
    /// - Parameter faults: the faults from now on. They replace the earlier ones.
    public func set(_ faults: PathFaults) async {
        await run { engine in
            engine.path.faults = faults.bounded
            engine.faultsChanged()
        }
    }

    /// Closes all connections. Over UDP, which has none, the proxy forgets all clients and drops their datagrams in
    /// flight. To the server, each client then has a new address.
    ///
    /// - Parameter how: by RST or by FIN. Over UDP there is no difference.
    public func cut(_ how: Cut) async {
        await run { $0.cut(how) }
    }

    /// Refuses new connections, because no socket listens at the port. Over UDP, no socket receives datagrams there,
    /// and ICMP notifies the kernels of the clients.
    ///
    /// - Parameter on: whether to refuse. With `false`, the proxy listens at the same port again, which it has
    ///   reserved.
    /// - Throws: the error of the system, for example because no descriptors are left.
    public func refuse(_ on: Bool) async throws(TransportError) {
        let result: Result<Void, TransportError> = await run { engine in
            do throws(SystemError) { return .success(try engine.refuse(on)) } catch {
                return .failure(TransportError(error, .connect))
            }
        }
        try result.get()
    }

    /// Changes the ports of all clients as the server sees them, as a NAT does that has dropped their mappings.
    /// Datagrams in flight to their old ports are lost. Over TCP, this does nothing.
    public func rebindClients() async {
        await run { $0.rebindClients() }
    }

    /// Returns what the proxy has done so far.
    public func statistics() async -> FaultStatistics {
        await run { engine in
            var statistics = engine.path.statistics
            (statistics.openConnections, statistics.bufferedBytes) = engine.load
            return statistics
        }
    }

    /// Stops listening and resets all connections. The port stays reserved, and refuses connections, as long as the
    /// proxy exists.
    public func stop() async {
        await run { $0.stop() }
    }

    private func run<Value: Sendable>(_ body: @escaping @Sendable (any ProxyEngine) -> Value) async -> Value {
        await engine.loop.run { [engine] in body(engine.value.value) }
    }
}

extension EventLoop {
    /// Runs `body` on the loop and returns its result.
    fileprivate func run<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            execute { continuation.resume(returning: body()) }
        }
    }
}
