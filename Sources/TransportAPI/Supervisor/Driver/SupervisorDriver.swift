import Primitives

/// Runs a ``SupervisorStateMachine``: passes events to it and performs its actions. Lives on its runtime; callers
/// elsewhere use ``Supervisor``.
final class SupervisorDriver: ConnectionDelegate {
    /// An attempt to connect.
    private enum Attempt {
        case connecting(Task<Void, Never>)
        /// The task runs the app's greeting over the connection.
        case greeting(Task<Void, Never>, any Connection)

        func abandon(_ reason: CloseReason, on runtime: any SupervisorRuntime) {
            switch self {
            case .connecting(let task): task.cancel()
            case .greeting(let task, let connection):
                task.cancel()
                // A greeting that ignores its cancellation cannot use the connection any more.
                guard let here = connection.here else {
                    Task(executorPreference: runtime.taskExecutor) { await connection.close(reason) }
                    return
                }
                here.abandon(reason)
            }
        }
    }

    let runtime: any SupervisorRuntime
    let endpoints: [Endpoint]
    let factory: TransportFactory
    private var transports: [Endpoint: (prepared: Endpoint, transport: any Transport)] = [:]
    private let fitting: EndpointFitting
    let preparation: EndpointPreparation?
    let greeting: ConnectionGreeting?
    private let token: TokenSource?
    private let observer: (any SupervisorObserver)?
    private let warn: @Sendable (String) -> Void
    /// Checked for each message, because a check of the observer itself would copy it.
    private let isObserved: Bool
    let states = MulticastBuffer<SupervisorState>(limit: 64, .dropOldest, keepsBacklog: false)
    let runner: MachineRunner

    // Exclusivity is unchecked, here and below, because no other code runs while these change.
    @exclusivity(unchecked) private var machine: SupervisorStateMachine
    @exclusivity(unchecked) private var random: RandomSource
    private(set) var state = SupervisorState.idle
    private var roundTrip = RoundTripTime()
    private var attempts: [Int: Attempt] = [:]
    /// Called with each connection before it is used.
    private(set) var onConnection: ((any Connection, Endpoint) -> Void)?
    /// The keepalive intervals that were measured.
    var intervals: AdaptiveInterval? { machine.adaptive?.intervals }
    var closers = Waiters<Void>()
    private let paths: (any PathMonitor)?
    private var pathWatch: (any Sendable)?
    private var isBeginning = false
    /// Whether an attempt needs the store, because it knows the session.
    private let needsStore: Bool
    /// Whether the supervisor has ended, and messages that a connection has not settled have not.
    private var isEnding = false

    /// The requests in both directions, from the app's first use of them on.
    private var requests: RequestLayer?

    /// The largest message that can be sent now, in bytes of its payload.
    var messageLimit: Int { machine.link.delivery.attached.messageLimit }
    var inbound: InboundBuffer { runner.inbound }
    var outgoing: PendingSends { runner.outgoing }

    init(_ setup: Supervisor.Setup, on runtime: any SupervisorRuntime) {
        self.runtime = runtime
        endpoints = setup.endpoints
        factory = setup.factory
        fitting = setup.fitting
        preparation = setup.preparation
        greeting = setup.greeting
        token = setup.token
        observer = setup.observer
        warn = setup.warn
        isObserved = setup.observer != nil
        runner = MachineRunner(setup.configuration, PendingSends(), on: runtime)
        random = runtime.makeRandomSource()
        machine = SupervisorStateMachine(
            setup.configuration,
            endpoints: setup.endpoints,
            intervals: setup.intervals,
            client: setup.client,
            isStored: setup.store != nil,
            canRefresh: setup.preparation != nil || setup.greeting != nil || setup.token != nil,
            using: &random
        )
        paths = setup.paths
        needsStore = setup.store != nil && setup.configuration.delivery.mode == .session
        if let store = setup.store {
            let session = StoredSession(
                identity: SessionID(using: &random),
                sender: random.next(),
                markKey: OriginFilter.Key(using: &random)
            )
            outgoing.journal = OutboxJournal(store, needsStore ? session : nil, self, on: runtime)
        }
    }

