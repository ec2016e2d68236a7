import Primitives

/// What carries the bytes of a connection and never blocks: a socket, TLS, a tunnel through a proxy, a pipe in memory, or a
/// session of a shared socket. It carries a stream, or datagrams if ``isDatagram`` is true, and lives on its loop.
package protocol ByteChannel: AnyObject {
    // MARK: Facts

    /// Whether each read returns one whole datagram, and each write sends one. The value never changes.
    var isDatagram: Bool { get }
    /// The peer's address, if it has one.
    var peer: SocketAddress? { get }
    /// How many round trips were needed to create the channel.
    var roundTripsToConnect: Int { get }
    /// The result of the TLS handshake; `nil` without TLS, and before the handshake is complete.
    var encryption: TLSDescription? { get }

    // MARK: Counters

    /// How many bytes were passed to the kernel.
    var bytesSent: UInt64 { get }
    /// How many of the bytes to send were added by TLS: its handshake, and the headers and tags of its records.
    var tlsBytesSent: UInt64 { get }
    /// How many bytes were read from the kernel.
    var bytesReceived: UInt64 { get }
    /// How many of the received bytes any host could have sent, so that they are no sign of life: datagrams that were not
    /// decrypted.
    var foreignBytes: UInt64 { get }
    /// How many bytes were written and not acknowledged by the peer's kernel; 0 if unknown.
    var unacknowledgedBytes: Int { get }
    /// How many of the bytes that were passed to the kernel the peer's kernel has acknowledged; all if unknown.
    var bytesAcknowledged: UInt64 { get }
    /// How much memory the channel itself holds for bytes of this connection.
    var bufferedBytes: Int { get }
    /// The kernel's segment counts, if it reports them.
    var segmentCounts: SegmentCounts? { get }

    // MARK: Readiness and the handshake

    /// Starts reporting readiness to `handler`.
    func attach(_ handler: any PollHandler) throws(SystemError)
    /// Records the readiness that the handler received.
    func note(_ readiness: Readiness)
    /// Takes one step of the channel's own handshake. Before it returns `.ready`, nothing may be read or written.
    func advance() -> HandshakeProgress
    /// Why the channel's own handshake was not complete in time, in a sentence; `nil` if the channel does not know.
    var lateHandshake: String? { get }

    // MARK: Reading

    /// Why a read or a write has failed, if the channel knows more than the error of the system; `nil` if not. It is an error
    /// of the driver's kind.
    var failure: (any Error)? { get }
    /// Reads the bytes that have arrived, at most as many as fit into `buffer`. A channel of datagrams reads the next one,
    /// for which `buffer` must have room.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult
    /// Returns whether a read of `count` bytes into room for `capacity` has emptied the channel.
    func isDrained(afterReading count: Int, of capacity: Int) -> Bool
    /// Whether no more input is known to be there, so that the next read can wait until this input is answered.
    var mayLookLater: Bool { get }
    /// Whether the peer has ended the encryption of a channel of datagrams, so that nothing more arrives.
    var hasEnded: Bool { get }

    // MARK: Writing

    /// Prepares for the datagrams that are written next. Not called for a stream.
    func beginWriting()
    /// Writes as much of `bytes` as the channel takes. A channel of datagrams sends all of them as one.
    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult
    /// Whether the channel has taken output that the kernel has not taken yet. It passes the rest on at ``note(_:)``.
    var holdsOutput: Bool { get }
    /// Signals the end of the output to the peer. Returns `false` if the protocol below has no such signal.
    @discardableResult
    func shutdownWriting() -> Bool
    /// Closes the channel. With `abort`, the bytes in the kernel are not delivered.
    func close(abort: Bool)

    // MARK: This side's address

    /// Checks the local address after the machine's addresses may have changed. Returns whether this side uses another
    /// one from now on and the peer should be notified. Returns `false` if the protocol below does not support this.
    func renew() -> Bool
    /// Returns whether a write has found that this side uses another address since the last call, so that the peer should
    /// be notified. Not called for a stream.
    func takeAddressChange() -> Bool
}

extension ByteChannel {
    /// The default is a stream.
    package var isDatagram: Bool { false }
    /// By default, there is no address.
    package var peer: SocketAddress? { nil }
    /// By default, there is no handshake.
    package var roundTripsToConnect: Int { 0 }
    /// By default, nothing is encrypted.
    package var encryption: TLSDescription? { nil }

    /// By default, there is no TLS.
    package var tlsBytesSent: UInt64 { 0 }
    /// The default for streams, and for datagrams whose protocol checks them itself.
    package var foreignBytes: UInt64 { 0 }
    /// By default, the number is unknown.
    package var unacknowledgedBytes: Int { 0 }
    /// By default, the number is unknown.
    package var bytesAcknowledged: UInt64 { bytesSent }
    /// By default, the channel holds no bytes.
    package var bufferedBytes: Int { 0 }
    /// By default, nothing is counted.
    package var segmentCounts: SegmentCounts? { nil }

    /// By default, there is no handshake.
    package func advance() -> HandshakeProgress { .ready }
    /// The default for channels that do not know why.
    package var lateHandshake: String? { nil }

    /// By default, the error of the system says all.
    package var failure: (any Error)? { nil }
    /// The default is `false`, because streams are read until they are empty.
    package var mayLookLater: Bool { false }
    /// The default for streams, whose end is read, and for datagrams without encryption.
    package var hasEnded: Bool { false }

    /// By default, there is nothing to prepare.
    package func beginWriting() {}
    /// By default, the kernel has all output that was taken.
    package var holdsOutput: Bool { false }

    /// The default for protocols that cannot change their address.
    package func renew() -> Bool { false }
    /// The default for protocols that cannot change their address.
    package func takeAddressChange() -> Bool { false }
}

/// The state of a channel's own handshake.
package enum HandshakeProgress: Sendable, Hashable {
    /// The channel can be read and written.
    case ready
    /// The next step needs bytes from the peer, or room for bytes to it.
    case waiting
    /// The next step can be taken in the next tick of the loop.
    case again
    /// The handshake has failed. The result is that of a read.
    case failed(IOResult)
}
