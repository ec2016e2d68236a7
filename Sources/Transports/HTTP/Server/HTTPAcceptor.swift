import Primitives
import Protocols
import SocketIO
import TransportAPI

/// Accepts sessions over HTTP: the connections that carry them, and the sessions themselves. WebSockets may share the port.
/// Lives on its loop.
///
/// After ``close(endConnections:)``, it listens until the last session has ended, because a session needs new connections.
/// It opens no more of them.
final class HTTPAcceptor: Acceptor {
    private enum Stage {
        case open
        /// No sessions are opened any more, and some have not ended.
        case closing(endConnections: Bool)
        /// Nothing is accepted any more.
        case closed
    }

    private let loop: EventLoop
    private let stream: StreamAcceptor
    private let sessions: HTTPSessions
    private let connections: HTTPConnections
    private var stage = Stage.open
    var emptyWaiters = Waiters<Void>()

    /// Listens at an address.
    ///
    /// - Parameters:
    ///   - pages: The answers to requests that are not for a session.
    ///   - makeCore: Makes the core of a connection, given its client.
    init(
        _ address: SocketAddress,
        _ queue: AcceptQueue,
        on loop: EventLoop,
        setup: HTTPSessions.Setup,
        bounds: ServerLimits,
        tls: ServerTLS?,
        pages: [WebPage],
        handler: any ConnectionHandler,
        makeCore: @escaping (AcceptedClient) -> HTTPServerCore
    ) throws(SystemError) {
        self.loop = loop
        sessions = HTTPSessions(setup, queue, on: loop, handler: handler)
        connections = HTTPConnections(sessions, pages: pages, handler: handler)
        stream = try StreamAcceptor(
            address,
            queue,
            on: loop,
            limits: setup.connection,
            bounds: bounds,
            tls: tls,
            handler: connections,
            makeCore: makeCore
        )
        let total = BufferedTotal()
        join(total)
        stream.onEmpty = { [self] in resumeIfEmpty() }
        sessions.onEmpty = { [self] in sessionsEnded() }
    }

    var port: UInt16? { stream.port }

    var isEmpty: Bool {
        guard case .closed = stage else { return false }
        return sessions.isEmpty && stream.isEmpty
    }

    func join(_ total: BufferedTotal) {
        stream.join(total)
        sessions.join(total)
    }

    func close(endConnections: Bool) {
        guard case .open = stage else { return }
        stage = .closing(endConnections: endConnections)
        sessions.close(endSessions: endConnections)
        if endConnections { stream.closeWebSockets() }
        if sessions.isEmpty { sessionsEnded() }
    }

    /// The last session has ended. A server that was closed accepts nothing more.
    private func sessionsEnded() {
        guard case .closing(let endConnections) = stage else { return }
        // The port is free at once, for a server that starts again. The connections are closed after the current event,
        // which may be one of them.
        if !endConnections { stream.close(endConnections: false) }
        loop.execute { [acceptor = LoopBound(self, to: loop)] in acceptor.value.finish(endConnections) }
    }

    private func finish(_ endConnections: Bool) {
        guard case .closing = stage else { return }
        stage = .closed
        sessions.removeAll()
        if endConnections { stream.close(endConnections: true) } else { connections.close() }
        sessions.onEmpty = nil
        resumeIfEmpty()
    }

    private func resumeIfEmpty() {
        guard isEmpty else { return }
        stream.onEmpty = nil
        emptyWaiters.resumeAll(returning: ())
    }
}

extension StreamAcceptor {
    /// Closes the connections that are WebSockets.
    fileprivate func closeWebSockets() {
        for driver in live.values where (driver.core as? HTTPServerCore)?.isWebSocket == true {
            driver.beginClose(.user)
        }
    }
}