    /// Returns the transport for an endpoint. It is the transport of the connection before, unless the endpoint was
    /// prepared differently since, because a transport can pass the state of a connection, such as a session of MQTT,
    /// to its next one.
    func transport(to endpoint: Endpoint, as prepared: Endpoint) throws(TransportError) -> any Transport {
        let (prepared, skipped) = fitting(prepared)
        for option in skipped { note(.optionSkipped(endpoint, name: option.name, reason: option.reason)) }
        if let former = transports[endpoint], former.prepared == prepared { return former.transport }
        let transport = try factory(prepared)
        transports[endpoint] = (prepared, transport)
        return transport
    }

    /// Starts the driver. This is its first call on the runtime.
    func begin(_ confined: RuntimeBound<SupervisorDriver>) {
        // A monitor that reports the current path at once is handled before the first attempt.
        isBeginning = true
        pathWatch = paths?.watch { path in
            if confined.runtime.isCurrent, confined.value.isBeginning { return confined.value.changed(to: path) }
            confined.runtime.execute { confined.value.changed(to: path) }
        }
        isBeginning = false
        outgoing.journal?.open()
    }

    /// Moves the connection to its new address before the machine checks whether it is alive.
    private func changed(to path: NetworkPath) {
        // The first report says where the machine is, and not that it has moved.
        if !machine.path.network.isEmpty, machine.path.network != path.network { runtime.networkChanged() }
        runner.handles[machine.connection]?.networkChanged()
        if case .greeting(_, let connection) = attempts[machine.connection] { connection.here?.networkChanged() }
        handle(.path(path))
    }

    // MARK: Events and actions

    func handle(_ event: ConversationEvent) {
        if case .ended(let connection, _) = event { runner.ended(connection) }
        machine.handle(event, at: runtime.clock, using: &random, &runner.actions)
        performAll()
    }

    func handle(_ event: SupervisorStateMachine.Event) {
        machine.handle(event, at: runtime.clock, using: &random, &runner.actions)
        performAll()
    }

    private func performAll() {
        let isOutermost = runner.performAll(for: self, perform)
        if isEnding, machine.hasFinishedAll {
            isEnding = false
            outgoing.undelivered.finish()
            outgoing.journal?.end()
        }
        if inbound.isAcknowledgedByApp { inbound.unprocessedCount = machine.link.unprocessedCount }
        // Most messages have ended by then, and their deadlines with them.
        if isOutermost { runner.timer.arm(machine.deadline) { [self] in deadlineReached() } }
    }

    private func deadlineReached() {
        handle(.deadlineReached(runner.readSignsOfLife(of: machine.connection)))
    }

    /// Performs an action of a client. Returns `false` if a server performs it too.
    private func perform(_ action: SupervisorAction) -> Bool {
        switch action {
        case .connect(let connection, let endpoint, let timeout, let isRefresh):
            let confined = RuntimeBound(self, to: runtime)
            attempts[connection] = .connecting(
                Self.connect(confined, connection, to: endpoints[endpoint], timeout, isRefresh)
            )
        case .abandon(let connection), .close(let connection, _):
            guard let attempt = attempts.removeValue(forKey: connection) else { return false }
            attempt.abandon(CloseReason(.keepalive), on: runtime)
        case .deliver(let payload), .deliverUnprocessed(_, let payload, _, _):
            if isObserved { note(.received(bytes: payload.bytes.count)) }
            return false
        case .finish(let id, let outcome):
            if outgoing.finished(id, outcome, isOver: machine.isOver), isObserved { note(.finished(id, outcome)) }
        case .storeProcessed(let number):
            outgoing.journal?.write(incarnation: machine.incarnation, processed: number)
        case .storeMark(let mark): outgoing.journal?.insert(mark)
        case .forget(let id):
            for (_, kept) in transports.values { (kept as? any CompletingTransport)?.forget(id) }
        case .state(let state): changed(to: state)
        case .note(let note): self.note(note)
        case .transmit, .complete, .confirm, .accepted, .ping: return false
        }
        return true
    }

