import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports

/// A transport with session delivery on top. Each of its connections is a supervisor in session mode, so that it is measured
/// in the same way as a plain transport.
///
/// The supervisor does not reconnect here, because a new connection would hide a loss.
struct SessionTransport: Transport {
    package let endpoint: Endpoint
    package let capabilities: Capabilities
    private let loop: EventLoop

    /// A transport to an endpoint whose scheme is that of the transport below.
    package init(_ endpoint: Endpoint, over below: TransportDescriptor, on loop: EventLoop) throws(TransportError) {
        var capabilities = try below.make(endpoint, ConnectionContext(on: loop)).capabilities
        capabilities.isReliable = true
        capabilities.isOrdered = true
        // The ping of the session belongs to the supervisor.
        capabilities.hasNativePing = false
        capabilities.maximumMessageSize -= SessionFrame.overhead
        (self.endpoint, self.capabilities, self.loop) = (endpoint, capabilities, loop)
    }

    package nonisolated(nonsending) func connect(timeout: Duration) async throws(TransportError) -> any Connection {
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = .session
        configuration.connectTimeout = timeout
        configuration.maximumAttempts = 1
        // No connection is stable, so the first one that is lost is the last one.
        configuration.stableAfter = .seconds(1 << 30)
        let start = MonotonicClock.now()
        let supervisor = try Supervisor(endpoint, configuration, registry: .measured, on: loop)
        let below = Locked<(any Connection)?>(nil)
        supervisor.onConnection { connection, _ in below.withLock { $0 = connection } }
        let states = supervisor.states
        supervisor.connect()
        for await state in states {
            switch state {
            case .open:
                guard let connection = below.withLock({ $0 }) else { continue }
                var opened = await connection.statistics()
                opened.handshakeDuration = .nanoseconds(MonotonicClock.now() - start)
                return SessionConnection(supervisor, over: connection, opened, capabilities)
            case .closed(let reason):
                throw reason.error ?? TransportError(.connectionLost, .handshake, reason.description)
            case .idle, .connecting, .waiting, .offline, .suspended: continue
            }
        }
        // The states end early only if the task was cancelled.
        Task { await supervisor.close() }
        throw TransportError(.cancelled, .connect, "the task was cancelled")
    }
}

/// A connection of a ``SessionTransport``.
///
/// ``send(_:)`` returns when the message is in the outbox. It does not wait for the acknowledgement, so that an open loop
/// keeps its schedule. The bytes of acknowledgements are in the statistics.
private final class SessionConnection: Connection {
    let capabilities: Capabilities
    private let supervisor: Supervisor
    private let messages: Subscription<Payload>
    private let below: any Connection
    /// The statistics when the session was open.
    private let opened: ConnectionStatistics
    private let counts = Locked((sent: UInt64(0), received: UInt64(0)))

    init(
        _ supervisor: Supervisor,
        over below: any Connection,
        _ opened: ConnectionStatistics,
        _ capabilities: Capabilities
    ) {
        (self.supervisor, self.below, self.opened, self.capabilities) = (supervisor, below, opened, capabilities)
        messages = supervisor.messages
    }

    nonisolated(nonsending) func send(_ payload: Payload) async -> SendOutcome {
        do throws(TransportError) {
            _ = try await supervisor.submit(payload)
        } catch {
            return .rejected(error)
        }
        counts.withLock { $0.sent += 1 }
        return .written
    }

    nonisolated(nonsending) func receive() async throws(TransportError) -> Payload? {
        var iterator = messages.makeAsyncIterator()
        if let payload = await iterator.next(isolation: #isolation) {
            counts.withLock { $0.received += 1 }
            return payload
        }
        guard !Task.isCancelled else { throw TransportError(.cancelled, .open, "the task was cancelled") }
        return try await closed().receiveResult.get()
    }

    nonisolated(nonsending) func ping() async throws(TransportError) -> Duration {
        throw TransportError(.unsupported, .open, "the supervisor sends the pings of a session")
    }

    nonisolated(nonsending) func close(_ reason: CloseReason) async -> Int { await supervisor.close(reason) }

    nonisolated(nonsending) func closed() async -> CloseReason {
        await supervisor.closed()
        guard case .closed(let reason) = await supervisor.state() else { return .user }
        return reason
    }

