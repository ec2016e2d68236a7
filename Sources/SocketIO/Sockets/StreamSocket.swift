import CSocketIO

/// A connected TCP socket. Once attached, it is used on its loop only.
package final class StreamSocket: ByteChannel {
    /// How many unsent bytes the kernel of Linux takes (TCP_NOTSENT_LOWAT). On Apple's systems, this only delays the event
    /// that there is room. It is enough to keep a path busy. It is not more, because queued bytes take memory outside the
    /// limits of this package, and later messages cannot overtake them.
    private static let unsentBound: Int32 = 128 << 10

    private let loop: EventLoop
    // Unchecked exclusivity, because no other code runs while these change.
    @exclusivity(unchecked) private var descriptor: Descriptor?
    @exclusivity(unchecked) private var token: UInt64?
    @exclusivity(unchecked) private var hangUpSeen = false
    /// Whether the kernel took no more bytes, and has not reported room since.
    @exclusivity(unchecked) private var isFull = false
    /// Whether FIN follows the written bytes.
    @exclusivity(unchecked) private var hasShutDown = false
    /// The number of bytes that the kernel has taken.
    @exclusivity(unchecked) package private(set) var bytesSent: UInt64 = 0
    /// The number of bytes that were read from the kernel.
    @exclusivity(unchecked) package private(set) var bytesReceived: UInt64 = 0
    private let isIPv6: Bool
    /// The peer's address.
    package let peer: SocketAddress?

    /// This socket's own address.
    private var local: SocketAddress? {
        guard let raw = descriptor?.raw else { return nil }
        return SocketAddress.filled { csocketio_getsockname(raw, $0, $1) }
    }

    /// Whether the peer is on this machine: its address is a loopback address, or this socket's own.
    package var isPeerLocal: Bool {
        guard let peer else { return false }
        return peer.isLoopback || peer.at(port: 0) == local?.at(port: 0)
    }

    /// Takes the ownership of a connected, non-blocking socket.
    package init(_ descriptor: consuming Descriptor, on loop: EventLoop) {
        let raw = descriptor.raw
        StreamSocket.setOptions(raw)
        peer = SocketAddress.filled { csocketio_getpeername(raw, $0, $1) }
        isIPv6 = peer?.isIPv6 ?? false
        self.loop = loop
        self.descriptor = consume descriptor
    }

    /// Takes the ownership of an accepted connection whose options are set.
    init(accepted descriptor: consuming Descriptor, from peer: SocketAddress?, on loop: EventLoop) {
        self.peer = peer
        isIPv6 = peer?.isIPv6 ?? false
        self.loop = loop
        self.descriptor = consume descriptor
    }

    /// Disables Nagle's algorithm, because the connection itself collects the messages to send together. Sets
    /// ``unsentBound``.
    static func setOptions(_ raw: Int32) {
        Platform.setOption(raw, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
        Platform.setOption(raw, Int32(IPPROTO_TCP), TCP_NOTSENT_LOWAT, unsentBound)
    }

    /// The TCP handshake takes one round trip.
    package var roundTripsToConnect: Int { 1 }

    /// Starts reporting readiness to `handler`, in place of an earlier handler. The present readiness is reported again.
    package func attach(_ handler: any PollHandler) throws(SystemError) {
        guard let raw = descriptor?.raw else { throw SystemError("attach", EBADF) }
        if let token { loop.unwatch(raw, token) }
        token = nil
        token = try loop.watch(raw, handler)
    }

    /// Records that there is room to write, or that the peer has hung up. After a hang-up, a short read does not mean
    /// that the stream is empty.
    package func note(_ readiness: Readiness) {
        if readiness.contains(.write) { isFull = false }
        if readiness.contains(.hangUp) { hangUpSeen = true }
    }

    /// Reads the bytes that have arrived.
    package func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        let raw = descriptor?.raw ?? -1
        let result = IOResult(retryingInterrupts { csocketio_recv(raw, buffer.baseAddress, buffer.count) }, "recv")
        switch result {
        case .bytes(let count): bytesReceived &+= UInt64(count)
        case .wouldBlock: rearm(.read)
        case .end, .failed, .insecure: break
        }
        return result
    }

    /// Returns whether a read has emptied the socket. After a short read the kernel reports the next bytes as a new
    /// edge (epoll(7), question 9), unless the end came with these bytes.
    package func isDrained(afterReading count: Int, of capacity: Int) -> Bool {
        guard count < capacity, !hangUpSeen else { return false }
        rearm(.read)
        return true
    }

    /// Writes as many of `bytes` as the kernel takes. When the kernel takes no more, this does not try again until
    /// ``note(_:)`` reports room. Otherwise, each message to a client that does not read would cost a system call.
    package func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        if isFull { return .wouldBlock }
        let raw = descriptor?.raw ?? -1
        let result = IOResult(
            retryingInterrupts { csocketio_send(raw, bytes.baseAddress, bytes.count, Platform.sendFlags) },
            "send"
        )
        switch result {
        case .bytes(let count): bytesSent &+= UInt64(count)
        case .wouldBlock:
            isFull = true
            rearm(.write)
        case .end, .failed, .insecure: break
        }
        return result
    }

    /// Sends FIN after the bytes in the kernel. Returns `true`, because TCP can close one direction.
    @discardableResult
    package func shutdownWriting() -> Bool {
        guard let raw = descriptor?.raw else { return true }
        hasShutDown = csocketio_shutdown(raw, Int32(SHUT_WR)) == 0
        return true
    }

    /// Closes the socket. With `abort`, it sends RST.
    package func close(abort: Bool) {
        guard let raw = descriptor?.raw else { return }
        if abort {
            var linger = linger(l_onoff: 1, l_linger: 0)
            _ = csocketio_setsockopt(raw, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout.size(ofValue: linger)))
        }
        if let token { loop.unwatch(raw, token) }
        token = nil
        descriptor = nil
    }

    /// How many written bytes the peer's kernel has not acknowledged (SIOCOUTQ of tcp(7), SO_NWRITE). FIN does not
    /// count.
    package var unacknowledgedBytes: Int {
        guard let raw = descriptor?.raw else { return 0 }
        return max(0, Platform.unacknowledgedBytes(raw) - (hasShutDown ? 1 : 0))
    }

    package var bytesAcknowledged: UInt64 { bytesSent - min(bytesSent, UInt64(unacknowledgedBytes)) }

    /// The packet counts of the kernel (TCP_INFO), or `nil` if the system does not report them.
    package var segmentCounts: SegmentCounts? {
        guard let raw = descriptor?.raw else { return nil }
        #if os(Linux)
        var counts = csocketio_tcp_counts()
        guard csocketio_read_tcp_counts(raw, &counts) == 0 else { return nil }
        let sent = UInt64(counts.segments_out)
        let received = UInt64(counts.segments_in)
        let perSegment: UInt64 = (isIPv6 ? 40 : 20) + 20 + (counts.has_timestamps != 0 ? 12 : 0)
        return SegmentCounts(sent: sent, received: received, headerBytes: (sent + received) * perSegment)
        #else
        return nil
        #endif
    }

    private func rearm(_ readiness: Readiness) {
        guard let raw = descriptor?.raw, let token else { return }
        loop.rearm(raw, token, readiness)
    }
}

/// The IP packets of a TCP connection, as the kernel counts them.
package struct SegmentCounts: Sendable, Hashable {
    /// Packets sent, retransmissions included.
    package var sent: UInt64
    /// Packets received.
    package var received: UInt64
    /// The bytes of their TCP and IP headers (RFC 9293, with RFC 7323 timestamps).
    package var headerBytes: UInt64

    /// Creates counts from their values.
    package init(sent: UInt64, received: UInt64, headerBytes: UInt64) {
        self.sent = sent
        self.received = received
        self.headerBytes = headerBytes
    }

    /// The counts of two connections together.
    package static func + (first: SegmentCounts, second: SegmentCounts) -> SegmentCounts {
        SegmentCounts(
            sent: first.sent + second.sent,
            received: first.received + second.received,
            headerBytes: first.headerBytes + second.headerBytes
        )
    }
}
