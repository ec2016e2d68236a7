import Primitives

/// Keeps one connection alive: connects, monitors the connection, reconnects, and gives each message exactly one
/// outcome.
///
/// All members can be called from any task. They do not change threads if the task prefers the supervisor's runtime as
/// its executor. From other tasks, the next element of a subscription, and ``send(_:)`` without a store (which can wait
/// for a disk), run inline on the caller's thread while the runtime sleeps. The observer is still called on the
/// runtime's own thread. A supervisor that is released without ``close(_:)`` continues until it is closed.
public final class Supervisor: Sendable {
    /// The parts that a supervisor is made from.
    public struct Setup: Sendable {
        /// The endpoints to connect to, in order of preference. They can be of different transports. There must be at
        /// least one.
        package var endpoints: [Endpoint]
        /// The configuration of the supervisor.
        public var configuration = SupervisorConfiguration()
        /// Makes the transport for an endpoint.
        package var factory: TransportFactory
        /// Leaves out options that a transport does not have. By default none are left out.
        package var fitting: EndpointFitting = { ($0, []) }
        /// Writes a line about a mistake of the app, if there is no observer. By default it writes nothing.
        package var warn: @Sendable (String) -> Void = { _ in }
        /// Called before each attempt.
        public var preparation: EndpointPreparation?
        /// Returns the token with which the client logs in to a session server (``DeliveryConfiguration/Mode/session``). The
        /// session's hello carries it, so it works over every transport. At most 8,192 bytes. Not allowed in plain mode, where
        /// a login belongs into the ``preparation`` or the ``greeting``.
        public var token: TokenSource?
        /// Called with each new connection before the supervisor uses it. In plain mode only
        /// (``DeliveryConfiguration/Mode/plain``), because a session begins with its own hello.
        public var greeting: ConnectionGreeting?
        /// Monitors the network. By default there is none, and the network counts as available.
        public var paths: (any PathMonitor)?
        /// Receives all events.
        public var observer: (any SupervisorObserver)?
        /// The name of the messages' format, for channels that are made without one.
        public var format: String?
        /// The keepalive intervals that an earlier supervisor has measured; see ``Supervisor/intervals()``.
        public var intervals: AdaptiveInterval?
        /// The client's identity towards a session server, for apps whose sessions outlive their processes. By default
        /// it is random, so that each process begins its own session. Not allowed beside a ``store``, which has an identity of
        /// its own.
        public var client: SessionClient?
        /// Keeps the outbox across processes. By default the outbox is kept in memory. With a store, a message is sent only
        /// once the store has it, and a message whose process was killed is sent by the next one. The next one also continues
        /// the session (``DeliveryConfiguration/Mode/session``), in which no message that the app has processed is delivered
        /// again. So a session with a store does not end with its supervisor.
        public var store: (any OutboxStore)?

        /// Creates a setup with the defaults.
        package init(endpoints: [Endpoint], factory: @escaping TransportFactory) {
            self.endpoints = endpoints
            self.factory = factory
        }
    }

    /// The name of the messages' format from the setup.
    public let format: String?
    package let runtime: any SupervisorRuntime
    /// Whether the supervisor has an observer.
    package let isObserved: Bool
    let driver: RuntimeBound<SupervisorDriver>
    private let isStored: Bool
    private let stateChanges: RuntimeBound<MulticastBuffer<SupervisorState>>
    private let received: RuntimeBound<MulticastBuffer<Payload>>
    private let delivered: RuntimeBound<MulticastBuffer<ReceivedMessage>>
    private let returned: RuntimeBound<MulticastBuffer<Undelivered>>

    /// Creates a supervisor without starting it.
    ///
    /// - Throws: `.invalidConfiguration` if there is no endpoint, if a setting has a value that is not allowed, or if a
    ///   session has a greeting.
    package init(_ setup: Setup, on runtime: any SupervisorRuntime) throws(TransportError) {
        guard !setup.endpoints.isEmpty else {
            throw TransportError(.invalidConfiguration, .configure, "endpoints: there must be at least one")
        }
        guard setup.greeting == nil || setup.configuration.delivery.mode == .plain else {
            throw TransportError.configuration("greeting", TransportError.greetingInSession)
        }
        guard setup.token == nil || setup.configuration.delivery.mode == .session else {
            throw TransportError.configuration("token", TransportError.tokenWithoutSession)
        }
        try setup.configuration.check()
        guard setup.store != nil || setup.configuration.outbox.store == nil else {
            throw TransportError.configuration("outbox.store", "names a store, but the supervisor was not given one")
        }
        guard setup.store == nil || setup.client == nil else {
            throw TransportError.configuration(
                "client",
                "is not allowed beside a store, which has an identity of its own"
            )
        }
        let driver = SupervisorDriver(setup, on: runtime)
        self.runtime = runtime
        format = setup.format
        isStored = setup.store != nil
        isObserved = setup.observer != nil
        stateChanges = RuntimeBound(driver.states, to: runtime)
        received = RuntimeBound(driver.inbound.messages, to: runtime)
        delivered = RuntimeBound(driver.inbound.deliveries, to: runtime)
        returned = RuntimeBound(driver.outgoing.undelivered, to: runtime)
        let confined = RuntimeBound(driver, to: runtime)
        self.driver = confined
        // Runs before any other call of its creator.
        if runtime.isCurrent { driver.begin(confined) } else { runtime.execute { confined.value.begin(confined) } }
    }

