import Primitives
import SocketIO
import TransportAPI

/// A client, a server and the network between them, all from one seed, with no clock but the order of events.
///
/// First things go wrong, then they stop going wrong and everything must come right, then it is closed. The rules are checked
/// after each event; the first that is broken ends the world.
struct World {
    enum Stage {
        case faulty, calming, lingering, closing
    }

    /// What the client said of itself last.
    enum ClientState {
        case idle, connecting, open, waiting, offline, suspended, closed
    }

    let scenario: Scenario
    let mutation: Mutation?
    var random: RandomSource
    var now: Int64 = 0
    var queue = TimerQueue<SimulatedEvent>()
    var log: EventLog
    var violation: Violation?
    var events = 0
    var stage = Stage.faulty
    var actions: [SupervisorAction] = []
    /// The places of messages that were sent when all was well.
    var witnesses: [Int] = []
    /// Timers in a row that left the time where it was.
    var idleTicks = 0

    // The client
    var client: SupervisorStateMachine
    var clientState = ClientState.idle
    var clientDeadline: Instant?
    var clientLedger = Ledger()
    /// What arrived while nothing is read.
    var clientInbox: [SimulatedEvent] = []
    var isClientReading = true
    var clientPauses = 0
    var isPathUsable = true
    var network = 0
    var openedAt: Int64 = 0
    /// Since when there is no connection that was stable.
    var lostAt: Int64 = 0
    var failures = 0
    /// The credentials have not expired since the last stable connection: a client bears that once.
    var canExpire = true
    var attempts = 0
    /// What made an attempt happen without a pause.
    var triggers = 0

    // The apps that acknowledge messages after they have processed them
    /// When each is done with what it has been given, and in which life of the server.
    var clientBusyUntil: Int64 = 0
    var serverBusyUntil: Int64 = 0

    // The network
    var connections: [SimulatedConnection] = []
    /// The attempt or connection that the client has; 0 if none.
    var live = 0

    // The server
    var session: ServerSessionStateMachine?
    var sessionDeadline: Instant?
    var registry = SessionRegistry<UInt64>(capacity: 1)
    var serverLedger = Ledger()
    var serverInbox: [SimulatedEvent] = []
    var isServerReading = true
    var serverPauses = 0
    /// How attempts fare now.
    var mode: Fault?
    var credentials = 0
    var requiredCredentials = 0
    var hopelessEndpoints: Set<Int> = []

    // The broker
    /// The other client, whose connection never fails.
    var peer: SupervisorStateMachine
    /// What the broker has for the client and the client has not confirmed.
    var brokerQueue: [(key: UInt64, payload: Payload)] = []
    var lastBrokerKey: UInt64 = 0

    init(seed: UInt64, mutation: Mutation? = nil, isVerbose: Bool = false) {
        var random = RandomSource.seeded(seed)
        scenario = Scenario(using: &random)
        client = SupervisorStateMachine(scenario.client, endpoints: scenario.endpoints, using: &random)
        peer = SupervisorStateMachine(scenario.server, endpoints: scenario.endpoints, using: &random)
        self.random = random
        self.mutation = mutation
        log = EventLog(isVerbose: isVerbose)
    }

    /// Runs to the end or to the first broken rule.
    mutating func run() {
        log.write(now, "\(scenario.kind), \(scenario.client), \(scenario.server), \(scenario.capabilities)")
        plan()
        if scenario.kind == .origin { openPeer() }
        if scenario.clientProcesses { tellClient(.acknowledgesAfterProcessing) }
        tellClient(.connect)
        while violation == nil, stage != .closing {
            guard step() else {
                return fail(.recovery, "nothing will happen any more, and the client is \(clientState)")
            }
            checkWell()
        }
        if violation == nil { close() }
    }

