import SocketIO
import TransportAPI
import TrialCertificates

@testable import Transports

/// A session server of any transport that keeps what its sessions receive, and that can be replaced on the same port.
final class SessionHost: Sendable {
    private struct State: Sendable {
        var listener: (any Listener)?
        var server: SessionServer?
        var sessions: [Session] = []
    }

    private let state = Locked(State())
    private let texts = ReceivedTexts()
    private let listening: Endpoint
    private let port: ReservedPort?
    private let configuration: SessionServer.Configuration
    /// The endpoint for clients.
    let endpoint: Endpoint

    init(_ name: String, _ configuration: SessionServer.Configuration = SessionServer.Configuration()) async throws {
        let registry = TransportRegistry.trial
        port = try .serving(name)
        let listener = try await registry.listen("\(name)://127.0.0.1:\(port?.port ?? 0)")
        (listening, self.configuration) = (listener.endpoint, configuration)
        var endpoint = listener.endpoint
        endpoint.options = try registry.transport(named: name).loopback("session")
        self.endpoint = endpoint
        replaceServer()
        serve(listener)
    }

    var sessions: [Session] { state.withLock { $0.sessions } }
    var received: [String] { texts.all }
    var server: SessionServer? { state.withLock { $0.server } }

    /// Starts another server that knows no session of the one before.
    func replaceServer() {
        let server = SessionServer(configuration, on: EventLoop.shared) { [self] session in
            state.withLock { $0.sessions.append(session) }
            let messages = session.messages
            Task { for await payload in messages { self.texts.note(payload) } }
        }
        state.withLock { $0.server = server }
    }

    private func serve(_ listener: any Listener) {
        let server = state.withLock { state in
            state.listener = listener
            return state.server
        }
        Task(executorPreference: EventLoop.shared) { try await server?.serve(listener) }
    }

    func wait(for count: Int) async {
        await texts.wait(for: count)
    }

    /// Stops listening and ends all connections.
    func stop() async {
        await state.withLock { $0.listener.take() }?.close()
        await server?.dropConnections()
    }

    func start() async throws {
        serve(try await TransportRegistry.trial.listen("\(listening)"))
    }
}
