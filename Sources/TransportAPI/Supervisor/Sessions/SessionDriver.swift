import Primitives

/// Runs one ``ServerSessionStateMachine``. Lives on its runtime.
final class SessionDriver: ConnectionDelegate {
    let runtime: any SupervisorRuntime
    /// The identity of the connection that began the session.
    let identity: Identity?
    let runner: MachineRunner
    let states = MulticastBuffer<SessionState>(limit: 64, .dropOldest, keepsBacklog: false)
    let events = MulticastBuffer<SupervisorEvent>(limit: 64, .dropOldest, keepsBacklog: false)
    /// Called when the session has ended.
    var onOver: ((SessionDriver) -> Void)?
    /// Called when the session's client has connected or disconnected, or has used the session for the first time.
    var onUse: ((SessionDriver) -> Void)?
    /// Whether the session has a connection, and whether its client has sent or acknowledged a message.
    private(set) var hasConnection = false
    private(set) var isUsed = false
    /// The memory of the session.
    let buffer: SessionBuffer
    // Exclusivity is unchecked because a machine calls no other code while it changes.
    @exclusivity(unchecked) private var machine: ServerSessionStateMachine
    private var reportedConnection = 0
    /// The requests in both directions, from the app's first use of them on.
    private var requests: RequestLayer?

    /// The largest message that can be sent now, in bytes of its payload.
    var messageLimit: Int { machine.link.delivery.attached.messageLimit }
    var inbound: InboundBuffer { runner.inbound }
    var outgoing: PendingSends { runner.outgoing }

    init(
        _ machine: ServerSessionStateMachine,
        _ identity: Identity?,
        on runtime: any SupervisorRuntime,
        counting total: BufferedTotal
    ) {
        self.machine = machine
        self.identity = identity
        self.runtime = runtime
        let outgoing = PendingSends(returnsUndelivered: false)
        runner = MachineRunner(machine.configuration, outgoing, on: runtime)
        buffer = SessionBuffer(runner.inbound, counting: RuntimeBound(total, to: runtime))
    }

    var delivery: DeliveryConfiguration { machine.configuration.delivery }

    /// Whether a client's hello refers to this session.
    func isMeant(by hello: ClientHello) -> Bool { machine.isMeant(by: hello) }

    func handle(_ event: ConversationEvent) {
        if case .ended(let connection, _) = event { runner.ended(connection) }
        machine.handle(event, at: runtime.clock, &runner.actions)
        performAll()
    }

    func handle(_ event: ServerSessionStateMachine.Event) {
        machine.handle(event, at: runtime.clock, &runner.actions)
        performAll()
    }

    private func performAll() {
        if runner.performAll(for: self, perform) {
            runner.timer.arm(machine.deadline) { [self] in
                handle(.deadlineReached(runner.readSignsOfLife(of: machine.connection)))
            }
        }
        if inbound.isAcknowledgedByApp { inbound.unprocessedCount = machine.link.unprocessedCount }
        bufferChanged()
        let hasConnection = machine.connection != 0
        if hasConnection != self.hasConnection || !isUsed && machine.isUsed {
            self.hasConnection = hasConnection
            isUsed = machine.isUsed
            onUse?(self)
        }
        reportState()
    }

    /// Performs an action of a server. Returns `false` if a client performs it too.
    private func perform(_ action: SupervisorAction) -> Bool {
        switch action {
        case .state(let state):
            guard state.isFinal else { return true }
            inbound.finish()
            if let reason = machine.endReason { requests?.end(reason.asError) }
            events.finish()
            onOver?(self)
            (onOver, onUse) = (nil, nil)
        case .note(let note): self.note(note)
        default: return false
        }
        return true
    }

    /// The connection of the session, or since when and why it has none.
    var state: SessionState {
        if let reason = machine.endReason { return .ended(reason) }
        guard let absence = machine.absence else { return .connected }
        return .disconnected(for: absence.start.duration(to: runtime.clock), absence.reason)
    }

    /// The app's messages that wait for the client's acknowledgement, or for its next connection. The oldest comes first.
    var unacknowledged: [Payload] {
        let pending = machine.link.delivery.pendingPayloads
        return inbound.hasClaims ? pending.filter { !LayerFrame.isOne($0) } : pending
    }

    private func reportState() {
        let connection = machine.connection
        guard connection != reportedConnection || machine.isOver else { return }
        reportedConnection = connection
        guard !states.isFinished else { return }
        states.send(state)
        if machine.isOver { states.finish() }
    }

    /// Counts the memory of the session, if it has changed.
    func bufferChanged() {
        var others = inbound.unprocessedBytes
        if !machine.isOver { others += machine.bufferedBytes }
        for handle in runner.handles.values { others += handle.bufferedBytes }
        buffer.count(inbound.messages.bytes, others)
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

    /// Ends the session because the server buffers too much, and discards the messages that the app has not taken.
    func discard(_ reason: CloseReason) {
        buffer.discard()
        handle(.close(reason))
    }

    func submit(_ payload: Payload) -> (MessageID, SendOutcome?) {
        outgoing.submit(payload) { handle(.submit($0, $1)) }
    }

    /// The session has this connection from now on.
    ///
    /// - Parameter hello: The client's knowledge of the session; `nil` in plain style.
    func attach(_ opened: ConnectionHandle, hello: ClientHello?) {
        runner.opened(opened)
        let incarnation = machine.incarnation
        handle(.attach(opened.number, opened.connection.capabilities, hello))
        // The client's process has restarted.
        if machine.incarnation != incarnation { requests?.loseAnswers(.sessionForgotten) }
    }

    /// Ends the connections, but not the session.
    func dropConnections() -> [Task<Int, Never>] {
        runner.handles.map { number, connection in
            let closing = connection.close(.user)
            handle(.ended(number, .user))
            return closing
        }
    }
}

// MARK: Requests

extension SessionDriver: RequestCarrier {
    func note(_ event: SupervisorEvent) {
        if !events.isFinished { events.send(event) }
    }

    var gone: TransportError? { machine.endReason?.asError }

    /// The requests, from the app's first use of them on.
    func useRequests() -> RequestLayer {
        if let requests { return requests }
        let new = RequestLayer(self, machine.configuration.requests)
        requests = new
        inbound.claim(as: .requests) { [confined = RuntimeBound(new, to: runtime)] in confined.value.claims($0, $1) }
        return new
    }
}
