import Primitives

/// Runs one ``ServerSessionStateMachine``. Lives on its runtime.
final class SessionDriver: ConnectionDelegate {
    let runtime: any SupervisorRuntime
    /// The identity of the connection that began the session.
    let identity: Identity?
    let intake: Intake
    let states = MulticastBuffer<SessionState>(limit: 64, .dropOldest, keepsBacklog: false)
    let events = MulticastBuffer<SupervisorEvent>(limit: 64, .dropOldest, keepsBacklog: false)
    let outgoing = PendingSends(nil, returnsUndelivered: false)
    var handles: [Int: ConnectionHandle] = [:]
    /// The close of the last connection that was closed.
    private(set) var closing: Task<Int, Never>?
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
    private let queue = ActionQueue()
    private let timer: DeadlineTimer

    init(
        _ machine: ServerSessionStateMachine,
        _ identity: Identity?,
        on runtime: any SupervisorRuntime,
        counting total: BufferedTotal
    ) {
        self.machine = machine
        self.identity = identity
        self.runtime = runtime
        timer = DeadlineTimer(on: runtime)
        intake = Intake(machine.configuration, on: runtime)
        buffer = SessionBuffer(intake, counting: RuntimeBound(total, to: runtime))
    }

    var delivery: DeliveryConfiguration { machine.configuration.delivery }

    /// Whether a client's hello refers to this session.
    func isMeant(by hello: ClientHello) -> Bool { machine.isMeant(by: hello) }

    /// Passes an event to the machine and performs its actions.
    func run(_ event: (inout ServerSessionStateMachine, Instant, inout [SupervisorAction]) -> Void) {
        event(&machine, runtime.clock, &queue.actions)
        if queue.performAll(perform) {
            timer.arm(machine.deadline) { [self] in
                let signs = handles[machine.connection]?.readSignsOfLife() ?? SignsOfLife()
                run { $0.deadlineReached(signs, at: $1, &$2) }
            }
        }
        if intake.isAcknowledgedByApp { intake.unprocessedCount = machine.unprocessedCount }
        bufferChanged()
        let hasConnection = machine.connection != 0
        if hasConnection != self.hasConnection || !isUsed && machine.isUsed {
            self.hasConnection = hasConnection
            isUsed = machine.isUsed
            onUse?(self)
        }
        reportState()
    }

    /// The connection of the session, or since when and why it has none.
    var state: SessionState {
        if let reason = machine.endReason { return .ended(reason) }
        guard let absence = machine.absence else { return .connected }
        return .disconnected(for: absence.start.duration(to: runtime.clock), absence.reason)
    }

    /// The messages that wait for the client's acknowledgement, or for its next connection. The oldest comes first.
    var unacknowledged: [Payload] { machine.delivery.pendingPayloads }

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
        var others = intake.unprocessedBytes
        if !machine.isOver { others += machine.bufferedBytes }
        for handle in handles.values { others += handle.bufferedBytes }
        buffer.count(intake.messages.bytes, others)
    }

    /// From now on the app acknowledges each message once it has processed it.
    func acknowledgeAfterProcessing() {
        guard !intake.isAcknowledgedByApp else { return }
        intake.acknowledgeByApp(reportingTo: self)
        for handle in handles.values { handle.confirmByHand(isRead: true) }
        run { machine, _, _ in machine.acknowledgeAfterProcessing() }
        intake.offerRoom()
    }

    func processed(_ key: UInt64, isAbandoned: Bool) {
        intake.settled(key)
        run { machine, _, actions in machine.processed(key, isAbandoned: isAbandoned, &actions) }
        intake.offerRoom()
    }

    func isUnprocessed(_ key: UInt64) -> Bool { machine.isUnprocessed(key) }

    /// Ends the session because the server buffers too much, and discards the messages that the app has not taken.
    func discard(_ reason: CloseReason) {
        buffer.discard()
        run { $0.close(reason, at: $1, &$2) }
    }

    private func perform(_ action: SupervisorAction) {
        switch action {
        case .transmit(let connection, let id, let payload): openHandle(connection, for: id)?.transmit(id, payload)
        case .complete(let connection, let id, let payload, let orSend):
            openHandle(connection, for: id)?.complete(id, payload, orSend: orSend)
        case .deliver(let payload): intake.give(payload)
        case .deliverUnprocessed(let key, let payload): intake.give(payload, key)
        case .confirm(let connection, let count): handles[connection]?.confirm(count)
        case .accepted(let id): outgoing.accepted(id)
        case .finish(let id, let outcome): outgoing.finished(id, outcome)
        case .abandon(let connection): handles.removeValue(forKey: connection)?.abandon(CloseReason(.keepalive))
        case .close(let connection, let reason): closing = handles.removeValue(forKey: connection)?.close(reason)
        case .ping(let connection): handles[connection]?.ping()
        case .state(let state):
            guard state.isFinal else { return }
            intake.finish()
            events.finish()
            onOver?(self)
            (onOver, onUse) = (nil, nil)
        case .note(let note): events.send(note)
        // No transport of a server completes messages.
        case .connect, .forget: break
        }
    }

    /// Returns the connection for a message. Returns `nil` if it has ended, and reports that.
    private func openHandle(_ connection: Int, for id: MessageID?) -> ConnectionHandle? {
        if let handle = handles[connection] { return handle }
        let gone = TransportError(.connectionLost, .open, "the connection has ended")
        if let id { happened(.settled(id, .rejected(gone)), on: connection) }
        return nil
    }

    func happened(_ event: ConnectionEvent, on connection: Int) {
        run { machine, now, actions in
            switch event {
            case .received(let payload): machine.received(connection, payload, at: now, &actions)
            case .pong(let time): machine.pong(connection, time, at: now, &actions)
            case .settled(let id, let outcome): machine.settled(id, on: connection, outcome, at: now, &actions)
            case .reading(let reading): machine.reading(reading, at: now, &actions)
            case .discarded: break
            case .ended(let reason):
                handles[connection] = nil
                machine.ended(connection, reason, at: now, &actions)
            }
        }
    }

    func submit(_ payload: Payload) -> (MessageID, SendOutcome?) {
        outgoing.handIn(payload) { id, payload in
            run { $0.submit(id, payload, at: $1, &$2) }
        }
    }

    /// Ends the connections, but not the session.
    func dropConnections() -> [Task<Int, Never>] {
        let dropped = handles
        handles = [:]
        return dropped.map { number, handle in
            let closing = handle.close(.user)
            run { $0.ended(number, .user, at: $1, &$2) }
            return closing
        }
    }
}
