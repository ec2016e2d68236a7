import TransportAPI

/// The client of a world: its machine and its app, and what the rules must know of both.
struct ClientSide {
    /// The last state that the client reported.
    enum State: Int {
        case idle, connecting, open, waiting, offline, suspended, closed
    }

    /// The network that the client sees.
    struct Path {
        var isUsable = true
        /// Its number, which changes with the network.
        var network = 0
    }

    var machine: SupervisorStateMachine
    var state = State.idle
    var deadline: Instant?
    var path = Path()
    var inbox = Inbox()
    var retries = RetryAccount()
    /// When its app has processed its messages.
    var busyUntil: Int64 = 0
    /// The fate of its messages.
    var checker = DeliveryChecker()
    /// Those that the server refuses.
    var refused: Set<UInt64> = []

    init(_ machine: SupervisorStateMachine) { self.machine = machine }
}

/// The events that have arrived at one side, and how much of them it reads.
struct Inbox {
    /// Events that arrived while the side does not read.
    private var held: [SimulatedEvent] = []
    private(set) var isRead = true
    /// Whether the side has no room for messages.
    var isFull = false
    /// How often it has begun or ended to read, or could receive nothing for another reason.
    var pauses = 0

    var reading: Reading { isRead ? isFull ? .withoutRoom : .all : .nothing }

    mutating func hold(_ event: SimulatedEvent) { held.append(event) }

    /// Returns the held events, and forgets them.
    @discardableResult
    mutating func release() -> [SimulatedEvent] {
        defer { held = [] }
        return held
    }

    /// Begins or ends to read. Returns whether that is a change.
    mutating func read(_ isReading: Bool) -> Bool {
        guard isReading != isRead else { return false }
        isRead = isReading
        pauses += 1
        return true
    }
}

/// The client's attempts, as the rules count them.
struct RetryAccount {
    var attempts = 0
    /// The attempts that need no pause.
    var triggers = 0
    /// The failures since the last stable connection.
    var failures = 0
    var openedAt: Int64 = 0
    /// The time of the last loss of a stable connection.
    var lostAt: Int64 = 0
    /// Whether the credentials have not expired since the last stable connection. A client tolerates one expiry.
    var canExpire = true

    /// An open connection has ended. If it was stable, all counts start again.
    mutating func judgeStability(after stable: Duration, hasCredentials: Bool, at now: Int64) {
        guard now - openedAt >= stable.wholeNanoseconds else { return }
        failures = 0
        lostAt = now
        if hasCredentials { canExpire = true }
    }
}

// The client's driver. It feeds the state machine and executes its actions.

extension World {
    /// Feeds the machine an event and executes its actions.
    mutating func feedClient(_ event: ConversationEvent) {
        record.log.write(now, "client \(event)")
        feedClient { client, now, random, actions in client.handle(event, at: now, using: &random, &actions) }
    }

    /// Feeds the machine an event and executes its actions.
    mutating func feedClient(_ event: SupervisorStateMachine.Event) {
        record.log.write(now, "client \(event)")
        feedClient { client, now, random, actions in client.handle(event, at: now, using: &random, &actions) }
    }

    private mutating func feedClient(
        _ event: (inout SupervisorStateMachine, Instant, inout RandomSource, inout [SupervisorAction]) -> Void
    ) {
        var actions = self.actions
        self.actions = []
        event(&client.machine, Instant(nanoseconds: clock.now), &random, &actions)
        if mutation == .reorderResend { Self.reorder(&actions) }
        for action in actions {
            apply(action)
            if mutation == .doubleConnect, case .connect = action { apply(action) }
        }
        actions.removeAll(keepingCapacity: true)
        self.actions = actions
        client.deadline = client.machine.deadline
        checkClient()
    }

