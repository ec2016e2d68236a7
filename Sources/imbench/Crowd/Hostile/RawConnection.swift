import SocketIO

/// A TCP connection without any of our code above it: as cheap as a client can be, and as rude as one likes.
struct RawConnection: Sendable {
    let socket: Int32

    /// The buffers of a side that does not read, and its largest segment, in bytes.
    private static let (smallBuffer, usualSegment): (Int32, Int32) = (4096, 1448)

    /// Connects to a port of 127.0.0.1, and does not wait for it.
    ///
    /// - Parameter reads: whether this side is going to read. If not, its buffers in the kernel are made small. Over
    ///   loopback it is the sender's thread that puts its bytes into the receiver's queue, and that has to squeeze this
    ///   queue once it is full (tcp_collapse in Linux): work that across a network is the receiver's own, and that here
    ///   would count as the server's. With segments as across a network the kernel sizes the server's send buffer as it
    ///   does there, too: loopback's of 64 KiB make it hold 2.5 MiB that nobody reads before the server notices.
    init(port: UInt16, reads: Bool = true) throws(SystemFailure) {
        #if canImport(Glibc)
        socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #else
        socket = SocketIO.socket(AF_INET, SOCK_STREAM, 0)
        #endif
        guard socket >= 0 else { throw SystemFailure("socket", errno: errno) }
        _ = fcntl(socket, F_SETFL, O_NONBLOCK)
        if !reads {
            // Before connecting, when both sides tell the window's scale and their segments (tcp(7)).
            Self.set(socket, SOL_SOCKET, SO_RCVBUF, Self.smallBuffer)
            Self.set(socket, SOL_SOCKET, SO_SNDBUF, Self.smallBuffer)
            Self.set(socket, Int32(IPPROTO_TCP), TCP_MAXSEG, Self.usualSegment)
        }
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

    private static func set(_ socket: Int32, _ level: Int32, _ name: Int32, _ value: Int32) {
        var value = value
        _ = setsockopt(socket, level, name, &value, socklen_t(MemoryLayout<Int32>.size))
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

    /// Reads what is there; how much that was, -1 once the connection is gone.
    func read(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
        let count = recv(socket, buffer.baseAddress, buffer.count, 0)
        if count > 0 { return count }
        return count < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1
    }

    func close() {
        closeDescriptor(socket)
    }
}
