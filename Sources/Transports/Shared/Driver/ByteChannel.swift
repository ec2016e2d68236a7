import Primitives
import Protocols
import SocketIO
import TransportAPI

/// The layer of I/O below a connection. Its reads append to the buffer of the connection, and its writes take the output of
/// a core.
protocol ByteChannel: IOLayer {
    /// Whether each read returns one datagram, of which nothing is left over.
    var isDatagram: Bool { get }
    /// How many of the received bytes any host could have sent, so that they are no sign of life: datagrams that were not
    /// decrypted.
    var foreignBytes: UInt64 { get }
    /// Why the channel's own handshake was not complete in time, in a sentence; `nil` if the channel does not know.
    var lateHandshake: String? { get }
    /// Whether the peer has ended the encryption of a channel of datagrams, so that nothing more arrives.
    var hasEnded: Bool { get }
    /// Reads once and appends to `input`. Reads at most `limit` bytes of a stream.
    func read(into input: inout ByteBuffer, atMost limit: Int) -> IOResult
    /// Whether no more input is known to be there, so that the next read can wait until this input is answered.
    var mayLookLater: Bool { get }
    /// Passes the output to the kernel. Returns `.bytes` if the kernel took all of it, `.wouldBlock` if some is left.
    func flush(_ context: inout CoreContext) -> IOResult
    /// Checks the local address after the machine's addresses may have changed. Returns whether this side uses another
    /// one from now on and the peer should be notified. Returns `false` if the protocol below does not support this.
    func renew(_ now: Instant) -> Bool
}

extension ByteChannel {
    /// The default for streams, and for datagrams whose protocol checks them itself.
    var foreignBytes: UInt64 { 0 }
    /// The default for channels that do not know why.
    var lateHandshake: String? { nil }
    /// The default for streams, whose end is read, and for datagrams without encryption.
    var hasEnded: Bool { false }
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
