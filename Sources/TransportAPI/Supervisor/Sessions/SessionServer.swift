import Primitives

/// Serves clients that have supervisors: a session lives on while its client reconnects, messages to it wait in an outbox, and
/// a client that answers no ping is let go. In plain style each connection is a session of its own.
///
/// The sessions belong to the server and not to a listener: ``serve(_:)`` may be called again after a listener has closed, and
/// clients that return go on where they were.
///
/// When there are as many sessions as there may be, a newcomer takes the place of a session without a connection: first
/// of one that its client has never used (it has sent and acknowledged nothing), then of one that was used; each time
/// of the one whose client has been away for longest. Before all others go sessions from an address (of IPv6: from a
/// network of 64 bits) that had a 64th of all that there may be when they came, and of these also those that have a
/// connection and were never used, so that no single address shuts all others out.
public final class SessionServer: Sendable {
    /// How a server treats its sessions.
    public struct Configuration: Sendable, Hashable {
        /// Keepalive towards clients, outbox and delivery; what concerns connecting is not used.
        public var supervisor = SupervisorConfiguration()
        /// The most sessions. A further client takes the place of a session without a connection; if there is none it
        /// is refused. Default 10,000. See ``SessionServer``.
        public var maximumSessions = 10_000
        /// The most connections that have not said yet whose session they belong to; beyond it the one that has been
        /// there for longest is ended, first of those from an address that has a 64th of them. Default 1024.
        public var maximumNewcomers = 1024
        /// How long a session waits for its client's next connection. Default 10 minutes.
        public var sessionLifetime: Duration = .seconds(600)
        /// How many bytes all sessions may keep together: of messages that were received and are not taken, or that the
        /// app has not acknowledged (``Session/deliveries``), that came before their turn, or that wait for the client;
        /// each with some bytes of bookkeeping. What the connections of the listeners on the same runtime keep counts
        /// too. `nil`, the default: as many as the listeners may (`max-buffered`), or 512 MiB where they have no limit;
        /// the least of all limits holds. Beyond it the connection or session that keeps most is ended, and its
        /// messages are forgotten.
        public var maximumBuffered: Int?
        /// How long a new connection may take to say whose session it belongs to. Default 10 s.
        public var helloTimeout: Duration = .seconds(10)
        /// Whether a session without a connection makes room for a newcomer. Off in simulations of squatting only.
        package var makesRoom = true

        /// The defaults, in session style.
        public init() {
            supervisor.delivery.mode = .session
        }
    }

    private let runtime: any SupervisorRuntime
    private let driver: RuntimeBound<SessionServerDriver>

    /// A server without listeners.
    ///
    /// - Parameter onSession: called on the runtime with each new session; it must not block.
    public init(
        _ configuration: Configuration = Configuration(),
        onRuntime runtime: any SupervisorRuntime,
        onSession: @escaping @Sendable (Session) -> Void
    ) {
        self.runtime = runtime
        driver = RuntimeBound(SessionServerDriver(configuration, on: runtime, onSession), to: runtime)
    }

    /// Takes the clients of `listener` until it is closed.
    ///
    /// - Throws: what ended the listener, if it was not closed.
    public nonisolated(nonsending) func serve(_ listener: any Listener) async throws(TransportError) {
        if let listener = listener as? any BufferingListener {
            runtime.execute { [driver] in driver.value.count(listener) }
        }
        while let connection = try await listener.accept() {
            runtime.execute { [driver] in driver.value.take(connection) }
        }
    }

    /// Ends all connections, as a server does that is about to restart; the sessions wait for their clients. Returns
    /// when the connections are closed, as ``Connection/close(_:)`` closes them.
    public nonisolated(nonsending) func dropConnections() async {
        await withTaskExecutorPreference(runtime.taskExecutor) { [driver] in
            for close in driver.value.dropConnections() { _ = await close.value }
        }
    }

    /// Ends all sessions; connections that come later are closed. Returns when the connections are closed, as
    /// ``Connection/close(_:)`` closes them.
    public nonisolated(nonsending) func close() async {
        await withTaskExecutorPreference(runtime.taskExecutor) { [driver] in
            for close in driver.value.close() { _ = await close.value }
        }
    }
}

/// One client of a ``SessionServer``, across all its connections.
public final class Session: Sendable {
    private let runtime: any SupervisorRuntime
    private let driver: RuntimeBound<SessionDriver>
    private let received: RuntimeBound<MulticastBuffer<Payload>>
    private let delivered: RuntimeBound<MulticastBuffer<ReceivedMessage>>
    private let noted: RuntimeBound<MulticastBuffer<SupervisorEvent>>

    init(_ driver: SessionDriver) {
        runtime = driver.runtime
        self.driver = RuntimeBound(driver, to: runtime)
        received = RuntimeBound(driver.intake.messages, to: runtime)
        delivered = RuntimeBound(driver.intake.deliveries, to: runtime)
        noted = RuntimeBound(driver.notes, to: runtime)
    }

    /// The messages of the client, each once and in order. The sequence ends with the session.
    public var messages: Subscription<Payload> { Subscription(received) }

    /// The messages of the client, each to be acknowledged once it has been processed; see ``Supervisor/deliveries``.
    /// Ask for it in `onSession`, before the first message.
    public var deliveries: Subscription<ReceivedMessage> {
        if runtime.isCurrent {
            driver.value.acknowledgeAfterProcessing()
        } else {
            runtime.execute { [driver] in driver.value.acknowledgeAfterProcessing() }
        }
        return Subscription(delivered)
    }

    /// What happens inside the session, for logs and metrics: round trips, duplicates, and messages that the app does not
    /// acknowledge (``SupervisorEvent/unacknowledged(_:)``). A listener that falls 64 behind misses the oldest. The
    /// sequence ends with the session.
    public var notes: Subscription<SupervisorEvent> { Subscription(noted) }

    /// Sends one message and waits for its end, as ``Supervisor/send(_:)`` does.
    public nonisolated(nonsending) func send(_ payload: Payload) async -> SendOutcome {
        let (id, outcome) = await driver.run(with: payload) { $0.submit($1) }
        if let outcome { return outcome }
        return await driver.suspend(with: id, #isolation) {
            $0.outgoing.wait(sender: $1, $2)
        } onCancel: { driver, id in
            driver.run { $0.cancel(id, at: $1, &$2) }
        }
    }

    /// Sends one message without waiting. To be called on the runtime.
    ///
    /// - Returns: the outcome if it is known at once. Else `observer` is told it later.
    package func send(_ payload: Payload, observer: any SendObserver) -> SendOutcome? {
        let (id, outcome) = driver.value.submit(payload)
        if outcome == nil { driver.value.outgoing.observe(id, observer) }
        return outcome
    }

    /// Whether it holds received messages that the app has not taken. To be called on the runtime.
    package var hasMessages: Bool { driver.value.intake.messages.bytes > 0 }

    /// Whether the session has a connection. To be called on the runtime.
    package var isConnected: Bool { driver.value.hasConnection }

    /// Ends the session. Returns when its connection is closed, as ``Connection/close(_:)`` closes it.
    ///
    /// - Returns: how many bytes were accepted by the connection and are not known to have reached the client; 0 if all did.
    @discardableResult
    public nonisolated(nonsending) func close(_ reason: CloseReason = .user) async -> Int {
        await withTaskExecutorPreference(runtime.taskExecutor) { [driver] in
            driver.value.run { $0.close(reason, &$2) }
            return await driver.value.goodbye?.value ?? 0
        }
    }
}
