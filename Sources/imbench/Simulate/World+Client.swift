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
