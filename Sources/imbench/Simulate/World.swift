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
    var client: SupervisorMachine
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
    /// Since when there is no link that was stable.
    var lostAt: Int64 = 0
    var failures = 0
    /// The credentials have not expired since the last stable link: a client bears that once.
    var canExpire = true
    var attempts = 0
    /// What made an attempt happen without a pause.
    var triggers = 0

    // The apps that acknowledge messages after they have processed them
    /// When each is done with what it has been given, and in which life of the server.
    var clientBusyUntil: Int64 = 0
    var serverBusyUntil: Int64 = 0

    // The network
    var links: [SimulatedLink] = []
    /// The attempt or link that the client has; 0 if none.
    var live = 0

    // The server
    var session: ServedSession?
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
    /// The other client, whose link never fails.
    var peer: SupervisorMachine
    /// What the broker has for the client and the client has not confirmed.
    var brokerQueue: [(key: UInt64, payload: Payload)] = []
    var lastBrokerKey: UInt64 = 0

    init(seed: UInt64, mutation: Mutation? = nil, isVerbose: Bool = false) {
        var random = RandomSource.seeded(seed)
        scenario = Scenario(using: &random)
        client = SupervisorMachine(scenario.client, endpoints: scenario.endpoints, using: &random)
        peer = SupervisorMachine(scenario.server, endpoints: scenario.endpoints, using: &random)
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
            let bytes = live == 0 ? 0 : links[live - 1].bytesDown
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
        case .connected(let link):
            log.note(now, 20, link)
            guard isLive(link) || scenario.reportsLate else { return }
            tellClient(.connected(link, scenario.capabilities))
        case .failed(let link, let error):
            log.note(now, 21, link)
            if isLive(link) {
                links[link - 1].isClientUp = false
                links[link - 1].isCut = true
                if live == link { live = 0 }
                tellClient(.failed(link, error))
            } else if let number = reporter(link) {
                tellClient(.failed(number, error))
            }
        case .received(let link, let payload):
            log.note(now, 22, link, UInt64(payload.bytes.count))
            if arrivesDown(link), !isLostAcknowledgement(payload) { arrive(event) }
        case .ended(let link, _):
            log.note(now, 23, link)
            arrive(event)
        case .partial(let link):
            if arrivesDown(link), isLive(link) { links[link - 1].bytesDown += 10 }
        case .pong(let link):
            log.note(now, 24, link)
            let isAnswered = arrivesUp(link) && arrivesDown(link) && !links[link - 1].isCut
            if isAnswered, isClientReading, let number = reporter(link) { tellClient(.pong(number, .milliseconds(1))) }
        case .settled(let link, let id, let outcome):
            log.note(now, 25, link, id.number)
            let isStale = mutation == .lateCallbacksReachMachineAsCurrent && !isLive(link)
            tellClient(.settled(isStale ? client.link : link, id, outcome))
        case .confirmed(let link, let id):
            log.note(now, 26, link, id.number)
            guard arrivesDown(link), let place = links[link - 1].inFlight.firstIndex(of: id) else { return }
            links[link - 1].inFlight.remove(at: place)
            tellClient(.settled(link, id, .acknowledged))
        case .refreshed(let link, let endpoint, let timeout):
            guard isLive(link) else { return }
            credentials = requiredCredentials
            attempt(link, endpoint, timeout)
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
        case .unblock(let link): unblock(link)
        case .breaks(let link): breakOff(link)
        case .mustBeDead(let link, let pauses, let serverPauses): checkDead(link, pauses, serverPauses)
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
    mutating func connect(_ link: Int, _ endpoint: Int, _ timeout: Duration, _ refreshing: Bool) {
        if live != 0 { fail(.oneLink, "link \(link) is asked for while \(live) lives") }
        guard link == links.count + 1 else { return fail(.oneLink, "link \(link) comes after \(links.count)") }
        if !isPathUsable { fail(.oneLink, "an attempt without a network") }
        links.append(SimulatedLink())
        live = link
        attempts += 1
        if refreshing { triggers += 1 }
        let pause = scenario.shortestPause
        if pause > 0, attempts > scenario.endpoints.count * (Int(now / pause) + 2 + triggers) {
            fail(.progress, "\(attempts) attempts are more than the backoff allows")
        }
        if refreshing {
            queue.add(.refreshed(link, endpoint: endpoint, timeout: timeout), at: now + 50_000_000 + span(500_000_000))
        } else {
            attempt(link, endpoint, timeout)
        }
    }

    /// What becomes of an attempt.
    mutating func attempt(_ link: Int, _ endpoint: Int, _ timeout: Duration) {
        let (first, second) = (trip(), trip())
        func refuse(_ code: TransportError.Code, _ retryAfter: Duration? = nil) {
            let error = TransportError(code, .connect, "simulated", retryAfter: retryAfter)
            queue.add(.failed(link, error), at: now + first + second)
        }
        if hopelessEndpoints.contains(endpoint) { return refuse(.certificateRejected) }
        if mode == .credentialsForever || credentials < requiredCredentials { return refuse(.authenticationFailed) }
        var slowness: Int64 = 0
        switch mode {
        case .serverDown: return refuse(.refused)
        case .busy: return refuse(.serverUnavailable, .seconds(roll(100)))
        case .serverSilent:
            if roll(2) == 0 { queue.add(.failed(link, .timedOutInNetwork), at: now + timeout.wholeNanoseconds) }
            return
        case .slowConnect: slowness = span(timeout.wholeNanoseconds * 2)
        default: break
        }
        queue.add(.accepted(link, closes: mode == .acceptAndClose), at: now + slowness + first)
        links[link - 1].isGranted = true
        links[link - 1].lastDown = now + slowness + first + second
        queue.add(.connected(link), at: now + slowness + first + second)
    }

    /// The client's link takes a message or a frame.
    mutating func sendUp(_ link: Int, _ id: SentID?, _ payload: Payload) {
        let index = link - 1
        if let id {
            if scenario.kind == .origin {
                links[index].inFlight.append(id)
            } else {
                queue.add(.settled(link, id, .written), at: now + Self.settling)
            }
        }
        guard !links[index].isCut else { return }
        var copies = 1
        if scenario.kind == .lossy, stage == .faulty {
            if roll(1000) < scenario.loss { copies = 0 }
            if roll(1000) < scenario.duplication { copies += 1 }
        }
        for _ in 0..<copies {
            var arrival = max(now + trip(), links[index].stalledUntil)
            if scenario.kind != .lossy { arrival = max(arrival, links[index].lastUp) }
            links[index].lastUp = max(links[index].lastUp, arrival)
            queue.add(.serverReceived(link, id, payload), at: arrival)
        }
    }

    /// The server's link takes a frame.
    mutating func sendDown(_ link: Int, _ payload: Payload) {
        let index = link - 1
        guard !links[index].isCut else { return }
        var copies = 1
        if scenario.kind == .lossy, stage == .faulty {
            if roll(1000) < scenario.loss { copies = 0 }
            if roll(1000) < scenario.duplication { copies += 1 }
        }
        for _ in 0..<copies {
            var arrival = max(now + trip(), links[index].stalledUntil)
            if scenario.kind != .lossy { arrival = max(arrival, links[index].lastDown) }
            links[index].lastDown = max(links[index].lastDown, arrival)
            queue.add(.received(link, payload), at: arrival)
        }
    }

    /// Whether something that was sent to the server arrives there now.
    func arrivesUp(_ link: Int) -> Bool {
        let index = link - 1
        return links[index].isServerUp && !links[index].hasHoleUp && now <= links[index].cutoffUp
    }

    /// Whether something that was sent to the client arrives there now.
    func arrivesDown(_ link: Int) -> Bool {
        !links[link - 1].hasHoleDown && now <= links[link - 1].cutoffDown
    }

    /// The network breaks a link, and both sides hear of it.
    mutating func cut(_ link: Int, isAbrupt: Bool, losesSuffix: Bool) {
        // What is not accepted yet can fail, but not end.
        guard link > 0, !links[link - 1].isCut, links[link - 1].isGranted else { return }
        let index = link - 1
        links[index].isCut = true
        if losesSuffix {
            links[index].cutoffUp = now + span(scenario.latency * 2)
            links[index].cutoffDown = now + span(scenario.latency * 2)
        }
        let reason = CloseReason(isAbrupt ? .network : .peer)
        queue.add(.ended(link, reason), at: max(links[index].lastDown, now + trip()))
        queue.add(.serverEnded(link, reason), at: max(links[index].lastUp, now + trip()))
    }

    /// Both sides hear of the end of a link, whatever the network has done to it.
    mutating func breakOff(_ link: Int) {
        links[link - 1].isCut = true
        queue.add(.ended(link, CloseReason(.network)), at: max(links[link - 1].lastDown, now + trip()))
        queue.add(.serverEnded(link, CloseReason(.network)), at: now + trip())
    }

    /// The link takes again what it is given.
    mutating func unblock(_ link: Int) {
        guard links[link - 1].isBlocked else { return }
        links[link - 1].isBlocked = false
        let pending = links[link - 1].pending
        links[link - 1].pending = []
        for message in pending { sendUp(link, message.id, message.payload) }
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

    mutating func checkDead(_ link: Int, _ pauses: Int, _ serverPauses: Int) {
        if pauses == clientPauses, clientState == .open, client.link == link {
            fail(.liveness, "the client still takes link \(link) for alive")
        }
        if serverPauses == self.serverPauses, session?.link == link {
            fail(.liveness, "the server still takes link \(link) for alive")
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
        for index in links.indices {
            unblock(index + 1)
            // What nobody would ever notice, the network ends.
            let (up, down) = (links[index].hasHoleUp, links[index].hasHoleDown)
            let isNoticed = scenario.canClientAsk && client != .off && (up == down || server != .off)
            guard up || down, !isNoticed else { continue }
            breakOff(index + 1)
        }
        queue.add(.submit(.client), at: now + 1_000_000)
        queue.add(.submit(.server), at: now + 1_000_000)
        queue.add(.look, at: scenario.faultTime + Self.restTime)
        queue.add(.enough, at: now + 6 * 3600 * 1_000_000_000)
    }

    /// So long into the calm a probe that was lost before it may still end a link.
    private static let restTime: Int64 = 15_000_000_000

    /// Whether the link is open and everything has arrived; if so, the calm may end.
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
        guard clientState == .open, live > 0, !links[live - 1].isCut, client.delivery.outbox.isEmpty,
            !links[live - 1].hasHoleUp, !links[live - 1].hasHoleDown,
            client.delivery.waiting.isEmpty
        else { return false }
        if scenario.kind == .origin { return brokerQueue.isEmpty && peer.delivery.outbox.isEmpty }
        guard let session, session.link == live else { return false }
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
        // Links end within a minute; what is planned for later was for a world that is over.
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