    // MARK: Life

    /// Starts, or connects now instead of waiting for the next attempt. While the supervisor is suspended, it connects
    /// after ``resume()``.
    public func connect() {
        runtime.execute { [driver] in driver.value.handle(.connect) }
    }

    /// Closes the connection when the app goes to the background, and attempts nothing until ``resume()``. Messages
    /// stay in the outbox.
    public func suspend() {
        runtime.execute { [driver] in driver.value.handle(.suspend) }
    }

    /// Connects at once when the app has returned to the foreground. A supervisor on which ``connect()`` was never called
    /// is idle again.
    public func resume() {
        runtime.execute { [driver] in driver.value.handle(.resume) }
    }

    /// Ends the supervisor for good. Pending messages end as `.rejected` or `.unknown`, and nothing is attempted again.
    /// Returns when the connection is closed, as ``Connection/close(_:)`` does and within the same time. With a store, it also
    /// waits until the store is closed, for at most ten seconds.
    ///
    /// - Returns: How many bytes were accepted by the connection and are not known to have reached the peer; 0 if all
    ///   did.
    @discardableResult
    public nonisolated(nonsending) func close(_ reason: CloseReason = .user) async -> Int {
        guard runtime.isCurrent else {
            return await withTaskExecutorPreference(runtime.taskExecutor) { await self.close(reason) }
        }
        driver.value.handle(.close(reason))
        let left = await driver.value.runner.closing?.value ?? 0
        if isStored { await driver.value.storeClosed() }
        return left
    }

    /// Waits until the supervisor has ended, because it was closed or gave up. Returns early if the task is cancelled.
    public nonisolated(nonsending) func closed() async {
        await driver.suspend(with: WaitID.next(), #isolation) {
            $0.wait(closer: $1, $2)
        } onCancel: {
            $0.closers.resume($1, returning: ())
        }
    }

    // MARK: Messages

    /// Sends one message and waits for its outcome: the peer's acknowledgement if the protocol has one, otherwise until
    /// the connection has taken it. Without a connection the message waits in the outbox. Cancelling the task ends the
    /// wait.
    public nonisolated(nonsending) func send(_ payload: Payload) async -> SendOutcome {
        if let error = await openStore() { return .rejected(error) }
        let (id, outcome) = await driver.run(with: payload) { $0.submit($1) }
        if let outcome { return outcome }
        return await driver.suspend(with: id, #isolation) {
            $0.outgoing.wait(sender: $1, $2)
        } onCancel: {
            $0.handle(.cancel($1))
        }
    }

    /// Puts one message into the outbox and returns when it has a place there. If it is not delivered in the end,
    /// ``undelivered`` returns it.
    ///
    /// With a store (``Setup/store``), it returns when the store has the message. From then on the end of the process does
    /// not lose it: the next supervisor with this store sends it.
    ///
    /// - Throws: The reason why there is no place for it; `.storageFailed` if the store could not be opened or written. The
    ///   message is not sent then.
    public nonisolated(nonsending) func submit(_ payload: Payload) async throws(TransportError) -> MessageID {
        if let error = await openStore() { throw error }
        let (id, outcome, hasPlace) = await driver.run(with: payload) { $0.submitAlone($1) }
        if case .rejected(let error) = outcome { throw error }
        if hasPlace { return id }
        return try await driver.suspend(with: id, #isolation) {
            $0.outgoing.wait(submitter: $1, $2)
        } onCancel: {
            $0.cancel(submitter: $1)
        }.get()
    }

    /// Waits until the store is open, if there is one. Returns the reason why it cannot be opened, or why the caller stops waiting.
    package nonisolated(nonsending) func openStore() async -> TransportError? { await openStore(until: nil) }

