import Primitives
import SocketIO
import TransportAPI

/// A client, a server and the network between them, all from one seed, in virtual time.
///
/// A world begins with a time of faults. In the calm after it, connection and messages must recover. Then both peers close.
/// The rules are checked after each event. The first broken rule ends the world.
struct World {
    enum Stage {
        case faulty, calming, lingering, closing
    }

    /// The last state that the client reported.
    enum ClientState: Int {
        case idle, connecting, open, waiting, offline, suspended, closed
    }

    var scenario: Scenario
    let mutation: Mutation?
    var random: RandomSource
    var now: Int64 = 0
    var queue = TimerQueue<SimulatedEvent>()
    var log: EventLog
    var violation: Violation?
    var events = 0
    var stage = Stage.faulty
    var actions: [SupervisorAction] = []
    /// The indices of messages that were sent after the recovery.
    var witnesses: [Int] = []
    /// Consecutive timers at the same time.
    var idleTicks = 0

    // The client
    var client: SupervisorStateMachine
    var clientState = ClientState.idle
    var clientDeadline: Instant?
    var clientChecker = DeliveryChecker()
    /// Events that arrived while the client does not read.
    var clientInbox: [SimulatedEvent] = []
    var isClientReading = true
    /// Whether the client has no room for messages.
    var isClientFull = false
    var clientPauses = 0
    var isPathUsable = true
    var network = 0
    var openedAt: Int64 = 0
    /// The time of the last loss of a stable connection.
    var lostAt: Int64 = 0
    var failures = 0
    /// Whether the credentials have not expired since the last stable connection. A client tolerates one expiry.
    var canExpire = true
    var attempts = 0
    /// The number of attempts without a pause.
    var triggers = 0

    // The apps that acknowledge messages after they have processed them
    /// When each app has processed its messages.
    var clientBusyUntil: Int64 = 0
    var serverBusyUntil: Int64 = 0

    // The network
    var connections: [SimulatedConnection] = []
    /// The attempt or connection that the client has; 0 if none.
    var live = 0

    // Messages that the peer refuses, by the sender
    var refusedOfClient: Set<UInt64> = []
    var refusedOfServer: Set<UInt64> = []
    /// How often the network has ended a connection with only this message in flight.
    var aloneAtEnd: [UInt64: Int] = [:]

    // The server
    var session: ServerSessionStateMachine?
    var sessionDeadline: Instant?
    var registry = SessionRegistry<UInt64>(capacity: 1)
    var serverChecker = DeliveryChecker()
    var serverInbox: [SimulatedEvent] = []
    var isServerReading = true
    /// Whether the server has no room for messages.
    var isServerFull = false
    var serverPauses = 0
    /// The fault of new attempts.
    var mode: Fault?
    var credentials = 0
    var requiredCredentials = 0
    var hopelessEndpoints: Set<Int> = []
    /// The endpoints that the client has opened a connection to.
    var openedEndpoints: Set<Int> = []
    /// The endpoints that a captive portal has answered for before the client had ever opened a connection to them. The
    /// client may take them for wrong.
    var mistakenEndpoints: Set<Int> = []

    // The broker
    /// The other client, whose connection never fails.
    var peer: SupervisorStateMachine
    /// Messages of the broker that the client has not confirmed.
    var brokerQueue: [(key: UInt64, payload: Payload)] = []
    var lastBrokerKey: UInt64 = 0

    init(seed: UInt64, mutation: Mutation? = nil, isVerbose: Bool = false) {
        var random = RandomSource.seeded(seed)
        scenario = Scenario(using: &random)
        var loops = RandomSource.seeded(seed ^ 0x6c6f_6f70)
        scenario.drawLoops(using: &loops)
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
        if scenario.clientProcesses { feedClient(.acknowledgesAfterProcessing) }
        feedClient(.connect)
        while violation == nil, stage != .closing {
            guard step() else {
                return fail(.recovery, "no event is left, and the client is \(clientState)")
            }
            checkWell()
        }
        if violation == nil { close() }
    }

