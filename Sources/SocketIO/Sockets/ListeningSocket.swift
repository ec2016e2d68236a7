import CSocketIO

/// A TCP socket that accepts connections. Lives on its loop's thread.
package final class ListeningSocket {
    private let loop: EventLoop
    private var descriptor: Descriptor?
    private var token: UInt64?
    /// Where it listens, with the port that the system chose if 0 was asked for.
    package private(set) var local: SocketAddress?

    /// Listens at `address`.
    ///
    /// - Parameter backlog: how many connections the kernel completes before they are accepted.
    package init(boundTo address: SocketAddress, backlog: Int32 = 1024, on loop: EventLoop) throws(SystemError) {
        let socket = try Platform.socket(family: address.family, type: Platform.streamSocket)
        let raw = socket.raw
        Platform.setOption(raw, SOL_SOCKET, SO_REUSEADDR, 1)
        try ReservedPort.bind(raw, to: address, isDatagram: false)
        #if os(Linux)
        // What is accepted has these from the start, which saves two system calls for each newcomer.
        StreamSocket.setOptions(raw)
        #endif
        guard csocketio_listen(raw, backlog) == 0 else { throw SystemError("listen") }
        local = SocketAddress.filled { csocketio_getsockname(raw, $0, $1) }
        self.loop = loop
        descriptor = consume socket
    }

    /// Starts reporting waiting connections to `handler`, which the loop keeps alive until ``close()``.
    package func attach(_ handler: any PollHandler) throws(SystemError) {
        guard let raw = descriptor?.raw else { throw SystemError("attach", EBADF) }
        token = try loop.watch(raw, handler)
    }

    /// Takes the next connection; `nil` when none waits.
    ///
    /// - Throws: when one waits but can't be taken (no descriptors left); it goes on waiting.
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

    /// Stops listening; connections that wait are refused.
    package func close() {
        guard let raw = descriptor?.raw else { return }
        if let token { loop.unwatch(raw, token) }
        token = nil
        // A process that is just being started has a copy of each descriptor until its program runs, and would listen as long.
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
