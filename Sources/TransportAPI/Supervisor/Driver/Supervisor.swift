import Primitives

/// Keeps one connection alive: connects, reconnects, watches over it, and sees to it that each message ends in one outcome.
///
/// All members may be called from any task; from one that prefers the supervisor's runtime as its executor, they do not
/// hop threads. From elsewhere, ``send(_:)`` (without a store, which may wait for a disk) and the next element of a
/// subscription run inline on the caller's thread while the runtime sleeps; the observer is still called on the
/// runtime's own thread. A supervisor that is let go without ``close(_:)`` goes on until it is closed.
public final class Supervisor: Sendable {
    /// What a supervisor is made of.
    public struct Setup: Sendable {
        /// Where to connect to, in the order of preference; they may be of different transports. At least one.
        public var endpoints: [Endpoint]
        /// How.
        public var configuration = SupervisorConfiguration()
        /// Makes the recipe for an endpoint.
        public var factory: TransportFactory
        /// Asked before each attempt.
        public var preparation: EndpointPreparation?
        /// Tells whether there is a network. None by default: then there always is one.
        public var paths: (any PathMonitor)?
        /// Told of everything.
        public var observer: (any SupervisorObserver)?
        /// The name of the messages' format, for channels that are made without one.
        public var format: String?
        /// What was learned about keepalive intervals before; see ``Supervisor/intervals()``.
        public var intervals: AdaptiveInterval?
        /// The client's identity towards a session server, for apps whose sessions outlive their processes. `nil`, the
        /// default: random, so that each process begins a session of its own.
        public var client: SessionClient?
        /// Keeps the outbox beyond the process. None by default: it is kept in memory.
        public var store: (any OutboxStore)?

        /// A setup with the defaults.
        public init(endpoints: [Endpoint], factory: @escaping TransportFactory) {
            self.endpoints = endpoints
            self.factory = factory
        }
    }

    /// The name of the messages' format that the setup gave.
    public let format: String?
    package let runtime: any SupervisorRuntime
    private let driver: RuntimeBound<SupervisorDriver>
    private let isStored: Bool
    private let stateChanges: RuntimeBound<MulticastBuffer<SupervisorState>>
    private let received: RuntimeBound<MulticastBuffer<Payload>>
    private let delivered: RuntimeBound<MulticastBuffer<ReceivedMessage>>
    private let returned: RuntimeBound<MulticastBuffer<Undelivered>>

    /// A supervisor that has not been started.
    ///
    /// - Throws: `.invalidConfiguration` if there is no endpoint.
    public init(_ setup: Setup, on runtime: any SupervisorRuntime) throws(TransportError) {
        guard !setup.endpoints.isEmpty else {
            throw TransportError(.invalidConfiguration, .configure, "endpoints: there must be at least one")
        }
        let driver = SupervisorDriver(setup, on: runtime)
        self.runtime = runtime
        format = setup.format
        isStored = setup.store != nil
        stateChanges = RuntimeBound(driver.states, to: runtime)
        received = RuntimeBound(driver.intake.messages, to: runtime)
        delivered = RuntimeBound(driver.intake.deliveries, to: runtime)
        returned = RuntimeBound(driver.outgoing.undelivered, to: runtime)
        let confined = RuntimeBound(driver, to: runtime)
        self.driver = confined
        // Before anything else that its maker may ask for.
        if runtime.isCurrent { driver.begin(confined) } else { runtime.execute { confined.value.begin(confined) } }
    }

    // MARK: Life

    /// Starts, or connects now instead of waiting for the next attempt.
    public func connect() {
        runtime.execute { [driver] in driver.value.handle(.connect) }
    }

    /// The app goes to the background: the connection is closed and nothing is tried until ``resume()``. Messages stay
    /// in the outbox.
    public func suspend() {
        runtime.execute { [driver] in driver.value.handle(.suspend) }
    }

    /// The app is back: connects at once.
    public func resume() {
        runtime.execute { [driver] in driver.value.handle(.resume) }
    }

    /// Ends for good: messages that wait end in `.rejected` or `.unknown`, and nothing is ever tried again. Returns when the
    /// connection is closed, as ``Connection/close(_:)`` does and within the same time.
    ///
    /// - Returns: how many bytes were accepted by the connection and are not known to have reached the peer; 0 if all did.
    @discardableResult
    public nonisolated(nonsending) func close(_ reason: CloseReason = .user) async -> Int {
        guard runtime.isCurrent else {
            return await withTaskExecutorPreference(runtime.taskExecutor) { await self.close(reason) }
        }
        driver.value.handle(.close(reason))
        return await driver.value.goodbye?.value ?? 0
    }