    /// Takes the next event or timer; `false` if there is none.
    mutating func step() -> Bool {
        events += 1
        guard events < 40_000 else {
            fail(.progress, "the world does not end")
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
        if idleTicks > 50 { fail(.progress, "more than 50 timers fire at one instant") }
        now = max(now, timer)
        if let clientDeadline, clientDeadline.nanoseconds <= now, !forgetsTimer {
            let bytes = live == 0 ? 0 : connections[live - 1].bytesDown
            let signs = SignsOfLife(bytesReceived: mutation == .neverSilent ? UInt64(now) : bytes)
            feedClient(.deadlineReached(signs))
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
    /// The latency of a packet.
    mutating func trip() -> Int64 { scenario.latency + span(scenario.jitter + 1) }

    mutating func fail(_ rule: Rule, _ text: String) {
        guard violation == nil else { return }
        violation = Violation(rule: rule, text: text)
        log.write(now, "VIOLATION of \(rule): \(text)")
    }

    mutating func note(_ found: Violation?) {
        if let found { fail(found.rule, found.text) }
    }

    // MARK: Events

    mutating func handle(_ event: SimulatedEvent) {
        switch event {
        case .connected(let connection):
            log.note(now, 20, connection)
            guard isLive(connection) || scenario.reportsLate else { return }
            feedClient(.connected(connection, scenario.capabilities))
        case .failed(let connection, let error):
            log.note(now, 21, connection)
            if isLive(connection) {
                connections[connection - 1].isClientUp = false
                connections[connection - 1].isCut = true
                if live == connection { live = 0 }
                feedClient(.failed(connection, error))
            } else if let number = reporter(connection) {
                feedClient(.failed(number, error))
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
                feedClient(.pong(number, .milliseconds(1)))
            }
        case .settled(let connection, let id, let outcome):
            log.note(now, 25, connection, id.number)
            let isStale = mutation == .lateCallbacksReachMachineAsCurrent && !isLive(connection)
            feedClient(.settled(isStale ? client.connection : connection, id, outcome))
        case .confirmed(let connection, let id):
            log.note(now, 26, connection, id.number)
            guard arrivesDown(connection), let place = connections[connection - 1].inFlight.firstIndex(of: id) else {
                return
            }
            connections[connection - 1].inFlight.remove(at: place)
            feedClient(.settled(connection, id, .acknowledged))
        case .refreshed(let connection, let endpoint, let timeout):
            guard isLive(connection) else { return }
            credentials = requiredCredentials
            attempt(connection, endpoint, timeout)
        case .accepted, .serverReceived, .serverPong, .serverEnded, .serverSettled, .brokerAcknowledged:
            handleAtServer(event)
        case .submit(let side): submit(side, size: 2 + (roll(10) == 0 ? roll(400) : roll(20)))
        case .cancel(.client, let id):
            log.note(now, 27, 0, id.number)
            feedClient(.cancel(id))
        case .cancel(.server, let id):
            log.note(now, 27, 1, id.number)
            if scenario.kind == .origin {
                feedPeer(.cancel(id))
            } else {
                feedServer(.cancel(id))
            }
        case .processed(.client, let key, let payload, _):
            log.note(now, 29, 0, key)
            note(serverChecker.delivered(payload, epoch: 1))
            answer(.client)
            queue.add(.acknowledges(.client, key, epoch: 1), at: now + span(100_000_000))
        case .processed(.server, let key, let payload, let epoch):
            log.note(now, 29, 1, key)
            processedAtServer(key, payload, epoch)
        case .acknowledges(.client, let key, _): feedClient(.processed(key, isAbandoned: false))
        case .acknowledges(.server, let key, let epoch):
            guard session?.incarnation == epoch else { return }
            feedServer(.processed(key, isAbandoned: false))
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

    /// An app answers a message inside the loop in which it has received it.
    mutating func answer(_ side: Side) {
        guard stage == .faulty else { return }
        switch side {
        case .client where scenario.clientAnswers > 0: scenario.clientAnswers -= 1
        case .server where scenario.serverAnswers > 0: scenario.serverAnswers -= 1
        default: return
        }
        queue.add(.submit(side), at: now)
    }

    mutating func submit(_ side: Side, size: Int) {
        switch side {
        case .client:
            let id = clientChecker.submit()
            feedClient(.submit(id, drawRefused(.client, id, DeliveryChecker.payload(id, size: size))))
            if stage == .faulty, roll(10) == 0 { queue.add(.cancel(.client, id), at: now + cancelDelay()) }
        case .server:
            guard scenario.kind == .origin || session != nil else { return }
            let id = serverChecker.submit()
            if scenario.kind == .origin {
                feedPeer(.submit(id, DeliveryChecker.payload(id, size: size)))
            } else {
                let payload = drawRefused(.server, id, DeliveryChecker.payload(id, size: size))
                feedServer(.submit(id, payload))
            }
            if stage == .faulty, roll(10) == 0 { queue.add(.cancel(.server, id), at: now + cancelDelay()) }
        }
    }

    private mutating func cancelDelay() -> Int64 {
        roll(2) == 0 ? span(300_000_000) : span(20_000_000_000)
    }
}
