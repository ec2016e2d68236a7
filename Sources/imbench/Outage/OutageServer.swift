import EmbeddedServers
import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports
import Workloads

/// The server of one row. It can stop and start again at its port, and it records every message that it receives. Its
/// sessions outlive its restarts, as in a server that stores them.
final class OutageServer: Sendable {
    /// The source of the server's messages.
    private enum Kind {
        case sessions(SessionServer)
        /// The transport has a broker, which acknowledges messages.
        case broker
    }

    let endpoint: Endpoint
    let record: LoopBound<OutageRecord>
    /// Reserves the port, also while the server is stopped.
    private let reserved: ReservedPort
    private let kind: Kind
    private let loop: EventLoop
    private let running: LoopBound<Running>

    private final class Running {
        var listener: (any Listener)?
        var broker: EmbeddedServer?
    }

    /// Starts a server for a transport, on a port that the system chooses.
    static func start(
        _ transport: TransportDescriptor,
        _ configuration: SupervisorConfiguration,
        _ record: LoopBound<OutageRecord>,
        host: String,
        on loop: EventLoop
    ) async throws(TransportError) -> OutageServer {
        let capabilities = try transport.make(Endpoint("\(transport.name)://127.0.0.1:1"), ConnectionContext(on: loop))
            .capabilities
        var kind = Kind.broker
        if !capabilities.routesByTopic {
            var settings = SessionServer.Configuration()
            settings.supervisor = configuration
            settings.supervisor.messageBuffer = 16
            kind = .sessions(
                SessionServer(settings, on: loop) { session in
                    let messages = session.messages
                    Task(executorPreference: loop) {
                        for await message in messages { await record.value.take(message) }
                    }
                }
            )
        }
        let reserved: ReservedPort
        do throws(SystemError) {
            reserved = try ReservedPort(isDatagram: transport.isDatagram, host: host)
        } catch {
            throw TransportError(error, .connect)
        }
        let endpoint = try Endpoint("\(transport.name)://\(reserved.address)")
        let server = OutageServer(endpoint, reserved, record, kind, loop)
        try await server.open()
        return server
    }

    private init(
        _ endpoint: Endpoint,
        _ reserved: ReservedPort,
        _ record: LoopBound<OutageRecord>,
        _ kind: Kind,
        _ loop: EventLoop
    ) {
        self.endpoint = endpoint
        self.reserved = reserved
        self.record = record
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
                // A listener ends with an error when it is closed.
                do throws(TransportError) { try await server.serve(listener) } catch {}
            }
        case .broker:
            let broker = try await EmbeddedServer.broker(endpoint, on: loop, registry: .measured) { [record] in
                record.value.takeOrigin($0)
            }
            await loop.perform { [running] in running.value.broker = broker }
        }
    }

    /// Closes all connections and stops listening.
    func stop() async {
        let (listener, broker) = await loop.perform { [running] in (running.value.listener, running.value.broker) }
        await listener?.close()
        if case .sessions(let server) = kind { await server.dropConnections() }
        await broker?.stop()
    }

    /// Stops the server and ends its sessions.
    func close() async {
        await stop()
        if case .sessions(let server) = kind { await server.close() }
    }
}

/// The messages that the server of one row has received. It belongs to the server's loop.
final class OutageRecord {
    /// How often each message arrived, by its number.
    private(set) var taken: [Int: Int] = [:]
    private(set) var reordered = 0
    private var highest = -1
    private var origins: OriginFilter
    /// While set, the server processes no message.
    private var isSlow = false
    private var waiter: CheckedContinuation<Void, Never>?

    init() {
        var random = RandomSource.seeded(1)
        origins = OriginFilter(using: &random)
    }

    /// Records one message, and waits first while the server is slow.
    func take(_ payload: Payload) async {
        if isSlow { await withCheckedContinuation { waiter = $0 } }
        note(payload)
    }

    /// Records a message that a broker has acknowledged. It drops duplicates, as a supervisor that subscribes does.
    func takeOrigin(_ payload: Payload) {
        guard case .origin(let sender, let sequence, let message, _)? = try? SessionFrame(payload),
            origins.isNew(sender, sequence, message)
        else { return }
        note(message)
    }

    private func note(_ payload: Payload) {
        guard let number = Int(String(decoding: payload.bytes, as: UTF8.self)) else { return }
        taken[number, default: 0] += 1
        if number < highest { reordered += 1 }
        highest = max(highest, number)
    }

    func beSlow(_ isSlow: Bool) {
        self.isSlow = isSlow
        if !isSlow {
            waiter?.resume()
            waiter = nil
        }
    }
}
