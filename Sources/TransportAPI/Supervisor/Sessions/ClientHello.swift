/// The identity of a client towards a session server, across restarts of its process. The server goes on with the
/// session of a client that connects again with the same identifier: what it has sent and the client has not
/// acknowledged is sent to the new process.
public struct SessionClient: Sendable, Hashable {
    /// The identifier, random, and kept by the app where no other reads it: it is all that a client needs to take the
    /// session up.
    public var id: SessionID
    /// How often the app has been started. It grows by one each time, so that connections of a former process are
    /// turned away; so is a process that comes with a lower number than one before it. After 65,535 starts, take
    /// another identifier.
    public var launch: UInt16

    /// A client that has been started so often.
    public init(id: SessionID, launch: UInt16) {
        self.id = id
        self.launch = launch
    }
}

/// What a client says of itself on a new connection.
package struct ClientHello: Sendable, Hashable {
    /// The incarnation of the session that it knows, or 0.
    package var incarnation: UInt64
    /// What it has received of that.
    package var received: UInt64
    /// Which of its attempts the connection came from.
    package var attempt: UInt32

    package init(incarnation: UInt64, received: UInt64, attempt: UInt32 = 0) {
        self.incarnation = incarnation
        self.received = received
        self.attempt = attempt
    }
}
