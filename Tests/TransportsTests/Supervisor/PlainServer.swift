import SocketIO
import TransportAPI

@testable import Transports

/// A server of any transport that keeps what it receives, and can be stopped and started again on the same port.
final class PlainServer: Sendable {
    private struct State: Sendable {
        var listener: (any Listener)?
        var links: [any Link] = []
        var received: [String] = []
        var waiters: [(Int, UnsafeContinuation<Void, Never>)] = []
        var port: ReservedPort?
    }

    private let state = Locked(State())
    private let listening: Endpoint
    /// Where clients reach it.
    let endpoint: Endpoint

    init(_ name: String) async throws {
        let registry = TransportRegistry.standard
        let listener = try await registry.listen("\(name)://127.0.0.1:0")
        listening = listener.endpoint
        var endpoint = listener.endpoint
        endpoint.options = try registry.transport(named: name).loopback("plain")
        self.endpoint = endpoint
        take(listener)
    }

    /// Everything received so far.
    var received: [String] { state.withLock { $0.received } }
    var links: [any Link] { state.withLock { $0.links } }

    func start() async throws {
        state.withLock { $0.port = nil }
        take(try await TransportRegistry.standard.listen("\(listening)"))
    }

    private func take(_ listener: any Listener) {
        state.withLock { $0.listener = listener }
        Task {
            while let link = try await listener.accept() {
                state.withLock { $0.links.append(link) }
                Task { while let payload = try await link.receive() { self.note(payload) } }
            }
        }
    }

    private func note(_ payload: Payload) {
        let ready = state.withLock { state in
            state.received.append(payload.string)
            let count = state.received.count
            defer { state.waiters.removeAll { $0.0 <= count } }
            return state.waiters.filter { $0.0 <= count }
        }
        for (_, continuation) in ready { continuation.resume() }
    }

    /// Waits until so many messages have come in all.
    func wait(for count: Int) async {
        await withUnsafeContinuation { continuation in
            let isReady = state.withLock { state in
                if state.received.count >= count { return true }
                state.waiters.append((count, continuation))
                return false
            }
            if isReady { continuation.resume() }
        }
    }

    /// Says goodbye to all clients.
    func dropLinks() async {
        let links = state.withLock { state in
            defer { state.links = [] }
            return state.links
        }
        for link in links { await link.close() }
    }

    /// Stops listening, and says goodbye.
    func stop() async {
        await state.withLock { $0.listener.take() }?.close()
        // Another test's server must not get the port meanwhile. A server of datagrams has it until its links have ended.
        let port = ReservedPort.keeping(listening)
        await dropLinks()
        let last = port ?? ReservedPort.keeping(listening)
        state.withLock { $0.port = last }
    }
}

extension SupervisorConfiguration {
    /// For tests over real sockets: attempts follow each other at once, and nothing is given up.
    static var quick: SupervisorConfiguration {
        var configuration = SupervisorConfiguration()
        configuration.backoff = .fixed(.milliseconds(10))
        return configuration
    }
}

extension Supervisor {
    /// A supervisor for tests over real sockets, and what it reports.
    static func recorded(
        _ endpoints: [Endpoint],
        _ configuration: SupervisorConfiguration = .quick,
        on loop: EventLoop = .shared,
        adjust: (inout Setup) -> Void = { _ in }
    ) throws -> (Supervisor, Recorder) {
        let recorder = Recorder()
        let whole = TransportConfiguration(endpoints: endpoints, supervisor: configuration)
        let supervisor = try Supervisor(whole, on: loop) { setup in
            setup.observer = recorder
            adjust(&setup)
        }
        return (supervisor, recorder)
    }
}

extension ReservedPort {
    /// Keeps the port of a server that is away, if nobody else has it and there is one to keep.
    static func keeping(_ endpoint: Endpoint) -> ReservedPort? {
        guard endpoint.scheme != "memory", let port = endpoint.port,
            let address = SocketAddress(numeric: endpoint.host, port: port)
        else { return nil }
        return try? ReservedPort(address, isDatagram: endpoint.scheme == "udp")
    }
}

/// A place where no server ever was, and none will be as long as this is kept.
final class Away: Sendable {
    let endpoint: Endpoint
    private let reserved: ReservedPort?

    init(_ name: String) throws {
        var endpoint = try Endpoint("\(name)://127.0.0.1")
        if name == "memory" {
            (endpoint.host, reserved) = ("nobody", nil)
        } else {
            guard let any = SocketAddress(numeric: "127.0.0.1", port: 0) else {
                throw SystemError("bind", EADDRNOTAVAIL)
            }
            let port = try ReservedPort(any, isDatagram: name == "udp")
            (endpoint.port, reserved) = (port.port, port)
        }
        endpoint.options = try TransportRegistry.standard.transport(named: name).loopback("away")
        self.endpoint = endpoint
    }
}
