/// Opens connections to one endpoint. Each call makes one attempt and never retries, because the supervisor does that.
/// A transport can be used any number of times and from any task.
public protocol Transport: Sendable {
    /// The capabilities of its connections.
    var capabilities: Capabilities { get }
    /// The endpoint that it connects to.
    var endpoint: Endpoint { get }

    /// Makes one attempt: resolves the name, connects, and completes the handshake.
    ///
    /// - Parameter timeout: How long the whole attempt may take.
    /// - Throws: The error and the phase in which it occurred; `.timedOut` with the phase reached; `.cancelled` at once
    ///   when the task is cancelled.
    nonisolated(nonsending) func connect(timeout: Duration) async throws(TransportError) -> any Connection
}

/// A transport whose connections complete messages that earlier ones have left (``Capabilities/completesSends``).
package protocol CompletingTransport: Transport {
    /// Drops the message that a connection was given under this identifier. The next connection does not complete it.
    func forget(_ id: MessageID)
}

/// The accepting side of a transport. It returns one ``Connection`` for each client whose handshake is complete.
public protocol Listener: AnyObject, Sendable {
    /// The endpoint at which clients reach it, with the port that the system chose.
    var endpoint: Endpoint { get }

    /// Waits for the next client. Returns `nil` once the listener is closed.
    ///
    /// - Throws: `.cancelled` if the task was cancelled, `.busy` if another task is already waiting.
    nonisolated(nonsending) func accept() async throws(TransportError) -> (any Connection)?

    /// Stops listening. Connections that ``accept()`` returned stay open. Connections that a server answers itself are
    /// closed, and the call returns when they are, as ``Connection/close(_:)`` closes them.
    nonisolated(nonsending) func close() async
}
