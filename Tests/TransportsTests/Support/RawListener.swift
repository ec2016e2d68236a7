import Foundation
import SocketIO

/// A listening socket on loopback, without a loop.
///
/// Only the accepting thread closes the socket. The number of a closed descriptor may belong to another socket at once,
/// and the thread would accept connections from that one.
final class RawListener: Sendable {
    let port: UInt16
    private let descriptor: Int32
    private let isOpen = Locked(true)

    /// Listens.
    ///
    /// - Parameters:
    ///   - wanted: The port; 0 lets the system choose one. A port of a `ReservedPort` can be shared with it.
    ///   - host: The last number of the address, 127.0.0.`host`.
    init(port wanted: UInt16 = 0, host: UInt8 = 1) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var reuse: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &reuse, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in.loopback(wanted)
        address.sin_addr.s_addr = in_addr_t(0x7f00_0000 | UInt32(host)).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = descriptor
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(descriptor, pointer, length) | listen(descriptor, 16) | getsockname(descriptor, pointer, &length)
            }
        }
        guard result == 0 else { throw POSIXError(.EADDRNOTAVAIL) }
        port = UInt16(bigEndian: address.sin_port)
    }

    /// Calls `body` with each connection and its number, on a new thread, until ``stop()``. `body` closes the
    /// connection.
    func serve(_ body: @escaping @Sendable (_ number: Int, _ connection: Int32) -> Void) {
        Thread.detachNewThread { [self] in
            var number = 0
            while true {
                let connection = accept(descriptor, nil, nil)
                guard connection >= 0 else { break }
                Thread.detachNewThread { [number] in body(number, connection) }
                number += 1
            }
            isOpen.withLock { isOpen in
                isOpen = false
                close(descriptor)
            }
        }
    }

    /// Refuses new connections from now on.
    func stop() {
        isOpen.withLock { isOpen in
            if isOpen { shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
    }
}

extension sockaddr_in {
    /// The address of a port of 127.0.0.1.
    static func loopback(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
        address.sin_port = port.bigEndian
        return address
    }
}
