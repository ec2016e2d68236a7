/// What a client says of itself on a new link.
package struct ClientHello: Sendable, Hashable {
    /// The incarnation of the session that it knows, or 0.
    package var incarnation: UInt64
    /// What it has received of that.
    package var received: UInt64
    /// Which of its attempts the link came from.
    package var attempt: UInt32

    package init(incarnation: UInt64, received: UInt64, attempt: UInt32 = 0) {
        self.incarnation = incarnation
        self.received = received
        self.attempt = attempt
    }
}
