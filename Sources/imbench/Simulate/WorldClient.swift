import TransportAPI

// The client's driver. It feeds the state machine and executes its actions.

extension World {
    /// Feeds the machine an event and executes its actions.
    mutating func feedClient(_ event: ConversationEvent) {
        log.write(now, "client \(event)")
        feedClient { client, now, random, actions in client.handle(event, at: now, using: &random, &actions) }
    }

    /// Feeds the machine an event and executes its actions.
    mutating func feedClient(_ event: SupervisorStateMachine.Event) {
        log.write(now, "client \(event)")
        feedClient { client, now, random, actions in client.handle(event, at: now, using: &random, &actions) }
    }

    private mutating func feedClient(
        _ event: (inout SupervisorStateMachine, Instant, inout RandomSource, inout [SupervisorAction]) -> Void
    ) {
        var actions = self.actions
        self.actions = []
        event(&client, Instant(nanoseconds: now), &random, &actions)
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
        case .connect(let connection, let endpoint, let timeout, let refreshing):
            log.note(now, 1, connection, UInt64(endpoint))
            connect(connection, endpoint, timeout, refreshing)
        case .abandon(let connection):
            log.note(now, 2, connection)
            disconnectClient(connection, isAbrupt: true)
        case .transmit(let connection, let id, let payload):
            log.note(now, 3, connection, id?.number ?? 0)
            guard isLive(connection) else {
                return fail(.oneConnection, "the client sends on connection \(connection), which is over")
            }
            if connections[connection - 1].isBlocked {
                connections[connection - 1].pending.append(.init(id: id, payload: payload))
            } else {
                sendUp(connection, id, payload)
            }
        case .complete(let connection, _, _, _):
            fail(
                .oneConnection,
                "the client requests the sends of another connection from \(connection), which completes none"
            )
        case .ping(let connection):
            log.note(now, 4, connection)
            guard isLive(connection) else {
                return fail(.oneConnection, "the client pings on connection \(connection), which is over")
            }
            guard scenario.capabilities.hasNativePing else {
                return fail(.oneConnection, "a ping on a connection without pings")
            }
            queue.add(.pong(connection), at: now + trip() + trip())
        case .close(let connection, let reason):
            log.note(now, 5, connection)
            if reason.error?.code == .protocolViolation { fail(.honesty, "the client: \(reason)") }
            disconnectClient(connection, isAbrupt: false)
        case .deliver(let payload):
            log.note(now, 6, payload.bytes.count)
            note(serverChecker.delivered(payload, epoch: 1))
            answer(.client)
        case .deliverUnprocessed(let key, let payload):
            log.note(now, 10, payload.bytes.count, key)
            clientBusyUntil = max(clientBusyUntil, now) + span(200_000_000)
            queue.add(.processed(.client, key, payload, epoch: 1), at: clientBusyUntil)
        case .confirm: fail(.honesty, "a session confirms nothing to its connection")
        case .forget: fail(.honesty, "a connection that completes no messages is to forget one")
        case .accepted(let id):
            log.note(now, 7, 0, id.number)
            note(clientChecker.accepted(id))
        case .finish(let id, let outcome):
            log.note(now, 8, outcome.code, id.number)
            let isSession = scenario.kind == .reliable || scenario.kind == .lossy
            note(clientChecker.finished(id, outcome, checksAcknowledgement: isSession))
            checkSetAside(.client, id, outcome)
        case .state(let state): entered(state)
        // An error that may come from the path counts for no limit if the endpoint has worked.
        case .note(.attemptFailed(let endpoint, let error)):
            let isKnown = scenario.endpoints.firstIndex(of: endpoint).map(openedEndpoints.contains) ?? false
            if error.isRetryable || error.origin != .path || !isKnown { failures += 1 }
        case .note(.connectionEnded(_, let reason)):
            if reason.error?.code == .keepaliveTimeout, !isPathUsable || !isClientReading {
                fail(.liveness, "silence ended the connection while the client received nothing")
            }
            failures += 1
            judgeStability()
        case .note: break
        }
    }

    /// Whether the client still has this connection.
    func isLive(_ connection: Int) -> Bool {
        connection > 0 && connection <= connections.count && connections[connection - 1].isClientUp
    }

    private mutating func entered(_ state: SupervisorState) {
        switch state {
        case .idle: clientState = .idle
        case .connecting: clientState = .connecting
        case .open(let endpoint, _):
            clientState = .open
            if let index = scenario.endpoints.firstIndex(of: endpoint) {
                openedEndpoints.insert(index)
                mistakenEndpoints.remove(index)
            }
            openedAt = now
        case .waiting: clientState = .waiting
        case .offline: clientState = .offline
        case .suspended: clientState = .suspended
        case .closed(let reason):
            clientState = .closed
            if stage != .closing { checkGivingUp(reason) }
        }
        log.note(now, 9, clientState.rawValue)
        if stage == .lingering, clientState != .open {
            fail(.recovery, "in the calm the connection was lost: \(state)")
        }
    }

    /// An open connection has ended. If it was stable, all counts start again.
    mutating func judgeStability() {
        guard now - openedAt >= scenario.client.stableAfter.wholeNanoseconds else { return }
        failures = 0
        lostAt = now
        if credentials == requiredCredentials { canExpire = true }
    }

    /// The client's end of a connection has ended, so its pending messages get their outcomes.
    mutating func settleRest(_ connection: Int) {
        let index = connection - 1
        for message in connections[index].inFlight {
            queue.add(
                .settled(connection, message, .unknown(TransportError(.connectionLost, .open, "gone"))),
                at: now + Self.settling
            )
        }
        for message in connections[index].pending {
            guard let id = message.id else { continue }
            queue.add(
                .settled(connection, id, .rejected(TransportError(.connectionLost, .open, "gone"))),
                at: now + Self.settling
            )
        }
        connections[index].inFlight = []
        connections[index].pending = []
    }

    /// The time from the acceptance of a message, or from the end of its connection, to its outcome.
    static let settling: Int64 = 100_000

    private mutating func disconnectClient(_ connection: Int, isAbrupt: Bool) {
        guard isLive(connection) else { return }
        let index = connection - 1
        connections[index].isClientUp = false
        if live == connection { live = 0 }
        settleRest(connection)
        guard !connections[index].isCut else { return }
        connections[index].isCut = true
        let arrival = max(connections[index].lastUp, now + trip())
        if isAbrupt, roll(2) == 0 { connections[index].cutoffUp = now + span(scenario.latency * 2) }
        let reason = isAbrupt ? CloseReason(.network) : CloseReason(.peer, code: 1000)
        if !connections[index].hasHoleUp, roll(10) > 0 { queue.add(.serverEnded(connection, reason), at: arrival) }
        queue.add(.ended(connection, .user), at: now + trip())
    }

    private static func reorder(_ actions: inout [SupervisorAction]) {
        let places = actions.indices.filter {
            if case .transmit(_, .some, _) = actions[$0] { true } else { false }
        }
        guard places.count >= 2 else { return }
        actions.swapAt(places[0], places[1])
    }

    // MARK: Arrivals

    /// Feeds the machine an event of a connection, if the client reads and the connection still reports.
    mutating func arrive(_ event: SimulatedEvent) {
        guard isClientReading || stage == .closing else { return clientInbox.append(event) }
        switch event {
        case .received(let connection, let payload):
            guard let number = reporter(connection), !refusesDown(connection, payload) else { return }
            if isLive(connection) { connections[connection - 1].bytesDown += UInt64(payload.bytes.count) }
            feedClient(.received(number, payload))
            if scenario.kind == .origin { confirm(connection, payload) }
        case .ended(let connection, let reason):
            if isLive(connection) {
                connections[connection - 1].isClientUp = false
                connections[connection - 1].isCut = true
                if live == connection { live = 0 }
                settleRest(connection)
                feedClient(.ended(connection, arriving(reason, at: .client)))
            } else if let number = reporter(connection) {
                feedClient(.ended(number, reason))
            }
        default: break
        }
    }

    /// The number under which a connection reports now; `nil` if it no longer reports.
    func reporter(_ connection: Int) -> Int? {
        if isLive(connection) { return connection }
        if mutation == .lateCallbacksReachMachineAsCurrent { return client.connection }
        return scenario.reportsLate ? connection : nil
    }
}

extension SendOutcome {
    /// A number for each kind of event.
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