    @inline(never)
    func note(_ note: SupervisorEvent) {
        if case .roundTrip(let time) = note { roundTrip.measured(time) }
        if note == .sessionLost { requests?.loseAnswers(.sessionForgotten) }
        guard let observer else {
            if note == .notConnecting, let endpoint = endpoints.first { warn(Self.notConnecting(endpoint)) }
            return
        }
        runtime.callOut { [time = runtime.clock] in observer.note(note, at: time) }
    }

    private static func notConnecting(_ endpoint: Endpoint) -> String {
        "a message waits, but the supervisor of \(endpoint) connects nowhere, because its connect() was not called"
    }

    private func changed(to state: SupervisorState) {
        if self.state.isOpen, !state.isOpen, delivery.mode == .plain { requests?.loseAnswers(.connectionEnded) }
        self.state = state
        note(.state(state))
        states.send(state)
        guard state.isFinal else { return }
        // They can contain cookies and sessions.
        transports = [:]
        isEnding = true
        states.finish()
        inbound.finish()
        if case .closed(let reason) = state { requests?.end(reason.asError) }
        pathWatch = nil
        closers.resumeAll(returning: ())
    }

    /// The smoothed round-trip time, once one was measured.
    var roundTripTime: Duration? { roundTrip.smoothed }

    // MARK: Attempts

    /// Makes one attempt in its own task, which then reads the connection.
    private static func connect(
        _ confined: RuntimeBound<SupervisorDriver>,
        _ number: Int,
        to endpoint: Endpoint,
        _ timeout: Duration,
        _ isRefresh: Bool
    ) -> Task<Void, Never> {
        Task(executorPreference: confined.runtime.taskExecutor) {
            let connection: any Connection
            let token: String?
            do throws(TransportError) {
                if confined.value.needsStore { try await openStore(confined, number) }
                let prepared = try await prepare(endpoint, confined, number, isRefresh)
                token = try await Self.token(confined, number, isRefresh)
                // A cancelled attempt must not store its transport for the next one.
                guard !Task.isCancelled else { throw .cancelled(.connect) }
                let transport = try confined.value.transport(to: endpoint, as: prepared)
                // The transport's timeout ends before the state machine's, because its error is more specific.
                connection = try await transport.connect(timeout: timeout - timeout / 20)
                try await greet(connection, prepared, confined, number)
            } catch {
                return confined.value.failed(number, error)
            }
            guard let handle = confined.value.connected(number, connection, endpoint, token) else {
                await connection.close()
                return
            }
            await ConnectionHandle.read(handle, isWelcomed: false)
        }
    }

    private static func openStore(
        _ confined: RuntimeBound<SupervisorDriver>,
        _ number: Int
    ) async throws(TransportError) {
        confined.value.handle(.reached(number, .store))
        let error = await confined.suspend(with: WaitID.next(), #isolation) {
            $0.wait(opener: $1, $2)
        } onCancel: {
            $0.outgoing.journal?.cancel(opener: $1)
        }
        if let error { throw error }
        confined.value.handle(.reached(number, .transport))
    }

    private static func prepare(
        _ endpoint: Endpoint,
        _ confined: RuntimeBound<SupervisorDriver>,
        _ number: Int,
        _ isRefresh: Bool
    ) async throws(TransportError) -> Endpoint {
        guard let preparation = confined.value.preparation else { return endpoint }
        confined.value.handle(.reached(number, .preparation))
        do {
            let prepared = try await preparation(endpoint, isRefresh)
            confined.value.handle(.reached(number, .transport))
            return prepared
        } catch let error as TransportError {
            throw error
        } catch {
            throw TransportError(.systemError, .configure, "the endpoint could not be prepared: \(error)")
        }
    }

