import CommandSupport
import EmbeddedServers
import EmulatedNetworks
import Measuring
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports

/// The two loops of a run, one for each side, and its servers. All rows share them.
final class Stage {
    /// The loop of the clients.
    let clientLoop: EventLoop
    /// The loop of the servers.
    let serverLoop: EventLoop
    /// The address at which servers listen.
    let host: String
    private let registry: TransportRegistry
    let outside: [Endpoint]
    private let seed: UInt64
    private var servers: [String: EmbeddedServer] = [:]
    /// The transports with an identifier of their own.
    private var identifiers = 0

    /// Starts the loops on the cores of `placement`, with this polling before they sleep.
    ///
    /// - Parameter lab: the network between client and server; `nil` for loopback.
    init(
        registry: TransportRegistry,
        outside: [Endpoint],
        seed: UInt64,
        placement: ThreadPlacement?,
        polling: Polling = .never,
        lab: NetworkLab? = nil
    ) throws(SystemFailure) {
        clientLoop = try makeLoop("im-client")
        serverLoop = try makeLoop("im-server")
        self.registry = registry
        self.outside = outside
        self.seed = seed
        host = lab == nil ? "127.0.0.1" : NetworkLab.serverHost
        try lab?.move(clientLoop, to: .client)
        try lab?.move(serverLoop, to: .server)
        for loop in [clientLoop, serverLoop] { loop.polling = polling }
        guard let placement else { return }
        clientLoop.execute { CoreMask(only: placement.near).applyToThisThread() }
        serverLoop.execute { CoreMask(only: placement.far).applyToThisThread() }
    }

    /// A transport to an outside or embedded server that sends each message back.
    ///
    /// - Parameters:
    ///   - options: further options of the URL.
    ///   - serverOptions: the options of the embedded server, as in `hold=1s`.
    func transport(
        _ name: String,
        options: [Endpoint.Option] = [],
        serverOptions: String = ""
    ) throws(TransportError) -> any Transport {
        let descriptor = try registry.transport(named: name)
        var endpoint: Endpoint
        if let given = outside.first(where: { $0.scheme == name }) {
            endpoint = given
        } else {
            endpoint = try server(name, serverOptions).endpoint
        }
        endpoint.options += options
        identifiers += 1
        for option in descriptor.loopback(Self.identifier(seed, identifiers))
        where !endpoint.options.contains(where: { $0.name == option.name }) {
            endpoint.options.append(option)
        }
        return try descriptor.make(endpoint, ConnectionContext(on: clientLoop))
    }

    /// An identifier that distinguishes a client from all others of this run and of other runs, for a topic. All have the same
    /// length, because a message has its topic, so that rows can be compared by their bytes.
    static func identifier(_ seed: UInt64, _ number: Int) -> String {
        func digits(_ text: String, _ count: Int) -> String {
            String(repeating: "0", count: max(0, count - text.count)) + text
        }
        return digits(String(seed & 0xf_ffff_ffff, radix: 16), 9) + "-" + digits(String(number), 6)
    }

    /// Why there is no connection of a transport, with the address of the server.
    func failure(_ error: any Error, of name: String) -> String {
        let endpoint = outside.first { $0.scheme == name } ?? servers[name]?.endpoint
        let address = error is TransportError ? endpoint?.address : nil
        return (address.map { $0 + ": " } ?? "") + sentence(of: error)
    }

    private func server(_ name: String, _ options: String) throws(TransportError) -> EmbeddedServer {
        let key = options.isEmpty ? name : "\(name)?\(options)"
        if let running = servers[key] { return running }
        let (loop, registry, host) = (serverLoop, registry, host)
        let server = try tryBlocking(on: loop) { () async throws(TransportError) in
            try await EmbeddedServer.start("\(name)://\(host):0?\(options)", .echo, on: loop, registry: registry)
        }
        servers[key] = server
        return server
    }

    /// Stops the servers.
    func close() {
        for server in servers.values { runBlocking(on: serverLoop) { await server.stop() } }
        servers = [:]
    }
}