    private mutating func apply(_ action: SupervisorAction) {
        record.log.write(now, "client -> \(action)")
        if stage == .closing, client.state == .closed { checkAfterEnd(action) }
        switch action {
        case .connect(let connection, let endpoint, let timeout, let refreshing):
            record.log.note(now, 1, connection, UInt64(endpoint))
            connect(connection, endpoint, timeout, refreshing)
        case .abandon(let connection):
            record.log.note(now, 2, connection)
            disconnectClient(connection, isAbrupt: true)
        case .transmit(let connection, let id, let payload):
            record.log.note(now, 3, connection, id?.number ?? 0)
            guard network.isLive(connection) else {
                return fail(.oneConnection, "the client sends on connection \(connection), which is over")
            }
            if network[connection].blocked != nil {
                network[connection].blocked?.append(.init(id: id, payload: payload))
            } else {
                sendUp(connection, id, payload)
            }
        case .complete(let connection, _, _, _):
            fail(
                .oneConnection,
                "the client requests the sends of another connection from \(connection), which completes none"
            )
        case .ping(let connection):
            record.log.note(now, 4, connection)
            guard network.isLive(connection) else {
                return fail(.oneConnection, "the client pings on connection \(connection), which is over")
            }
            guard scenario.capabilities.hasNativePing else {
                return fail(.oneConnection, "a ping on a connection without pings")
            }
            clock.add(.pong(connection), at: now + trip() + trip())
        case .close(let connection, let reason):
            record.log.note(now, 5, connection)
            if reason.error?.code == .protocolViolation { fail(.honesty, "the client: \(reason)") }
            disconnectClient(connection, isAbrupt: false)
        case .deliver(let payload):
            record.log.note(now, 6, payload.bytes.count)
            note(server.checker.delivered(payload, epoch: 1))
            answer(.client)
        case .deliverUnprocessed(let key, let payload, _, _):
            record.log.note(now, 10, payload.bytes.count, key)
            client.busyUntil = max(client.busyUntil, now) + span(200_000_000)
            clock.add(.processed(.client, key, payload, epoch: 1), at: client.busyUntil)
        case .storeProcessed, .storeMark:
            fail(.honesty, "a client without a store is to store what it has processed")
        case .confirm: fail(.honesty, "a session confirms nothing to its connection")
        case .forget: fail(.honesty, "a connection that completes no messages is to forget one")
        case .accepted(let id):
            record.log.note(now, 7, 0, id.number)
            note(client.checker.accepted(id))
        case .finish(let id, let outcome):
            record.log.note(now, 8, outcome.code, id.number)
            let isSession = scenario.kind == .reliable || scenario.kind == .lossy
            note(client.checker.finished(id, outcome, checksAcknowledgement: isSession))
            checkSetAside(.client, id, outcome)
        case .state(let state): entered(state)
        // An error that may come from the path counts for no limit if the endpoint has worked.
        case .note(.attemptFailed(let endpoint, let error)):
            let isKnown = scenario.endpoints.firstIndex(of: endpoint).map(admission.opened.contains) ?? false
            if error.isRetryable || error.origin != .path || !isKnown { client.retries.failures += 1 }
        case .note(.connectionEnded(_, let reason)):
            if reason.error?.code == .keepaliveTimeout, !client.path.isUsable || !client.inbox.isRead {
                fail(.liveness, "silence ended the connection while the client received nothing")
            }
            client.retries.failures += 1
            judgeStability()
        case .note: break
        }
    }

    private mutating func entered(_ state: SupervisorState) {
        switch state {
        case .idle: client.state = .idle
        case .connecting: client.state = .connecting
        case .open(let endpoint, _):
            client.state = .open
            if let index = scenario.endpoints.firstIndex(of: endpoint) {
                admission.open(index)
            }
            client.retries.openedAt = now
        case .waiting: client.state = .waiting
        case .offline: client.state = .offline
        case .suspended: client.state = .suspended
        case .closed(let reason):
            client.state = .closed
            if stage != .closing { checkGivingUp(reason) }
        }
        record.log.note(now, 9, client.state.rawValue)
        if stage.isLingering, client.state != .open {
            fail(.recovery, "in the calm the connection was lost: \(state)")
        }
    }

    /// An open connection has ended. If it was stable, all counts start again.
    mutating func judgeStability() {
        client.retries.judgeStability(
            after: scenario.client.stableAfter,
            hasCredentials: admission.hasCredentials,
            at: clock.now
        )
    }

    /// The client's end of a connection has ended, so its pending messages get their outcomes.
    mutating func settleRest(_ connection: Int) {
        for message in network[connection].inFlight {
            clock.add(
                .settled(connection, message, .unknown(TransportError(.connectionLost, .open, "gone"))),
                at: now + Self.settling
            )
        }
        for message in network[connection].blocked ?? [] {
            guard let id = message.id else { continue }
            clock.add(
                .settled(connection, id, .rejected(TransportError(.connectionLost, .open, "gone"))),
                at: now + Self.settling
            )
        }
        network[connection].inFlight = []
        if network[connection].blocked != nil { network[connection].blocked = [] }
    }

    /// The time from the acceptance of a message, or from the end of its connection, to its outcome.
    static let settling: Int64 = 100_000

    private mutating func disconnectClient(_ connection: Int, isAbrupt: Bool) {
        guard network.isLive(connection) else { return }
        network.endAtClient(connection)
        settleRest(connection)
        guard !network[connection].isCut else { return }
        network[connection].isCut = true
        let arrival = max(network[connection].up.last, now + trip())
        if isAbrupt, roll(2) == 0 { network[connection].up.cutoff = now + span(scenario.path.delay * 2) }
        let reason = isAbrupt ? CloseReason(.network) : CloseReason(.peer, code: 1000)
        if !network[connection].up.hasHole, roll(10) > 0 { clock.add(.serverEnded(connection, reason), at: arrival) }
        clock.add(.ended(connection, .user), at: now + trip())
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
        guard client.inbox.isRead || stage == .closing else { return client.inbox.hold(event) }
        switch event {
        case .received(let connection, let payload):
            guard let number = reporter(connection), !refusesDown(connection, payload) else { return }
            if network.isLive(connection) { network[connection].down.bytes += UInt64(payload.bytes.count) }
            feedClient(.received(number, payload))
            if scenario.kind == .origin { confirm(connection, payload) }
        case .ended(let connection, let reason):
            if network.isLive(connection) {
                network.endAtClient(connection)
                network[connection].isCut = true
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
        if network.isLive(connection) { return connection }
        if mutation == .lateCallbacksReachMachineAsCurrent { return client.machine.connection }
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
