import TransportAPI

// The server's shell: sessions that outlive their links, or one for each link.

extension World {
    /// Gives the session an event and does what it asks for.
    mutating func tellServer(
        _ event: (inout ServedSession, Instant, inout [SupervisorAction]) -> Void
    ) {
        guard session != nil else { return }
        var actions = self.actions
        self.actions = []
        let epoch = scenario.kind == .plain ? 1 : session?.incarnation ?? 0
        session?.take(event, at: Instant(nanoseconds: now), &actions)
        checkServer()
        for action in actions { applyAtServer(action, epoch) }
        if session?.isOver == true {
            if session?.deadline != nil { fail(.end, "a session that is over has a deadline") }
            session = nil
            if let client = registry.sessions.keys.first { registry.remove(client) }
        }
        actions.removeAll(keepingCapacity: true)
        self.actions = actions
        sessionDeadline = session?.deadline
    }

    mutating func tickServer() {
        let link = session?.link ?? 0
        let bytes: UInt64 = link == 0 ? 0 : links[link - 1].bytesUp
        tellServer { session, now, actions in session.tick(bytesReceived: bytes, at: now, &actions) }
    }

    private mutating func applyAtServer(_ action: SupervisorAction, _ epoch: UInt64) {
        log.write(now, "server -> \(action)")
        switch action {
        case .abandon(let link):
            log.note(now, 40, link)
            serverLetsGo(link, isAbrupt: true)
        case .transmit(let link, let id, let payload):
            log.note(now, 41, link, id?.number ?? 0)
            guard link > 0, links[link - 1].isServerUp else {
                return fail(.oneLink, "the server sends on link \(link), which is over")
            }
            if let id { queue.add(.serverSettled(link, id, .written), at: now + Self.settling) }
            sendDown(link, payload)
        case .complete(let link, _, _, _):
            fail(.oneLink, "the server asks link \(link), which completes nothing, for what another has left")
        case .ping(let link):
            log.note(now, 42, link)
            if !scenario.capabilities.hasNativePing { fail(.oneLink, "a ping on a link that has none") }
            queue.add(.serverPong(link), at: now + trip() + trip())
        case .close(let link, let reason):
            log.note(now, 43, link)
            if reason.error?.code == .protocolViolation { fail(.honesty, "the server: \(reason)") }
            serverLetsGo(link, isAbrupt: false)
        case .deliver(let payload):
            log.note(now, 44, payload.bytes.count)
            if mutation == .loseDelivery, roll(20) == 0 { return }
            if scenario.serverProcesses { return processAtServer(payload, 0, epoch) }
            note(clientLedger.delivered(payload, epoch: epoch))
        case .deliverUnprocessed(let key, let payload):
            log.note(now, 46, payload.bytes.count, key)
            if mutation == .loseDelivery, roll(20) == 0 { return }
            processAtServer(payload, key, epoch)
        case .confirm: fail(.honesty, "a session confirms nothing to its link")
        case .accepted(let id): note(serverLedger.accepted(id))
        case .finish(let id, let outcome):
            log.note(now, 45, outcome.code, id.number)
            note(serverLedger.finished(id, outcome, checksAcknowledgement: scenario.kind != .plain))
        case .connect: fail(.oneLink, "a server does not connect")
        case .state, .note: break
        }
    }

    mutating func serverLetsGo(_ link: Int, isAbrupt: Bool) {
        guard link > 0, links[link - 1].isServerUp else { return }
        let index = link - 1
        links[index].isServerUp = false
        links[index].isServed = false
        guard !links[index].isCut else { return }
        links[index].isCut = true
        let reason = CloseReason(isAbrupt ? .network : .peer)
        guard !links[index].hasHoleDown else { return }
        queue.add(.ended(link, reason), at: max(links[index].lastDown, now + trip()))
    }

    mutating func handleAtServer(_ event: SimulatedEvent) {
        switch event {
        case .accepted(let link, let closes):
            log.note(now, 50, link)
            accept(link, closes)
        case .serverReceived(let link, let id, let payload):
            log.note(now, 51, link, UInt64(payload.bytes.count))
            guard arrivesUp(link) else { return }
            guard isServerReading || stage == .closing else { return serverInbox.append(event) }
            links[link - 1].bytesUp += UInt64(payload.bytes.count)
            if scenario.kind == .origin { return publish(link, id, payload) }
            if links[link - 1].isServed || scenario.kind == .plain {
                repeatOnPurpose(payload)
                tellServer { session, now, actions in session.received(link, payload, at: now, &actions) }
            } else {
                greet(link, payload)
            }
        case .serverEnded(let link, let reason):
            log.note(now, 52, link)
            guard links[link - 1].isServerUp else { return }
            guard isServerReading || stage == .closing else { return serverInbox.append(event) }
            links[link - 1].isServerUp = false
            links[link - 1].isServed = false
            tellServer { session, now, actions in session.ended(link, reason, at: now, &actions) }
        case .serverPong(let link):
            guard arrivesUp(link), arrivesDown(link), isServerReading, links[link - 1].isClientUp else { return }
            tellServer { session, now, actions in session.pong(link, .milliseconds(1), at: now, &actions) }
        case .serverSettled(let link, let id, let outcome):
            tellServer { session, now, actions in session.settled(id, on: link, outcome, at: now, &actions) }
        case .brokerAcknowledged(let link, let key):
            if arrivesUp(link) { brokerQueue.removeAll { $0.key == key } }
        default: break
        }
    }

