import Primitives

/// Serves clients that have supervisors. A session continues while its client reconnects, messages to the client wait
/// in an outbox, and a client that does not answer pings is disconnected. In plain style each connection is its own
/// session.
///
/// The sessions belong to the server and not to a listener. ``serve(_:)`` can be called again after a listener has
/// closed, and returning clients resume their sessions.
///
/// If the maximum number of sessions is reached, a new client replaces a session without a connection. Sessions that
/// their clients have never used (with no message sent or acknowledged) are replaced before used ones. Of each kind,
/// the session whose client has been away longest is replaced first.
///
/// Sessions of crowds are replaced before all others. A session belongs to a crowd if its address (for IPv6, its
/// network of 64 bits) already had a 64th of the maximum number of sessions when it began. Unused sessions of crowds
/// are replaced even if they have a connection. So no single address can lock out all others.
public final class SessionServer: Sendable {
    /// The settings of a session server.
    public struct Configuration: Sendable, Hashable {
        /// Keepalive towards clients, outbox and delivery. Settings for connecting are ignored.
        public var supervisor = SupervisorConfiguration()
        /// The maximum number of sessions. A further client replaces a session without a connection, or is refused if
        /// there is none. Default 10,000. See ``SessionServer``.
        public var maximumSessions = 10_000
        /// The maximum number of connections that have not identified their session yet. Beyond it, the oldest of them
        /// is ended, beginning with those from an address that has a 64th of them. Default 1024.
        public var maximumUnidentifiedConnections = 1024
        /// How long a session waits for its client's next connection. Default 10 minutes.
        public var sessionLifetime: Duration = .seconds(600)
        /// How many bytes all sessions may buffer together. These are the messages that were received and not taken,
        /// that the app has not acknowledged (``Session/deliveries``), that came out of order, or that wait for the
        /// client, each with some bytes of bookkeeping. The bytes that the connections of listeners on the same runtime
        /// buffer count too.
        ///
        /// `nil`, the default, means the limit of the listeners (`max-buffered`), or 512 MiB if they have none. The
        /// smallest of all limits applies. Beyond it, the connection or session that buffers most is ended, and its
        /// messages are discarded.
        public var maximumBuffered: Int?
        /// How long a new connection may take to identify its session. Default 10 s.
        public var helloTimeout: Duration = .seconds(10)

        /// Creates the default settings, in session style.
        public init() {
            supervisor.delivery.mode = .session
        }
    }

    private let runtime: any SupervisorRuntime
    private let configuration: Configuration
    private let driver: RuntimeBound<SessionServerDriver>

    /// Creates a server without listeners.
    ///
    /// - Parameters:
    ///   - configuration: The settings.
    ///   - runtime: The runtime of the server.
    ///   - login: Decides about each connection of a session. By default all are accepted.
    ///   - onSession: Called on the runtime with each new session. It must not block.
    package init(
        _ configuration: Configuration = Configuration(),
        onRuntime runtime: any SupervisorRuntime,
        login: SessionLogin? = nil,
        onSession: @escaping @Sendable (Session) -> Void
    ) {
        self.runtime = runtime
        self.configuration = configuration
        driver = RuntimeBound(SessionServerDriver(configuration, on: runtime, login: login, onSession), to: runtime)
    }

    /// Serves the clients of `listener` until it is closed.
    ///
    /// - Throws: `.invalidConfiguration` if a setting has a value that is not allowed; otherwise the error that ended the
    ///   listener, if it was not closed.
    public nonisolated(nonsending) func serve(_ listener: any Listener) async throws(TransportError) {
        try configuration.check()
        if let listener = listener as? any LocalListener {
            runtime.execute { [driver] in driver.value.count(listener) }
        }
        while let connection = try await listener.accept() {
            runtime.execute { [driver] in driver.value.take(connection) }
        }
    }

    /// Ends all connections, for example before a restart of the server. The sessions wait for their clients. Returns
    /// when the connections are closed, as ``Connection/close(_:)`` closes them.
    public nonisolated(nonsending) func dropConnections() async {
        await withTaskExecutorPreference(runtime.taskExecutor) { [driver] in
            for close in driver.value.dropConnections() { _ = await close.value }
        }
    }

    /// Ends all sessions. Later connections are closed. Returns when the connections are closed, as
    /// ``Connection/close(_:)`` closes them.
    public nonisolated(nonsending) func close() async {
        await withTaskExecutorPreference(runtime.taskExecutor) { [driver] in
            for close in driver.value.close() { _ = await close.value }
        }
    }
}

/// Whether the client of a ``Session`` is connected.
public enum SessionState: Sendable, Hashable {
    /// The session has a connection.
    case connected
    /// The session has had no connection for this duration, and its last one ended for this reason. Messages wait for
    /// the next connection within ``SessionServer/Configuration/sessionLifetime``.
    case disconnected(for: Duration, CloseReason)
    /// The session has ended. This is the last state.
    case ended(CloseReason)
}