    /// Takes the next event or timer; `false` if there is none.
    mutating func step() -> Bool {
        events += 1
        guard events < 40_000 else {
            fail(.progress, "the world does not come to rest")
            return true
        }
        let timer = nextTimer
        if let next = queue.next, timer.map({ next <= $0 }) ?? true {
            if next > now { idleTicks = 0 }
            now = max(now, next)
            if let event = queue.popFirst() { handle(event) }
            return true
        }
        guard let timer else { return false }
        if timer > now { idleTicks = 0 } else { idleTicks += 1 }
        if idleTicks > 50 { fail(.progress, "timers fire again and again at one instant") }
        now = max(now, timer)
        if let clientDeadline, clientDeadline.nanoseconds <= now, !forgetsTimer {
            let bytes = live == 0 ? 0 : connections[live - 1].bytesDown
            tellClient(.tick(bytesReceived: mutation == .neverSilent ? UInt64(now) : bytes))
        }
        if let sessionDeadline, sessionDeadline.nanoseconds <= now { tickServer() }
        return true
    }

    private var forgetsTimer: Bool { mutation == .forgetTimer && clientState == .waiting }

    private var nextTimer: Int64? {
        let first = forgetsTimer ? nil : clientDeadline?.nanoseconds
        guard let first else { return sessionDeadline?.nanoseconds }
        guard let second = sessionDeadline?.nanoseconds else { return first }
        return min(first, second)
    }

    // MARK: Chance

    mutating func roll(_ count: Int) -> Int { Int(random.next() % UInt64(max(1, count))) }
    mutating func span(_ limit: Int64) -> Int64 { Int64(random.next() % UInt64(max(1, limit))) }
    /// How long a packet takes.
    mutating func trip() -> Int64 { scenario.latency + span(scenario.jitter + 1) }

    mutating func fail(_ rule: Rule, _ text: String) {
        guard violation == nil else { return }
        violation = Violation(rule: rule, text: text)
        log.write(now, "VIOLATION of \(rule): \(text)")
    }

    mutating func note(_ found: Violation?) {
        if let found { fail(found.rule, found.text) }
    }
}

// What each event does.

extension World {
    mutating func handle(_ event: SimulatedEvent) {
        switch event {
        case .connected(let connection):
            log.note(now, 20, connection)
            guard isLive(connection) || scenario.reportsLate else { return }
            tellClient(.connected(connection, scenario.capabilities))
        case .failed(let connection, let error):
            log.note(now, 21, connection)
            if isLive(connection) {
                connections[connection - 1].isClientUp = false
                connections[connection - 1].isCut = true
                if live == connection { live = 0 }
                tellClient(.failed(connection, error))
            } else if let number = reporter(connection) {
                tellClient(.failed(number, error))
            }
        case .received(let connection, let payload):
            log.note(now, 22, connection, UInt64(payload.bytes.count))
            if arrivesDown(connection), !isLostAcknowledgement(payload) { arrive(event) }
        case .ended(let connection, _):
            log.note(now, 23, connection)
            arrive(event)
        case .partial(let connection):
            if arrivesDown(connection), isLive(connection) { connections[connection - 1].bytesDown += 10 }
        case .pong(let connection):
            log.note(now, 24, connection)
            let isAnswered = arrivesUp(connection) && arrivesDown(connection) && !connections[connection - 1].isCut
            if isAnswered, isClientReading, let number = reporter(connection) {
                tellClient(.pong(number, .milliseconds(1)))
            }
        case .settled(let connection, let id, let outcome):
            log.note(now, 25, connection, id.number)
            let isStale = mutation == .lateCallbacksReachMachineAsCurrent && !isLive(connection)
            tellClient(.settled(isStale ? client.connection : connection, id, outcome))
        case .confirmed(let connection, let id):
            log.note(now, 26, connection, id.number)
            guard arrivesDown(connection), let place = connections[connection - 1].inFlight.firstIndex(of: id) else {
                return
            }
            connections[connection - 1].inFlight.remove(at: place)
            tellClient(.settled(connection, id, .acknowledged))
        case .refreshed(let connection, let endpoint, let timeout):
            guard isLive(connection) else { return }
            credentials = requiredCredentials
            attempt(connection, endpoint, timeout)
        case .accepted, .serverReceived, .serverPong, .serverEnded, .serverSettled, .brokerAcknowledged:
            handleAtServer(event)
        case .submit(let side): submit(side, size: 2 + (roll(10) == 0 ? roll(400) : roll(20)))
        case .cancel(.client, let id):
            log.note(now, 27, 0, id.number)
            tellClient(.cancel(id))
        case .cancel(.server, let id):
            log.note(now, 27, 1, id.number)
            if scenario.kind == .origin {
                tellPeer(.cancel(id))
            } else {
                tellServer { session, now, actions in session.cancel(id, at: now, &actions) }
            }
        case .processed(.client, let key, let payload, _):
            log.note(now, 29, 0, key)
            note(serverLedger.delivered(payload, epoch: 1))
            queue.add(.acknowledges(.client, key, epoch: 1), at: now + span(100_000_000))
        case .processed(.server, let key, let payload, let epoch):
            log.note(now, 29, 1, key)
            processedAtServer(key, payload, epoch)
        case .acknowledges(.client, let key, _): tellClient(.processed(key, isAbandoned: false))
        case .acknowledges(.server, let key, let epoch):
            guard session?.incarnation == epoch else { return }
            tellServer { session, _, actions in session.processed(key, isAbandoned: false, &actions) }
        case .fault(let fault):
            log.note(now, 28, fault.rawValue)
            log.write(now, "FAULT \(fault)")
            begin(fault)
        case .over(let fault):
            log.write(now, "over: \(fault)")
            end(fault)
        case .unblock(let connection): unblock(connection)
        case .breaks(let connection): breakOff(connection)
        case .mustBeDead(let connection, let pauses, let serverPauses): checkDead(connection, pauses, serverPauses)
        case .look: break
        case .calm: calm()
        case .enough: enough()
        }
    }

