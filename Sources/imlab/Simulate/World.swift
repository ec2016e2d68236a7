import Primitives
import SocketIO
import TransportAPI

/// A client, a server and the network between them, all from one seed, in virtual time.
///
/// A world begins with a time of faults. In the calm after it, connection and messages must recover. Then both peers close.
/// The rules are checked after each event. The first broken rule ends the world.
struct World {
    enum Stage: Equatable {
        case faulty, calming
        /// It has recovered. The last messages, which were sent after that, must arrive, if there are any.
        case lingering(witnesses: Witnesses?)
        case closing

        var isLingering: Bool { if case .lingering = self { true } else { false } }
    }

    /// The indices of the messages of both sides that were sent after the recovery.
    struct Witnesses: Equatable {
        var client: Int
        var server: Int
    }

    var scenario: Scenario
    let mutation: Mutation?
    var random: RandomSource
    var clock = WorldClock()
    var record: WorldRecord
    var stage = Stage.faulty
    var client: ClientSide
    var network = NetworkState()
    var admission = Admission()
    var server = ServerSide()
    var broker: Broker
    /// The actions of a machine, whose memory is used again.
    var actions: [SupervisorAction] = []

    var now: Int64 { clock.now }

    init(seed: UInt64, mutation: Mutation? = nil, isVerbose: Bool = false) {
        var random = RandomSource.seeded(seed)
        scenario = Scenario(using: &random)
        var loops = RandomSource.seeded(seed ^ 0x6c6f_6f70)
        scenario.drawLoops(using: &loops)
        client = ClientSide(SupervisorStateMachine(scenario.client, endpoints: scenario.endpoints, using: &random))
        broker = Broker(SupervisorStateMachine(scenario.server, endpoints: scenario.endpoints, using: &random))
        self.random = random
        self.mutation = mutation
        record = WorldRecord(isVerbose: isVerbose)
    }

    /// Runs to the end or to the first broken rule.
    mutating func run() {
        record.log.write(now, "\(scenario.kind), \(scenario.client), \(scenario.server), \(scenario.capabilities)")
        plan()
        if scenario.kind == .origin { openPeer() }
        if scenario.clientProcesses { feedClient(.acknowledgesAfterProcessing) }
        feedClient(.connect)
        while record.violation == nil, stage != .closing {
            guard step() else {
                return fail(.recovery, "no event is left, and the client is \(client.state)")
            }
            checkWell()
        }
        if record.violation == nil { close() }
    }

    /// Takes the next event or timer; `false` if there is none.
    mutating func step() -> Bool {
        switch clock.step(to: nextTimer) {
        case .event(let event): handle(event)
        case .timer(let isStuck):
            if isStuck { fail(.progress, "more than 50 timers fire at one instant") }
            fireTimers()
        case .endless: fail(.progress, "the world does not end")
        case .nothing: return false
        }
        return true
    }

    private mutating func fireTimers() {
        if let deadline = client.deadline, deadline.nanoseconds <= now, !forgetsTimer {
            let bytes = network.live == 0 ? 0 : network[network.live].down.bytes
            let signs = SignsOfLife(bytesReceived: mutation == .neverSilent ? UInt64(now) : bytes)
            feedClient(.deadlineReached(signs))
        }
        if let deadline = server.deadline, deadline.nanoseconds <= now { tickServer() }
    }

    private var forgetsTimer: Bool { mutation == .forgetTimer && client.state == .waiting }

    private var nextTimer: Int64? {
        let first = forgetsTimer ? nil : client.deadline?.nanoseconds
        guard let first else { return server.deadline?.nanoseconds }
        guard let second = server.deadline?.nanoseconds else { return first }
        return min(first, second)
    }

    // MARK: Chance

    mutating func roll(_ count: Int) -> Int { Int(random.next() % UInt64(max(1, count))) }
    mutating func span(_ limit: Int64) -> Int64 { Int64(random.next() % UInt64(max(1, limit))) }
    /// The latency of a packet.
    mutating func trip() -> Int64 { scenario.path.transit(PathModel.fraction(using: &random)) }

    mutating func fail(_ rule: Rule, _ text: String) {
        record.fail(Violation(rule: rule, text: text), at: now)
    }

    mutating func note(_ found: Violation?) {
        if let found { record.fail(found, at: now) }
    }

    // MARK: Events

