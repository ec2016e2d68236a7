import Foundation
import Testing

/// A UDP client that follows no rules. It has a socket and sends whatever bytes a test gives it.
final class RawDatagramClient: Sendable {
    private let socket: Int32

    init(port: UInt16?) throws {
        socket = Foundation.socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
        var timeout = timeval(tv_sec: 20, tv_usec: 0)
        setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = try #require(port).bigEndian
        address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        try #require(result == 0)
    }

    deinit {
        Foundation.close(socket)
    }

    func send(_ bytes: [UInt8]) {
        _ = bytes.withUnsafeBytes { Foundation.send(socket, $0.baseAddress, $0.count, 0) }
    }

    /// The next datagram of one of these kinds. Blocks until it arrives.
    func receive(_ kinds: UInt8...) throws -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: 2000)
        while true {
            let count = recv(socket, &buffer, buffer.count, 0)
            try #require(count > 0, "the server sends nothing")
            if count > 3, kinds.contains(buffer[3]) { return Array(buffer[..<count]) }
        }
    }

    /// The next datagram. Blocks until it arrives, and is empty if nothing comes.
    func receiveAny() -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: 5000)
        let count = recv(socket, &buffer, buffer.count, 0)
        return Array(buffer[..<max(0, count)])
    }

    /// Opens a session and returns its connection id.
    func open(terms: [UInt8] = []) throws -> [UInt8] {
        let nonce = withUnsafeBytes(of: UInt64.random(in: .min ... .max), Array.init)
        send([0x49, 0x4d, 1, 1] + nonce + [UInt8](repeating: 0, count: 52))
        var confirm: [UInt8] = [0x49, 0x4d, 1, 3]
        confirm += nonce
        confirm += try receive(2)[12..<20]
        confirm += terms
        send(confirm + [UInt8](repeating: 0, count: 64 - confirm.count))
        return Array(try receive(4, 11)[12..<20])
    }

    /// Unordered mode, messages of up to 1 MiB, and a window of 4 MiB.
    static let terms: [UInt8] = [2, 0, 16, 0, 0, 0, 64, 0, 0]

    /// Sends messages reliably, as fast as the server takes them, and acknowledges nothing.
    func sendReliably(_ count: Int, of size: Int, in session: [UInt8]) throws {
        for number in 0..<count {
            let bytes = withUnsafeBytes(of: UInt64(number).bigEndian, Array.init)
            var packet: [UInt8] = [0x49, 0x4d, 1, 12]
            packet += session + bytes
            packet += [1] + bytes
            packet += [UInt8(size >> 8), UInt8(size & 255)]
            send(packet + [UInt8](repeating: 7, count: size))
            guard number % 32 == 31 else { continue }
            // A pong shows that the server has taken all packets before it. Any other answer shows that the session has
            // ended.
            send([0x49, 0x4d, 1, 6] + session + bytes)
            guard try receive(7, 8, 9)[3] == 7 else { return }
        }
    }
}
