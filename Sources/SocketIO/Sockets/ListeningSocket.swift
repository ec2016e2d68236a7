import CSocketIO

/// A TCP socket that accepts connections. It is used on its loop only.
package final class ListeningSocket {
    private let loop: EventLoop
    private var descriptor: Descriptor?
    private var token: UInt64?
    /// The address of the socket. If port 0 was requested, it has the port that the system chose.
    package private(set) var local: SocketAddress?

    /// Listens at `address`.
    ///
    /// - Parameters:
    ///   - address: the address. With port 0, the system chooses the port.
    ///   - backlog: how many connections the kernel completes before they are accepted.
    ///   - loop: the loop of the socket.
    package init(boundTo address: SocketAddress, backlog: Int32 = 1024, on loop: EventLoop) throws(SystemError) {
        let socket = try Platform.socket(family: address.family, type: Platform.streamSocket)
        let raw = socket.raw
        Platform.setOption(raw, SOL_SOCKET, SO_REUSEADDR, 1)
        try ReservedPort.bind(raw, to: address, isDatagram: false)
        #if os(Linux)
        // Accepted connections inherit these options, which saves two system calls for each connection.
        StreamSocket.setOptions(raw)
        #endif
        guard csocketio_listen(raw, backlog) == 0 else { throw SystemError("listen") }
        local = SocketAddress.filled { csocketio_getsockname(raw, $0, $1) }
        self.loop = loop
        descriptor = consume socket
    }

    /// Starts reporting queued connections to `handler`, which the loop keeps alive until ``close()``.
    package func attach(_ handler: any PollHandler) throws(SystemError) {
        guard let raw = descriptor?.raw else { throw SystemError("attach", EBADF) }
        token = try loop.watch(raw, handler)
    }

    /// Accepts the next connection. Returns `nil` if none is queued.
    ///
    /// - Throws: an error if a connection is queued but cannot be accepted, for example because there are no
    ///   descriptors left. It stays queued.
    package func accept() throws(SystemError) -> StreamSocket? {
        let raw = descriptor?.raw ?? -1
        while true {
            var accepted: Int32 = -1
            let peer = SocketAddress.filled {
                accepted = systemAccept(raw, $0, $1)
                return accepted
            }
            if accepted >= 0 {
                let connection = Descriptor(accepted)
                #if !os(Linux)
                try Platform.makeNonBlocking(accepted)
                StreamSocket.setOptions(accepted)
                #endif
                return StreamSocket(accepted: connection, from: peer, on: loop)
            }
            switch errno {
            case EINTR, ECONNABORTED: continue
            case EAGAIN, EWOULDBLOCK:
                if let token { loop.rearm(raw, token, .read) }
                return nil
            case let number: throw SystemError("accept", number)
            }
        }
    }

    /// Stops listening. Queued connections are refused.
    package func close() {
        guard let raw = descriptor?.raw else { return }
        if let token { loop.unwatch(raw, token) }
        token = nil
        // A child process has a copy of each descriptor until its program starts, and would listen until then.
        _ = csocketio_shutdown(raw, Int32(SHUT_RDWR))
        descriptor = nil
    }
}

private func systemAccept(
    _ raw: Int32,
    _ address: UnsafeMutablePointer<sockaddr>,
    _ length: UnsafeMutablePointer<socklen_t>
) -> Int32 {
    #if os(Linux)
    csocketio_accept(raw, address, length)
    #else
    accept(raw, address, length)
    #endif
}
