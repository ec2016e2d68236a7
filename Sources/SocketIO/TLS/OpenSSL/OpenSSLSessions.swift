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

    /// How long after its full handshake a session can be continued, in nanoseconds. Each continued connection gets new
    /// tickets, so without this a client could continue a session for ever, and check no certificate again.
    static let longestAge: Int64 = 24 * 3600 * 1_000_000_000

    /// A session, and when its full handshake was made.
    typealias Kept = (session: UnsafeMutableRawPointer, began: Int64)

    private struct State {
        var sessions: [Server: [Kept]] = [:]
        var order = Deque<Server>()
    }

    private let functions: UnsafePointer<csocketio_openssl>
    private let state = Locked(State())

    init(_ functions: UnsafePointer<csocketio_openssl>) {
        self.functions = functions
    }

    deinit {
        state.withLock { state in
            for kept in state.sessions.values.joined() { functions.pointee.SSL_SESSION_free(kept.session) }
        }
    }

    /// Keeps a session, whose reference it owns from now on.
    func add(_ session: UnsafeMutableRawPointer, began: Int64, of server: Server) {
        var dropped: [Kept] = []
        state.withLock { state in
            if state.sessions[server] == nil {
                state.order.append(server)
                if state.order.count > Self.maximumServers, let first = state.order.popFirst() {
                    dropped += state.sessions.removeValue(forKey: first) ?? []
                }
            }
            state.sessions[server, default: []].append((session, began))
            if state.sessions[server, default: []].count > Self.maximumPerServer {
                dropped.append(state.sessions[server, default: []].removeFirst())
            }
        }
        for kept in dropped { functions.pointee.SSL_SESSION_free(kept.session) }
    }

    /// Takes the newest session, with its reference, unless it is too old or the server's certificate has expired. A session
    /// of TLS 1.3 is used once, so that no observer can link two connections by their tickets (RFC 8446, appendix C.4).
    /// One of (D)TLS 1.2 stays, because the server gives no new ticket to a connection that continues a session.
    func take(of server: Server, now: Int64 = MonotonicClock.now()) -> Kept? {
        state.withLock { state in
            while let kept = state.sessions[server]?.last {
                guard !isOver(kept, now) else {
                    state.sessions[server]?.removeLast()
                    functions.pointee.SSL_SESSION_free(kept.session)
                    continue
                }
                // The numbers of DTLS begin with 0xfe.
                if functions.pointee.SSL_SESSION_get_protocol_version(kept.session) == 0x0304 {
                    state.sessions[server]?.removeLast()
                } else {
                    _ = functions.pointee.SSL_SESSION_up_ref(kept.session)
                }
                return kept
            }
            return nil
        }
    }

    private func isOver(_ kept: Kept, _ now: Int64) -> Bool {
        if now - kept.began > Self.longestAge { return true }
        return functions.pointee.SSL_SESSION_get0_peer(kept.session).map {
            OpenSSLCertificate($0, functions).hasExpired
        } ?? false
    }
}
