/// Runs a ``SupervisorMachine``: feeds it what happens and does what it asks for. Lives on its runtime; ``Supervisor`` is its
/// face for everybody else.
final class SupervisorShell {
    /// A message that has not ended.
    struct Pending {
        var payload: Payload
        /// Waits for the outcome.
        var sender: UnsafeContinuation<SendOutcome, Never>?
        /// Waits for a place in the outbox.
        var submitter: UnsafeContinuation<Result<MessageID, TransportError>, Never>?
        var isAccepted = false
    }

    let runtime: any SupervisorRuntime
    let endpoints: [Endpoint]
    let factory: TransportFactory
    let preparation: EndpointPreparation?
    let observer: (any SupervisorObserver)?
    let store: (any OutboxStore)?
    let states = Broadcast<SupervisorState>(limit: 64, .dropOldest, keepsBacklog: false)
    let messages: Broadcast<Payload>
    let undelivered = Broadcast<Undelivered>(limit: 1024, .dropOldest, keepsBacklog: true)

    private var machine: SupervisorMachine
    private var random: RandomSource
    private(set) var state = SupervisorState.idle
    /// The smoothed round-trip time, once one was measured.
    private(set) var roundTripTime: Duration?
    private var actions: [SupervisorAction] = []
    private var performed = 0
    private var isPerforming = false
    var links: [Int: LinkRunner] = [:]
    private var pending: [MessageID: Pending] = [:]
    /// The message that is being submitted now, and its end if it comes before the submission is over.
    private var submitted: (id: MessageID, payload: Payload, outcome: SendOutcome?)?
    private var lastID: UInt64 = 0
    private var armed: (timer: UInt64, deadline: Instant)?
    private var closers: [UnsafeContinuation<Void, Never>] = []
    private let paths: (any PathMonitor)?
    private var pathWatch: (any Sendable)?

    init(_ setup: Supervisor.Setup, on runtime: any SupervisorRuntime) {
        self.runtime = runtime
        endpoints = setup.endpoints
        factory = setup.factory
        preparation = setup.preparation
        observer = setup.observer
        store = setup.store
        messages = Broadcast(limit: setup.configuration.messageBuffer, .pause, keepsBacklog: true)
        random = runtime.makeRandomSource()
        machine = SupervisorMachine(setup.configuration, endpoints: setup.endpoints, using: &random)
        paths = setup.paths
    }

    /// The first thing that happens on the runtime.
    func begin(_ confined: RuntimeConfined<SupervisorShell>) {
        pathWatch = paths?.watch { path in
            confined.runtime.execute { confined.value.handle(.path(path)) }
        }
        restore()
    }

    private func restore() {
        guard let store else { return }
        let left = store.load()
        store.removeAll()
        for payload in left { _ = submit(payload) }
    }

    // MARK: Events and actions

    func handle(_ event: SupervisorMachine.Event) {
        machine.handle(event, at: runtime.clock, using: &random, &actions)
        performAll()
    }

    /// Does what was asked for, and what that leads to, in order.
    private func performAll() {
        guard !isPerforming else { return }
        isPerforming = true
        while performed < actions.count {
            let action = actions[performed]
            performed += 1
            perform(action)
        }
        actions.removeAll(keepingCapacity: true)
        performed = 0
        isPerforming = false
        arm()
    }

    private func perform(_ action: SupervisorAction) {
        switch action {
        case .transmit(let link, let id, let payload): links[link]?.transmit(id, payload)
        case .deliver(let payload): deliver(payload)
        case .accepted(let id): accepted(id)
        case .finish(let id, let outcome): finished(id, outcome)
        case .connect(let link, let endpoint, let timeout, let isRefresh):
            links[link] = LinkRunner(self, link, endpoints[endpoint], timeout: timeout, isRefresh: isRefresh)
        case .abandon(let link): links.removeValue(forKey: link)?.abandon()
        case .close(let link, let reason): links.removeValue(forKey: link)?.close(reason)
        case .ping(let link): links[link]?.ping()
        case .state(let state): changed(to: state)
        case .note(let note): self.note(note)
        }
    }

