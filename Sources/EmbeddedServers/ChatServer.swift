import Protocols
import SocketIO
import TransportAPI
import Transports

/// A server of a ``ChatRoom``: a listener whose clients have sessions that outlive their connections. For a transport
/// that routes by topic, it is a broker. The clients of a broker share a topic instead of the room.
public final class ChatServer: Sendable {
    private enum Kind: Sendable {
        case room(any Listener, SessionServer)
        case broker(EmbeddedServer)
    }

    /// The endpoint for clients. It has the port that the system chose.
    public let endpoint: Endpoint
    private let kind: Kind
    private let loop: EventLoop

    private init(_ endpoint: Endpoint, _ kind: Kind, on loop: EventLoop) {
        self.endpoint = endpoint
        self.kind = kind
        self.loop = loop
    }

    /// Starts a server.
    ///
    /// - Parameters:
    ///   - url: where to listen. With port 0 or without a port, the system chooses one.
    ///   - room: the room of the clients. The server uses its loop.
    ///   - registry: the transports for `url`; the standard ones by default.
    ///   - pages: the documents that a `ws://` or `wss://` server sends to browsers; none by default.
    ///   - observer: is notified of each client that was rejected or whose connection has ended, and why. It is
    ///     called on the loop.
    /// - Throws: `.invalidConfiguration` for a wrong URL or a limit of the room that is not allowed, `.unsupported` if there
    ///   are pages and the transport cannot
    ///   serve them, or the error of the system.
    public nonisolated(nonsending) static func start(
        _ url: String,
        room: ChatRoom,
        registry: TransportRegistry = .standard,
        pages: [WebPage] = [],
        observer: ServerObserver? = nil
    ) async throws(TransportError) -> ChatServer {
        try room.limits.check()
        let loop = room.loop
        let endpoint = try Endpoint(url)
        if try registry.transport(for: endpoint, on: loop).capabilities.routesByTopic {
            guard pages.isEmpty else {
                throw TransportError(.unsupported, .configure, "a broker serves no pages; allowed are ws:// and wss://")
            }
            let broker = try await EmbeddedServer.start(url, on: loop, registry: registry, observer: observer)
            return ChatServer(broker.endpoint, .broker(broker), on: loop)
        }
        var configuration = SessionServer.Configuration()
        configuration.maximumSessions = room.limits.sessions
        configuration.supervisor.outbox.maximumCount = room.limits.outboxCount
        configuration.supervisor.outbox.maximumBytes = room.limits.outboxBytes
        configuration.supervisor.outbox.whenFull = .dropOldest
        // The room takes each message at once, unless its sender is busy.
        configuration.supervisor.messageBuffer = 64
        let listener = try await registry.listen(at: endpoint, on: loop, Serving(pages: pages, observer: observer))
        let server = SessionServer(configuration, on: loop) { room.enter($0) }
        Task(executorPreference: loop) {
            // A listener that fails accepts no more clients. Existing clients stay.
            do throws(TransportError) { try await server.serve(listener) } catch {}
        }
        return ChatServer(listener.endpoint, .room(listener, server), on: loop)
    }

    /// Stops listening, and ends all sessions and their connections.
    public nonisolated(nonsending) func stop() async {
        switch kind {
        case .broker(let server): await server.stop()
        case .room(let listener, let server):
            await listener.close()
            await server.close()
        }
    }
}
