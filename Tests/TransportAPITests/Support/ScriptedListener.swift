import SocketIO
import TestSupport
import TransportAPI

/// A listener whose clients a test connects.
final class ScriptedListener: Listener {
    private struct State: Sendable {
        var waiting: [ScriptedConnection] = []
        var acceptor: UnsafeContinuation<Void, Never>?
        var isClosed = false
    }

    let endpoint = Endpoint(scheme: "memory", host: "server")
    private let capabilities: Capabilities
    private let state = Locked(State())

    init(_ capabilities: Capabilities = Capabilities(maximumMessageSize: 1 << 20)) {
        self.capabilities = capabilities
    }

    /// Connects a client. The connection's `sent` has what the server sends.
    func connect(from network: UInt64? = nil) -> ScriptedConnection {
        let connection = ScriptedConnection(capabilities, from: network)
        state.withLock { state in
            state.waiting.append(connection)
            return state.acceptor.take()
        }?.resume()
        return connection
    }

    nonisolated(nonsending) func accept() async throws(TransportError) -> (any Connection)? {
        await withUnsafeContinuation { continuation in
            let isReady = state.withLock { state in
                if !state.waiting.isEmpty || state.isClosed { return true }
                state.acceptor = continuation
                return false
            }
            if isReady { continuation.resume() }
        }
        return state.withLock { $0.waiting.isEmpty ? nil : $0.waiting.removeFirst() }
    }

    nonisolated(nonsending) func close() async {
        state.withLock { state in
            state.isClosed = true
            return state.acceptor.take()
        }?.resume()
    }
}

extension SessionFrame {
    /// The welcome of a server over a scripted connection, which takes messages of 1 MiB with their envelope of nine bytes.
    /// Its own messages up to `ended` have ended, and its sender is left out.
    static func scriptedWelcome(incarnation: UInt64, received: UInt64, after ended: UInt64 = 0) -> SessionFrame {
        let numbering = SessionNumbering(after: ended, sender: 0)
        return .welcome(incarnation: incarnation, received: received, limit: (1 << 20) - 9, numbering: numbering)
    }
}

extension ScriptedConnection {
    /// The sent messages, as frames of a session. The random sender of a welcome is left out.
    var frames: [SessionFrame] {
        sent.compactMap { payload in
            guard case .welcome(let incarnation, let received, let limit, let numbering)? = try? SessionFrame(payload)
            else { return try? SessionFrame(payload) }
            let known = SessionNumbering(after: numbering.ended, sender: 0)
            return .welcome(incarnation: incarnation, received: received, limit: limit, numbering: known)
        }
    }

    /// The payloads of the message frames among them.
    var messages: [String] {
        frames.compactMap { if case .message(_, let payload, _) = $0 { payload.string } else { nil } }
    }

    /// The incarnation in the server's welcome.
    var incarnation: UInt64? {
        frames.lazy.compactMap { if case .welcome(let incarnation, _, _, _) = $0 { incarnation } else { nil } }.first
    }

    func give(_ frame: SessionFrame) { give(frame.payload) }

    var hasEnded: Bool { reason != nil }
}
