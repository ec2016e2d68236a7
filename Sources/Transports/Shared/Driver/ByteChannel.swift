import Protocols
import SocketIO
import TransportAPI

/// What lies below a connection: a byte stream, a datagram socket of its own, or a session of a shared one. Lives on its loop.
protocol ByteChannel: AnyObject {
    /// Whether each read gives one datagram, of which nothing is left over.
    var isDatagram: Bool { get }
    /// Round trips that were spent before there was a channel.
    var roundTripsToConnect: Int { get }
    /// Bytes handed to the kernel.
    var bytesSent: UInt64 { get }
    /// Bytes taken from the kernel.
    var bytesReceived: UInt64 { get }
    /// Bytes handed to the kernel that the peer's kernel has not acknowledged, where that is known; else 0.
    var unacknowledgedBytes: Int { get }
    /// What the kernel has counted, where it tells.
    var segmentCounts: SegmentCounts? { get }

    /// Starts reporting readiness to `handler`.
    func attach(_ handler: any PollHandler) throws(SystemError)
    /// Remembers what the handler was told.
    func note(_ readiness: Readiness)
    /// The peer's address, where it has one.
    var peer: SocketAddress? { get }
    /// Reads once, behind what `input` holds, and at most `limit` bytes of a stream.
    func read(into input: inout ByteBuffer, atMost limit: Int) -> IOResult
    /// Whether, after a read of `count` bytes into room for `capacity`, nothing more can be there now.
    func isDrained(afterReading count: Int, of capacity: Int) -> Bool
    /// Whether what was read is all there is as far as is known, so that to look for more may wait until it is answered.
    var mayLookLater: Bool { get }
    /// Hands the output to the kernel: `.bytes` when all of it went, `.wouldBlock` when some is left.
    func flush(_ context: inout CoreContext) -> IOResult
    /// The machine's addresses may be others by now. Whether this side has another one from now on, which the peer should
    /// hear of; `false` where the protocol below can't do that.
    func renew(_ now: Instant) -> Bool
    /// Tells the peer that nothing more will come; `false` where the protocol below has no such thing.
    func shutdownWriting() -> Bool
    /// Closes; with `abort`, without delivering what the kernel still holds.
    func close(abort: Bool)
}

extension ByteChannel {
    /// Nothing is known.
    var unacknowledgedBytes: Int { 0 }
    /// Channels have no address unless they say otherwise.
    var peer: SocketAddress? { nil }
    /// No: streams are read until there is nothing.
    var mayLookLater: Bool { false }
    /// Can't.
    func renew(_: Instant) -> Bool { false }
}

/// A channel that is a byte stream: a socket, a tunnel, a pipe in memory. It says how raw bytes are read and written.
protocol StreamChannel: ByteChannel {
    /// Reads what has arrived, at most as much as `buffer` holds.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult
    /// Writes as much of `bytes` as is taken.
    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult
}

extension StreamChannel {
    /// A byte stream has no datagrams.
    var isDatagram: Bool { false }
    /// One, for the handshake of TCP.
    var roundTripsToConnect: Int { 1 }

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
