import Foundation
import SocketIO

/// A proxy that opens tunnels to this machine. Each direction of a tunnel has its own thread.
final class ProxyServer: Sendable {
    enum Kind: Sendable {
        /// HTTP, by CONNECT.
        case http
        /// SOCKS 5, with the one user that is accepted.
        case socks5(user: String, password: String)
    }

    private let listener: RawListener
    private let requests = Locked<[String]>([])
    /// The requests of the HTTP clients, each up to its empty line. Of SOCKS clients, the types of the servers' addresses.
    var heads: [String] { requests.withLock { $0 } }
    /// How many tunnels were requested.
    var count: Int { heads.count }

    var port: UInt16 { listener.port }

    init(_ kind: Kind = .http) throws {
        listener = try RawListener()
        listener.serve { [self] _, client in
            defer { close(client) }
            switch kind {
            case .http: serveHTTP(client)
            case .socks5(let user, let password): serveSOCKS(client, user, password)
            }
        }
    }

    func stop() { listener.stop() }

    private func serveHTTP(_ client: Int32) {
        var head: [UInt8] = []
        while !head.suffix(4).elementsEqual([13, 10, 13, 10]) {
            guard let byte = Self.read(1, from: client) else { return }
            head += byte
        }
        let text = String(decoding: head, as: UTF8.self)
        requests.withLock { $0.append(text) }
        // CONNECT host:port HTTP/1.1
        let target = text.split(separator: " ").dropFirst().first ?? ""
        let server = connectToLoopback(UInt16(target.split(separator: ":").last ?? "") ?? 0)
        let answer = server == nil ? "HTTP/1.1 502 Bad Gateway\r\n\r\n" : "HTTP/1.1 200 Connection established\r\n\r\n"
        Self.write(Array(answer.utf8), to: client)
        if let server { Self.carry(client, server) }
    }

    private func serveSOCKS(_ client: Int32, _ user: String, _ password: String) {
        guard let greeting = Self.read(2, from: client), greeting[0] == 5,
            let methods = Self.read(Int(greeting[1]), from: client)
        else { return }
        guard methods.contains(2) else { return Self.write([5, 255], to: client) }
        Self.write([5, 2], to: client)
        let expected = [1, UInt8(user.utf8.count)] + user.utf8 + [UInt8(password.utf8.count)] + password.utf8
        guard Self.read(expected.count, from: client) == expected else { return Self.write([1, 1], to: client) }
        Self.write([1, 0], to: client)
        guard let request = Self.read(4, from: client) else { return }
        let length: Int? =
            switch request[3] {
            case 1: 4
            case 4: 16
            default: Self.read(1, from: client).map { Int($0[0]) }
            }
        guard let length, let rest = Self.read(length + 2, from: client) else { return }
        requests.withLock { $0.append("\(request[3])") }
        let server = connectToLoopback(UInt16(rest[length]) << 8 | UInt16(rest[length + 1]))
        Self.write([5, server == nil ? 5 : 0, 0, 1, 0, 0, 0, 0, 0, 0], to: client)
        if let server { Self.carry(client, server) }
    }

    /// Reads exactly `count` bytes. Returns `nil` at the end.
    private static func read(_ count: Int, from descriptor: Int32) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        guard recv(descriptor, &bytes, count, Int32(MSG_WAITALL)) == count else { return nil }
        return bytes
    }

    private static func write(_ bytes: [UInt8], to descriptor: Int32) {
        _ = send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }

    /// Passes on both directions until both have ended, and closes the connection to the server.
    private static func carry(_ client: Int32, _ server: Int32) {
        let back = DispatchSemaphore(value: 0)
        Thread {
            pass(server, client)
            back.signal()
        }.start()
        pass(client, server)
        back.wait()
        close(server)
    }

    private static func pass(_ from: Int32, _ to: Int32) {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(from, &buffer, buffer.count, 0)
            guard count > 0, send(to, buffer, count, Int32(MSG_NOSIGNAL)) == count else { break }
        }
        shutdown(to, Int32(SHUT_WR))
    }
}

/// Connects to a port of 127.0.0.1. Returns `nil` if nothing listens there.
func connectToLoopback(_ port: UInt16) -> Int32? {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in.loopback(port)
    let result = withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
    }
    if result == 0 { return descriptor }
    close(descriptor)
    return nil
}