    mutating func handle(_ event: SimulatedEvent) {
        switch event {
        case .connected(let connection):
            record.log.note(now, 20, connection)
            guard network.isLive(connection) || scenario.reportsLate else { return }
            feedClient(.connected(connection, scenario.capabilities))
        case .failed(let connection, let error):
            record.log.note(now, 21, connection)
            if network.isLive(connection) {
                network.endAtClient(connection)
                network[connection].isCut = true
                feedClient(.failed(connection, error))
            } else if let number = reporter(connection) {
                feedClient(.failed(number, error))
            }
        case .received(let connection, let payload):
            record.log.note(now, 22, connection, UInt64(payload.bytes.count))
            if network.arrivesDown(connection, at: now), !isLostAcknowledgement(payload) { arrive(event) }
        case .ended(let connection, _):
            record.log.note(now, 23, connection)
            arrive(event)
        case .partial(let connection):
            if network.arrivesDown(connection, at: now), network.isLive(connection) {
                network[connection].down.bytes += 10
            }
        case .pong(let connection):
            record.log.note(now, 24, connection)
            let isAnswered =
                network.arrivesUp(connection, at: now) && network.arrivesDown(connection, at: now)
                && !network[connection].isCut
            if isAnswered, client.inbox.isRead, let number = reporter(connection) {
                feedClient(.pong(number, .milliseconds(1)))
            }
        case .settled(let connection, let id, let outcome):
            record.log.note(now, 25, connection, id.number)
            let isStale = mutation == .lateCallbacksReachMachineAsCurrent && !network.isLive(connection)
            feedClient(.settled(isStale ? client.machine.connection : connection, id, outcome))
        case .confirmed(let connection, let id):
            record.log.note(now, 26, connection, id.number)
            guard network.arrivesDown(connection, at: now), let place = network[connection].inFlight.firstIndex(of: id)
            else { return }
            network[connection].inFlight.remove(at: place)
            feedClient(.settled(connection, id, .acknowledged))
        case .refreshed(let connection, let endpoint, let timeout):
            guard network.isLive(connection) else { return }
            admission.renewCredentials()
            attempt(connection, endpoint, timeout)
        case .accepted, .serverReceived, .serverPong, .serverEnded, .serverSettled, .brokerAcknowledged:
            handleAtServer(event)
        case .submit(let side): submit(side, size: 2 + (roll(10) == 0 ? roll(400) : roll(20)))
        case .cancel(.client, let id):
            record.log.note(now, 27, 0, id.number)
            feedClient(.cancel(id))
        case .cancel(.server, let id):
            record.log.note(now, 27, 1, id.number)
            if scenario.kind == .origin {
                feedPeer(.cancel(id))
            } else {
                feedServer(.cancel(id))
            }
        case .processed(.client, let key, let payload, _):
            record.log.note(now, 29, 0, key)
            note(server.checker.delivered(payload, epoch: 1))
            answer(.client)
            clock.add(.acknowledges(.client, key, epoch: 1), at: now + span(100_000_000))
        case .processed(.server, let key, let payload, let epoch):
            record.log.note(now, 29, 1, key)
            processedAtServer(key, payload, epoch)
        case .acknowledges(.client, let key, _): feedClient(.processed(key, isAbandoned: false))
        case .acknowledges(.server, let key, let epoch):
            guard server.session?.incarnation == epoch else { return }
            feedServer(.processed(key, isAbandoned: false))
        case .fault(let fault):
            record.log.note(now, 28, fault.rawValue)
            record.log.write(now, "FAULT \(fault)")
            begin(fault)
        case .over(let fault):
            record.log.write(now, "over: \(fault)")
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
        clock.add(.submit(side), at: now)
    }

    mutating func submit(_ side: Side, size: Int) {
        switch side {
        case .client:
            let id = client.checker.submit()
            feedClient(.submit(id, drawRefused(.client, id, DeliveryChecker.payload(id, size: size))))
            if stage == .faulty, roll(10) == 0 { clock.add(.cancel(.client, id), at: now + cancelDelay()) }
        case .server:
            guard scenario.kind == .origin || server.session != nil else { return }
            let id = server.checker.submit()
            if scenario.kind == .origin {
                feedPeer(.submit(id, DeliveryChecker.payload(id, size: size)))
            } else {
                let payload = drawRefused(.server, id, DeliveryChecker.payload(id, size: size))
                feedServer(.submit(id, payload))
            }
            if stage == .faulty, roll(10) == 0 { clock.add(.cancel(.server, id), at: now + cancelDelay()) }
        }
    }

    private mutating func cancelDelay() -> Int64 {
        roll(2) == 0 ? span(300_000_000) : span(20_000_000_000)
    }
}