/// One client of a ``SessionServer``, across all its connections.
public final class Session: Sendable {
    /// The client, as its login to the session or else the handshake of the connection (``Connection/identity``) has
    /// authenticated it. Connections with another name cannot resume the session. `nil` if nothing authenticates.
    public let identity: Identity?
    package let runtime: any SupervisorRuntime
    let driver: RuntimeBound<SessionDriver>
    private let received: RuntimeBound<MulticastBuffer<Payload>>
    private let delivered: RuntimeBound<MulticastBuffer<ReceivedMessage>>
    private let stateChanges: RuntimeBound<MulticastBuffer<SessionState>>
    private let noted: RuntimeBound<MulticastBuffer<SupervisorEvent>>

    init(_ driver: SessionDriver) {
        runtime = driver.runtime
        identity = driver.identity
        stateChanges = RuntimeBound(driver.states, to: runtime)
        self.driver = RuntimeBound(driver, to: runtime)
        received = RuntimeBound(driver.inbound.messages, to: runtime)
        delivered = RuntimeBound(driver.inbound.deliveries, to: runtime)
        noted = RuntimeBound(driver.events, to: runtime)
    }

    /// The messages of the client, each once and in order. The sequence ends with the session.
    public var messages: Subscription<Payload> { Subscription(received) }

    /// The messages of the client, each of which the app acknowledges once it has processed it; see
    /// ``Supervisor/deliveries``. Access this in `onSession`, before the first message.
    public var deliveries: Subscription<ReceivedMessage> {
        if runtime.isCurrent {
            driver.value.acknowledgeAfterProcessing()
        } else {
            runtime.execute { [driver] in driver.value.acknowledgeAfterProcessing() }
        }
        return Subscription(delivered)
    }

    /// The current state and each change of it, for example to notify a disconnected client by a push service. A
    /// listener that falls 64 changes behind misses the oldest. The sequence ends with the session.
    public var states: Subscription<SessionState> {
        Subscription(stateChanges) { [driver] in driver.value.state }
    }

    /// Returns the current state.
    public nonisolated(nonsending) func state() async -> SessionState {
        await driver.run(with: ()) { driver, _ in driver.state }
    }

    /// Returns the messages to the client that it has not acknowledged, the oldest first. In plain style, these are the
    /// messages that the connection has not taken. Requests and answers are not among them.
    public nonisolated(nonsending) func unacknowledged() async -> [Payload] {
        await driver.run(with: ()) { driver, _ in driver.unacknowledged }
    }

    /// Events of the session for logs and metrics: round trips, duplicates, messages that were discarded because of their
    /// size, and messages that the app does not acknowledge (``SupervisorEvent/unacknowledged(_:)``). A listener that falls 64 events behind misses the oldest.
    /// The sequence ends with the session.
    public var events: Subscription<SupervisorEvent> { Subscription(noted) }

    /// Reports an event that the session cannot detect itself to the listeners of ``events``.
    package func report(_ event: SupervisorEvent) {
        runtime.execute { [driver] in
            if !driver.value.events.isFinished { driver.value.events.send(event) }
        }
    }

    /// Sends one message and waits for its outcome, as ``Supervisor/send(_:)`` does.
    public nonisolated(nonsending) func send(_ payload: Payload) async -> SendOutcome {
        let (id, outcome) = await driver.run(with: payload) { $0.submit($1) }
        if let outcome { return outcome }
        return await driver.suspend(with: id, #isolation) {
            $0.outgoing.wait(sender: $1, $2)
        } onCancel: { driver, id in
            driver.handle(.cancel(id))
        }
    }

    /// Puts one message into the session's outbox and returns when it has a place there, without waiting for the
    /// client. With this method a server can send to many clients in order, and a slow or absent client does not delay
    /// the others. The outcome is not reported. ``unacknowledged()`` returns the messages that the client has not
    /// acknowledged.
    ///
    /// - Throws: The reason why the message has no place in the outbox.
    @discardableResult
    public nonisolated(nonsending) func submit(_ payload: Payload) async throws(TransportError) -> MessageID {
        let (id, outcome, hasPlace) = await driver.run(with: payload) { driver, payload in
            driver.outgoing.submitAlone(driver.submit(payload), payload)
        }
        if case .rejected(let error) = outcome { throw error }
        if hasPlace { return id }
        return try await driver.suspend(with: id, #isolation) {
            $0.outgoing.wait(submitter: $1, $2)
        } onCancel: { driver, id in
            if driver.outgoing.isWaiting(submitter: id) { driver.handle(.cancel(id)) }
        }.get()
    }

    /// Whether it buffers received messages that the app has not taken. Call this on the runtime.
    package var hasMessages: Bool { driver.value.inbound.messages.bytes > 0 }

    /// Whether the session has a connection. Call this on the runtime.
    package var isConnected: Bool { driver.value.hasConnection }

    /// Ends the session. Returns when its connection is closed, as ``Connection/close(_:)`` closes it.
    ///
    /// - Returns: How many bytes were accepted by the connection and are not known to have reached the client; 0 if all
    ///   did.
    @discardableResult
    public nonisolated(nonsending) func close(_ reason: CloseReason = .user) async -> Int {
        await withTaskExecutorPreference(runtime.taskExecutor) { [driver] in
            driver.value.handle(.close(reason))
            return await driver.value.runner.closing?.value ?? 0
        }
    }
}
