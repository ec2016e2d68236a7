import CSocketIO
import Primitives

/// The sessions that clients of one context can continue, by server. Any loop can use it.
final class OpenSSLSessions: @unchecked Sendable {
    // Unchecked, because the lock protects the sessions.

    /// A server, as the URL names it.
    struct Server: Hashable {
        var host: String
        var port: UInt16
    }

    /// How many servers are remembered. Beyond this, the sessions of the server that was added first are dropped.
    private static let maximumServers = 256
    /// How many sessions of one server are kept. Connections that are opened at the same time need one each.
    private static let maximumPerServer = 4

    private struct State {
        var sessions: [Server: [UnsafeMutableRawPointer]] = [:]
        var order = Deque<Server>()
    }

    private let functions: UnsafePointer<csocketio_openssl>
    private let state = Locked(State())

    init(_ functions: UnsafePointer<csocketio_openssl>) {
        self.functions = functions
    }

    deinit {
        state.withLock { state in
            for session in state.sessions.values.joined() { functions.pointee.SSL_SESSION_free(session) }
        }
    }

    /// Keeps a session, whose reference it owns from now on.
    func add(_ session: UnsafeMutableRawPointer, of server: Server) {
        var dropped: [UnsafeMutableRawPointer] = []
        state.withLock { state in
            if state.sessions[server] == nil {
                state.order.append(server)
                if state.order.count > Self.maximumServers, let first = state.order.popFirst() {
                    dropped += state.sessions.removeValue(forKey: first) ?? []
                }
            }
            state.sessions[server, default: []].append(session)
            if state.sessions[server, default: []].count > Self.maximumPerServer {
                dropped.append(state.sessions[server, default: []].removeFirst())
            }
        }
        for session in dropped { functions.pointee.SSL_SESSION_free(session) }
    }

    /// Takes the newest session, with its reference. A session of TLS 1.3 is used once, so that no observer can link two
    /// connections by their tickets (RFC 8446, appendix C.4). One of (D)TLS 1.2 stays, because the server gives no new
    /// ticket to a connection that continues a session.
    func take(of server: Server) -> UnsafeMutableRawPointer? {
        state.withLock { state in
            guard let session = state.sessions[server]?.last else { return nil }
            // The numbers of DTLS begin with 0xfe.
            if functions.pointee.SSL_SESSION_get_protocol_version(session) == 0x0304 {
                state.sessions[server]?.removeLast()
            } else {
                _ = functions.pointee.SSL_SESSION_up_ref(session)
            }
            return session
        }
    }
}
