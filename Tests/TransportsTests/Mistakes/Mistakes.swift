import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// The result of one mistake for a user: the error, and whether the supervisor tries again.
struct MistakeOutcome: Sendable {
    var error: TransportError
    var isRetried: Bool

    /// Makes the mistake: connects to `endpoint` and sends a message if `sends`, until the supervisor waits or has closed.
    static func of(
        _ endpoint: Endpoint,
        _ mode: DeliveryConfiguration.Mode = .plain,
        within timeout: Duration = .seconds(10),
        sends: Bool = true
    ) async throws -> MistakeOutcome {
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = mode
        configuration.connectTimeout = timeout
        // There is one attempt.
        configuration.backoff = .fixed(.seconds(3600))
        let (supervisor, recorder) = try Supervisor.recorded([endpoint], configuration)
        supervisor.connect()
        if sends { _ = try? await supervisor.submit(bytes("hello")) }
        await recorder.wait { $0.contains { $0.decision != nil } }
        let outcome = try #require(recorder.events.lazy.compactMap(\.decision).first)
        await supervisor.close()
        return outcome
    }
}

extension SupervisorEvent {
    /// The decision after an attempt or a connection: to wait for the next attempt, or to give up.
    fileprivate var decision: MistakeOutcome? {
        switch self {
        case .state(.waiting(_, let reason)): MistakeOutcome(error: reason.asError, isRetried: true)
        case .state(.closed(let reason)): MistakeOutcome(error: reason.asError, isRetried: false)
        default: nil
        }
    }
}

/// A row of the table in Docs/troubleshooting.md.
struct MistakeRow: Sendable {
    var client: String
    var server: String
    var outcome: MistakeOutcome
    /// A part of the error that names the other protocol or the setting.
    var expected: String
    var mustRetry: Bool

    /// The row, with the same address in each run.
    var markdown: String {
        let error = "\(outcome.error)".replacing(/(127\.0\.0\.1|localhost):[0-9]+/, with: "HOST:PORT")
        return "| \(client) | \(server) | `\(error)` | \(outcome.isRetried ? "retries" : "closed") |"
    }

    func check() {
        #expect(!outcome.error.reason.isEmpty && "\(outcome.error)".contains(expected), "\(markdown)")
        #expect(outcome.isRetried == mustRetry, "\(markdown)")
        // An error that is not retried is of a code that says so.
        #expect(outcome.isRetried || !outcome.error.isRetryable, "\(markdown)")
    }
}

/// Compares rows with the document, and prints the table.
func checkDocumented(_ rows: [MistakeRow]) throws {
    print("| client | server | error | supervisor |\n|---|---|---|---|")
    for row in rows { print(row.markdown) }
    let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../..")
    let text = try String(contentsOf: root.appending(path: "Docs/troubleshooting.md"), encoding: .utf8)
    let lines = Set(text.split(separator: "\n").map(String.init))
    for row in rows { #expect(lines.contains(row.markdown), "Docs/troubleshooting.md lacks: \(row.markdown)") }
}

/// A TCP server that answers the first bytes of each connection with these bytes, and ends it: cleanly, or by a reset.
final class AnsweringServer: Sendable {
    private let listener: RawListener
    var port: UInt16 { listener.port }

    init(_ answer: [UInt8], resets: Bool = false) throws {
        listener = try RawListener()
        listener.serve { _, connection in
            var buffer = [UInt8](repeating: 0, count: 4096)
            _ = recv(connection, &buffer, buffer.count, 0)
            _ = send(connection, answer, answer.count, Int32(MSG_NOSIGNAL))
            if resets {
                var lingering = linger(l_onoff: 1, l_linger: 0)
                setsockopt(connection, SOL_SOCKET, SO_LINGER, &lingering, socklen_t(MemoryLayout<linger>.size))
                close(connection)
                return
            }
            shutdown(connection, Int32(SHUT_WR))
            // Bytes that are not read would reset the connection before the answer is read.
            while recv(connection, &buffer, buffer.count, 0) > 0 {}
            close(connection)
        }
    }

    func stop() { listener.stop() }
}

/// Sends these bytes to a server, and returns its answer up to its end of the connection. Blocks.
func answer(of port: UInt16?, to bytes: [UInt8]) throws -> [UInt8] {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in.loopback(try #require(port))
    let result = withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
    }
    try #require(result == 0)
    _ = send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    var answer: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while true {
        let count = recv(descriptor, &buffer, buffer.count, 0)
        guard count > 0 else { return answer }
        answer += buffer[..<count]
    }
}

/// Collects the events of a server.
final class ServerEvents: Sendable {
    private struct State: Sendable {
        var events: [ServerEvent] = []
        var waiter: UnsafeContinuation<Void, Never>?
    }

    private let state = Locked(State())

    var observer: ServerObserver {
        { [self] event in
            let waiter = state.withLock { state in
                state.events.append(event)
                return state.waiter.take()
            }
            waiter?.resume()
        }
    }

    /// Waits for the first event.
    func first() async throws -> ServerEvent {
        await withUnsafeContinuation { continuation in
            let isThere = state.withLock { state in
                if state.events.isEmpty { state.waiter = continuation }
                return !state.events.isEmpty
            }
            if isThere { continuation.resume() }
        }
        return try #require(state.withLock { $0.events.first })
    }
}
