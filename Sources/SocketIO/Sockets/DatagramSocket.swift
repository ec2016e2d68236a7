import CSocketIO

/// A UDP socket on an event loop: connected to one peer, or bound and open to all. Lives on its loop's thread.
package final class DatagramSocket {
    private let loop: EventLoop
    // Unchecked exclusivity, because nobody is called while these change.
    @exclusivity(unchecked) private var descriptor: Descriptor?
    @exclusivity(unchecked) private var token: UInt64?
    /// This side's address.
    package private(set) var local: SocketAddress?

    /// A socket that exchanges datagrams with `peer` alone; the kernel drops everybody else's.
    ///
    /// - Parameter own: this side's address; by default the one at which the way to the peer begins.
    package init(connectedTo peer: SocketAddress, from own: SocketAddress? = nil, on loop: EventLoop)
        throws(SystemError)
    {
        let socket = try Platform.socket(family: peer.family, type: Platform.datagramSocket)
        let raw = socket.raw
        if let own, own.withPointer({ csocketio_bind(raw, $0, $1) }) != 0 { throw SystemError("bind") }
        growReceiveBuffer(raw, to: clientReceiveBuffer)
        guard peer.withPointer({ csocketio_connect(raw, $0, $1) }) == 0 else { throw SystemError("connect") }
        local = SocketAddress.filled { csocketio_getsockname(raw, $0, $1) }
        self.loop = loop
        descriptor = consume socket
    }

    /// A socket bound to `address`, whose port may be 0 to let the system choose.
    package init(boundTo address: SocketAddress, on loop: EventLoop) throws(SystemError) {
        let socket = try Platform.socket(family: address.family, type: Platform.datagramSocket)
        let raw = socket.raw
        growReceiveBuffer(raw, to: serverReceiveBuffer)
        try ReservedPort.bind(raw, to: address, isDatagram: true)
        local = SocketAddress.filled { csocketio_getsockname(raw, $0, $1) }
        self.loop = loop
        descriptor = consume socket
    }

    /// Starts reporting readiness to `handler`, which the loop keeps alive until ``close()``.
    package func attach(_ handler: any PollHandler) throws(SystemError) {
        guard let raw = descriptor?.raw else { throw SystemError("attach", EBADF) }
        token = try loop.watch(raw, for: .read, handler)
    }

    /// Takes what waits, as much as `batch` has room for: `.bytes` with the number of datagrams, of which empty ones and
    /// those too long for the batch have no bytes.
    package func receive(into batch: DatagramBatch) -> IOResult {
        let raw = descriptor?.raw ?? -1
        let result = batch.fill(from: raw)
        if result == .wouldBlock || batch.wasLast { rearm(.read) }
        return result
    }

    /// Sends one datagram to the connected peer.
    package func send(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        let raw = descriptor?.raw ?? -1
        let result = IOResult(
            retryingInterrupts { csocketio_send(raw, bytes.baseAddress, bytes.count, Platform.sendFlags) },
            "send"
        )
        if result == .wouldBlock { rearm(.write) }
        return result
    }

    /// Sends one datagram to `address`.
    package func send(_ bytes: UnsafeRawBufferPointer, to address: SocketAddress) -> IOResult {
        let raw = descriptor?.raw ?? -1
        let count = address.withPointer { pointer, length in
            retryingInterrupts {
                csocketio_sendto(raw, bytes.baseAddress, bytes.count, Platform.sendFlags, pointer, length)
            }
        }
        let result = IOResult(count, "sendto")
        if result == .wouldBlock { rearm(.write) }
        return result
    }

    /// Closes the socket. What comes for it is answered by ICMP from now on.
    package func close() {
        guard let raw = descriptor?.raw else { return }
        if let token { loop.unwatch(raw, token) }
        token = nil
        // A process that is just being started has a copy of each descriptor until its program runs. It is not to
        // swallow what comes, nor to keep the port, as long.
        if let local { _ = ReservedPort.silence(raw, at: local) }
        descriptor = nil
    }

    private func rearm(_ readiness: Readiness) {
        guard let raw = descriptor?.raw, let token else { return }
        loop.rearm(raw, token, readiness)
    }
}

/// What comes while a client's loop is at work elsewhere.
private let clientReceiveBuffer: Int32 = 1 << 20
/// A server's datagrams come from all its clients at once, and what comes while another program has its core is to wait
/// and not to be lost: a few thousand, each of which counts with the memory of its packet, and so for a kilobyte or
/// two.
private let serverReceiveBuffer: Int32 = 4 << 20

private func growReceiveBuffer(_ raw: Int32, to size: Int32) {
    #if os(Linux)
    // Beyond the system's bound (net.core.rmem_max) for those who may (socket(7): CAP_NET_ADMIN).
    if Platform.setOption(raw, SOL_SOCKET, SO_RCVBUFFORCE, size) { return }
    #endif
    // Linux gives what its bound allows; others refuse what is beyond theirs.
    var size = size
    while !Platform.setOption(raw, SOL_SOCKET, SO_RCVBUF, size), size > 1 << 16 { size /= 2 }
}
