import Foundation
import SocketIO

/// A TCP server of few words: each connection gets the next of its answers, the last one again and again, on a thread
/// of its own, so that one who says nothing keeps nobody waiting.
final class RawServer: Sendable {
    enum Answer: Sendable {
        /// Says this to whatever ends in an empty line, and ends.
        case http(String)
        /// Breaks the connection.
        case reset
        /// Takes the connection and never says a word.
        case silent
    }

    private let listener: HandListener
    private let held = Locked<[Int32]>([])
    private let heard = Locked<[String]>([])
    /// What was said to the answers of HTTP, each up to its empty line.
    var heads: [String] { heard.withLock { $0 } }

    var port: UInt16 { listener.port }

    init(_ answers: Answer...) throws {
        listener = try HandListener()
        listener.serve { [self] in answer(answers[min($0, answers.count - 1)], $1) }
    }

    private func answer(_ answer: Answer, _ connection: Int32) {
        switch answer {
        case .silent: return held.withLock { $0.append(connection) }
        case .reset:
            var lingering = linger(l_onoff: 1, l_linger: 0)
            setsockopt(connection, SOL_SOCKET, SO_LINGER, &lingering, socklen_t(MemoryLayout<linger>.size))
        case .http(let text):
            let head = readHead(from: connection)
            heard.withLock { $0.append(head) }
            let bytes = Array(text.utf8)
            _ = send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL))
        }
        close(connection)
    }

    /// Ends the server and all that it holds.
    func stop() {
        listener.stop()
        for connection in held.withLock({ $0 }) { close(connection) }
    }
}

/// What comes over a connection up to an empty line, or its end.
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