    private func isLostAcknowledgement(_ payload: Payload) -> Bool {
        guard mutation == .loseAcknowledgement, let frame = try? SessionFrame(payload) else { return false }
        if case .acknowledge = frame { return true }
        return false
    }

    mutating func submit(_ side: Side, size: Int) {
        switch side {
        case .client:
            let id = clientLedger.submit()
            tellClient(.submit(id, Ledger.payload(id, size: size)))
            if stage == .faulty, roll(10) == 0 { queue.add(.cancel(.client, id), at: now + cancelDelay()) }
        case .server:
            guard scenario.kind == .origin || session != nil else { return }
            let id = serverLedger.submit()
            if scenario.kind == .origin {
                tellPeer(.submit(id, Ledger.payload(id, size: size)))
            } else {
                tellServer { session, now, actions in
                    session.submit(id, Ledger.payload(id, size: size), at: now, &actions)
                }
            }
            if stage == .faulty, roll(10) == 0 { queue.add(.cancel(.server, id), at: now + cancelDelay()) }
        }
    }

    private mutating func cancelDelay() -> Int64 {
        roll(2) == 0 ? span(300_000_000) : span(20_000_000_000)
    }
}

// Attempts, and what the network does to what is sent.

extension World {
    mutating func connect(_ connection: Int, _ endpoint: Int, _ timeout: Duration, _ refreshing: Bool) {
        if live != 0 { fail(.oneConnection, "connection \(connection) is asked for while \(live) lives") }
        guard connection == connections.count + 1 else {
            return fail(.oneConnection, "connection \(connection) comes after \(connections.count)")
        }
        if !isPathUsable { fail(.oneConnection, "an attempt without a network") }
        connections.append(SimulatedConnection())
        live = connection
        attempts += 1
        if refreshing { triggers += 1 }
        let pause = scenario.shortestPause
        if pause > 0, attempts > scenario.endpoints.count * (Int(now / pause) + 2 + triggers) {
            fail(.progress, "\(attempts) attempts are more than the backoff allows")
        }
        if refreshing {
            queue.add(
                .refreshed(connection, endpoint: endpoint, timeout: timeout),
                at: now + 50_000_000 + span(500_000_000)
            )
        } else {
            attempt(connection, endpoint, timeout)
        }
    }

