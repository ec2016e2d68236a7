import Foundation
import SocketIO

/// A middlebox on the way to a server of this machine that treats WebSockets badly, as some proxies of companies do. Its mode
/// applies to new connections, and a change ends the old ones.
final class Middlebox: Sendable {
    /// How a connection is treated.
    enum Mode: String, Sendable, CaseIterable {
        /// Everything passes.
        case open
        /// The header Upgrade is removed, so that the server gets an ordinary request.
        case withoutUpgrade
        /// A request for an upgrade gets 403.
        case forbidding
        /// A connection is reset when the client sends something after an upgrade.
        case resetting
        /// Nothing passes after the answer to an upgrade.
        case swallowing
        /// Answers to ordinary requests are passed on once they are complete, and no upgrade passes.
        case collecting
    }

    private struct State {
        var mode: Mode
        var open: Set<Int32> = []
    }

    private let listener: RawListener
    private let server: UInt16
    private let state: Locked<State>

    var port: UInt16 { listener.port }

    init(to server: UInt16, _ mode: Mode) throws {
        self.server = server
        state = Locked(State(mode: mode))
        listener = try RawListener()
        listener.serve { [self] _, client in relay(client) }
    }

    /// Changes the mode, and ends all connections.
    func set(_ mode: Mode) {
        state.withLock { state in
            state.mode = mode
            for descriptor in state.open { shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
    }

    func stop() { listener.stop() }

    private func relay(_ client: Int32) {
        let mode = state.withLock { state in
            state.open.insert(client)
            return state.mode
        }
        defer {
            state.withLock { _ = $0.open.remove(client) }
            close(client)
        }
        guard let head = Self.head(client), let server = connectToLoopback(server) else { return }
        defer { close(server) }
        let isUpgrade = head.lowercased().contains("upgrade: websocket")
        var request = head
        if isUpgrade {
            switch mode {
            case .forbidding:
                Self.write(
                    client,
                    Array("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".utf8)
                )
                return
            case .withoutUpgrade, .collecting:
                let lines = head.components(separatedBy: "\r\n")
                request = lines.filter {
                    !$0.lowercased().hasPrefix("upgrade:") && !$0.lowercased().hasPrefix("connection:")
                }.joined(separator: "\r\n")
            case .open, .resetting, .swallowing: break
            }
        }
        Self.write(server, Array(request.utf8))
        let collects = mode == .collecting
        // The answers.
        let done = DispatchSemaphore(value: 0)
        let isStopped = Locked(false)
        Thread.detachNewThread {
            var collected: [UInt8] = []
            var isFirst = true
            while let bytes = Self.read(server) {
                if collects {
                    collected += bytes
                    guard Self.isComplete(collected) else { continue }
                    Self.write(client, collected)
                    collected = []
                } else if !isUpgrade || isFirst || mode == .open {
                    isFirst = false
                    Self.write(client, bytes)
                } else if isStopped.withLock({ $0 }) {
                    break
                }
            }
            shutdown(client, Int32(SHUT_RDWR))
            done.signal()
        }
        while let bytes = Self.read(client) {
            if isUpgrade, mode == .resetting {
                var linger = linger(l_onoff: 1, l_linger: 0)
                setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<linger>.size))
                break
            }
            if isUpgrade, mode == .swallowing { continue }
            Self.write(server, bytes)
        }
        isStopped.withLock { $0 = true }
        shutdown(server, Int32(SHUT_RDWR))
        done.wait()
    }

    /// Whether the bytes are whole answers with Content-Length, or without a body.
    private static func isComplete(_ bytes: [UInt8]) -> Bool {
        let text = String(decoding: bytes, as: UTF8.self)
        guard let end = text.range(of: "\r\n\r\n") else { return false }
        let head = text[..<end.lowerBound].lowercased()
        if head.contains("transfer-encoding: chunked") { return text.hasSuffix("0\r\n\r\n") }
        guard let field = head.range(of: "content-length: ") else { return true }
        let length = Int(head[field.upperBound...].prefix { $0.isNumber }) ?? 0
        return bytes.count >= text[..<end.upperBound].utf8.count + length
    }

    private static func head(_ descriptor: Int32) -> String? {
        var bytes: [UInt8] = []
        while !bytes.suffix(4).elementsEqual("\r\n\r\n".utf8) {
            var byte: UInt8 = 0
            guard recv(descriptor, &byte, 1, 0) == 1, bytes.count < 65_536 else { return nil }
            bytes.append(byte)
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func read(_ descriptor: Int32) -> [UInt8]? {
        var buffer = [UInt8](repeating: 0, count: 16_384)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        return count > 0 ? Array(buffer[..<count]) : nil
    }

    private static func write(_ descriptor: Int32, _ bytes: [UInt8]) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }
}
