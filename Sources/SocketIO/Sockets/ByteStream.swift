import Primitives

/// A byte stream that never blocks: a socket, a tunnel, a pipe in memory, or TLS over one of these. It lives on its
/// loop.
package protocol ByteStream: AnyObject {
    /// The peer's address, if it has one.
    var peer: SocketAddress? { get }
    /// How many round trips were needed to create the stream.
    var roundTripsToConnect: Int { get }
    /// How many bytes were passed to the kernel.
    var bytesSent: UInt64 { get }
    /// How many of the bytes to send were added by TLS: its handshake, and the headers and tags of its records.
    var tlsBytesSent: UInt64 { get }
    /// How many bytes were read from the kernel.
    var bytesReceived: UInt64 { get }
    /// How many bytes were written and not acknowledged by the peer's kernel; 0 if unknown.
    var unacknowledgedBytes: Int { get }
    /// How many of the bytes that were passed to the kernel the peer's kernel has acknowledged; all if unknown.
    var bytesAcknowledged: UInt64 { get }
    /// How much memory the stream itself holds for bytes of this connection.
    var bufferedBytes: Int { get }
    /// Whether the stream has taken output that the kernel has not taken yet. It passes the rest on at
    /// ``note(_:)``.
    var holdsOutput: Bool { get }
    /// The kernel's segment counts, if it reports them.
    var segmentCounts: SegmentCounts? { get }
    /// The result of the TLS handshake; `nil` for a plain stream, and before the handshake is complete.
    var encryption: TLSDescription? { get }

    /// Starts reporting readiness to `handler`.
    func attach(_ handler: any PollHandler) throws(SystemError)
    /// Records the readiness that the handler received.
    func note(_ readiness: Readiness)
    /// Takes one step of the stream's own handshake. Before it returns `.ready`, nothing may be read or written.
    func advance() -> StreamProgress
    /// Reads the bytes that have arrived, at most as many as fit into `buffer`.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult
    /// Returns whether a read of `count` bytes into room for `capacity` has emptied the stream.
    func isDrained(afterReading count: Int, of capacity: Int) -> Bool
    /// Writes as much of `bytes` as the stream takes.
    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult
    /// Signals the end of the output to the peer.
    @discardableResult
    func shutdownWriting() -> Bool
    /// Closes the stream. With `abort`, the bytes in the kernel are not delivered.
    func close(abort: Bool)
}

extension ByteStream {
    /// A plain stream has no handshake.
    package func advance() -> StreamProgress { .ready }
    /// A plain stream is not encrypted.
    package var encryption: TLSDescription? { nil }
    /// A plain stream has no TLS.
    package var tlsBytesSent: UInt64 { 0 }
    /// By default, the stream holds no bytes.
    package var bufferedBytes: Int { 0 }
    /// By default, the kernel has all output that was taken.
    package var holdsOutput: Bool { false }
    /// By default, the number is unknown.
    package var unacknowledgedBytes: Int { 0 }
    /// By default, the number is unknown.
    package var bytesAcknowledged: UInt64 { bytesSent }
    /// The TCP handshake takes one round trip.
    package var roundTripsToConnect: Int { 1 }
    /// By default, the stream has no address.
    package var peer: SocketAddress? { nil }
}

/// The state of a stream's own handshake.
package enum StreamProgress: Sendable, Hashable {
    /// The stream can be read and written.
    case ready
    /// The next step needs bytes from the peer, or room for bytes to it.
    case waiting
    /// The next step can be taken in the next tick of the loop.
    case again
    /// The handshake has failed. The result is that of a read.
    case failed(IOResult)
}

extension StreamSocket: ByteStream {}
