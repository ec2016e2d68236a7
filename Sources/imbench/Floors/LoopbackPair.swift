#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Two sockets that are connected with each other over 127.0.0.1.
struct LoopbackPair: Sendable {
    var near: Int32
    var far: Int32
    /// Whether they are UDP sockets. Those give up waiting after a second, because a datagram may be lost; TCP sockets have
    /// no timer, which would cost time in every wait.
    var isDatagram: Bool

    /// A TCP connection without Nagle's delay (RFC 896), which would hold back every message that follows another.
    static func stream() throws(SystemFailure) -> LoopbackPair {
        let listener = try bound(streamType)
        defer { close(listener) }
        guard listen(listener, 1) == 0 else { throw SystemFailure("listen", errno: errno) }
        let near = try bound(streamType)
        guard connect(near, to: listener) else {
            defer { close(near) }
            throw SystemFailure("connect", errno: errno)
        }
        let far = accept(listener, nil, nil)
        guard far >= 0 else {
            defer { close(near) }
            throw SystemFailure("accept", errno: errno)
        }
        for socket in [near, far] {
            var on: Int32 = 1
            setsockopt(socket, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
        }
        return LoopbackPair(near: near, far: far, isDatagram: false)
    }

    /// Two UDP sockets.
    static func datagram() throws(SystemFailure) -> LoopbackPair {
        let near = try bound(datagramType)
        let far: Int32
        do throws(SystemFailure) {
            far = try bound(datagramType)
        } catch {
            close(near)
            throw error
        }
        let pair = LoopbackPair(near: near, far: far, isDatagram: true)
        guard connect(near, to: far), connect(far, to: near) else {
            defer { pair.closeBoth() }
            throw SystemFailure("connect", errno: errno)
        }
        var second = timeval(tv_sec: 1, tv_usec: 0)
        for socket in [near, far] {
            setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &second, socklen_t(MemoryLayout<timeval>.size))
        }
        return pair
    }

    func closeBoth() {
        close(near)
        close(far)
    }

    /// Makes calls on both sockets return instead of waiting.
    func setNonBlocking() {
        for socket in [near, far] { _ = fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK) }
    }

    /// Lets the thread that reads from `far` end: TCP says end of stream, UDP gets an empty datagram.
    func endFar() {
        if isDatagram { _ = send(near, nil, 0, 0) } else { _ = shutdown(near, Int32(SHUT_WR)) }
    }

    #if os(Linux)
    private static let streamType = Int32(SOCK_STREAM.rawValue)
    private static let datagramType = Int32(SOCK_DGRAM.rawValue)
    #else
    private static let streamType = SOCK_STREAM
    private static let datagramType = SOCK_DGRAM
    #endif

    /// A socket on 127.0.0.1 with a port that the system chose.
    private static func bound(_ type: Int32) throws(SystemFailure) -> Int32 {
        let socket = socket(AF_INET, type, 0)
        guard socket >= 0 else { throw SystemFailure("socket", errno: errno) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(socket, $0, length) }
        }
        guard status == 0 else {
            defer { close(socket) }
            throw SystemFailure("bind", errno: errno)
        }
        _ = fcntl(socket, F_SETFD, FD_CLOEXEC)
        return socket
    }

    /// Connects a socket to the address of another.
    private static func connect(_ socket: Int32, to other: Int32) -> Bool {
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        return withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                guard getsockname(other, $0, &length) == 0 else { return false }
                #if canImport(Glibc)
                return Glibc.connect(socket, $0, length) == 0
                #elseif canImport(Musl)
                return Musl.connect(socket, $0, length) == 0
                #else
                return Darwin.connect(socket, $0, length) == 0
                #endif
            }
        }
    }
}
