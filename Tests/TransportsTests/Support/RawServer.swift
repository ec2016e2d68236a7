import Foundation
import Protocols
import SocketIO

/// A TCP server with fixed answers. Each connection gets the next answer, and later connections get the last one. Each
/// connection has its own thread, so a silent client blocks no other.
final class RawServer: Sendable {
    enum Answer: Sendable {
        /// Sends this text when the request has ended with an empty line, and closes.
        case http(String)
        /// Accepts the handshake of a WebSocket with these further lines, and closes.
        case upgrade([String])
        /// Sends each of these after something has come from the client, and closes.
        case exchange([[UInt8]])
        /// Resets the connection.
        case reset
        /// Accepts the connection and sends nothing.
        case silent
    }

    private let listener: RawListener
    private let answers: Locked<[Answer]>
    private let held = Locked<[Int32]>([])
    private let accepted = Locked(0)
    private let silences = AsyncStream<Void>.makeStream()
    private let requests = Locked<[String]>([])
    /// The requests of the HTTP answers, each up to its empty line.
    var heads: [String] { requests.withLock { $0 } }

    /// How many connections were accepted.
    var connectionCount: Int { accepted.withLock { $0 } }
    /// Whether the peers of all connections without an answer have closed them.
    var areHeldClosed: Bool {
        held.withLock { held in
            held.allSatisfy { connection in
                var watched = pollfd(fd: connection, events: 0, revents: 0)
                return poll(&watched, 1, 0) == 1 && watched.revents & Int16(POLLHUP | POLLERR) != 0
            }
        }
    }

    var port: UInt16 { listener.port }

    init(port: UInt16 = 0, host: UInt8 = 1, _ answers: Answer...) throws {
        self.answers = Locked(answers)
        listener = try RawListener(port: port, host: host)
        listener.serve { [self] index, connection in
            answer(self.answers.withLock { $0[min(index, $0.count - 1)] }, connection)
        }
    }

    /// Adds an answer behind the others, for one that contains the port of another server.
    func add(_ answer: Answer) {
        answers.withLock { $0.append(answer) }
    }

    private func answer(_ answer: Answer, _ connection: Int32) {
        accepted.withLock { $0 += 1 }
        switch answer {
        case .silent:
            held.withLock { $0.append(connection) }
            silences.continuation.yield()
            return
        case .reset:
            var lingering = linger(l_onoff: 1, l_linger: 0)
            setsockopt(connection, SOL_SOCKET, SO_LINGER, &lingering, socklen_t(MemoryLayout<linger>.size))
        case .http(let text):
            let head = readHead(from: connection)
            requests.withLock { $0.append(head) }
            let bytes = Array(text.utf8)
            _ = send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL))
        case .upgrade(let lines):
            let head = readHead(from: connection)
            requests.withLock { $0.append(head) }
            let key = head.split(separator: "\r\n").first { $0.hasPrefix("Sec-WebSocket-Key: ") }?.dropFirst(19) ?? ""
            let fixed = ["HTTP/1.1 101 X", "Upgrade: websocket", "Connection: Upgrade"]
            let accept = "Sec-WebSocket-Accept: \(HandshakeKey.accept(for: String(key)))"
            let bytes = Array((fixed + [accept] + lines + ["", ""]).joined(separator: "\r\n").utf8)
            _ = send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL))
        case .exchange(let answers):
            var buffer = [UInt8](repeating: 0, count: 4096)
            for bytes in answers where recv(connection, &buffer, buffer.count, 0) > 0 {
                _ = send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL))
            }
        }
        close(connection)
    }

    /// Waits until the next connection is accepted that gets no answer, or the task is cancelled.
    func nextSilentConnection() async {
        for await _ in silences.stream { return }
    }

    /// Stops the server and closes its open connections.
    func stop() {
        listener.stop()
        for connection in held.withLock({ $0 }) { close(connection) }
    }
}

/// Reads from a connection up to an empty line or the end.
func readHead(from connection: Int32) -> String {
    var seen: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while !seen.contains([13, 10, 13, 10]) {
        let count = recv(connection, &buffer, buffer.count, 0)
        guard count > 0 else { break }
        seen += buffer[..<count]
    }
    return String(decoding: seen, as: UTF8.self)
}
