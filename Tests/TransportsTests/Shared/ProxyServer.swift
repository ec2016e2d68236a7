import Foundation
import SocketIO

/// An HTTP proxy that opens tunnels to this machine, on a thread for each direction of each.
final class ProxyServer: Sendable {
    let port: UInt16
    private let listening: Int32
    private let heard = Locked<[String]>([])
    /// The requests, each up to its empty line.
    var heads: [String] { heard.withLock { $0 } }

    init() throws {
        (listening, port) = try Self.listen()
        Thread { [self] in accept() }.start()
    }

    func stop() {
        shutdown(listening, Int32(SHUT_RDWR))
        close(listening)
    }

    private static func listen() throws -> (Int32, UInt16) {
        let listening = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = local(0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(listening, pointer, length) | Foundation.listen(listening, 16)
                    | getsockname(listening, pointer, &length)
            }
        }
        guard result == 0 else { throw POSIXError(.EADDRNOTAVAIL) }
        return (listening, UInt16(bigEndian: address.sin_port))
    }

    private static func local(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
        address.sin_port = port.bigEndian
        return address
    }

    private func accept() {
        while true {
            let client = Foundation.accept(listening, nil, nil)
            guard client >= 0 else { return }
            Thread { [self] in serve(client) }.start()
        }
    }

    private func serve(_ client: Int32) {
        defer { close(client) }
        var head: [UInt8] = []
        var byte: UInt8 = 0
        while !head.suffix(4).elementsEqual([13, 10, 13, 10]) {
            guard recv(client, &byte, 1, 0) == 1 else { return }
            head.append(byte)
        }
        let text = String(decoding: head, as: UTF8.self)
        heard.withLock { $0.append(text) }
        // CONNECT host:port HTTP/1.1
        let target = text.split(separator: " ").dropFirst().first ?? ""
        var address = Self.local(UInt16(target.split(separator: ":").last ?? "") ?? 0)
        let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(server, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        let answer = result == 0 ? "HTTP/1.1 200 Connection established\r\n\r\n" : "HTTP/1.1 502 Bad Gateway\r\n\r\n"
        _ = send(client, answer, answer.utf8.count, Int32(MSG_NOSIGNAL))
        guard result == 0 else { return }
        let back = DispatchSemaphore(value: 0)
        Thread {
            Self.carry(server, client)
            back.signal()
        }.start()
        Self.carry(client, server)
        back.wait()
        close(server)
    }

    private static func carry(_ from: Int32, _ to: Int32) {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(from, &buffer, buffer.count, 0)
            guard count > 0, send(to, buffer, count, Int32(MSG_NOSIGNAL)) == count else { break }
        }
        shutdown(to, Int32(SHUT_WR))
    }
}
