import Primitives

/// A layer of I/O that never blocks: a socket, TLS, a tunnel, a pipe in memory, or a session of a shared socket. It lives on
/// its loop.
package protocol IOLayer: AnyObject {
    /// The peer's address, if it has one.
    var peer: SocketAddress? { get }
    /// How many round trips were needed to create the layer.
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
    /// How much memory the layer itself holds for bytes of this connection.
    var bufferedBytes: Int { get }
    /// Whether the layer has taken output that the kernel has not taken yet. It passes the rest on at ``note(_:)``.
    var holdsOutput: Bool { get }
    /// The kernel's segment counts, if it reports them.
    var segmentCounts: SegmentCounts? { get }
    /// The result of the TLS handshake; `nil` without TLS, and before the handshake is complete.
    var encryption: TLSDescription? { get }

    /// Starts reporting readiness to `handler`.
    func attach(_ handler: any PollHandler) throws(SystemError)
    /// Records the readiness that the handler received.
    func note(_ readiness: Readiness)
    /// Takes one step of the layer's own handshake. Before it returns `.ready`, nothing may be read or written.
    func advance() -> StreamProgress
    /// Returns whether a read of `count` bytes into room for `capacity` has emptied the layer.
    func isDrained(afterReading count: Int, of capacity: Int) -> Bool
    /// Signals the end of the output to the peer. Returns `false` if the protocol below has no such signal.
    @discardableResult
    func shutdownWriting() -> Bool
    /// Closes the layer. With `abort`, the bytes in the kernel are not delivered.
    func close(abort: Bool)
}

extension IOLayer {
    /// By default, there is no handshake.
    package func advance() -> StreamProgress { .ready }
    /// By default, nothing is encrypted.
    package var encryption: TLSDescription? { nil }
    /// By default, there is no TLS.
    package var tlsBytesSent: UInt64 { 0 }
    /// By default, the layer holds no bytes.
    package var bufferedBytes: Int { 0 }
    /// By default, the kernel has all output that was taken.
    package var holdsOutput: Bool { false }
    /// By default, the number is unknown.
    package var unacknowledgedBytes: Int { 0 }
    /// By default, the number is unknown.
    package var bytesAcknowledged: UInt64 { bytesSent }
    /// By default, there is no address.
    package var peer: SocketAddress? { nil }
}

/// A layer that carries a stream of bytes.
package protocol ByteStream: IOLayer {
    /// Reads the bytes that have arrived, at most as many as fit into `buffer`.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult
    /// Writes as much of `bytes` as the stream takes.
    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult
}

extension ByteStream {
    /// The TCP handshake takes one round trip.
    package var roundTripsToConnect: Int { 1 }
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
