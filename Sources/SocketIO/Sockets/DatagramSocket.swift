import CSocketIO

/// A UDP socket on an event loop, either connected to one peer, or bound and open to all. It is used on its loop only.
package final class DatagramSocket {
    private let loop: EventLoop
    // Unchecked exclusivity, because no other code runs while these change.
    @exclusivity(unchecked) private var descriptor: Descriptor?
    @exclusivity(unchecked) private var token: UInt64?
    /// This side's address.
    package private(set) var local: SocketAddress?

    /// Creates a socket that exchanges datagrams with `peer` only. The kernel drops datagrams from all others.
    ///
    /// - Parameters:
    ///   - peer: the address of the peer.
    ///   - own: this side's address. By default, the system chooses it by the route to the peer.
    ///   - loop: the loop of the socket.
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

    /// Creates a socket bound to `address`. With port 0, the system chooses the port.
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

    /// Receives the queued datagrams, as many as `batch` has room for. Returns `.bytes` with the number of datagrams.
    /// Empty datagrams and those that are too long for the batch have no bytes.
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

    /// Closes the socket. The system answers later datagrams by ICMP.
    package func close() {
        guard let raw = descriptor?.raw else { return }
        if let token { loop.unwatch(raw, token) }
        token = nil
        // A child process has a copy of each descriptor until its program starts. Meanwhile, the copy must not receive
        // datagrams or occupy the port.
        if let local { _ = ReservedPort.silence(raw, at: local) }
        descriptor = nil
    }

    private func rearm(_ readiness: Readiness) {
        guard let raw = descriptor?.raw, let token else { return }
        loop.rearm(raw, token, readiness)
    }
}

/// For datagrams that arrive while a client's loop does other work.
private let clientReceiveBuffer: Int32 = 1 << 20
/// For datagrams from all clients of a server. They must not be lost while another program uses the core. It holds a
/// few thousand, because each counts with the memory of its packet, which is one or two kilobytes.
private let serverReceiveBuffer: Int32 = 4 << 20

private func growReceiveBuffer(_ raw: Int32, to size: Int32) {
    #if os(Linux)
    // Exceeds the system's limit (net.core.rmem_max) if the process has the permission (socket(7): CAP_NET_ADMIN).
    if Platform.setOption(raw, SOL_SOCKET, SO_RCVBUFFORCE, size) { return }
    #endif
    // Linux lowers the size to its limit. Other systems refuse a size above it.
    var size = size
    while !Platform.setOption(raw, SOL_SOCKET, SO_RCVBUF, size), size > 1 << 16 { size /= 2 }
}
