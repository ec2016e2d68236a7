import Foundation
import SocketIO

/// A socket that listens on loopback, on a port of the system's choice, without a loop.
///
/// Only the thread that accepts closes it: a number that is closed may be another socket's at once, of which that thread would
/// take a connection.
final class HandListener: Sendable {
    let port: UInt16
    private let descriptor: Int32
    private let isOpen = Locked(true)

    init() throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in.loopback(0)
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

    /// Gives each connection, with how many came before it, to `body` on a thread of its own, which closes it; until
    /// ``stop()``.
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

    /// Refuses from now on.
    func stop() {
        isOpen.withLock { isOpen in
            if isOpen { shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
    }
}

extension sockaddr_in {
    /// A port of 127.0.0.1.
    static func loopback(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
        address.sin_port = port.bigEndian
        return address
    }
}
