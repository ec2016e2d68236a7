import SocketIO
import TestSupport
import TransportAPI
import TrialCertificates

@testable import Transports

/// A server of any transport that keeps what it receives, and that can be stopped and started again on the same port.
final class PlainServer: Sendable {
    private struct State: Sendable {
        var listener: (any Listener)?
        var connections: [any Connection] = []
        /// The task that accepts connections.
        var accepting: Task<Void, any Error>?
    }

    private let state = Locked(State())
    private let texts = ReceivedTexts()
    private let listening: Endpoint
    private let port: ReservedPort?
    /// The endpoint for clients.
    let endpoint: Endpoint

    init(_ name: String) async throws {
        let registry = TransportRegistry.trial
        port = try .serving(name)
        let listener = try await registry.listen("\(name)://127.0.0.1:\(port?.port ?? 0)")
        listening = listener.endpoint
        var endpoint = listener.endpoint
        endpoint.options = try registry.transport(named: name).loopback("plain")
        self.endpoint = endpoint
        take(listener)
    }

    /// All messages received so far.
    var received: [String] { texts.all }
    var connections: [any Connection] { state.withLock { $0.connections } }

    func start() async throws {
        take(try await TransportRegistry.trial.listen("\(listening)"))
    }

    private func take(_ listener: any Listener) {
        let accepting = Task {
            while let connection = try await listener.accept() {
                state.withLock { $0.connections.append(connection) }
                Task { while let payload = try await connection.receive() { self.texts.note(payload) } }
            }
        }
        state.withLock { ($0.listener, $0.accepting) = (listener, accepting) }
    }

    /// Waits until `count` messages have arrived in total.
    func wait(for count: Int) async {
        await texts.wait(for: count)
    }

    /// Waits until a message that fits has arrived, or the task is cancelled.
    func wait(forText fits: (String) -> Bool) async {
        await texts.wait(forText: fits)
    }

    /// Closes all connections that it has accepted. A client can be open earlier, so wait for a message of it before.
    func dropConnections() async {
        let connections = state.withLock { state in
            defer { state.connections = [] }
            return state.connections
        }
        for connection in connections { await connection.close() }
    }

    /// Stops listening and closes all connections, also one that was about to be accepted.
    func stop() async {
        await state.withLock { $0.listener.take() }?.close()
        _ = await state.withLock { $0.accepting.take() }?.result
        await dropConnections()
    }
}

extension SupervisorConfiguration {
    /// A configuration for tests over real sockets, with a short pause between attempts.
    static var quick: SupervisorConfiguration {
        var configuration = SupervisorConfiguration()
        configuration.backoff = .fixed(.milliseconds(10))
        return configuration
    }
}

extension Supervisor {
    /// A supervisor for tests over real sockets, and its recorder.
    static func recorded(
        _ endpoints: [Endpoint],
        _ configuration: SupervisorConfiguration = .quick,
        on loop: EventLoop = .shared,
        adjust: (inout Setup) -> Void = { _ in }
    ) throws -> (Supervisor, Recorder) {
        let recorder = Recorder()
        let whole = TransportConfiguration(endpoints: endpoints, supervisor: configuration)
        let supervisor = try Supervisor(whole, registry: .trial, on: loop) { setup in
            setup.observer = recorder
            adjust(&setup)
        }
        return (supervisor, recorder)
    }
}

extension ReservedPort {
    /// A reserved port for the servers of this transport, or `nil` if the transport has no ports.
    static func serving(_ name: String) throws -> ReservedPort? {
        let transport = try TransportRegistry.trial.transport(named: name)
        return transport.defaultPort == nil ? nil : try ReservedPort(isDatagram: transport.isDatagram)
    }
}

/// An endpoint where no server has listened and none will listen as long as this object lives.
final class Away: Sendable {
    let endpoint: Endpoint
    private let reserved: ReservedPort?

    init(_ name: String) throws {
        reserved = try .serving(name)
        var endpoint = try Endpoint("\(name)://\(reserved?.address.description ?? "away")")
        endpoint.options = try TransportRegistry.trial.transport(named: name).loopback("away")
        self.endpoint = endpoint
    }
}
