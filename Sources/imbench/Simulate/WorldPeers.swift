import TransportAPI

// The client's shell: what it tells its machine, and what it does for it.

extension World {
    /// Gives the machine an event and does what it asks for.
    mutating func tellClient(_ event: SupervisorMachine.Event) {
        var actions = self.actions
        self.actions = []
        client.handle(event, at: Instant(nanoseconds: now), using: &random, &actions)
        log.write(now, "client \(event)")
        if mutation == .reorderResend { Self.reorder(&actions) }
        for action in actions {
            apply(action)
            if mutation == .doubleConnect, case .connect = action { apply(action) }
        }
        actions.removeAll(keepingCapacity: true)
        self.actions = actions
        clientDeadline = client.deadline
        checkClient()
    }

    private mutating func apply(_ action: SupervisorAction) {
        log.write(now, "client -> \(action)")
        if stage == .closing, clientState == .closed { checkAfterEnd(action) }
        switch action {
        case .connect(let link, let endpoint, let timeout, let refreshing):
            log.note(now, 1, link, UInt64(endpoint))
            connect(link, endpoint, timeout, refreshing)
        case .abandon(let link):
            log.note(now, 2, link)
            letGo(link, isAbrupt: true)
        case .transmit(let link, let id, let payload):
            log.note(now, 3, link, id?.number ?? 0)
            guard isLive(link) else { return fail(.oneLink, "the client sends on link \(link), which is over") }
            if links[link - 1].isBlocked {
                links[link - 1].pending.append(.init(id: id, payload: payload))
            } else {
                sendUp(link, id, payload)
            }
        case .complete(let link, _, _, _):
            fail(.oneLink, "the client asks link \(link), which completes nothing, for what another has left")
        case .ping(let link):
            log.note(now, 4, link)
            guard isLive(link) else { return fail(.oneLink, "the client pings on link \(link), which is over") }
            guard scenario.capabilities.hasNativePing else { return fail(.oneLink, "a ping on a link that has none") }
            queue.add(.pong(link), at: now + trip() + trip())
        case .close(let link, let reason):
            log.note(now, 5, link)
            if reason.error?.code == .protocolViolation { fail(.honesty, "the client: \(reason)") }
            letGo(link, isAbrupt: false)
        case .deliver(let payload):
            log.note(now, 6, payload.bytes.count)
            note(serverLedger.delivered(payload, epoch: 1))
        case .deliverUnprocessed(let key, let payload):
            log.note(now, 10, payload.bytes.count, key)
            clientBusyUntil = max(clientBusyUntil, now) + span(200_000_000)
            queue.add(.processed(.client, key, payload, epoch: 1), at: clientBusyUntil)
        case .confirm: fail(.honesty, "a session confirms nothing to its link")
        case .accepted(let id):
            log.note(now, 7, 0, id.number)
            note(clientLedger.accepted(id))
        case .finish(let id, let outcome):
            log.note(now, 8, outcome.code, id.number)
            let isSession = scenario.kind == .reliable || scenario.kind == .lossy
            note(clientLedger.finished(id, outcome, checksAcknowledgement: isSession))
        case .state(let state): entered(state)
        case .note(.attemptFailed): failures += 1
        case .note(.linkEnded(_, let reason)):
            if reason.error?.code == .keepaliveTimeout, !isPathUsable || !isClientReading {
                fail(.liveness, "silence was taken for death while nothing could be heard")
            }
            failures += 1
            judgeStability()
        case .note: break
        }
    }

    /// Whether the client still has this link.
    func isLive(_ link: Int) -> Bool { link > 0 && link <= links.count && links[link - 1].isClientUp }

    private mutating func entered(_ state: SupervisorState) {
        switch state {
        case .idle: clientState = .idle
        case .connecting: clientState = .connecting
        case .open:
            clientState = .open
            openedAt = now
        case .waiting: clientState = .waiting
        case .offline: clientState = .offline
        case .suspended: clientState = .suspended
        case .closed(let reason):
            clientState = .closed
            if stage != .closing { checkGivingUp(reason) }
        }
        log.note(now, 9, clientState.hashValueForLog)
        if stage == .lingering, clientState != .open { fail(.recovery, "in the calm the link was lost: \(state)") }
    }

    /// An open link is over: if it was stable, everything is counted anew.
    mutating func judgeStability() {
        guard now - openedAt >= scenario.client.stableAfter.wholeNanoseconds else { return }
        failures = 0
        lostAt = now
        if credentials == requiredCredentials { canExpire = true }
    }

    /// The client's end of a link is over: what it has not settled, it settles.
    mutating func settleRest(_ link: Int) {
        let index = link - 1
        for message in links[index].inFlight {
            queue.add(
                .settled(link, message, .unknown(TransportError(.connectionLost, .open, "gone"))),
                at: now + Self.settling
            )
        }
        for message in links[index].pending {
            guard let id = message.id else { continue }
            queue.add(
                .settled(link, id, .rejected(TransportError(.connectionLost, .open, "gone"))),
                at: now + Self.settling
            )
        }
        links[index].inFlight = []
        links[index].pending = []
    }

    /// How long after a message was taken, or its link has ended, its outcome is reported.
    static let settling: Int64 = 100_000