    /// What becomes of an attempt.
    mutating func attempt(_ connection: Int, _ endpoint: Int, _ timeout: Duration) {
        let (first, second) = (trip(), trip())
        func refuse(_ code: TransportError.Code, _ retryAfter: Duration? = nil) {
            let error = TransportError(code, .connect, "simulated", retryAfter: retryAfter)
            queue.add(.failed(connection, error), at: now + first + second)
        }
        if hopelessEndpoints.contains(endpoint) { return refuse(.certificateRejected) }
        if mode == .credentialsForever || credentials < requiredCredentials { return refuse(.authenticationFailed) }
        var slowness: Int64 = 0
        switch mode {
        case .serverDown: return refuse(.refused)
        case .busy: return refuse(.serverUnavailable, .seconds(roll(100)))
        case .serverSilent:
            if roll(2) == 0 { queue.add(.failed(connection, .timedOutInNetwork), at: now + timeout.wholeNanoseconds) }
            return
        case .slowConnect: slowness = span(timeout.wholeNanoseconds * 2)
        default: break
        }
        queue.add(.accepted(connection, closes: mode == .acceptAndClose), at: now + slowness + first)
        connections[connection - 1].isGranted = true
        connections[connection - 1].lastDown = now + slowness + first + second
        queue.add(.connected(connection), at: now + slowness + first + second)
    }

    /// The client's connection takes a message or a frame.
    mutating func sendUp(_ connection: Int, _ id: SentID?, _ payload: Payload) {
        let index = connection - 1
        if let id {
            if scenario.kind == .origin {
                connections[index].inFlight.append(id)
            } else {
                queue.add(.settled(connection, id, .written), at: now + Self.settling)
            }
        }
        guard !connections[index].isCut else { return }
        var copies = 1
        if scenario.kind == .lossy, stage == .faulty {
            if roll(1000) < scenario.loss { copies = 0 }
            if roll(1000) < scenario.duplication { copies += 1 }
        }
        for _ in 0..<copies {
            var arrival = max(now + trip(), connections[index].stalledUntil)
            if scenario.kind != .lossy { arrival = max(arrival, connections[index].lastUp) }
            connections[index].lastUp = max(connections[index].lastUp, arrival)
            queue.add(.serverReceived(connection, id, payload), at: arrival)
        }
    }

    /// The server's connection takes a frame.
    mutating func sendDown(_ connection: Int, _ payload: Payload) {
        let index = connection - 1
        guard !connections[index].isCut else { return }
        var copies = 1
        if scenario.kind == .lossy, stage == .faulty {
            if roll(1000) < scenario.loss { copies = 0 }
            if roll(1000) < scenario.duplication { copies += 1 }
        }
        for _ in 0..<copies {
            var arrival = max(now + trip(), connections[index].stalledUntil)
            if scenario.kind != .lossy { arrival = max(arrival, connections[index].lastDown) }
            connections[index].lastDown = max(connections[index].lastDown, arrival)
            queue.add(.received(connection, payload), at: arrival)
        }
    }

    /// Whether something that was sent to the server arrives there now.
    func arrivesUp(_ connection: Int) -> Bool {
        let index = connection - 1
        return connections[index].isServerUp && !connections[index].hasHoleUp && now <= connections[index].cutoffUp
    }

    /// Whether something that was sent to the client arrives there now.
    func arrivesDown(_ connection: Int) -> Bool {
        !connections[connection - 1].hasHoleDown && now <= connections[connection - 1].cutoffDown
    }

    /// The network breaks a connection, and both sides hear of it.
    mutating func cut(_ connection: Int, isAbrupt: Bool, losesSuffix: Bool) {
        // What is not accepted yet can fail, but not end.
        guard connection > 0, !connections[connection - 1].isCut, connections[connection - 1].isGranted else { return }
        let index = connection - 1
        connections[index].isCut = true
        if losesSuffix {
            connections[index].cutoffUp = now + span(scenario.latency * 2)
            connections[index].cutoffDown = now + span(scenario.latency * 2)
        }
        let reason = CloseReason(isAbrupt ? .network : .peer)
        queue.add(.ended(connection, reason), at: max(connections[index].lastDown, now + trip()))
        queue.add(.serverEnded(connection, reason), at: max(connections[index].lastUp, now + trip()))
    }