    /// The server's app takes a while for a message, one after the other.
    private mutating func processAtServer(_ payload: Payload, _ key: UInt64, _ epoch: UInt64) {
        serverBusyUntil = max(serverBusyUntil, now) + span(200_000_000)
        queue.add(.processed(.server, key, payload, epoch: epoch), at: serverBusyUntil)
    }

    /// The server's app has processed a message, unless it was killed before; it acknowledges it soon, in any order.
    mutating func processedAtServer(_ key: UInt64, _ payload: Payload, _ epoch: UInt64) {
        guard session?.incarnation == epoch else { return }
        note(clientLedger.delivered(payload, epoch: epoch))
        if key != 0 { queue.add(.acknowledges(.server, key, epoch: epoch), at: now + span(100_000_000)) }
    }

    private mutating func accept(_ link: Int, _ closes: Bool) {
        guard !links[link - 1].isCut else { return }
        links[link - 1].isServerUp = true
        if closes { return serverLetsGo(link, isAbrupt: false) }
        switch scenario.kind {
        case .plain:
            if session != nil {
                let old = session?.link ?? 0
                serverLetsGo(old, isAbrupt: true)
                tellServer { session, now, actions in session.ended(old, CloseReason(.network), at: now, &actions) }
            }
            begin(link, hello: nil)
        case .origin:
            // A broker ends the link that its client had before (MQTT 3.1.1, section 3.1.4).
            for old in 1..<link { serverLetsGo(old, isAbrupt: true) }
            for message in brokerQueue { sendDown(link, message.payload) }
        case .reliable, .lossy: break
        }
    }

    private mutating func begin(_ link: Int, hello: ClientHello?) {
        let incarnation = random.next() | 1
        session = ServedSession(
            scenario.server,
            incarnation: incarnation,
            lifetime: scenario.lifetime,
            at: Instant(nanoseconds: now)
        )
        if scenario.serverProcesses, mutation != .acknowledgeOnReceipt { session?.acknowledgeAfterProcessing() }
        attach(link, hello)
    }

    private mutating func attach(_ link: Int, _ hello: ClientHello?) {
        links[link - 1].isServed = true
        let (capabilities, isReading, mutation) = (scenario.capabilities, isServerReading, mutation)
        tellServer { session, now, actions in
            session.reading(isReading, at: now)
            session.attach(link, capabilities, hello: hello, at: now, &actions)
            if mutation == .keepOldLink { actions.removeAll { if case .abandon = $0 { true } else { false } } }
        }
        var served = 0
        for index in links.indices where links[index].isServed && links[index].isServerUp { served += 1 }
        if served > 1 { fail(.oneLink, "the session has \(served) links") }
    }

    /// The first frame of a link says whose it is.
    private mutating func greet(_ link: Int, _ payload: Payload) {
        guard let frame = try? SessionFrame(payload),
            case .hello(let id, let incarnation, let received, let attempt) = frame
        else { return }
        let hello = ClientHello(incarnation: incarnation, received: received, attempt: attempt)
        if mode == .full {
            sendDown(link, SessionFrame.refused(.full).payload)
            return serverLetsGo(link, isAbrupt: false)
        }
        switch registry.decide(id, isMeant: { [session] _ in session?.isMeant(by: hello) != false }) {
        case .resume: attach(link, hello)
        case .replace:
            tellServer { session, _, actions in session.supersede(&actions) }
            begin(link, hello: hello)
            registry.insert(id, session?.incarnation ?? 0)
        case .begin:
            begin(link, hello: hello)
            registry.insert(id, session?.incarnation ?? 0)
        case .refuse: fail(.honesty, "the only client was refused")
        }
    }

    private mutating func repeatOnPurpose(_ payload: Payload) {
        guard mutation == .dropDedupe, let frame = try? SessionFrame(payload), let session else { return }
        if case .message(let sequence, let content) = frame, sequence <= session.delivery.receiver.received {
            note(clientLedger.delivered(content, epoch: session.incarnation))
        }
    }
}

extension ServedSession {
    /// Lets `event` change the session where it lies.
    fileprivate mutating func take(
        _ event: (inout ServedSession, Instant, inout [SupervisorAction]) -> Void,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        event(&self, now, &actions)
    }
}
