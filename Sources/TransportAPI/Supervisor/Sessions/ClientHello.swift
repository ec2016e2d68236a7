import Primitives

/// The identity of a client towards a session server, across restarts of its process. The server continues the session
/// of a client that connects again with the same identifier. Messages that the server has sent and the client has not
/// acknowledged are sent to the new process.
public struct SessionClient: Sendable, Hashable {
    /// The random identifier. The app must keep it secret, because it is all that a client needs to resume the session.
    public var id: SessionID
    /// The number of launches of the app. It must grow by one with each launch, because connections of processes with a
    /// lower number are refused. After 65,535 launches, use another identifier.
    public var launch: UInt16

    /// Creates the identity of a client at its launch of this number.
    public init(id: SessionID, launch: UInt16) {
        self.id = id
        self.launch = launch
    }
}

/// The information that a client sends about itself on a new connection.
package struct ClientHello: Sendable, Hashable {
    /// The longest token, in bytes of UTF-8.
    package static let longestToken = 8192

    /// The incarnation of the session that the client knows, or 0.
    package var incarnation: UInt64
    /// The number up to which the client has received all messages of that incarnation.
    package var received: UInt64
    /// The number of the client's attempt that opened the connection. It grows with each attempt, so that a delayed one
    /// cannot take the session from a later connection.
    package var attempt: UInt32
    /// The largest message that the client accepts over the connection, in bytes of its payload.
    package var limit: UInt64
    /// The client's messages.
    package var numbering: SessionNumbering
    /// The token with which the client logs in, if it does.
    @Secret package var token: String?

    package init(
        incarnation: UInt64,
        received: UInt64,
        attempt: UInt32 = 0,
        limit: UInt64 = .max,
        numbering: SessionNumbering = .fromOne,
        token: String? = nil
    ) {
        self.incarnation = incarnation
        self.received = received
        self.attempt = attempt
        self.limit = limit
        self.numbering = numbering
        self.token = token
    }
}
