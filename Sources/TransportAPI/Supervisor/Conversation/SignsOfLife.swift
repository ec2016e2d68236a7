/// The facts that a connection knows about its peer when a keepalive decides whether the peer is alive. All counts begin
/// with the connection. `ConnectionDriver.readSignsOfLife` fills it in.
package struct SignsOfLife: Sendable, Hashable {
    /// How many bytes have been received, without repeated ones. Bytes of an incomplete message count too.
    package var bytesReceived: UInt64
    /// How many bytes of output have left this side: those that the peer's system has acknowledged or, if this system
    /// does not report them, those that the kernel has taken. 0 over datagrams, because a datagram that has left shows
    /// nothing.
    package var bytesTaken: UInt64
    /// How many bytes of output have not left this side, including messages that wait for room. 0 over datagrams.
    package var bytesLeft: UInt64

    /// Creates a value from its counts.
    package init(bytesReceived: UInt64 = 0, bytesTaken: UInt64 = 0, bytesLeft: UInt64 = 0) {
        self.bytesReceived = bytesReceived
        self.bytesTaken = bytesTaken
        self.bytesLeft = bytesLeft
    }
}