    /// Waits until the supervisor has ended: closed, or given up. Returns early if the task is cancelled.
    public nonisolated(nonsending) func closed() async {
        await driver.suspend(with: WaitID.next(), #isolation) {
            $0.wait(closer: $1, $2)
        } onCancel: {
            $0.closers.resume($1, returning: ())
        }
    }

    // MARK: Messages

    /// Sends one message and waits for its end: the peer's acknowledgement where there is one, else until the
    /// connection has taken it. With no connection the message waits in the outbox. Cancelling the task ends the wait.
    public nonisolated(nonsending) func send(_ payload: Payload) async -> SendOutcome {
        let (id, outcome) = await driver.run(with: payload, mayRunInline: !isStored) { $0.submit($1) }
        if let outcome { return outcome }
        return await driver.suspend(with: id, #isolation) {
            $0.outgoing.wait(sender: $1, $2)
        } onCancel: {
            $0.handle(.cancel($1))
        }
    }

    /// Puts one message into the outbox and returns when it has a place there. If it is not delivered in the end,
    /// ``undelivered`` gives it back.
    ///
    /// - Throws: why there is no place for it.
    public nonisolated(nonsending) func submit(_ payload: Payload) async throws(TransportError) -> MessageID {
        let (id, outcome, hasPlace) = await driver.run(with: payload, mayRunInline: !isStored) {
            $0.submitAlone($1)
        }
        if case .rejected(let error) = outcome { throw error }
        if hasPlace { return id }
        return try await driver.suspend(with: id, #isolation) {
            $0.outgoing.wait(submitter: $1, $2)
        } onCancel: {
            $0.cancel(submitter: $1)
        }.get()
    }

    /// Messages that ``submit(_:)`` took and that were not delivered. The newest 1024, and of these the newest
    /// 4 MiB, are kept for the first caller that asks.
    public var undelivered: Subscription<Undelivered> { Subscription(returned) }

    /// The messages received. Each listener has a buffer; when one is full, nothing more is read until there is room, so an
    /// app that listens must keep up. What arrives while nobody listens is kept, within the same bound, for the next listener.
    public var messages: Subscription<Payload> { Subscription(received) }

    /// The messages received, each to be acknowledged once the app has processed it. What is not acknowledged is
    /// delivered again over the next connection, or to the next process: in a session
    /// (``DeliveryConfiguration/Mode/session``), and over MQTT at QoS 1 and 2 with `clean-session=off`. Elsewhere an
    /// acknowledgement only makes room.
    ///
    /// From the first time that this is asked for, no message is acknowledged by itself any more: ask for it before
    /// ``connect()``. ``messages`` goes on, but has no part in acknowledgements. As many messages and bytes may be
    /// unacknowledged as a listener's buffer holds; beyond it the connection is not read. An app that acknowledges
    /// nothing receives nothing more in the end: the observer is notified by ``SupervisorEvent/unacknowledged(_:)``.
    /// Several listeners get the same values, each of which is acknowledged once. What a listener leaves untaken, also
    /// one whose task was cancelled, is kept for the next one.
    public var deliveries: Subscription<ReceivedMessage> {
        if runtime.isCurrent {
            driver.value.acknowledgeAfterProcessing()
        } else {
            runtime.execute { [driver] in driver.value.acknowledgeAfterProcessing() }
        }
        return Subscription(delivered)
    }

    /// The state now and each change of it. A listener that falls 64 changes behind misses the oldest.
    public var states: Subscription<SupervisorState> {
        Subscription(stateChanges) { [driver] in driver.value.state }
    }

    /// The state now.
    public nonisolated(nonsending) func state() async -> SupervisorState {
        await driver.run(with: ()) { driver, _ in driver.state }
    }

    /// What was learned about keepalive intervals, network by network, to be given to the next supervisor; `nil` unless the
    /// keepalive is adaptive.
    public nonisolated(nonsending) func intervals() async -> AdaptiveInterval? {
        await driver.run(with: ()) { driver, _ in driver.intervals }
    }

    /// Has `action` called on the runtime with each connection and its endpoint, before anything is sent over it or
    /// read from it, and with the one that there is now. Who asks last is told, and nobody else.
    package func onConnection(_ action: @escaping @Sendable (any Connection, Endpoint) -> Void) {
        runtime.execute { [driver] in driver.value.watchConnections(action) }
    }

    /// Tells the observer something that the supervisor can't see itself.
    package func report(_ note: SupervisorEvent) {
        runtime.execute { [driver] in driver.value.note(note) }
    }

    /// The smoothed round-trip time (RFC 6298), once one was measured.
    public nonisolated(nonsending) func roundTripTime() async -> Duration? {
        await driver.run(with: ()) { driver, _ in driver.roundTripTime }
    }
}
