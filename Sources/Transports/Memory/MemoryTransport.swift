import Primitives
import Protocols
import SocketIO
import TransportAPI

extension TransportDescriptor {
    /// The descriptor of connections inside this process, for tests: `memory://name`. Host and port name the listener,
    /// and no name is resolved. Without a port, a client connects to the only listener of that name.
    public static let memory: TransportDescriptor = {
        var descriptor = withinProcess
        descriptor.answersClients = true
        descriptor.annotate = annotateFrame
        descriptor.cores = { (endpoint) throws(TransportError) in
            let core = try memoryCore(OptionReader(endpoint, allowed: []))
            return { CorePairing(client: core, server: core) }
        }
        return descriptor
    }()

    private static let withinProcess = TransportDescriptor(
        name: "memory",
        make: { (endpoint, loop) throws(TransportError) in
            let options = try OptionReader(endpoint, allowed: [])
            return MemoryTransport(
                endpoint: endpoint,
                loop: loop,
                limits: try options.limits(),
                core: try memoryCore(options)
            )
        },
        serve: { (endpoint, loop, serving) async throws(TransportError) in
            let options = try OptionReader(endpoint, allowed: [])
            let (limits, core) = (try options.limits(), try memoryCore(options))
            return try await running(on: loop) { () async throws(TransportError) in
                let queue = AcceptQueue(observer: serving.observer, on: loop)
                let handler = serving.handler(queue)
                let acceptor = try MemoryAcceptor(
                    endpoint,
                    queue,
                    on: loop,
                    limits: limits,
                    handler: handler,
                    core: core
                )
                return CoreListener(endpoint, acceptor, queue, serving, loop)
            }
        }
    )

    private static func memoryCore(_ options: OptionReader) throws(TransportError) -> FramedTCPCore {
        var configuration = TCPConfiguration()
        configuration.maximumMessageSize = try options.maximumMessageSize(
            default: configuration.maximumMessageSize,
            atMost: 0x7fff_ffff
        )
        return try FramedTCPCore(configuration)
    }
}

/// The listeners of this process, by name.
private enum MemoryHub {
    struct Address: Hashable {
        var host: String
        var port: UInt16
    }

    struct State {
        var listeners: [Address: LoopBound<MemoryAcceptor>] = [:]
        var nextPort: UInt16 = 1024
    }

    static let state = Locked(State())

    /// Adds a listener. Port 0 selects a free port. Returns `nil` if the name is taken, or if there is no free port.
    static func enter(_ host: String, _ port: UInt16, _ acceptor: LoopBound<MemoryAcceptor>) -> UInt16? {
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
            state.listeners[Address(host: host, port: chosen)] = acceptor
            return chosen
        }
    }

    static func leave(_ host: String, _ port: UInt16) {
        state.withLock { $0.listeners[Address(host: host, port: port)] = nil }
    }

    /// Returns the listeners of this name at this port, or at any port if it is `nil`.
    static func find(_ host: String, _ port: UInt16?) -> [LoopBound<MemoryAcceptor>] {
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

    var capabilities: Capabilities { limits.describe(core.capabilities) }

    nonisolated(nonsending) func connect(timeout: Duration) async throws(TransportError) -> any Connection {
        let started = MonotonicClock.now()
        let deadline = Instant(nanoseconds: started).advanced(by: timeout).nanoseconds
        return try await running(on: loop) { () async throws(TransportError) in
            if Task.isCancelled { throw .cancelled(.connect) }
            let acceptors = MemoryHub.find(endpoint.host, endpoint.port)
            guard let acceptor = acceptors.first else {
                throw TransportError(.refused, .connect, "connection refused: no listener at \(endpoint)")
            }
            guard acceptors.count == 1 else {
                let sentence = "\(acceptors.count) listeners are named \(endpoint.host); add the port to the URL"
                throw TransportError(.invalidConfiguration, .connect, sentence)
            }
            let (there, back) = (MemoryPipe(), MemoryPipe())
            acceptor.loop.execute { acceptor.value.accept(incoming: there, outgoing: back) }
            let channel = MemoryChannel(incoming: back, outgoing: there, on: loop)
            let driver = ConnectionDriver(core, over: channel, on: loop, limits: limits, started: started)
            return try await driver.openConnection(deadline: deadline)
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
        core: FramedTCPCore
    ) throws(TransportError) {
        host = endpoint.host
        self.loop = loop
        self.limits = limits
        self.handler = handler
        self.core = core
        self.queue = queue
        port = MemoryHub.enter(host, endpoint.port ?? 0, LoopBound(self, to: loop))
        guard port != nil else { throw TransportError(.addressInUse, .connect, "\(endpoint) is in use") }
    }

    func accept(incoming: MemoryPipe, outgoing: MemoryPipe) {
        let channel = MemoryChannel(incoming: incoming, outgoing: outgoing, on: loop)
        guard !isClosed, queue.hasRoom else { return channel.close(abort: true) }
        let driver = ConnectionDriver(core, over: channel, on: loop, limits: limits)
        driver.handler = handler
        live[driver.number] = driver
        driver.owner = self
        driver.start()
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
