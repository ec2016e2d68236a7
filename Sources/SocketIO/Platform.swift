// The differences between the C libraries, in one place.

import CSocketIO

#if canImport(Glibc)
@_exported import Glibc
#elseif canImport(Musl)
@_exported import Musl
#elseif canImport(Darwin)
@_exported import Darwin
#endif

#if os(Linux)
import CSocketIO
#endif

enum Platform {
    #if canImport(Glibc)
    static let streamSocket = Int32(SOCK_STREAM.rawValue)
    static let datagramSocket = Int32(SOCK_DGRAM.rawValue)
    #else
    static let streamSocket = SOCK_STREAM
    static let datagramSocket = SOCK_DGRAM
    #endif

    #if os(Linux)
    /// Writing to a connection that the peer has closed returns EPIPE and raises no SIGPIPE.
    static let sendFlags = Int32(MSG_NOSIGNAL)
    #else
    static let sendFlags: Int32 = 0
    #endif

    /// EAI_NODATA: the name exists, but has no address. Glibc declares it for GNU programs only.
    #if os(Linux)
    static let noAddressCode: Int32 = -5
    #else
    static let noAddressCode = EAI_NODATA
    #endif

    /// Returns a new non-blocking, close-on-exec socket that cannot raise SIGPIPE.
    static func socket(family: Int32, type: Int32) throws(SystemError) -> Descriptor {
        #if os(Linux)
        let flags = Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let raw = csocketio_socket(family, type | flags, 0)
        guard raw >= 0 else { throw SystemError("socket") }
        if type == streamSocket { csocketio_apply_congestion_control(raw) }
        return Descriptor(raw)
        #else
        let raw = csocketio_socket(family, type, 0)
        guard raw >= 0 else { throw SystemError("socket") }
        let descriptor = Descriptor(raw)
        try makeNonBlocking(descriptor.raw)
        return descriptor
        #endif
    }

    /// Makes a descriptor of the system non-blocking and close-on-exec, and prevents SIGPIPE.
    static func makeNonBlocking(_ raw: Int32) throws(SystemError) {
        guard fcntl(raw, F_SETFL, fcntl(raw, F_GETFL) | O_NONBLOCK) >= 0, fcntl(raw, F_SETFD, FD_CLOEXEC) >= 0 else {
            throw SystemError("fcntl")
        }
        #if canImport(Darwin)
        setOption(raw, SOL_SOCKET, SO_NOSIGPIPE, 1)
        #endif
    }

    /// Sets an integer option. Returns `false` if the system does not support it.
    @discardableResult
    static func setOption(_ raw: Int32, _ level: Int32, _ name: Int32, _ value: Int32) -> Bool {
        var value = value
        return csocketio_setsockopt(raw, level, name, &value, socklen_t(MemoryLayout<Int32>.size)) == 0
    }

    /// Returns how many bytes of a TCP socket its peer has not acknowledged. On Linux, this includes FIN. Returns 0 if
    /// the system does not report it.
    static func unacknowledgedBytes(_ raw: Int32) -> Int {
        #if os(Linux)
        return Int(csocketio_unacknowledged(raw))
        #elseif canImport(Darwin)
        var value: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        return getsockopt(raw, SOL_SOCKET, SO_NWRITE, &value, &size) == 0 ? Int(value) : 0
        #else
        return 0
        #endif
    }

    /// Returns the pending error of a socket (SO_ERROR), or 0 if there is none.
    static func pendingError(_ raw: Int32) -> Int32 {
        var value: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        return csocketio_getsockopt(raw, SOL_SOCKET, SO_ERROR, &value, &size) == 0 ? value : errno
    }
}
