import CommandSupport
import Foundation

/// System calls on IPv4 sockets over loopback, without any of this package's code.
package enum BareSocket {
    #if canImport(Glibc)
    package static let stream = Int32(SOCK_STREAM.rawValue)
    package static let datagram = Int32(SOCK_DGRAM.rawValue)
    #else
    package static let stream = SOCK_STREAM
    package static let datagram = SOCK_DGRAM
    #endif

    /// A send to a peer that has closed fails with EPIPE and raises no signal.
    #if canImport(Darwin)
    package static let noSignal: Int32 = 0
    #else
    package static let noSignal = Int32(MSG_NOSIGNAL)
    #endif

    /// A socket that child processes do not inherit.
    package static func open(_ type: Int32, isBlocking: Bool = true) throws(SystemFailure) -> Int32 {
        let socket = socket(AF_INET, type, 0)
        guard socket >= 0 else { throw SystemFailure("socket", errno: errno) }
        _ = fcntl(socket, F_SETFD, FD_CLOEXEC)
        if !isBlocking { setNonBlocking(socket) }
        return socket
    }

    static func setNonBlocking(_ socket: Int32) {
        _ = fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK)
    }

    package static func set(_ socket: Int32, _ level: Int32, _ name: Int32, _ value: Int32) {
        var value = value
        _ = setsockopt(socket, level, name, &value, socklen_t(MemoryLayout<Int32>.size))
    }

    /// Calls `body` with an address, by default 127.0.0.1.
    static func withAddress(
        _ host: UInt32 = 0x7f00_0001,
        port: UInt16,
        _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) -> Int32 {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = host.bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    /// Binds a socket, by default to 127.0.0.1 and a port that the system chooses.
    package static func bind(_ socket: Int32, _ host: UInt32 = 0x7f00_0001) throws(SystemFailure) {
        guard withAddress(host, port: 0, { Foundation.bind(socket, $0, $1) }) == 0 else {
            throw SystemFailure("bind", errno: errno)
        }
    }

    /// Connects a socket to a port of 127.0.0.1. A non-blocking socket continues to connect after the call.
    package static func connect(_ socket: Int32, port: UInt16) throws(SystemFailure) {
        let result = withAddress(port: port) { Foundation.connect(socket, $0, $1) }
        guard result == 0 || errno == EINPROGRESS else { throw SystemFailure("connect", errno: errno) }
    }

    /// The port to which a socket is bound.
    package static func port(of socket: Int32) -> UInt16 {
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        _ = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(socket, $0, &length) }
        }
        return UInt16(bigEndian: address.sin_port)
    }
}
