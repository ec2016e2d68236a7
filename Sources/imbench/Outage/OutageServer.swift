import EmbeddedServers
import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports

/// The server of one row: it can be stopped and started again at its port, and writes down every message that it takes.
/// Its sessions outlive its restarts, as those of a server that stores them do.
final class OutageServer: Sendable {
    /// What the server takes its messages from.
    private enum Kind {
        case sessions(SessionServer)
        /// The transport has a broker, which acknowledges what it takes.
        case broker
    }

    let endpoint: Endpoint
    let ledger: LoopBound<OutageLedger>
    /// Holds the port, also while the server is down.
    private let reserved: ReservedPort
    private let kind: Kind
    private let loop: EventLoop
    private let running: LoopBound<Running>

    private final class Running {
        var listener: (any Listener)?
        var broker: EmbeddedServer?
    }

    /// Starts a server for a transport, on a port of the system's choice.
    static func start(
        _ transport: TransportDescriptor,
        _ configuration: SupervisorConfiguration,
        _ ledger: LoopBound<OutageLedger>,
        on loop: EventLoop
    ) async throws(TransportError) -> OutageServer {
        let capabilities = try transport.make(Endpoint("\(transport.name)://127.0.0.1:1"), loop).capabilities
        var kind = Kind.broker
        if !capabilities.routesByTopic {
            var settings = SessionServer.Configuration()
            settings.supervisor = configuration
            settings.supervisor.messageBuffer = 16
            kind = .sessions(
                SessionServer(settings, on: loop) { session in
                    let messages = session.messages
                    Task(executorPreference: loop) {
                        for await message in messages { await ledger.value.take(message) }
                    }
                }
            )
        }
        let reserved: ReservedPort
        do throws(SystemError) {
            reserved = try ReservedPort(isDatagram: transport.isDatagram)
        } catch {
            throw TransportError(error, .connect)
        }
        let endpoint = try Endpoint("\(transport.name)://\(reserved.address)")
        let server = OutageServer(endpoint, reserved, ledger, kind, loop)
        try await server.open()
        return server
    }

    private init(
        _ endpoint: Endpoint,
        _ reserved: ReservedPort,
        _ ledger: LoopBound<OutageLedger>,
        _ kind: Kind,
        _ loop: EventLoop
    ) {
        self.endpoint = endpoint
        self.reserved = reserved
        self.ledger = ledger
        self.kind = kind
        self.loop = loop
        running = LoopBound(Running(), to: loop)
    }

    /// Listens, for the first time or again at the same port.
    func open() async throws(TransportError) {
        switch kind {
        case .sessions(let server):
            let listener = try await TransportRegistry.measured.listen(endpoint.description, on: loop)
            await loop.perform { [running] in running.value.listener = listener }
            Task(executorPreference: loop) {
                // A listener ends when it is closed; what its clients meet then is what is measured.
                do throws(TransportError) { try await server.serve(listener) } catch {}
            }
        case .broker:
            let broker = try await EmbeddedServer.broker(endpoint, on: loop) { [ledger] in ledger.value.takeOrigin($0) }
            await loop.perform { [running] in running.value.broker = broker }
        }
    }

    /// Says goodbye to all clients and stops listening.
    func stop() async {
        let (listener, broker) = await loop.perform { [running] in (running.value.listener, running.value.broker) }
        await listener?.close()
        if case .sessions(let server) = kind { await server.dropConnections() }
        await broker?.stop()
    }

    /// Ends everything.
    func close() async {
        await stop()
        if case .sessions(let server) = kind { await server.close() }
    }
}

extension EventLoop {
    /// Runs `body` on the loop and gives what it gives.
    func perform<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            execute { continuation.resume(returning: body()) }
        }
    }
}
