import Primitives
import Protocols
import SocketIO
import TransportAPI

/// The I/O below a connection: a byte stream, a datagram socket of its own, or a session of a shared socket. Lives on
/// its loop.
protocol ByteChannel: AnyObject {
    /// Whether each read returns one datagram, of which nothing is left over.
    var isDatagram: Bool { get }
    /// How many round trips were needed to create the channel.
    var roundTripsToConnect: Int { get }
    /// How many bytes were passed to the kernel.
    var bytesSent: UInt64 { get }
    /// How many of the bytes to send were added by TLS.
    var tlsBytesSent: UInt64 { get }
    /// How many bytes were read from the kernel.
    var bytesReceived: UInt64 { get }
    /// How many of them any host could have sent, so that they are no sign of life: datagrams that were not decrypted.
    var foreignBytes: UInt64 { get }
    /// How many bytes the kernel has taken and the peer's kernel has not acknowledged; 0 if unknown.
    var unacknowledgedBytes: Int { get }
    /// How many of the bytes that were passed to the kernel the peer's kernel has acknowledged; all if unknown.
    var bytesAcknowledged: UInt64 { get }
    /// The kernel's segment counts, if it reports them.
    var segmentCounts: SegmentCounts? { get }

    /// How much memory the channel itself holds for bytes of this connection.
    var bufferedBytes: Int { get }
    /// Whether the channel has taken output that the kernel has not taken yet. It passes the rest on at ``note(_:)``.
    var holdsOutput: Bool { get }
    /// The result of the TLS handshake; `nil` without TLS, and before the handshake is complete.
    var encryption: TLSDescription? { get }

    /// Starts reporting readiness to `handler`.
    func attach(_ handler: any PollHandler) throws(SystemError)
    /// Records the readiness that the handler received.
    func note(_ readiness: Readiness)
    /// Takes one step of the channel's own handshake. Before it returns `.ready`, nothing is read or written.
    func advance() -> StreamProgress
    /// Why the channel's own handshake was not complete in time, in a sentence; `nil` if the channel does not know.
    var lateHandshake: String? { get }
    /// Whether the peer has ended the encryption of a channel of datagrams, so that nothing more arrives.
    var hasEnded: Bool { get }
    /// The peer's address, if it has one.
    var peer: SocketAddress? { get }
    /// Reads once and appends to `input`. Reads at most `limit` bytes of a stream.
    func read(into input: inout ByteBuffer, atMost limit: Int) -> IOResult
    /// Whether a read of `count` bytes into room for `capacity` has emptied the channel.
    func isDrained(afterReading count: Int, of capacity: Int) -> Bool
    /// Whether no more input is known to be there, so that the next read can wait until this input is answered.
    var mayLookLater: Bool { get }
    /// Passes the output to the kernel. Returns `.bytes` if the kernel took all of it, `.wouldBlock` if some is left.
    func flush(_ context: inout CoreContext) -> IOResult
    /// Checks the local address after the machine's addresses may have changed. Returns whether this side uses another
    /// one from now on and the peer should be notified. Returns `false` if the protocol below does not support this.
    func renew(_ now: Instant) -> Bool
    /// Signals the end of the output to the peer. Returns `false` if the protocol below has no such signal.
    func shutdownWriting() -> Bool
    /// Closes the channel. With `abort`, the bytes in the kernel are not delivered.
    func close(abort: Bool)
}

extension ByteChannel {
    /// The default for channels that do not know this number.
    var unacknowledgedBytes: Int { 0 }
    /// The default for channels that do not know this number.
    var bytesAcknowledged: UInt64 { bytesSent }
    /// The default for channels that hold no bytes.
    var bufferedBytes: Int { 0 }
    /// The default for channels that hold no bytes.
    var holdsOutput: Bool { false }
    /// The default for channels without TLS.
    var tlsBytesSent: UInt64 { 0 }
    /// The default for streams, and for datagrams whose protocol checks them itself.
    var foreignBytes: UInt64 { 0 }
    /// The default for channels without TLS.
    var encryption: TLSDescription? { nil }
    /// The default for channels without a handshake.
    func advance() -> StreamProgress { .ready }
    /// The default for channels that do not know why.
    var lateHandshake: String? { nil }
    /// The default for streams, whose end is read, and for datagrams without encryption.
    var hasEnded: Bool { false }
    /// The default for channels without an address.
    var peer: SocketAddress? { nil }
    /// The default is `false`, because streams are read until they are empty.
    var mayLookLater: Bool { false }
    /// The default for protocols that can't change their address.
    func renew(_: Instant) -> Bool { false }
}

/// A channel that is a byte stream: a socket, TLS, a tunnel, or a pipe in memory.
protocol StreamChannel: ByteChannel, ByteStream {}

extension StreamChannel {
    /// A byte stream has no datagrams.
    var isDatagram: Bool { false }
    var bufferedBytes: Int { 0 }
    var holdsOutput: Bool { false }
    var tlsBytesSent: UInt64 { 0 }
    var encryption: TLSDescription? { nil }
    var unacknowledgedBytes: Int { 0 }
    var bytesAcknowledged: UInt64 { bytesSent }
    var peer: SocketAddress? { nil }
    func advance() -> StreamProgress { .ready }

    func read(into input: inout ByteBuffer, atMost limit: Int) -> IOResult {
        var result = IOResult.wouldBlock
        _ = input.write(minimum: 1) { target in
            result = read(into: UnsafeMutableRawBufferPointer(rebasing: target.prefix(max(limit, 1))))
            guard case .bytes(let count) = result else { return 0 }
            return count
        }
        return result
    }

    func flush(_ context: inout CoreContext) -> IOResult {
        while !context.output.isEmpty {
            let result = context.output.withUnsafeReadableBytes { write($0) }
            guard case .bytes(let count) = result else { return result }
            context.output.consume(count)
        }
        return .bytes(0)
    }
}

extension StreamSocket: StreamChannel {}
extension TLSStream: StreamChannel {}
