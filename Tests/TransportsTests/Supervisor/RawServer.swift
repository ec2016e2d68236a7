import Foundation
import SocketIO

/// A TCP server of few words: each connection gets the next of its answers, the last one again and again, on a thread of its own,
/// so that one who says nothing keeps nobody waiting.
final class RawServer: Sendable {
    enum Answer: Sendable {
        /// Says this to whatever ends in an empty line, and ends.
        case http(String)
        /// Breaks the connection.
        case reset
        /// Takes the connection and never says a word.
        case silent
    }

    let port: UInt16
    private let listening: Int32
    private let held = Locked<[Int32]>([])
    private let heard = Locked<[String]>([])
    /// What was said to the answers of HTTP, each up to its empty line.
    var heads: [String] { heard.withLock { $0 } }

    init(_ answers: Answer...) throws {
        (listening, port) = try listenByHand()
        let thread = Thread { [self] in serve(answers) }
        thread.start()
    }

    private func serve(_ answers: [Answer]) {
        var next = 0
        while true {
            let connection = accept(listening, nil, nil)
            guard connection >= 0 else { return }
            let answer = answers[min(next, answers.count - 1)]
            Thread { [self] in self.answer(answer, connection) }.start()
            next += 1
        }
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
        shutdown(listening, Int32(SHUT_RDWR))
        close(listening)
        for connection in held.withLock({ $0 }) { close(connection) }
    }
}

/// A socket that listens on loopback, on a port of the system's choice.
func listenByHand() throws -> (listening: Int32, port: UInt16) {
    let listening = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let result = withUnsafeMutablePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
            bind(listening, pointer, length) | listen(listening, 16) | getsockname(listening, pointer, &length)
        }
    }
    guard result == 0 else { throw POSIXError(.EADDRNOTAVAIL) }
    return (listening, UInt16(bigEndian: address.sin_port))
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