    /// Both sides hear of the end of a connection, whatever the network has done to it.
    mutating func breakOff(_ connection: Int) {
        connections[connection - 1].isCut = true
        queue.add(
            .ended(connection, CloseReason(.network)),
            at: max(connections[connection - 1].lastDown, now + trip())
        )
        queue.add(.serverEnded(connection, CloseReason(.network)), at: now + trip())
    }

    /// The connection takes again what it is given.
    mutating func unblock(_ connection: Int) {
        guard connections[connection - 1].isBlocked else { return }
        connections[connection - 1].isBlocked = false
        let pending = connections[connection - 1].pending
        connections[connection - 1].pending = []
        for message in pending { sendUp(connection, message.id, message.payload) }
    }
}

extension TransportError {
    static let timedOutInNetwork = TransportError(.timedOut, .connect, "simulated")
}

// The rules.

extension World {
    /// The bounds of the client's queues.
    mutating func checkClient() {
        if let text = client.delivery.brokenBound(scenario.client) { fail(.bounds, text) }
    }

    /// The bounds of the server's queues.
    mutating func checkServer() {
        if let text = session?.delivery.brokenBound(scenario.server) { fail(.bounds, text) }
    }

    /// What a client that has ended may still ask for.
    mutating func checkAfterEnd(_ action: SupervisorAction) {
        switch action {
        case .abandon, .finish: break
        default: fail(.end, "after the end: \(action)")
        }
    }

    mutating func checkDead(_ connection: Int, _ pauses: Int, _ serverPauses: Int) {
        if pauses == clientPauses, clientState == .open, client.connection == connection {
            fail(.liveness, "the client still takes connection \(connection) for alive")
        }
        if serverPauses == self.serverPauses, session?.connection == connection {
            fail(.liveness, "the server still takes connection \(connection) for alive")
        }
    }

    /// A client gives up for its limits, for what retrying can't mend, and for nothing else.
    mutating func checkGivingUp(_ reason: CloseReason) {
        if let most = scenario.client.maximumAttempts, failures >= most { return }
        // Where the next pause would reach beyond the limit, the end comes before it; no pause here is longer than 100 s.
        if let most = scenario.client.maximumElapsed, now - lostAt + 100_000_000_000 > most.wholeNanoseconds { return }
        if case .schedule(let delays, givesUp: true) = scenario.client.backoff, failures >= delays.count { return }
        if mode == .credentialsForever, reason.error?.code == .authenticationFailed { return }
        if hopelessEndpoints.count == scenario.endpoints.count { return }
        fail(.recovery, "gave up for no good reason: \(reason)")
    }

    // MARK: The calm

    /// Nothing goes wrong from now on.
    mutating func calm() {
        stage = .calming
        mode = mode == .credentialsForever ? mode : nil
        if clientState == .closed { return enough() }
        if !isPathUsable { end(.pathDown) }
        end(.suspend)
        readClient(true)
        readServer(true)
        end(.clientFull)
        end(.serverFull)
        let (client, server) = (scenario.client.keepalive.interval, scenario.server.keepalive.interval)
        for index in connections.indices {
            unblock(index + 1)
            // What nobody would ever notice, the network ends.
            let (up, down) = (connections[index].hasHoleUp, connections[index].hasHoleDown)
            let isNoticed = scenario.canClientAsk && client != .off && (up == down || server != .off)
            guard up || down, !isNoticed else { continue }
            breakOff(index + 1)
        }
        queue.add(.submit(.client), at: now + 1_000_000)
        queue.add(.submit(.server), at: now + 1_000_000)
        queue.add(.look, at: scenario.faultTime + Self.restTime)
        queue.add(.enough, at: now + 6 * 3600 * 1_000_000_000)
    }

