import Primitives
import Protocols
import SocketIO
import TransportAPI

/// How a server treats its clients. A transport gets it with each call of ``TransportDescriptor/serve``.
public struct Serving: Sendable {
    /// Receives an event for each client that was rejected or whose connection has ended. The transport calls it on the
    /// thread of the server's loop. `nil` by default.
    public var observer: ServerObserver?
    /// Decides about each handshake, on the loop. It must not block. It is `nil` by default, and then all handshakes
    /// are accepted. It is always `nil` for transports without ``TransportDescriptor/decidesHandshakes``.
    public var decide: (@Sendable (ClientRequest) -> ClientDecision)?
    /// The answers to plain HTTP requests; none by default. It is always empty for transports without
    /// ``TransportDescriptor/servesPages``.
    public var pages: [WebPage] = []
    /// Makes the handler that answers clients, on the loop; `nil` if ``/TransportAPI/Listener/accept()`` returns them.
    package var makeHandler: (@Sendable () -> any MessageHandler)?

    /// Creates the settings of a server whose clients are returned by ``/TransportAPI/Listener/accept()``.
    public init(
        pages: [WebPage] = [],
        observer: ServerObserver? = nil,
        decide: (@Sendable (ClientRequest) -> ClientDecision)? = nil
    ) {
        self.pages = pages
        self.observer = observer
        self.decide = decide
    }

    /// Returns the settings of a server whose clients are answered by a handler, on the loop. `make` creates the
    /// handler, on the loop too.
    package static func handle(_ make: @escaping @Sendable () -> any MessageHandler) -> Serving {
        var serving = Serving()
        serving.makeHandler = make
        return serving
    }

    /// Whether a handler answers the clients.
    var handlesMessages: Bool { makeHandler != nil }

    /// Makes the handler for the connections of one protocol. Call this on the loop.
    func handler(_ queue: AcceptQueue) -> any ConnectionHandler {
        makeHandler.map { MessageHandlerAdapter($0()) } ?? AcceptHandler(queue)
    }
}

/// The behaviour of a server, for all protocols. Lives on its loop.
package protocol MessageHandler: AnyObject {
    /// A client's handshake is complete.
    func opened(_ peer: any MessagePeer)
    /// A client has sent a message.
    func received(_ payload: Payload, from peer: any MessagePeer)
    /// A client's connection has ended.
    func ended(_ peer: any MessagePeer)
}

/// Adapts a message handler to the connections of one protocol.
final class MessageHandlerAdapter: ConnectionHandler {
    private let handler: any MessageHandler

    init(_ handler: any MessageHandler) {
        self.handler = handler
    }

    func handle(_ event: CoreEvent, on driver: ConnectionDriver) {
        switch event {
        case .opened: handler.opened(driver)
        case .message(let payload): handler.received(payload, from: driver)
        case .pong, .acknowledged, .written, .refused, .discarded, .signal, .progress, .closed: break
        }
    }

    func ended(_ driver: ConnectionDriver, _: CloseReason) {
        handler.ended(driver)
    }
}

/// Passes connections to ``/TransportAPI/Listener/accept()`` once they are open.
final class AcceptHandler: ConnectionHandler {
    private let queue: AcceptQueue

    init(_ queue: AcceptQueue) {
        self.queue = queue
    }

    func handle(_ event: CoreEvent, on driver: ConnectionDriver) {
        guard case .opened = event else { return }
        driver.handler = nil
        queue.append(CoreConnection(driver, capabilities: driver.limits.describe(driver.core.capabilities)))
    }

    func ended(_: ConnectionDriver, _: CloseReason) {}
}

/// Open connections that no caller has accepted yet, and the observer of connections that end. Lives on its loop.
package final class AcceptQueue {
    /// How many connections may wait. Beyond this, the listener stops accepting.
    static let limit = 1024

    private var connections = Deque<any Connection>()
    private var waiters = Waiters<Result<(any Connection)?, TransportError>>()
    private var isClosed = false
    /// Called when there is room again.
    var onRoom: (() -> Void)?
    private let observer: ServerObserver?

    init(observer: ServerObserver? = nil, on loop: EventLoop) {
        guard let observer else {
            self.observer = nil
            return
        }
        self.observer = { event in loop.callOut { observer(event) } }
    }

    var isObserved: Bool { observer != nil }

    /// Notifies the observer of an event that stands for `count` clients.
    func note(_ client: SocketAddress?, _ reason: CloseReason, wasOpen: Bool, count: Int = 1) {
        observer?(ServerEvent(client: client?.description, wasOpen: wasOpen, reason: reason, count: count))
    }

    var hasRoom: Bool { connections.count < Self.limit }

    func append(_ connection: any Connection) {
        guard !waiters.resumeFirst(returning: .success(connection)), !isClosed else { return }
        connections.append(connection)
    }

    /// Returns the next connection, or the result that there is none. Returns `nil` if the caller must wait.
    func next() -> Result<(any Connection)?, TransportError>? {
        if let connection = connections.popFirst() {
            if connections.count == Self.limit - 1 { onRoom?() }
            return .success(connection)
        }
        if isClosed { return .success(nil) }
        return waiters.isEmpty ? nil : .failure(TransportError(.busy, .open, "another task is accepting already"))
    }

    func wait(_ id: UInt64, _ continuation: UnsafeContinuation<Result<(any Connection)?, TransportError>, Never>) {
        if let next = next() { continuation.resume(returning: next) } else { waiters.append(id, continuation) }
    }

    func cancel(_ id: UInt64) {
        waiters.resume(id, returning: .failure(.cancelled(.open)))
    }

    func close() {
        isClosed = true
        connections = Deque()
        waiters.resumeAll(returning: .success(nil))
    }
}
