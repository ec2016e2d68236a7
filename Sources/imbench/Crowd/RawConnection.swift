import SocketIO

/// A TCP connection without any of our code above it: as cheap as a client can be, and as rude as one likes.
struct RawConnection: Sendable {
    let socket: Int32

    /// Connects to a port of 127.0.0.1, and does not wait for it.
    init(port: UInt16) throws(SystemFailure) {
        #if canImport(Glibc)
        socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #else
        socket = SocketIO.socket(AF_INET, SOCK_STREAM, 0)
        #endif
        guard socket >= 0 else { throw SystemFailure("socket", errno: errno) }
        _ = fcntl(socket, F_SETFL, O_NONBLOCK)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let raw = socket
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(raw, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 || errno == EINPROGRESS else {
            let number = errno
            closeDescriptor(socket)
            throw SystemFailure("connect", errno: number)
        }
    }

    /// Sends what the kernel takes; how much that was, -1 once the connection is gone.
    func send(_ bytes: ArraySlice<UInt8>) -> Int {
        #if os(Linux)
        let flags = Int32(MSG_NOSIGNAL)
        #else
        let flags: Int32 = 0
        #endif
        let raw = socket
        let count = bytes.withUnsafeBytes { SocketIO.send(raw, $0.baseAddress, $0.count, flags) }
        if count >= 0 { return count }
        return errno == EAGAIN || errno == EINTR || errno == ENOTCONN ? 0 : -1
    }

    /// Reads and drops what is there; `false` once the connection is gone.
    func drain(_ buffer: UnsafeMutableRawBufferPointer) -> Bool {
        let count = recv(socket, buffer.baseAddress, buffer.count, 0)
        return count > 0 || count < 0 && (errno == EAGAIN || errno == EINTR)
    }

    func close() {
        closeDescriptor(socket)
    }
}
