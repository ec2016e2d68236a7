/// A recipe for connections: where to connect and how. It makes one attempt when asked and never retries; that is the
/// supervisor's work. A transport may be used any number of times and from any task.
public protocol Transport: Sendable {
    /// What its connections can do.
    var capabilities: Capabilities { get }
    /// Where it connects to.
    var endpoint: Endpoint { get }

    /// Makes one attempt: resolves, connects, shakes hands.
    ///
    /// - Parameter timeout: how long the whole attempt may take.
    /// - Throws: what went wrong and in which phase; `.timedOut` with the phase reached; `.cancelled` at once when the task is
    ///   cancelled.
    nonisolated(nonsending) func connect(timeout: Duration) async throws(TransportError) -> any Connection
}

/// The accepting side of a transport: it hands out one ``Connection`` for each client whose handshake is complete.
public protocol Listener: AnyObject, Sendable {
    /// Where clients reach it, with the port that the system chose.
    var endpoint: Endpoint { get }

    /// Waits for the next client; `nil` once the listener is closed.
    ///
    /// - Throws: `.cancelled` if the task was cancelled, `.busy` if another task is already waiting.
    nonisolated(nonsending) func accept() async throws(TransportError) -> (any Connection)?

    /// Stops listening. Connections that were handed out by ``accept()`` live on; those that a server answers itself
    /// are closed, and the call returns when they are, as ``Connection/close(_:)`` closes them.
    nonisolated(nonsending) func close() async
}
