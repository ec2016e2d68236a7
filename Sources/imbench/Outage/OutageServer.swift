import EmbeddedServers
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
    let ledger: LoopConfined<OutageLedger>
    private let address: SocketAddress?
    private let isDatagram: Bool
    private let kind: Kind
    private let loop: EventLoop
    private let running: LoopConfined<Running>

    private final class Running {
        var listener: (any Listener)?
        var broker: EmbeddedServer?
        /// Holds the port while the server is down.
        var reserved: ReservedPort?
    }

    /// Starts a server for a transport, on a port of the system's choice.
    static func start(
        _ transport: TransportDescriptor,
        _ configuration: SupervisorConfiguration,
        _ ledger: LoopConfined<OutageLedger>,
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
        let running = LoopConfined(Running(), to: loop)
        let endpoint = try await open(Endpoint("\(transport.name)://127.0.0.1:0"), kind, ledger, running, loop)
        return OutageServer(endpoint, isDatagram: transport.isDatagram, ledger, kind, loop, running)
    }

    private init(
        _ endpoint: Endpoint,
        isDatagram: Bool,
        _ ledger: LoopConfined<OutageLedger>,
        _ kind: Kind,
        _ loop: EventLoop,
        _ running: LoopConfined<Running>
    ) {
        self.endpoint = endpoint
        self.isDatagram = isDatagram
        address = SocketAddress(numeric: "127.0.0.1", port: endpoint.port ?? 0)
        self.ledger = ledger
        self.kind = kind
        self.loop = loop
        self.running = running
    }

    private static func open(
        _ endpoint: Endpoint,
        _ kind: Kind,
        _ ledger: LoopConfined<OutageLedger>,
        _ running: LoopConfined<Running>,
        _ loop: EventLoop
    ) async throws(TransportError) -> Endpoint {
        switch kind {
        case .sessions(let server):
            let listener = try await TransportRegistry.measured.listen(endpoint.description, on: loop)
            await loop.perform { running.value.listener = listener }
            Task(executorPreference: loop) {
                // A listener ends when it is closed; what its clients meet then is what is measured.
                do throws(TransportError) { try await server.serve(listener) } catch {}
            }
            return listener.endpoint
        case .broker:
            let broker = try await EmbeddedServer.broker(endpoint, on: loop) { ledger.value.takeOrigin($0) }
            await loop.perform { running.value.broker = broker }
            return broker.endpoint
        }
    }

    /// Says goodbye to all clients and stops listening.
    func stop() async {
        let (listener, broker) = await loop.perform { [running] in (running.value.listener, running.value.broker) }
        await listener?.close()
        if case .sessions(let server) = kind { await server.dropLinks() }
        await broker?.stop()
        await loop.perform { [running, address, isDatagram] in
            guard let address else { return }
            running.value.reserved = try? ReservedPort(address, isDatagram: isDatagram)
        }
    }

    /// Listens again at the same port.
    func startAgain() async throws(TransportError) {
        await loop.perform { [running] in running.value.reserved = nil }
        _ = try await Self.open(endpoint, kind, ledger, running, loop)
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

    /// Waits for a time.
    func pause(_ duration: Duration) async {
        await withCheckedContinuation { continuation in
            execute { [self] in
                _ = schedule(at: MonotonicClock.now() + duration.wholeNanoseconds) { continuation.resume() }
            }
        }
    }
}
