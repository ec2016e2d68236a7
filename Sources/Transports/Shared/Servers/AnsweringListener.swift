import Primitives
import SocketIO
import TransportAPI

/// Answers the clients of a listener that only accepts them. It runs a ``MessageHandler`` over the public interface of
/// connections, and therefore works with every transport.
final class AnsweringListener: Listener {
    let endpoint: Endpoint
    private let listener: any Listener
    private let clients: LoopBound<AnsweredClients>
    private let queue: LoopBound<AcceptQueue>
    private let accepting: Task<Void, Never>

    /// Begins to answer the clients of `listener`. `makeHandler` is called on the loop.
    nonisolated(nonsending) static func start(
        _ listener: any Listener,
        _ makeHandler: @escaping @Sendable () -> any MessageHandler,
        on loop: EventLoop
    ) async -> AnsweringListener {
        let clients = await withTaskExecutorPreference(loop) {
            LoopBound(AnsweredClients(makeHandler(), on: loop), to: loop)
        }
        return AnsweringListener(listener, clients)
    }

    private init(_ listener: any Listener, _ clients: LoopBound<AnsweredClients>) {
        endpoint = listener.endpoint
        self.listener = listener
        self.clients = clients
        queue = LoopBound(AcceptQueue(on: clients.loop), to: clients.loop)
        accepting = Task(executorPreference: clients.loop) { [queue] in
            // A listener that fails accepts no more clients. The others are still answered.
            while let connection = try? await listener.accept() { clients.value.add(connection) }
            queue.value.close()
        }
    }

    deinit {
        Task(executorPreference: clients.loop) { [listener, clients] in
            await listener.close()
            clients.value.closeAll()
        }
    }

    /// Returns `nil` when the listener is closed, because the handler gets all clients.
    nonisolated(nonsending) func accept() async throws(TransportError) -> (any Connection)? {
        try await queue.suspend(with: WaitID.next(), #isolation) {
            $0.wait($1, $2)
        } onCancel: {
            $0.cancel($1)
        }.get()
    }

    nonisolated(nonsending) func close() async {
        await listener.close()
        await accepting.value
        await withTaskExecutorPreference(clients.loop) { [clients] in
            for closing in clients.value.closeAll() { await closing.value }
        }
    }
}

/// The connections of an ``AnsweringListener``. Lives on its loop.
private final class AnsweredClients {
    private let handler: any MessageHandler
    private let loop: EventLoop
    private var peers: [UInt64: AnsweredPeer] = [:]

    init(_ handler: any MessageHandler, on loop: EventLoop) {
        self.handler = handler
        self.loop = loop
    }

    func add(_ connection: any Connection) {
        let peer = AnsweredPeer(connection, on: loop)
        peers[peer.number] = peer
        handler.opened(peer)
        let (clients, confined) = (LoopBound(self, to: loop), LoopBound(peer, to: loop))
        Task(executorPreference: loop) {
            while let payload = try? await connection.receive() {
                clients.value.handler.received(payload, from: confined.value)
            }
            clients.value.remove(confined.value)
            // A transport without a close handshake of its own may wait for this call.
            await connection.close()
        }
    }

    private func remove(_ peer: AnsweredPeer) {
        guard peers.removeValue(forKey: peer.number) != nil else { return }
        peer.end()
        handler.ended(peer)
    }

    /// Closes all connections, and returns the tasks that close them.
    @discardableResult
    func closeAll() -> [Task<Void, Never>] {
        peers.values.map { $0.close(.user) }
    }
}

/// A client of an ``AnsweringListener``. A task sends the waiting messages in order. Lives on the listener's loop.
private final class AnsweredPeer: MessagePeer {
    /// The maximum number of waiting bytes. Each message counts 64 bytes more than its size.
    private static let limit = 1 << 20

    let number: UInt64
    private let connection: any Connection
    private let loop: EventLoop
    private var waiting = Deque<Payload>()
    private var waitingBytes = 0
    private var isSending = false
    private var hasEnded = false

    init(_ connection: any Connection, on loop: EventLoop) {
        self.connection = connection
        self.loop = loop
        number = loop.newNumber()
    }

    func sendNow(_ payload: Payload) -> SendOutcome {
        guard !hasEnded else {
            return .rejected(TransportError(.connectionLost, .closing, "the connection of this client has ended"))
        }
        let size = payload.bytes.count + 64
        // A message that is alone may be larger than the limit.
        guard waitingBytes == 0 || size <= Self.limit - waitingBytes else {
            let sentence = "\(waitingBytes) bytes wait for this client already; the limit is \(Self.limit)"
            return .rejected(TransportError(.bufferFull, .open, sentence))
        }
        waiting.append(payload)
        waitingBytes += size
        if !isSending { startSending() }
        return .written
    }

    private func startSending() {
        isSending = true
        let (confined, connection) = (LoopBound(self, to: loop), connection)
        Task(executorPreference: loop) {
            while let payload = confined.value.next() {
                _ = await connection.send(payload)
                confined.value.waitingBytes -= payload.bytes.count + 64
            }
        }
    }

    private func next() -> Payload? {
        let payload = waiting.popFirst()
        isSending = payload != nil
        return payload
    }

    func noteMuchWork() {}

    func endNow(_ reason: CloseReason) {
        close(reason)
    }

    @discardableResult
    func close(_ reason: CloseReason) -> Task<Void, Never> {
        end()
        return Task(executorPreference: loop) { [connection] in await connection.close(reason) }
    }

    /// Discards the waiting messages.
    func end() {
        hasEnded = true
        waiting = Deque()
    }
}