    /// So long into the calm a probe that was lost before it may still end a connection.
    private static let restTime: Int64 = 15_000_000_000

    /// Whether the connection is open and everything has arrived; if so, the calm may end.
    mutating func checkWell() {
        guard stage == .calming, now >= scenario.faultTime + Self.restTime || clientState == .closed else { return }
        if clientState == .closed { return enough() }
        guard isWell else { return }
        stage = .lingering
        log.write(now, "all is well")
        if scenario.lingerTime > 0 {
            witnesses = [clientLedger.records.count, serverLedger.records.count]
            submit(.client, size: 3)
            submit(.server, size: 3)
        }
        queue.add(.enough, at: now + scenario.lingerTime)
    }

    private var isWell: Bool {
        guard clientState == .open, live > 0, !connections[live - 1].isCut, client.delivery.outbox.isEmpty,
            !connections[live - 1].hasHoleUp, !connections[live - 1].hasHoleDown,
            client.delivery.waiting.isEmpty
        else { return false }
        if scenario.kind == .origin { return brokerQueue.isEmpty && peer.delivery.outbox.isEmpty }
        guard let session, session.connection == live else { return false }
        return session.delivery.outbox.isEmpty && session.delivery.waiting.isEmpty
    }

    mutating func enough() {
        if stage == .calming, clientState != .closed {
            return fail(
                .recovery,
                "after the calm not all is well: \(clientState), \(client.delivery.outbox.count) left"
            )
        }
        if stage == .lingering, let first = witnesses.first, let second = witnesses.last {
            checkWitness(clientLedger.records[first].outcome)
            checkWitness(serverLedger.records[second].outcome)
        }
        stage = .closing
    }

    /// What was sent in the calm has arrived in it.
    private mutating func checkWitness(_ outcome: SendOutcome?) {
        let wanted = scenario.kind == .plain ? SendOutcome.written : .acknowledged
        if outcome != wanted { fail(.recovery, "in the calm a message ended \(outcome.map { "\($0)" } ?? "never")") }
    }

    // MARK: The end

    /// Closes both sides and lets all that is under way arrive.
    mutating func close() {
        stage = .closing
        tellClient(.close(.user))
        let id = clientLedger.submit()
        tellClient(.submit(id, Ledger.payload(id, size: 3)))
        guard case .rejected? = clientLedger.records[Int(id.number) - 1].outcome else {
            return fail(.end, "a message was taken after the end")
        }
        for event in clientInbox { queue.add(event, at: now) }
        clientInbox = []
        // Connections end within a minute; what is planned for later was for a world that is over.
        let end = now + 120_000_000_000
        while violation == nil, let next = queue.next, next < end, step() {
            if clientDeadline != nil { fail(.end, "a deadline after the end") }
        }
        tellServer { session, _, actions in session.close(.user, &actions) }
        if scenario.kind == .origin { tellPeer(.close(.user)) }
        while violation == nil, let next = queue.next, next < end, step() {}
        note(clientLedger.final(acknowledgedMustArrive: scenario.kind != .plain))
        note(serverLedger.final(acknowledgedMustArrive: false))
    }
}

extension Delivery {
    /// Which bound is not kept.
    fileprivate func brokenBound(_ configuration: SupervisorConfiguration) -> String? {
        let (most, bytes) = (configuration.outbox.maximumCount, configuration.outbox.maximumBytes)
        if outbox.count > most { return "\(outbox.count) messages in the outbox" }
        if outbox.bytes > bytes { return "\(outbox.bytes) bytes in the outbox" }
        if outbox.bytes < 0 { return "fewer bytes than none in the outbox" }
        if waiting.count > most { return "\(waiting.count) messages wait" }
        if outbox.sentCount > configuration.delivery.window { return "\(outbox.sentCount) messages under way" }
        if receiver.earlyCount > 1024 { return "\(receiver.earlyCount) messages came early" }
        return nil
    }
}