    /// The statistics of the connection below, with the messages of the user alone. The handshake includes the hello of the
    /// session and its answer, which are one more round trip.
    nonisolated(nonsending) func statistics() async -> ConnectionStatistics {
        var statistics = await below.statistics()
        (statistics.messagesSent, statistics.messagesReceived) = counts.withLock { ($0.sent, $0.received) }
        statistics.handshakeBytes = opened.bytesSent + opened.bytesReceived
        statistics.handshakeRoundTrips = opened.handshakeRoundTrips + 1
        statistics.handshakeDuration = opened.handshakeDuration
        return statistics
    }
}

/// The server of a ``SessionTransport``: a session server whose sessions a handler answers.
private final class SessionListener: Listener {
    let endpoint: Endpoint
    private let listener: any Listener
    private let server: SessionServer

    init(_ endpoint: Endpoint, _ listener: any Listener, _ server: SessionServer) {
        (self.endpoint, self.listener, self.server) = (endpoint, listener, server)
    }

    nonisolated(nonsending) func accept() async throws(TransportError) -> (any Connection)? {
        throw TransportError(.unsupported, .open, "the handler of this server has its clients")
    }

    nonisolated(nonsending) func close() async {
        await listener.close()
        await server.close()
    }
}

/// A session as a client of a message handler. Lives on the loop of the server.
private final class SessionPeer: MessagePeer, SendObserver {
    let number: UInt64
    private let session: Session

    init(_ session: Session, _ number: UInt64) {
        (self.session, self.number) = (session, number)
    }

    func sendNow(_ payload: Payload) -> SendOutcome { session.send(payload, observer: self) ?? .written }
    func settled(_: SendOutcome) {}
    func noteMuchWork() {}

    func endNow(_ reason: CloseReason) {
        Task { [session] in await session.close(reason) }
    }
}

extension TransportRegistry {
    /// The transports that can be measured, and those with session delivery.
    package static let withSessions = {
        var registry = TransportRegistry.measured
        for transport in TransportRegistry.measured.transports where transport.hasSessions {
            registry.register(transport.withSessions)
        }
        return registry
    }()

    /// The name of a transport with session delivery; `nil` if it has none.
    package static func nameWithSessions(_ name: String) -> String? {
        let known = withSessions.transports.contains { $0.name == name + TransportDescriptor.sessionSuffix }
        return known ? name + TransportDescriptor.sessionSuffix : nil
    }
}

extension TransportDescriptor {
    /// Whether its server can be a session server. A broker acknowledges messages itself.
    package var hasSessions: Bool { broker == nil }

    /// The end of the name of a transport with session delivery.
    package static let sessionSuffix = "-session"

    /// This transport with session delivery, under its own name.
    package var withSessions: TransportDescriptor {
        let below = self
        var descriptor = self
        descriptor.name += Self.sessionSuffix
        descriptor.encryptedName = encryptedName.map { $0 + Self.sessionSuffix }
        (descriptor.cores, descriptor.annotate) = (nil, nil)
        (descriptor.decidesHandshakes, descriptor.answersClients) = (false, true)
        descriptor.make = { (endpoint, context) throws(TransportError) in
            try SessionTransport(endpoint.withScheme(below.name), over: below, on: context.loop)
        }
        descriptor.serve = { (endpoint, loop, serving) async throws(TransportError) in
            guard let makeHandler = serving.makeHandler else {
                throw TransportError(.unsupported, .configure, "\(endpoint.scheme):// needs a handler of its clients")
            }
            var accepting = serving
            accepting.makeHandler = nil
            let listener = try await TransportRegistry.measured.listen(
                at: endpoint.withScheme(below.name),
                on: loop,
                accepting
            )
            let handler = await withTaskExecutorPreference(loop) {
                LoopBound(Box<any MessageHandler>(makeHandler()), to: loop)
            }
            let server = SessionServer(on: loop) { session in
                let peer = LoopBound(SessionPeer(session, loop.newNumber()), to: loop)
                handler.value.value.opened(peer.value)
                let messages = session.messages
                Task(executorPreference: loop) {
                    for await payload in messages { handler.value.value.received(payload, from: peer.value) }
                    handler.value.value.ended(peer.value)
                }
            }
            Task(executorPreference: loop) {
                // A listener ends with an error when it is closed.
                do throws(TransportError) { try await server.serve(listener) } catch {}
            }
            return SessionListener(listener.endpoint.withScheme(endpoint.scheme), listener, server)
        }
        return descriptor
    }
}

extension Endpoint {
    fileprivate func withScheme(_ scheme: String) -> Endpoint {
        var endpoint = self
        endpoint.scheme = scheme
        return endpoint
    }
}