    private mutating func letGo(_ link: Int, isAbrupt: Bool) {
        guard isLive(link) else { return }
        let index = link - 1
        links[index].isClientUp = false
        if live == link { live = 0 }
        settleRest(link)
        guard !links[index].isCut else { return }
        links[index].isCut = true
        let arrival = max(links[index].lastUp, now + trip())
        if isAbrupt, roll(2) == 0 { links[index].cutoffUp = now + span(scenario.latency * 2) }
        let reason = CloseReason(isAbrupt ? .network : .peer)
        if !links[index].hasHoleUp, roll(10) > 0 { queue.add(.serverEnded(link, reason), at: arrival) }
        queue.add(.ended(link, .user), at: now + trip())
    }

    private static func reorder(_ actions: inout [SupervisorAction]) {
        let places = actions.indices.filter {
            if case .transmit(_, .some, _) = actions[$0] { true } else { false }
        }
        guard places.count >= 2 else { return }
        actions.swapAt(places[0], places[1])
    }

    // MARK: What arrives

    /// Gives the machine what a link reports, if it is read, and if the link still reports.
    mutating func arrive(_ event: SimulatedEvent) {
        guard isClientReading || stage == .closing else { return clientInbox.append(event) }
        switch event {
        case .received(let link, let payload):
            guard let number = reporter(link) else { return }
            if isLive(link) { links[link - 1].bytesDown += UInt64(payload.bytes.count) }
            tellClient(.received(number, payload))
            if scenario.kind == .origin { confirm(link, payload) }
        case .ended(let link, let reason):
            if isLive(link) {
                links[link - 1].isClientUp = false
                links[link - 1].isCut = true
                if live == link { live = 0 }
                settleRest(link)
                tellClient(.ended(link, reason))
            } else if let number = reporter(link) {
                tellClient(.ended(number, reason))
            }
        default: break
        }
    }

    /// Under which number a link reports now; `nil` if it reports nothing any more.
    func reporter(_ link: Int) -> Int? {
        if isLive(link) { return link }
        if mutation == .lateCallbacksReachMachineAsCurrent { return client.link }
        return scenario.reportsLate ? link : nil
    }
}

extension World.ClientState {
    /// A number that is the same in every run.
    var hashValueForLog: Int {
        switch self {
        case .idle: 0
        case .connecting: 1
        case .open: 2
        case .waiting: 3
        case .offline: 4
        case .suspended: 5
        case .closed: 6
        }
    }
}

extension SendOutcome {
    /// A number for each kind.
    var code: Int {
        switch self {
        case .acknowledged: 1
        case .written: 2
        case .expired: 3
        case .rejected: 4
        case .unknown: 5
        }
    }
}

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

// A broker that delivers at least once, and the other client behind it.

extension World {
    mutating func openPeer() {
        tellPeer(.connect)
        tellPeer(.connected(1, scenario.capabilities))
    }

    mutating func tellPeer(_ event: SupervisorMachine.Event) {
        var actions: [SupervisorAction] = []
        peer.handle(event, at: Instant(nanoseconds: now), using: &random, &actions)
        log.write(now, "peer \(event)")
        for action in actions {
            log.write(now, "peer -> \(action)")
            switch action {
            case .transmit(_, let id, let payload):
                lastBrokerKey += 1
                var stamped = payload
                // A broker knows its own messages by a number that the client does not see.
                stamped.topic = String(lastBrokerKey)
                brokerQueue.append((lastBrokerKey, stamped))
                if live > 0, links[live - 1].isServerUp { sendDown(live, stamped) }
                if let id { tellPeer(.settled(1, id, .acknowledged)) }
            case .deliver(let payload):
                log.note(now, 60, payload.bytes.count)
                if Self.isForged(payload) { continue }
                if mutation == .loseDelivery, roll(20) == 0 { continue }
                note(clientLedger.delivered(payload, epoch: 1))
            case .accepted(let id): note(serverLedger.accepted(id))
            case .finish(let id, let outcome):
                log.note(now, 61, outcome.code, id.number)
                note(serverLedger.finished(id, outcome, checksAcknowledgement: false))
            default: break
            }
        }
    }

    /// The broker gets a message: it passes it on, now and then twice, and acknowledges it.
    mutating func publish(_ link: Int, _ id: SentID?, _ payload: Payload) {
        if roll(4) == 0 { tellPeer(.received(1, forged(payload))) }
        tellPeer(.received(1, payload))
        if stage != .calming, roll(8) == 0 { tellPeer(.received(1, payload)) }
        guard let id, !links[link - 1].isCut else { return }
        let arrival = max(now + trip(), links[link - 1].lastDown)
        links[link - 1].lastDown = arrival
        queue.add(.confirmed(link, id), at: arrival)
    }

    /// What another client of the broker publishes that has seen a message: other content under the sender's identifier, with the
    /// same number or one that the sender has not reached. No message of the sender may be taken for a repetition of it.
    private mutating func forged(_ payload: Payload) -> Payload {
        guard case .origin(let sender, let sequence, _)? = try? SessionFrame(payload) else { return payload }
        return SessionFrame.origin(sender, sequence &+ UInt64(roll(2000)), Payload([0xff, 0xff])).payload
    }

    static func isForged(_ payload: Payload) -> Bool { payload.bytes == [0xff, 0xff] }

    /// The client's link acknowledges what it has received; lost with the link, the broker sends it again on the next one.
    mutating func confirm(_ link: Int, _ payload: Payload) {
        guard let topic = payload.topic, let key = UInt64(topic), !links[link - 1].isCut else { return }
        let arrival = max(now + trip(), links[link - 1].lastUp)
        links[link - 1].lastUp = arrival
        queue.add(.brokerAcknowledged(link, key), at: arrival)
    }
}
