import SocketIO
import TransportAPI

/// A transport for a supervisor under test. `answer` decides how each attempt ends, and the test controls each
/// connection.
package final class Script: Sendable {
    package enum Answer: Sendable {
        case open
        case fail(TransportError.Code, retryAfter: Duration? = nil)
        /// The attempt stays open until it is cancelled.
        case hang
        /// The peer accepts the connection and closes it.
        case openAndClose
    }

    package struct Attempt: Sendable {
        package var endpoint: Endpoint
        package var number: Int
    }

    private struct State: Sendable {
        var attempts: [Attempt] = []
        var cancelled = 0
        var answer: @Sendable (Attempt) -> Answer
        var connections: [ScriptedConnection] = []
    }

    private let state: Locked<State>
    package let capabilities: Capabilities
    private let home: VirtualRuntime?

    /// - Parameter home: The runtime of the connections, if they share the supervisor's.
    package init(
        _ capabilities: Capabilities = Capabilities(maximumMessageSize: 1 << 20),
        at home: VirtualRuntime? = nil,
        _ answer: @escaping @Sendable (Attempt) -> Answer = { _ in .open }
    ) {
        self.capabilities = capabilities
        self.home = home
        state = Locked(State(answer: answer))
    }

    package var attempts: [Attempt] { state.withLock { $0.attempts } }
    /// The number of hanging attempts that were cancelled.
    package var cancelled: Int { state.withLock { $0.cancelled } }
    package var connections: [ScriptedConnection] { state.withLock { $0.connections } }
    package var last: ScriptedConnection? { connections.last }

    /// Releases the connections, so that only the supervisor keeps them.
    package func forget() { state.withLock { $0.connections = [] } }

    package func answer(_ answer: @escaping @Sendable (Attempt) -> Answer) { state.withLock { $0.answer = answer } }

    fileprivate func begin(_ endpoint: Endpoint) -> Answer {
        let (answer, attempt) = state.withLock { state in
            let attempt = Attempt(endpoint: endpoint, number: state.attempts.count)
            state.attempts.append(attempt)
            return (state.answer, attempt)
        }
        return answer(attempt)
    }

    fileprivate func open() -> ScriptedConnection {
        let connection = ScriptedConnection(capabilities, at: home)
        state.withLock { $0.connections.append(connection) }
        return connection
    }

    fileprivate func hang() async {
        let waiter = Locked<(UnsafeContinuation<Void, Never>?, isCancelled: Bool)>((nil, false))
        await withTaskCancellationHandler {
            await withUnsafeContinuation { continuation in
                let isCancelled = waiter.withLock { waiter in
                    waiter.0 = continuation
                    return waiter.isCancelled
                }
                if isCancelled { continuation.resume() }
            }
        } onCancel: {
            waiter.withLock { waiter in
                waiter.isCancelled = true
                return waiter.0
            }?.resume()
        }
        state.withLock { $0.cancelled += 1 }
    }

    /// A setup for these endpoints, whose attempts this script answers.
    package func setup(
        _ endpoints: [String] = ["memory://server"],
        _ change: (inout SupervisorConfiguration) -> Void = { _ in }
    ) throws -> Supervisor.Setup {
        var setup = Supervisor.Setup(endpoints: try endpoints.map { try Endpoint($0) }) { [self] in
            ScriptedTransport(script: self, endpoint: $0)
        }
        setup.configuration.backoff = .fixed(.seconds(1))
        change(&setup.configuration)
        return setup
    }
}

private struct ScriptedTransport: Transport {
    let script: Script
    let endpoint: Endpoint
    var capabilities: Capabilities { script.capabilities }

    nonisolated(nonsending) func connect(timeout: Duration) async throws(TransportError) -> any Connection {
        switch script.begin(endpoint) {
        case .open: return script.open()
        case .openAndClose:
            let connection = script.open()
            connection.end(CloseReason(.peer))
            return connection
        case .fail(let code, let retryAfter):
            throw TransportError(code, .handshake, "as the script says", retryAfter: retryAfter)
        case .hang:
            await script.hang()
            throw TransportError(.cancelled, .connect, "cancelled")
        }
    }
}