    private static func token(
        _ confined: RuntimeBound<SupervisorDriver>,
        _ number: Int,
        _ isRefresh: Bool
    ) async throws(TransportError) -> String? {
        guard let source = confined.value.token else { return nil }
        confined.value.handle(.reached(number, .preparation))
        let token: String
        do {
            token = try await source(isRefresh)
        } catch let error as TransportError {
            throw error
        } catch {
            throw TransportError(.systemError, .configure, "there is no token: \(error)")
        }
        confined.value.handle(.reached(number, .transport))
        let (size, limit) = (token.utf8.count, ClientHello.longestToken)
        guard (1...limit).contains(size) else {
            throw .configuration("token", "has \(size) bytes; allowed are 1 to \(limit)")
        }
        return token
    }

    /// Runs the app's greeting over the connection of an attempt. Nothing else uses the connection meanwhile, so that
    /// messages that the greeting does not receive stay in the connection's inbox.
    private static func greet(
        _ connection: any Connection,
        _ prepared: Endpoint,
        _ confined: RuntimeBound<SupervisorDriver>,
        _ number: Int
    ) async throws(TransportError) {
        guard let greeting = confined.value.greeting, confined.value.beginGreeting(number, connection) else { return }
        do {
            try await greeting(connection, prepared)
        } catch let error as TransportError where error.code != .cancelled {
            throw error
        } catch {
            // The greeting may have cancelled a `receive` of its own, because the server was too slow.
            throw TransportError(.systemError, .handshake, "the greeting failed: \(error)")
        }
    }

    /// Returns `false` if the connection is not needed any more.
    private func beginGreeting(_ number: Int, _ connection: any Connection) -> Bool {
        guard case .connecting(let task) = attempts[number] else { return false }
        attempts[number] = .greeting(task, connection)
        handle(.reached(number, .greeting))
        return true
    }

    private func failed(_ number: Int, _ error: TransportError) {
        // An attempt that was abandoned is not in the list any more.
        guard let attempt = attempts.removeValue(forKey: number) else { return }
        // The peer does not learn what went wrong in the app. The next attempt does not wait for the close.
        if case .greeting(_, let connection) = attempt {
            Task(executorPreference: runtime.taskExecutor) { await connection.close() }
        }
        handle(.failed(number, error))
    }

    /// Handles the connection of an attempt. Returns `nil` if the connection is not needed any more.
    private func connected(
        _ number: Int,
        _ connection: any Connection,
        _ endpoint: Endpoint,
        _ token: String?
    ) -> RuntimeBound<ConnectionHandle>? {
        guard attempts[number] != nil else { return nil }
        attempts[number] = nil
        let opened = ConnectionHandle(connection, number, self)
        runner.opened(opened)
        onConnection?(connection, endpoint)
        let encryption = connection.encryption
        if let encryption { note(.encrypted(endpoint, encryption)) }
        handle(.connected(number, connection.capabilities, isVerified: encryption?.isVerified ?? false, token: token))
        return opened.confined
    }

    // MARK: Connections

    var delivery: DeliveryConfiguration { machine.configuration.delivery }

    func watchConnections(_ action: @escaping (any Connection, Endpoint) -> Void) {
        onConnection = action
        if let handle = runner.handles[machine.connection] { action(handle.connection, endpoints[machine.endpoint]) }
    }

    /// From now on the app acknowledges each message once it has processed it.
    func acknowledgeAfterProcessing() {
        guard !inbound.isRequestedByApp else { return }
        inbound.acknowledgeByApp(reportingTo: self)
        useReceipts()
    }

    /// From now on each received message has a receipt.
    func makeReceipts() {
        guard !inbound.isAcknowledgedByApp else { return }
        inbound.makeReceipts(reportingTo: self)
        useReceipts()
    }

    private func useReceipts() {
        runner.confirmByHand()
        handle(.acknowledgesAfterProcessing)
        inbound.offerRoom()
    }

