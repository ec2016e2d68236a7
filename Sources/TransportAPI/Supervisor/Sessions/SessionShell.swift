/// Runs one ``ServedSession``. Lives on its runtime.
final class SessionShell: LinkOwner {
    let runtime: any SupervisorRuntime
    let intake: Intake
    let notes = Broadcast<SupervisorNote>(limit: 64, .dropOldest, keepsBacklog: false)
    let outgoing = Outgoing(nil)
    var ports: [Int: LinkPort] = [:]
    /// The goodbye of the last link that was closed.
    private(set) var goodbye: Task<Int, Never>?
    /// Called when the session has ended.
    var onOver: ((SessionShell) -> Void)?
    /// Called when the session's client has come or gone, or has used it for the first time.
    var onUse: ((SessionShell) -> Void)?
    /// Whether the session has a link, and whether its client has sent or acknowledged a message.
    private(set) var hasLink = false
    private(set) var isUsed = false
    /// What the session keeps.
    let buffer: SessionBuffer
    // Unchecked exclusivity, because a machine calls nobody while it changes.
    @exclusivity(unchecked) private var machine: ServedSession
    private let queue = ActionQueue()
    private let timer: DeadlineTimer

    init(_ machine: ServedSession, on runtime: any SupervisorRuntime, counting total: BufferedTotal) {
        self.machine = machine
        self.runtime = runtime
        timer = DeadlineTimer(on: runtime)
        intake = Intake(machine.configuration, on: runtime)
        buffer = SessionBuffer(intake, counting: RuntimeConfined(total, to: runtime))
    }

    var delivery: DeliveryConfiguration { machine.configuration.delivery }

    /// Whether a client means this session by its hello.
    func isMeant(by hello: ClientHello) -> Bool { machine.isMeant(by: hello) }

    /// Gives the machine an event, and does what it asks for.
    func run(_ event: (inout ServedSession, Instant, inout [SupervisorAction]) -> Void) {
        event(&machine, runtime.clock, &queue.actions)
        if queue.performAll(perform) {
            timer.arm(machine.deadline) { [self] in
                let bytes = ports[machine.link]?.bytesReceived ?? 0
                run { $0.tick(bytesReceived: bytes, at: $1, &$2) }
            }
        }
        if intake.isAcknowledgedByApp { intake.unprocessedCount = machine.unprocessedCount }
        bufferChanged()
        let hasLink = machine.link != 0
        if hasLink != self.hasLink || !isUsed && machine.isUsed {
            self.hasLink = hasLink
            isUsed = machine.isUsed
            onUse?(self)
        }
    }

    /// Counts what the session keeps, if that has changed.
    func bufferChanged() {
        var others = intake.unprocessedBytes
        if !machine.isOver { others += machine.bufferedBytes }
        for port in ports.values { others += port.bufferedBytes }
        buffer.count(intake.messages.bytes, others)
    }

    /// The app acknowledges each message from now on, once it has processed it.
    func acknowledgeAfterProcessing() {
        guard !intake.isAcknowledgedByApp else { return }
        intake.acknowledgeByApp(reportingTo: self)
        for port in ports.values { port.confirmByHand(isRead: true) }
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
        case .transmit(let link, let id, let payload): port(link, for: id)?.transmit(id, payload)
        case .complete(let link, let id, let payload, let orSend):
            port(link, for: id)?.complete(id, payload, orSend: orSend)
        case .deliver(let payload): intake.give(payload)
        case .deliverUnprocessed(let key, let payload): intake.give(payload, key)
        case .confirm(let link, let count): ports[link]?.confirm(count)
        case .accepted(let id): outgoing.accepted(id)
        case .finish(let id, let outcome): outgoing.finished(id, outcome)
        case .abandon(let link): ports.removeValue(forKey: link)?.abandon(CloseReason(.keepalive))
        case .close(let link, let reason): goodbye = ports.removeValue(forKey: link)?.close(reason)
        case .ping(let link): ports[link]?.ping()
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

    /// The link that is to take a message; `nil` once it has ended, which is reported.
    private func port(_ link: Int, for id: MessageID?) -> LinkPort? {
        if let port = ports[link] { return port }
        let gone = TransportError(.connectionLost, .open, "the link has ended")
        if let id { happened(.settled(id, .rejected(gone)), on: link) }
        return nil
    }

    func happened(_ event: LinkEvent, on link: Int) {
        run { machine, now, actions in
            switch event {
            case .received(let payload): machine.received(link, payload, at: now, &actions)
            case .pong(let time): machine.pong(link, time, at: now, &actions)
            case .settled(let id, let outcome): machine.settled(id, on: link, outcome, at: now, &actions)
            case .reading(let isReading): machine.reading(isReading, at: now)
            case .taking(let isTaking): machine.taking(isTaking, &actions)
            case .discarded: break
            case .ended(let reason):
                ports[link] = nil
                machine.ended(link, reason, at: now, &actions)
            }
        }
    }

    func submit(_ payload: Payload) -> (MessageID, SendOutcome?) {
        outgoing.handIn(payload) { id, payload in
            run { $0.submit(id, payload, at: $1, &$2) }
        }
    }

    /// Ends the link, and not the session.
    func dropLinks() -> [Task<Int, Never>] {
        let dropped = ports
        ports = [:]
        return dropped.map { number, port in
            let goodbye = port.close(.user)
            run { $0.ended(number, .user, at: $1, &$2) }
            return goodbye
        }
    }
}
