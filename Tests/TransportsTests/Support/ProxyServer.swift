import Foundation
import SocketIO

/// An HTTP proxy that opens tunnels to this machine. Each direction of a tunnel has its own thread.
final class ProxyServer: Sendable {
    private let listener: RawListener
    private let requests = Locked<[String]>([])
    /// The requests, each up to its empty line.
    var heads: [String] { requests.withLock { $0 } }

    var port: UInt16 { listener.port }

    init() throws {
        listener = try RawListener()
        listener.serve { [self] in serve($1) }
    }

    func stop() { listener.stop() }

    private func serve(_ client: Int32) {
        defer { close(client) }
        var head: [UInt8] = []
        var byte: UInt8 = 0
        while !head.suffix(4).elementsEqual([13, 10, 13, 10]) {
            guard recv(client, &byte, 1, 0) == 1 else { return }
            head.append(byte)
        }
        let text = String(decoding: head, as: UTF8.self)
        requests.withLock { $0.append(text) }
        // CONNECT host:port HTTP/1.1
        let target = text.split(separator: " ").dropFirst().first ?? ""
        var address = sockaddr_in.loopback(UInt16(target.split(separator: ":").last ?? "") ?? 0)
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
