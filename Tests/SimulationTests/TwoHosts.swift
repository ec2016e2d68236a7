import SocketIO
import TransportAPI
import Transports

@testable import EmbeddedServers
@testable import Simulation

/// A client and a server in virtual time, and the path between them.
final class TwoHosts: @unchecked Sendable {
    // Unchecked, because only the simulating thread uses it.

    static let second: Int64 = 1_000_000_000

    let world: SimulatedWorld
    let server: SimulatedProcess
    let client: SimulatedProcess
    let serverLoop: EventLoop
    let clientLoop: EventLoop
    let registry: TransportRegistry
    /// Why the connections of supervisors, and those of the server's sessions, have ended.
    var ends: [CloseReason] = []
    var outcomes: [SendOutcome] = []
    var received = 0
    var isOpen = false
    var error: String?
    private var broker: EmbeddedServer?

    init(seed: UInt64 = 1, hasEdges: Bool = true, buffers: Int = 131_072) {
        world = SimulatedWorld(seed: seed)
        server = world.startProcess("server")
        client = world.startProcess("client")
        serverLoop = world.makeLoop(in: server, hasEdges: hasEdges)
        clientLoop = world.makeLoop(in: client, hasEdges: hasEdges)
        registry = .encrypted(by: TLSContexts(ToyTLS(seed: seed)))
        world.kernel.conditions.buffers = buffers...buffers
    }

    /// Changes the path between the hosts.
    func setPath(_ change: (inout SimulatedPath) -> Void) {
        var path = world.kernel.path(client.host, server.host)
        change(&path)
        world.kernel.setPath(client.host, server.host, path)
    }

    func onServer(_ work: @escaping @Sendable () async throws -> Void) { start(server, serverLoop, work) }
    func onClient(_ work: @escaping @Sendable () async throws -> Void) { start(client, clientLoop, work) }

    private func start(
        _ process: SimulatedProcess,
        _ loop: EventLoop,
        _ work: @escaping @Sendable () async throws -> Void
    ) {
        world.run(in: process) {
            _ = Task(executorPreference: loop) {
                do { try await work() } catch { self.error = "\(error)" }
            }
        }
    }

    /// Runs until `condition` holds. Returns whether it does within the time.
    @discardableResult
    func run(seconds: Double, _ condition: () -> Bool = { false }) -> Bool {
        let end = world.now + Int64(seconds * Double(Self.second))
        return world.run(until: end, steps: world.steps + 2_000_000) { error != nil || condition() } == .met
    }

    /// Connects a supervisor to the server, and records its state.
    func supervise(_ url: String, _ configuration: SupervisorConfiguration) throws -> Supervisor {
        let supervisor = try Supervisor(url, configuration, registry: registry, on: clientLoop)
        onClient {
            for await state in supervisor.states {
                if state.isOpen { self.isOpen = true }
                if case .waiting(_, let reason) = state { self.ends.append(reason) }
            }
        }
        supervisor.connect()
        return supervisor
    }

    /// Starts a session server, whose sessions receive. Its address is the result.
    func serveSessions(
        _ scheme: String,
        onSession: @escaping @Sendable (Session) -> Void = { _ in }
    ) -> () -> String? {
        let address = Locked<String?>(nil)
        onServer {
            let listener = try await self.registry.listen("\(scheme)://\(self.server.hostName):0", on: self.serverLoop)
            address.withLock { $0 = listener.endpoint.description }
            let sessions = SessionServer(SessionServer.Configuration(), on: self.serverLoop) { session in
                self.onServer { for await message in session.messages { self.received += message.bytes.count } }
                self.onServer {
                    for await state in session.states {
                        if case .disconnected(_, let reason) = state { self.ends.append(reason) }
                    }
                }
                onSession(session)
            }
            try await sessions.serve(listener)
        }
        return { address.withLock { $0 } }
    }

    /// Starts a broker. Its address is the result.
    func serveBroker(_ scheme: String) -> () -> String? {
        let address = Locked<String?>(nil)
        onServer {
            let url = "\(scheme)://\(self.server.hostName):0"
            let broker = try await EmbeddedServer.start(url, on: self.serverLoop, registry: self.registry)
            self.broker = broker
            address.withLock { $0 = broker.endpoint.description }
        }
        return { address.withLock { $0 } }
    }

    /// Starts a server that receives from plain connections. Its address is the result.
    func serve(_ scheme: String) -> () -> String? {
        let address = Locked<String?>(nil)
        onServer {
            let listener = try await self.registry.listen("\(scheme)://\(self.server.hostName):0", on: self.serverLoop)
            address.withLock { $0 = listener.endpoint.description }
            while let connection = try await listener.accept() {
                self.onServer {
                    while let message = try await connection.receive() { self.received += message.bytes.count }
                }
            }
        }
        return { address.withLock { $0 } }
    }
}
