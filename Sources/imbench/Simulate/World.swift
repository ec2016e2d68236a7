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
