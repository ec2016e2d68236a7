import Primitives
import Protocols
import SocketIO
import TransportAPI

extension TransportDescriptor {
    /// The descriptor of connections inside this process, for tests: `memory://name`. Host and port name the listener,
    /// and no name is resolved. Without a port, a client connects to the only listener of that name. As with WebSocket,
    /// a server can decide about each client by the path, query and headers of the client's URL.
    public static let memory: TransportDescriptor = {
        var descriptor = withinProcess
        descriptor.answersClients = true
        descriptor.decidesHandshakes = true
        descriptor.isInProcess = true
        descriptor.annotate = annotateFrame
        descriptor.cores = { (endpoint) throws(TransportError) in
            let core = try MemoryClientSettings.list.read(endpoint).shared.core()
            return { CorePairing(client: core, server: core) }
        }
        return descriptor
    }()

    private static let withinProcess = TransportDescriptor(
        name: "memory",
        clientSettings: MemoryClientSettings.list.rows,
        serverSettings: MemorySettings.list.rows,
        make: { (endpoint, context) throws(TransportError) in
            let settings = try MemoryClientSettings.list.read(endpoint, ignoring: []) {
                $0.handshake.contextHeaders = context.headers
            }
            return MemoryTransport(
                endpoint: endpoint,
                loop: context.loop,
                limits: settings.shared.limits,
                core: try settings.shared.core(),
                request: ClientRequest(
                    path: endpoint.path.isEmpty ? "/" : endpoint.path,
                    query: settings.handshake.query ?? "",
                    subprotocols: [],
                    headers: try settings.handshake.headers(for: endpoint)
                )
            )
        },
        serve: { (endpoint, loop, serving) async throws(TransportError) in
            let settings = try MemorySettings.list.read(endpoint, ignoring: MemoryClientSettings.list.rows)
            let (limits, core) = (settings.limits, try settings.core())
            return try await running(on: loop) { () async throws(TransportError) in
                let queue = AcceptQueue(observer: serving.observer, on: loop)
                let handler = serving.handler(queue)
                let acceptor = try MemoryAcceptor(
                    endpoint,
                    queue,
                    on: loop,
                    limits: limits,
                    handler: handler,
                    core: core,
                    decide: serving.decide
                )
                return CoreListener(endpoint, acceptor, queue, serving, loop)
            }
        }
    )
}

/// The settings of both sides of a connection inside the process.
private struct MemorySettings: Sendable {
    var limits = ConnectionLimits()
    var maximumMessageSize = TCPConfiguration().maximumMessageSize

    static let list = {
        var list = SettingList(
            MemorySettings(),
            [.maximumMessageSize(\.maximumMessageSize, atMost: 0x7fff_ffff)]
        )
        list.append(ConnectionLimits.settings(keepalive: .seconds(60)), at: \.limits)
        return list
    }()

    func core() throws(TransportError) -> FramedTCPCore {
        try FramedTCPCore(TCPConfiguration(maximumMessageSize: maximumMessageSize))
    }
}

/// The settings of a client inside the process.
private struct MemoryClientSettings: Sendable {
    var shared = MemorySettings()
    var handshake = HandshakeSettings()

    static let list = {
        var list = SettingList(MemoryClientSettings())
        list.append(HandshakeSettings.requestList, at: \.handshake)
        list.append(MemorySettings.list, at: \.shared)
        return list
    }()
}

/// The listeners of this process, by name.
private enum MemoryHub {
    struct Address: Hashable {
        var host: String
        var port: UInt16
    }

    struct Entry {
        let acceptor: LoopBound<MemoryAcceptor>
        let decide: (@Sendable (ClientRequest) -> ClientDecision)?
    }

    struct State {
        var listeners: [Address: Entry] = [:]
        var nextPort: UInt16 = 1024
    }

    static let state = Locked(State())

    /// Adds a listener. Port 0 selects a free port. Returns `nil` if the name is taken, or if there is no free port.
    static func enter(_ host: String, _ port: UInt16, _ entry: Entry) -> UInt16? {
        state.withLock { state in
            var chosen = port
            if port == 0 {
                chosen = state.nextPort
                while chosen == 0 || state.listeners[Address(host: host, port: chosen)] != nil {
                    chosen &+= 1
                    if chosen == state.nextPort { return nil }
                }
            }
            guard state.listeners[Address(host: host, port: chosen)] == nil else { return nil }
            if port == 0 { state.nextPort = chosen &+ 1 }
            state.listeners[Address(host: host, port: chosen)] = entry
            return chosen
        }
    }

    static func leave(_ host: String, _ port: UInt16) {
        state.withLock { $0.listeners[Address(host: host, port: port)] = nil }
    }

    /// Returns the listeners of this name at this port, or at any port if it is `nil`.
    static func find(_ host: String, _ port: UInt16?) -> [Entry] {
        state.withLock { state in
            guard let port else { return state.listeners.filter { $0.key.host == host }.map(\.value) }
            return state.listeners[Address(host: host, port: port)].map { [$0] } ?? []
        }
    }
}

