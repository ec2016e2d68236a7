/// A connected byte stream on an event loop: a TCP socket, and later a TLS session over one. Lives on its loop's thread.
///
/// Reads and writes never block; one that can't go on says so, and the handler that is attached hears of the next edge.
public protocol ByteStream: AnyObject {
    /// The far side's address, where it has one.
    var peer: SocketAddress? { get }
    /// Starts reporting readiness to `handler`, which the loop keeps alive until ``close()``.
    func attach(_ handler: any PollHandler) throws(SystemError)
    /// Reads what has arrived, at most as much as `buffer` holds.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult
    /// Whether a read that brought fewer bytes than it had room for has emptied the stream, so that another would only
    /// say "would block".
    func isDrained(afterReading count: Int, of capacity: Int) -> Bool
    /// Remembers what the handler was told.
    func note(_ readiness: Readiness)
    /// Gives the kernel as much of `bytes` as it takes.
    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult
    /// Tells the far side that nothing more will come.
    func shutdownWriting()
    /// Closes. With `abort`, the far side sees a reset and nothing that is still in the kernel is sent.
    func close(abort: Bool)
    /// How many written bytes the peer's kernel has not acknowledged; 0 where that is not known or the stream is closed.
    var unacknowledgedBytes: Int { get }
    /// What the kernel has counted; `nil` where it does not tell or the stream is closed.
    func segmentCounts() -> SegmentCounts?
}

/// IP packets of a TCP connection, as the kernel counts them.
public struct SegmentCounts: Sendable, Hashable {
    /// Packets sent, retransmissions included.
    public var sent: UInt64
    /// Packets received.
    public var received: UInt64
    /// Bytes of TCP and IP headers that went with them (RFC 9293, RFC 7323 timestamps included).
    public var headerBytes: UInt64

    /// Counts spelled out.
    public init(sent: UInt64, received: UInt64, headerBytes: UInt64) {
        self.sent = sent
        self.received = received
        self.headerBytes = headerBytes
    }
}
