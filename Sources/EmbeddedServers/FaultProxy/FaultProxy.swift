import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports

/// A server's stand-in that lies between it and its clients and makes the path as bad as is asked for: a TCP proxy for
/// transports over streams, a UDP proxy for those over datagrams. The bytes themselves are never touched.
///
/// ```swift
/// let proxy = try await FaultProxy.start(to: server.endpoint, seed: 7)
/// let connection = try await TransportRegistry.standard.transport(for: proxy.endpoint).connect(timeout: .seconds(10))
/// await proxy.set(PathFaults(delay: .milliseconds(80), loss: 0.02))
/// ```
///
/// Of each connection and way it holds at most 256 KiB; then streams are no longer read, and datagrams are lost. What it
/// can't do is keep a kernel from answering: a TCP connection is accepted even when the path is dead, only that nothing
/// comes back over it; and a UDP server that is not there shows as silence.
public final class FaultProxy: Sendable {
    /// How a connection is cut.
    public enum Cut: String, Sendable, Hashable, CaseIterable {
        /// By RST to both sides; what is on its way is lost.
        case reset
        /// By FIN to both sides, behind what is on its way.
        case finish
    }

    /// The most connections at a time. Further ones wait in the kernel; over UDP they take the place of the client that has
    /// been silent for longest.
    public static let maximumClients = 1024
    /// The most bytes held for one way of one connection, besides a datagram that waits to be overtaken.
    public static let maximumBytesHeld = DelayLine.maximumBytes

    /// Where clients reach it: the target's endpoint, but with this machine's address and a port that the system chose.
    public let endpoint: Endpoint
    private let engine: LoopBound<Box<any ProxyEngine>>

    /// Starts a proxy with a good path to `target`.
    ///
    /// Over TCP each client's connection has one to the server, and is reset if that can't be opened within 10 s. Over UDP
    /// the first address of the host is used, and each client's address gets a socket of its own toward it.
    ///
    /// - Parameter seed: decides the fate of each datagram; the same for the same seed and the same order of datagrams.
    /// - Throws: `.invalidConfiguration` if the transport is unknown or has no network below it; what the resolver said.
    public static func start(
        to target: Endpoint,
        on loop: EventLoop = .shared,
        seed: UInt64,
        registry: TransportRegistry = .standard
    ) async throws(TransportError) -> FaultProxy {
        let descriptor = try registry.transport(named: target.scheme)
        guard let port = target.port ?? descriptor.defaultPort, descriptor.defaultPort != nil else {
            throw .configuration("scheme", "'\(target.scheme)' has no network below it that could fail")
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
                    ? try DatagramProxy(to: first, path) : try StreamProxy(to: target.host, port: port, path)
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

    /// Makes the path as bad as this from now on, for what is on its way as well.
    public func set(_ faults: PathFaults) async {
        await run { engine in
            engine.path.faults = faults.bounded
            engine.faultsChanged()
        }
    }

    /// Cuts all connections that there are. Over UDP, which has none, all clients are forgotten with what is on its way, and
    /// the server hears of each again from another address.
    public func cut(_ how: Cut) async {
        await run { $0.cut(how) }
    }

    /// Refuses new connections: nobody listens at the port. Over UDP nobody takes datagrams there either, which the clients'
    /// kernels are told by ICMP. With `false` the proxy listens again, at the same port, which it has kept.
    ///
    /// - Throws: what the system said, which may have no descriptors left.
    public func refuse(_ on: Bool) async throws(TransportError) {
        let result: Result<Void, TransportError> = await run { engine in
            do throws(SystemError) { return .success(try engine.refuse(on)) } catch {
                return .failure(TransportError(error, .connect))
            }
        }
        try result.get()
    }

    /// UDP: the server sees all clients come from other ports from now on, as after a NAT has forgotten them; what is on its
    /// way to their old ones is lost. Over TCP this does nothing.
    public func rebindClients() async {
        await run { $0.rebindClients() }
    }

    /// What it has done so far.
    public func statistics() async -> FaultStatistics {
        await run { engine in
            var statistics = engine.path.statistics
            (statistics.openConnections, statistics.bytesHeld) = engine.load
            return statistics
        }
    }

    /// Stops listening and resets all connections. The port stays this proxy's until it is let go: nobody serves there.
    public func stop() async {
        await run { $0.stop() }
    }

    private func run<Value: Sendable>(_ body: @escaping @Sendable (any ProxyEngine) -> Value) async -> Value {
        await engine.loop.run { [engine] in body(engine.value.value) }
    }
}

extension EventLoop {
    /// Runs `body` on the loop and gives what it gives.
    fileprivate func run<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            execute { continuation.resume(returning: body()) }
        }
    }
}