    nonisolated(nonsending) func openStore(until deadline: Instant?) async -> TransportError? {
        guard isStored else { return nil }
        return await driver.suspend(with: (id: WaitID.next(), deadline: deadline), #isolation) {
            $0.wait(opener: $1.id, until: $1.deadline, $2)
        } onCancel: {
            $0.outgoing.journal?.cancel(opener: $1.id)
        }
    }

    /// Messages that ``submit(_:)`` took and that were not delivered. Those that arrive without a listener, and those
    /// that the last listener leaves, are kept for the next one: the newest 1024, and of these the newest 4 MiB.
    public var undelivered: Subscription<Undelivered> { Subscription(returned) }

    /// The received messages. Each listener has a buffer. When one is full, nothing more is read until there is room,
    /// so an app that listens must keep up. Messages that arrive without a listener are kept for the next one, within
    /// the same limit, after those that the last listener has left. So an app can leave its loop and begin another one
    /// later. A sequence that is made before the last one is released counts as the next one until it has returned a
    /// message.
    public var messages: Subscription<Payload> { Subscription(received) }

    /// The received messages, each of which the app acknowledges once it has processed it.
    ///
    /// An unacknowledged message is delivered again over the next connection, or to the next process. This applies in a
    /// session (``DeliveryConfiguration/Mode/session``), and over MQTT at QoS 1 and 2 with `clean-session=off`.
    /// Elsewhere an acknowledgement only makes room.
    ///
    /// From the first access on, no message is acknowledged automatically, so access this before ``connect()``.
    /// ``messages`` continues, but has no part in acknowledgements. As many messages and bytes can be unacknowledged as
    /// a listener's buffer can contain. Beyond that, the connection is not read. An app that acknowledges nothing
    /// receives nothing more in the end, and the observer receives ``SupervisorEvent/unacknowledged(_:)``. Several
    /// listeners get the same values, each of which is acknowledged once. Elements that a listener leaves, also one
    /// whose task was cancelled, are kept for the next one.
    public var deliveries: Subscription<ReceivedMessage> {
        if runtime.isCurrent {
            driver.value.acknowledgeAfterProcessing()
        } else {
            runtime.execute { [driver] in driver.value.acknowledgeAfterProcessing() }
        }
        return Subscription(delivered)
    }

    /// The current state and each change of it. A listener that falls 64 changes behind misses the oldest.
    public var states: Subscription<SupervisorState> {
        Subscription(stateChanges) { [driver] in driver.value.state }
    }

    /// Returns the current state.
    public nonisolated(nonsending) func state() async -> SupervisorState {
        await driver.run(with: ()) { driver, _ in driver.state }
    }

    /// Returns the keepalive intervals that were measured for each network, to give to the next supervisor. Returns
    /// `nil` unless the keepalive is adaptive.
    public nonisolated(nonsending) func intervals() async -> AdaptiveInterval? {
        await driver.run(with: ()) { driver, _ in driver.intervals }
    }

    /// Calls `action` on the runtime with each connection and its endpoint, after the greeting and before the supervisor
    /// uses the connection, and with the current connection. A later call replaces the action.
    package func onConnection(_ action: @escaping @Sendable (any Connection, Endpoint) -> Void) {
        runtime.execute { [driver] in driver.value.watchConnections(action) }
    }

    /// Each message is acknowledged by a receipt from now on, for a claimant that acknowledges it later than it takes it.
    package func makeReceipts() {
        runtime.execute { [driver] in driver.value.makeReceipts() }
    }

    /// Gives the listeners of ``messages`` a message that a claimant or a listener gives back, and acknowledges it if it
    /// has a receipt.
    package func giveBack(_ payload: Payload, _ message: ReceivedMessage?) {
        runtime.execute { [received] in
            received.value.send(payload)
            message?.acknowledge()
        }
    }

    /// Reports an event to the observer that the supervisor can't detect itself.
    package func report(_ note: SupervisorEvent) {
        runtime.execute { [driver] in driver.value.note(note) }
    }

    /// Returns the smoothed round-trip time (RFC 6298), once one was measured.
    public nonisolated(nonsending) func roundTripTime() async -> Duration? {
        await driver.run(with: ()) { driver, _ in driver.roundTripTime }
    }
}

extension TransportError {
    /// The sentence about a token in plain mode, without its subject.
    package static let tokenWithoutSession =
        "is not allowed with the delivery mode plain, because the hello of a session carries it; set delivery.mode to session, "
        + "or send the login as a header, as user and password of the endpoint, or as a greeting"

    /// The sentence about a greeting in session mode, without its subject.
    package static let greetingInSession =
        "is not allowed with the delivery mode session, where the session's hello is the first message; "
        + "a login belongs into 'preparation', as a header or as user and password of the endpoint"
}