    func processed(_ key: UInt64, isAbandoned: Bool) {
        inbound.settled(key)
        handle(.processed(key, isAbandoned: isAbandoned))
        inbound.offerRoom()
    }

    func isUnprocessed(_ key: UInt64) -> Bool { machine.link.isUnprocessed(key) }

    /// Does nothing, because the supervisor's limits apply to it alone.
    func bufferChanged() {}

    // MARK: Messages

    /// Puts a message into the outbox. Returns the outcome if it is known already.
    func submit(_ payload: Payload) -> (MessageID, SendOutcome?) {
        outgoing.submit(payload) { submit($0, $1) }
    }

    /// Like ``submit(_:)``, for a caller that does not wait for the outcome. ``PendingSends/undelivered`` reports it.
    ///
    /// - Returns: Also whether the message has a place in the outbox, or an outcome.
    func submitAlone(_ payload: Payload) -> (MessageID, SendOutcome?, hasPlace: Bool) {
        outgoing.submitAlone(submit(payload), payload)
    }

    private func submit(_ id: MessageID, _ payload: Payload) {
        if isObserved { note(.submitted(id, bytes: payload.bytes.count)) }
        handle(.submit(id, payload))
    }

    /// The caller stops waiting for a place in the outbox. A message that has its place stays in the outbox.
    func cancel(submitter id: MessageID) {
        if outgoing.isWaiting(submitter: id) { handle(.cancel(id)) }
    }

    func wait(closer id: UInt64, _ continuation: UnsafeContinuation<Void, Never>) {
        if state.isFinal { continuation.resume() } else { closers.append(id, continuation) }
    }
}

// MARK: Requests

extension SupervisorDriver: RequestCarrier {
    var gone: TransportError? {
        if case .closed(let reason) = state { return reason.asError }
        return delivery.mode == .plain && runner.handles.isEmpty ? .connectionEnded : nil
    }

    /// The requests, from the app's first use of them on.
    func useRequests() -> RequestLayer {
        if let requests { return requests }
        let new = RequestLayer(self, machine.configuration.requests)
        requests = new
        inbound.claim(as: .requests) { [confined = RuntimeBound(new, to: runtime)] in confined.value.claims($0, $1) }
        return new
    }
}

// MARK: The store

extension SupervisorDriver: OutboxJournalOwner {
    func restored(
        _ session: StoredSession?,
        _ marks: [OriginFilter.Mark],
        _ messages: [StoredMessage],
        last: UInt64
    ) {
        outgoing.reserve(through: last)
        if let session {
            let ended = messages.first.map { $0.id.number - 1 } ?? last
            handle(.restored(session, after: ended, marks))
        }
        for message in messages { outgoing.restore(message) { submit($0, $1) } }
        if let last = messages.last { handle(.stored(last.id)) }
    }

    func storedSession(_ incarnation: UInt64, processed: UInt64) {
        handle(.storedSession(incarnation, processed: processed))
    }

    func storedMarks(_ count: Int) { handle(.storedMarks(count)) }

    func stored(_ ids: [MessageID], through last: MessageID) {
        outgoing.stored(ids)
        handle(.stored(last))
    }

    func notStored(_ ids: [MessageID], _ error: TransportError) {
        outgoing.notStored(ids)
        handle(.notStored(ids, error))
    }

    func storeFailed(_ error: TransportError) { note(.storeFailed(error)) }

    /// Waits until the store is open, and opens it if that has failed before. The result is the reason why it cannot be
    /// opened, or that it was not open at the deadline.
    func wait(
        opener id: UInt64,
        until deadline: Instant? = nil,
        _ continuation: UnsafeContinuation<TransportError?, Never>
    ) {
        guard let journal = outgoing.journal else { return continuation.resume(returning: nil) }
        journal.wait(opener: id, until: deadline, continuation)
    }

    /// Waits until the store is closed, after the end.
    func storeClosed() async {
        guard let journal = outgoing.journal else { return }
        await withUnsafeContinuation(isolation: #isolation) { journal.wait(closer: WaitID.next(), $0) }
    }
}