/// The transport of in-memory connections.
private struct MemoryTransport: Transport {
    let endpoint: Endpoint
    let loop: EventLoop
    let limits: ConnectionLimits
    let core: FramedTCPCore
    /// The part of this client that a server sees.
    let request: ClientRequest

    var capabilities: Capabilities { limits.describe(core.capabilities) }

    nonisolated(nonsending) func connect(timeout: Duration) async throws(TransportError) -> any Connection {
        let started = MonotonicClock.now()
        let deadline = Instant(nanoseconds: started).advanced(by: max(.zero, timeout)).nanoseconds
        return try await running(on: loop) { () async throws(TransportError) in
            if Task.isCancelled { throw .cancelled(.connect) }
            let entries = MemoryHub.find(endpoint.host, endpoint.port)
            guard let entry = entries.first else {
                throw TransportError(.refused, .connect, "connection refused: no listener at \(endpoint)")
            }
            guard entries.count == 1 else {
                let sentence = "\(entries.count) listeners are named \(endpoint.host); add the port to the URL"
                throw TransportError(.invalidConfiguration, .connect, sentence)
            }
            let (acceptor, identity) = (entry.acceptor, try await identity(entry))
            let (there, back) = (MemoryPipe(), MemoryPipe())
            acceptor.loop.execute { acceptor.value.accept(incoming: there, outgoing: back, identity) }
            let channel = MemoryChannel(incoming: back, outgoing: there, on: loop)
            let driver = ConnectionDriver(core, over: channel, on: loop, limits: limits, started: started)
            return try await driver.openConnection(deadline: deadline)
        }
    }

    /// Returns the identity that the server gives to this client.
    ///
    /// - Throws: The error of the HTTP status with which the server refuses.
    private func identity(_ entry: MemoryHub.Entry) async throws(TransportError) -> Identity? {
        guard let decide = entry.decide else { return nil }
        let decision = try await running(on: entry.acceptor.loop) { () async throws(TransportError) in decide(request) }
        switch decision {
        case .accept: return nil
        case .acceptAs(let identity): return identity
        case .refuse(let status, let headers):
            let retryAfter = headers.retryAfter(at: WallClock.unixTime())
            let status = ClientDecision.refusalStatus(status)
            entry.acceptor.loop.execute { [acceptor = entry.acceptor] in acceptor.value.noteRefusal(status) }
            throw .refusedRequest(
                status: status,
                retryAfter: retryAfter,
                path: request.path,
                headers: request.headers
            )
        }
    }
}

/// Accepts in-memory connections. Lives on its loop.
private final class MemoryAcceptor: DriverOwner, Acceptor {
    private let host: String
    private let loop: EventLoop
    private let limits: ConnectionLimits
    private let handler: any ConnectionHandler
    private let core: FramedTCPCore
    private let queue: AcceptQueue
    private var live: [UInt64: ConnectionDriver] = [:]
    private var isClosed = false
    var emptyWaiters = Waiters<Void>()
    private(set) var port: UInt16?

    init(
        _ endpoint: Endpoint,
        _ queue: AcceptQueue,
        on loop: EventLoop,
        limits: ConnectionLimits,
        handler: any ConnectionHandler,
        core: FramedTCPCore,
        decide: (@Sendable (ClientRequest) -> ClientDecision)?
    ) throws(TransportError) {
        host = endpoint.host
        self.loop = loop
        self.limits = limits
        self.handler = handler
        self.core = core
        self.queue = queue
        let entry = MemoryHub.Entry(acceptor: LoopBound(self, to: loop), decide: decide)
        port = MemoryHub.enter(host, endpoint.port ?? 0, entry)
        guard port != nil else { throw TransportError(.addressInUse, .connect, "\(endpoint) is in use") }
    }

    func accept(incoming: MemoryPipe, outgoing: MemoryPipe, _ identity: Identity?) {
        let channel = MemoryChannel(incoming: incoming, outgoing: outgoing, on: loop)
        guard !isClosed, queue.hasRoom else { return channel.close(abort: true) }
        var core = core
        core.identity = identity
        let driver = ConnectionDriver(core, over: channel, on: loop, limits: limits)
        driver.handler = handler
        live[driver.number] = driver
        driver.owner = self
        driver.start()
    }

    /// Notifies the observer of a client that the server's decision refused.
    func noteRefusal(_ status: Int) {
        let error = TransportError.refused(status: status, ClientDecision.refusalReason)
        queue.note(nil, CloseReason(error), wasOpen: false)
    }

    func ended(_: ConnectionDriver, _ reason: CloseReason, wasOpen: Bool) {
        queue.note(nil, reason, wasOpen: wasOpen)
    }

    func closed(_ driver: ConnectionDriver) {
        live[driver.number] = nil
        if live.isEmpty { emptyWaiters.resumeAll(returning: ()) }
    }

    var isEmpty: Bool { live.isEmpty }

    func close(endConnections: Bool) {
        guard !isClosed else { return }
        isClosed = true
        if let port { MemoryHub.leave(host, port) }
        guard endConnections else { return }
        for driver in live.values { driver.beginClose(.user) }
    }
}
