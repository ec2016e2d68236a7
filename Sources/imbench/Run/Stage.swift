import EmbeddedServers
import Protocols
import SocketIO
import TransportAPI
import Transports

/// What all rows of a run share: the two loops, one for each side, and the servers.
final class Stage {
    /// Where clients live.
    let clientLoop: EventLoop
    private let serverLoop: EventLoop
    private let registry: TransportRegistry
    private let outside: [Endpoint]
    private let seed: UInt64
    private var servers: [String: EmbeddedServer] = [:]

    /// Starts the loops, on cores of their own where a placement is given; before they sleep they poll as `polling` says.
    init(
        registry: TransportRegistry,
        outside: [Endpoint],
        seed: UInt64,
        placement: ThreadPlacement?,
        polling: Polling = .never
    ) throws(SystemFailure) {
        clientLoop = try makeLoop("im-client")
        serverLoop = try makeLoop("im-server")
        self.registry = registry
        self.outside = outside
        self.seed = seed
        for loop in [clientLoop, serverLoop] { loop.polling = polling }
        guard let placement else { return }
        clientLoop.execute { CoreMask(only: placement.near).applyToThisThread() }
        serverLoop.execute { CoreMask(only: placement.far).applyToThisThread() }
    }

    /// The recipe for connections of a transport whose messages come back, by way of an outside server or of an embedded one.
    ///
    /// - Parameter unique: tells this row's clients from all others.
    func transport(_ name: String, unique: String) throws(TransportError) -> any Transport {
        let descriptor = try registry.transport(named: name)
        var endpoint: Endpoint
        if let given = outside.first(where: { $0.scheme == name }) {
            endpoint = given
        } else {
            endpoint = try server(name).endpoint
        }
        for option in descriptor.loopback("\(seed)-\(unique)")
        where !endpoint.options.contains(where: { $0.name == option.name }) {
            endpoint.options.append(option)
        }
        return try descriptor.make(endpoint, clientLoop)
    }

    private func server(_ name: String) throws(TransportError) -> EmbeddedServer {
        if let running = servers[name] { return running }
        let (loop, registry) = (serverLoop, registry)
        let started: Result<EmbeddedServer, TransportError> = runBlocking(on: loop) {
            do throws(TransportError) {
                return .success(
                    try await EmbeddedServer.start("\(name)://127.0.0.1:0", .echo, on: loop, registry: registry)
                )
            } catch {
                return .failure(error)
            }
        }
        let server = try started.get()
        servers[name] = server
        return server
    }

    /// Stops the servers.
    func close() {
        for server in servers.values { runBlocking(on: serverLoop) { await server.stop() } }
        servers = [:]
    }
}
