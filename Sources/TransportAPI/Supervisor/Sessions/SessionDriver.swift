import Primitives

/// Runs one ``ServerSessionStateMachine``. Lives on its runtime.
final class SessionDriver: ConnectionDelegate {
    let runtime: any SupervisorRuntime
    let intake: Intake
    let notes = MulticastBuffer<SupervisorEvent>(limit: 64, .dropOldest, keepsBacklog: false)
    let outgoing = PendingSends(nil)
    var handles: [Int: ConnectionHandle] = [:]
    /// The goodbye of the last connection that was closed.
    private(set) var goodbye: Task<Int, Never>?
    /// Called when the session has ended.
    var onOver: ((SessionDriver) -> Void)?
    /// Called when the session's client has come or gone, or has used it for the first time.
    var onUse: ((SessionDriver) -> Void)?
    /// Whether the session has a connection, and whether its client has sent or acknowledged a message.
    private(set) var hasConnection = false
    private(set) var isUsed = false
    /// What the session keeps.
    let buffer: SessionBuffer
    // Unchecked exclusivity, because a machine calls nobody while it changes.
    @exclusivity(unchecked) private var machine: ServerSessionStateMachine
    private let queue = ActionQueue()
    private let timer: DeadlineTimer

    init(_ machine: ServerSessionStateMachine, on runtime: any SupervisorRuntime, counting total: BufferedTotal) {
        self.machine = machine
        self.runtime = runtime
        timer = DeadlineTimer(on: runtime)
        intake = Intake(machine.configuration, on: runtime)
        buffer = SessionBuffer(intake, counting: RuntimeBound(total, to: runtime))
    }

    var delivery: DeliveryConfiguration { machine.configuration.delivery }

    /// Whether a client means this session by its hello.
    func isMeant(by hello: ClientHello) -> Bool { machine.isMeant(by: hello) }

    /// Gives the machine an event, and does what it asks for.
    func run(_ event: (inout ServerSessionStateMachine, Instant, inout [SupervisorAction]) -> Void) {
        event(&machine, runtime.clock, &queue.actions)
        if queue.performAll(perform) {
            timer.arm(machine.deadline) { [self] in
                let bytes = handles[machine.connection]?.bytesReceived ?? 0
                run { $0.deadlineReached(bytesReceived: bytes, at: $1, &$2) }
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
    }

    /// Counts what the session keeps, if that has changed.
    func bufferChanged() {
        var others = intake.unprocessedBytes
        if !machine.isOver { others += machine.bufferedBytes }
        for handle in handles.values { others += handle.bufferedBytes }
        buffer.count(intake.messages.bytes, others)
    }

    /// The app acknowledges each message from now on, once it has processed it.
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

    /// Ends the session because the server keeps too much, and forgets the messages that the app has not taken.
    func discard(_ reason: CloseReason) {
        buffer.discard()
        run { $0.close(reason, &$2) }
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
        case .close(let connection, let reason): goodbye = handles.removeValue(forKey: connection)?.close(reason)
        case .ping(let connection): handles[connection]?.ping()
        case .state(let state):
            guard state.isFinal else { return }
            intake.finish()
            notes.finish()
            onOver?(self)
            (onOver, onUse) = (nil, nil)
        case .note(let note): notes.send(note)
        case .connect: break
        }
    }

    /// The connection that is to take a message; `nil` once it has ended, which is reported.
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
            case .reading(let isReading): machine.reading(isReading, at: now)
            case .taking(let isTaking): machine.taking(isTaking, &actions)
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

    /// Ends the connection, and not the session.
    func dropConnections() -> [Task<Int, Never>] {
        let dropped = handles
        handles = [:]
        return dropped.map { number, handle in
            let goodbye = handle.close(.user)
            run { $0.ended(number, .user, at: $1, &$2) }
            return goodbye
        }
    }
}
