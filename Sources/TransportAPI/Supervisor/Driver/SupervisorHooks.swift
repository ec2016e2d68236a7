/// Receives a supervisor's events for logs and metrics. Called in order on the thread of the supervisor's loop. It must
/// not block.
public protocol SupervisorObserver: Sendable {
    /// Receives one event.
    func note(_ note: SupervisorEvent, at time: Instant)
}

/// Called before each attempt. Returns the endpoint to use now, with fresh credentials in it. `isRefresh` means that
/// the last credentials were refused. A thrown error fails the attempt. A ``TransportError`` determines whether another
/// attempt makes sense; any other error counts as temporary.
public typealias EndpointPreparation = @Sendable (Endpoint, _ isRefresh: Bool) async throws -> Endpoint

/// Called before each attempt of a session. Returns the token with which the client logs in, over whatever transport.
/// `isRefresh` means that the server has refused the last one. A thrown error fails the attempt, like that of an
/// ``EndpointPreparation``.
public typealias TokenSource = @Sendable (_ isRefresh: Bool) async throws -> String

/// Called with each new connection before the supervisor uses it, for a message that must be the first one: a login, a
/// subscription, or a CONNECT of STOMP. It can send and receive over the connection. The supervisor sends nothing
/// before the call has returned, and its state is not ``SupervisorState/open(_:isResumed:)`` until then.
///
/// - The endpoint is the one that the ``EndpointPreparation`` has returned, with fresh credentials in it.
/// - A thrown error fails the attempt, and the connection is closed. The code of a ``TransportError`` decides what
///   follows, as with the error of a transport: `.authenticationFailed` leads to fresh credentials. Any other error
///   counts as temporary.
/// - Messages that it does not receive itself go to the listeners of the supervisor, in order.
/// - ``SupervisorConfiguration/connectTimeout`` limits it together with the rest of the attempt. When the attempt is
///   given up, the task is cancelled and the connection ends.
/// - It must not wait for ``Supervisor/send(_:)``, which waits for its end, and must not use the connection after it has
///   returned.
public typealias ConnectionGreeting = @Sendable (any Connection, Endpoint) async throws -> Void

/// An option of an endpoint that its transport does not have.
package struct SkippedOption: Sendable, Hashable {
    /// The option's name, and for a header also the header's.
    package var name: String
    /// Why it was skipped, for people.
    package var reason: String

    package init(name: String, reason: String) {
        (self.name, self.reason) = (name, reason)
    }
}

/// Returns an endpoint for its transport, without options that the transport does not have, and these options.
package typealias EndpointFitting = @Sendable (Endpoint) -> (Endpoint, skipped: [SkippedOption])

/// Makes the transport for connections to an endpoint.
package typealias TransportFactory = @Sendable (Endpoint) throws(TransportError) -> any Transport