    private func note(_ note: SupervisorNote) {
        if case .roundTrip(let time) = note {
            roundTripTime = time
        }
        observer?.note(note, at: runtime.clock)
    }

    private func changed(to state: SupervisorState) {
        self.state = state
        note(.state(state))
        states.send(state)
        guard state.isFinal else { return }
        states.finish()
        messages.finish()
        undelivered.finish()
        pathWatch = nil
        for closer in closers { closer.resume() }
        closers = []
    }

    private func arm() {
        guard let deadline = machine.deadline else {
            if let armed { runtime.cancel(timer: armed.timer) }
            armed = nil
            return
        }
        // One that is set too early costs a look at the time; the messages that move it are many more.
        if let armed, armed.deadline <= deadline { return }
        if let armed { runtime.cancel(timer: armed.timer) }
        armed = (
            runtime.schedule(at: deadline) { [self] in
                armed = nil
                handle(.tick(bytesReceived: links[machine.link]?.bytesReceived ?? 0))
            },
            deadline
        )
    }

    // MARK: Messages

    /// Whether the messages that arrive are taken.
    var hasRoom: Bool { messages.hasRoom }

    private func deliver(_ payload: Payload) {
        if observer != nil { note(.received(bytes: payload.bytes.count)) }
        messages.send(payload)
    }

    /// Puts a message into the outbox; the outcome, if it is known already.
    func submit(_ payload: Payload) -> (MessageID, SendOutcome?) {
        lastID += 1
        let id = MessageID(lastID)
        if observer != nil { note(.submitted(id, bytes: payload.bytes.count)) }
        let outer = submitted
        submitted = (id, payload, nil)
        handle(.submit(id, payload))
        defer { submitted = outer }
        guard let outcome = submitted?.outcome else {
            if pending[id] == nil { pending[id] = Pending(payload: payload) }
            return (id, nil)
        }
        return (id, outcome)
    }

    private func accepted(_ id: MessageID) {
        guard let store else { return markAccepted(id) }
        if let payload = submitted?.id == id ? submitted?.payload : pending[id]?.payload { store.insert(id, payload) }
        markAccepted(id)
    }

    private func markAccepted(_ id: MessageID) {
        if let submitted, submitted.id == id {
            return pending[id] = Pending(payload: submitted.payload, isAccepted: true)
        }
        pending[id]?.isAccepted = true
        pending[id]?.submitter.take()?.resume(returning: .success(id))
    }

    private func finished(_ id: MessageID, _ outcome: SendOutcome) {
        store?.remove(id)
        if observer != nil { note(.finished(id, outcome)) }
        let isNow = submitted?.id == id
        if isNow { submitted?.outcome = outcome }
        guard let message = pending.removeValue(forKey: id) else { return }
        message.sender?.resume(returning: outcome)
        if let submitter = message.submitter {
            // It never got a place.
            if case .rejected(let error) = outcome {
                submitter.resume(returning: .failure(error))
            } else {
                submitter.resume(returning: .failure(.outboxFull))
            }
        } else if !isNow, message.sender == nil, !outcome.isSuccess {
            undelivered.send(Undelivered(id: id, payload: message.payload, outcome: outcome))
        }
    }

    func park(sender id: MessageID, _ continuation: UnsafeContinuation<SendOutcome, Never>) {
        pending[id]?.sender = continuation
    }

    /// Waits for a place in the outbox.
    func park(submitter id: MessageID, _ continuation: UnsafeContinuation<Result<MessageID, TransportError>, Never>) {
        if pending[id]?.isAccepted == true { return continuation.resume(returning: .success(id)) }
        pending[id]?.submitter = continuation
    }

    /// Whether the message has its place.
    func isAccepted(_ id: MessageID) -> Bool { pending[id]?.isAccepted == true }

    func park(closer continuation: UnsafeContinuation<Void, Never>) {
        if state.isFinal { continuation.resume() } else { closers.append(continuation) }
    }
}
