import CommandSupport
import Crowds
import EmbeddedServers
import Measuring
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports
import TrialCertificates

/// One attack on one server: its effect on a few honest clients, and the endings that the server reports.
struct AttackRun {
    let plan: AttackPlan
    let attackers: Int
    /// How many idle clients the server also has, in another process.
    var connections = 0
    let hold: Duration
    /// The least number of round trips with hostile clients, and without them. The default is enough for a 99th percentile.
    var enough = 1000
    let serverLoop: EventLoop
    let clientLoop: EventLoop
    /// The core of hostile clients; `nil` lets the scheduler choose. The loops are already placed.
    var placement: CrowdPlacement?
    /// The pause of hostile clients after each round, in milliseconds.
    var rest: Int32 = 0
    /// How long the attack continues beyond `hold` for enough round trips, and then for the expected endings. Placed hostile
    /// clients yield to all other programs, so their effect may be delayed.
    var longestOvertime = Duration.seconds(120)
    /// The pauses before the two quiet phases. The second one is longer than the server lingers on closed connections.
    var pauses = (first: Duration.milliseconds(200), afterwards: Duration.milliseconds(2500))
    /// The program of the idle clients and its arguments; `nil` for this program.
    var program: [String]?

    /// The longest uninterrupted measurement of honest clients, in nanoseconds.
    private static let slice: Int64 = 100_000_000

    /// The longest step of a TLS handshake that a peer may cause repeatedly, in nanoseconds of processor time.
    private static let longestStep: Int64 = 5_000_000

    /// Measures the attack. It blocks, so do not call it on a loop.
    func measure() -> AttackRow {
        var row = AttackRow(transport: plan.transport, attack: plan.kind)
        row.expected = plan.expected
        do throws(SystemFailure) {
            try measure(&row)
        } catch {
            row.failure = error.message
        }
        return row
    }

    private func measure(_ row: inout AttackRow) throws(SystemFailure) {
        let meter =
            HostileScript.isEncrypted(plan.transport)
            ? MeasuredTLS(requestsCertificates: plan.requestsCertificates) : nil
        let registry = meter?.registry ?? .trial
        let victim = try step { () async throws(TransportError) in
            try await AttackedServer(plan, registry, on: serverLoop)
        }
        defer { runBlocking(on: serverLoop) { await victim.stop() } }
        let endpoint = victim.endpoint
        let idle = connections > 0 ? try ClientsProcess(program, answerTimeout: .seconds(60)) : nil
        _ = try idle?.connect(plan.transport, connections, [endpoint.port ?? 0])
        // A server may end connections that have sent nothing.
        try ping(idle, &row)
        let honest = try step { () async throws(TransportError) in try await victim.honest(on: clientLoop) }
        // Half of the quiet time is before the attack and half after it, so that a machine that becomes slower or faster
        // affects both phases.
        // The first handshake of a process loads algorithms, and that of an honest client is over.
        _ = meter?.takeSteps()
        var quiet = try calm(victim, honest, after: pauses.first)
        let usualSteps = meter?.takeSteps()
        var attack = try storm(victim, honest)
        attack.steps = meter?.takeSteps()
        if attack.failure == nil {
            let after = try calm(victim, honest, after: pauses.afterwards)
            quiet.rtt.merge(after.rtt)
            quiet.failure = quiet.failure ?? after.failure
        }
        quiet.steps = plan.control.isEmpty ? nil : usualSteps
        row.endings = attack.endings.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        fill(&row, quiet, attack)
        row.breaches += breaches(quiet, attack)
        try ping(idle, &row)
        try idle?.end()
        runBlocking(on: clientLoop) { await honest.close() }
    }

    /// The measurements of honest clients in one phase, and its peak heap.
    private struct Phase {
        var rtt = Histogram()
        var failure: String?
        var heap: Int?
        var endings: [String: Int] = [:]
        var counts = HostileCrowd.Counts()
        /// The longest steps of TLS handshakes at the server.
        var steps: HandshakeSteps?
    }

    /// Half of the time without hostile clients, or with those of the control, after a pause.
    private func calm(
        _ victim: AttackedServer,
        _ honest: any HonestParty,
        after pause: Duration
    ) throws(SystemFailure) -> Phase {
        let phase = { @Sendable () async -> Phase in
            _ = await measure(honest, for: pause, 0)
            return await measure(honest, for: hold / 2, enough / 2)
        }
        guard !plan.control.isEmpty else { return runBlocking(on: clientLoop, phase) }
        return try beside(plan.control, victim) { _ in runBlocking(on: clientLoop, phase) }
    }

    /// Measures while hostile clients with these scripts run.
    private func beside(
        _ scripts: [HostileScript],
        _ victim: AttackedServer,
        _ measured: (HostileCrowd) -> Phase
    ) throws(SystemFailure) -> Phase {
        let crowd = HostileCrowd()
        let (plan, attackers, port) = (plan, attackers, victim.endpoint.port ?? 0)
        let thread = try WorkerThread { [placement, rest] in
            placement?.placeHostile(isPaced: !plan.control.isEmpty)
            crowd.run(plan, scripts: scripts, clients: attackers, port: port, rest: rest)
        }
        defer {
            crowd.stop()
            thread.join()
        }
        return measured(crowd)
    }

    private func storm(_ victim: AttackedServer, _ honest: any HonestParty) throws(SystemFailure) -> Phase {
        try beside(plan.scripts, victim) { crowd in storm(victim, honest, crowd) }
    }

    private func storm(_ victim: AttackedServer, _ honest: any HonestParty, _ crowd: HostileCrowd) -> Phase {
        runBlocking(on: clientLoop) {
            var phase = await measure(honest, for: hold, enough)
            phase.endings = await victim.endings(crowd)
            if plan.kind == .sessionSquatting, phase.failure == nil { phase.failure = await connectNewClient(victim) }
            let end = Clocks.monotonic() + longestOvertime.wholeNanoseconds
            while !plan.expected.allSatisfy({ phase.endings[$0] ?? 0 >= plan.fewestEndings }), Clocks.monotonic() < end,
                !Interruption.isRequested
            {
                await pause(on: clientLoop, until: Clocks.monotonic() + 50_000_000)
                if let now = HeapUse.now() { phase.heap = max(phase.heap ?? 0, now) }
                phase.endings = await victim.endings(crowd)
            }
            phase.counts = crowd.soFar
            return phase
        }
    }

    /// Connects a client while hostile ones occupy the sessions. Returns why it was rejected, or `nil`.
    private func connectNewClient(_ victim: AttackedServer) async -> String? {
        do throws(TransportError) {
            let member = try await HonestMembers.enter(victim.endpoint, on: clientLoop)
            await member.close()
            return nil
        } catch {
            return "an honest new client was rejected: \(sentence(of: error))"
        }
    }

    /// Measures honest clients for `time`, and longer until there are `enough` round trips.
    private func measure(_ honest: any HonestParty, for time: Duration, _ enough: Int) async -> Phase {
        var phase = Phase(heap: HeapUse.now())
        let end = Clocks.monotonic() + time.wholeNanoseconds
        let last = end + longestOvertime.wholeNanoseconds
        while phase.failure == nil, !Interruption.isRequested {
            let now = Clocks.monotonic()
            let bound = phase.rtt.count < enough ? last : end
            guard now < bound else { break }
            let outcome = await honest.measure(until: min(now + Self.slice, bound))
            for trip in outcome.times { phase.rtt.record(trip) }
            phase.failure = outcome.failure
            // The heap is counted while no honest client waits, because counting blocks every allocation, also those of the
            // server.
            if let now = HeapUse.now() { phase.heap = max(phase.heap ?? 0, now) }
        }
        return phase
    }

    /// Pings each idle client once. A client that does not answer is lost.
    private func ping(_ idle: ClientsProcess?, _ row: inout AttackRow) throws(SystemFailure) {
        guard let pinged = try idle?.ping(connections, over: .seconds(1)) else { return }
        let lost = pinged.pings - pinged.pongs
        if lost > 0 { row.breaches.append("\(lost) of \(connections) idle clients did not answer a ping") }
    }

    // MARK: Numbers

    private func heapEach(_ quiet: Phase, _ attack: Phase) -> Double? {
        guard let before = quiet.heap, let after = attack.heap else { return nil }
        return Double(max(0, after - before)) / Double(attackers)
    }

    private func fill(_ row: inout AttackRow, _ quiet: Phase, _ attack: Phase) {
        let (alone, beside) = (Latency(quiet.rtt), Latency(attack.rtt))
        func ratio(_ value: (Latency) -> Double?) -> Double? {
            guard let quiet = value(alone), let attacked = value(beside), quiet > 0 else { return nil }
            return attacked / quiet
        }
        row.metrics = [
            ("quiet_p50_us", alone.p50), ("quiet_p99_us", alone.p99),
            ("attacked_p50_us", beside.p50), ("attacked_p99_us", beside.p99), ("ratio_p50", ratio(\.p50)),
            ("ratio_p99", ratio(\.p99)), ("quiet_round_trips", Double(alone.count)),
            ("attacked_round_trips", Double(beside.count)),
            ("attackers", Double(attackers)), ("idle", Double(connections)),
            ("connections", Double(attack.counts.connections)),
            ("endings", Double(attack.endings.values.reduce(0, +))),
            ("heap_peak_bytes", heapEach(quiet, attack)), ("heap_bound_bytes", Double(plan.heapBound(attackers))),
            ("usual_step_us", quiet.steps.map { Double($0.single) / 1000 }),
            ("longest_step_us", attack.steps.map { Double($0.single) / 1000 }),
            ("repeated_step_us", attack.steps.map { Double($0.repeated) / 1000 }),
        ]
    }

    /// The broken rules.
    private func breaches(_ quiet: Phase, _ attack: Phase) -> [String] {
        var breaches = [quiet.failure, attack.failure].compactMap { $0 }
        for ending in plan.expected where !Interruption.isRequested {
            let count = attack.endings[ending] ?? 0
            guard count < plan.fewestEndings else { continue }
            let few = count == 0 ? "no client was" : count == 1 ? "only 1 client was" : "only \(count) clients were"
            breaches.append(
                "\(few) ended with \(ending)\(plan.fewestEndings > 1 ? "; expected were at least \(plan.fewestEndings)" : "")"
            )
        }
        if let breach = heapEach(quiet, attack).flatMap({ plan.breach(heap: $0, attackers) }) {
            breaches.append(breach)
        }
        if let step = attack.steps?.repeated, step > Self.longestStep {
            breaches.append(
                "ten steps of TLS handshakes took \(fixed(Double(step) / 1000, 0)) µs of the processor or more; "
                    + "at most \(Self.longestStep / 1000) are allowed"
            )
        }
        if let leak = attack.counts.answers.leak {
            breaches.append("an answer contains \(leak.debugDescription)")
        }
        if attack.counts.wasAmplified {
            breaches.append("an address that was not validated was sent more than three times as much as it had sent")
        }
        return breaches
    }

    private func step<Value: Sendable>(
        _ body: @escaping @Sendable () async throws(TransportError) -> Value
    ) throws(SystemFailure) -> Value {
        try SystemFailure.translate { () throws(TransportError) in try tryBlocking(on: clientLoop, body) }
    }
}

/// The server of one attack, and the endings that it reports.
struct AttackedServer: Sendable {
    private enum Kind: Sendable {
        case plain(EmbeddedServer)
        case room(ChatServer)
        case listener(any Listener)
    }

    let endpoint: Endpoint
    private let kind: Kind
    private let hasMembers: Bool
    private let reported: Locked<[String: Int]>

    init(_ plan: AttackPlan, _ registry: TransportRegistry, on loop: EventLoop) async throws(TransportError) {
        let reported = Locked<[String: Int]>([:])
        hasMembers = plan.kind.isOfSessions || plan.kind == .poisonedIdentity
        let observer: ServerObserver = { note in
            reported.withLock {
                $0[note.reason.error?.code.rawValue ?? AttackPlan.Ending.closed, default: 0] += note.count
            }
        }
        if let sessions = plan.roomSessions {
            var limits = ChatRoom.Limits()
            limits.sessions = sessions
            let room = ChatRoom(limits, on: loop)
            let server = try await ChatServer.start(plan.url, room: room, registry: registry, observer: observer)
            kind = .room(server)
            endpoint = server.endpoint
        } else if plan.awaitsAcknowledgements {
            var serving = Serving.handle { AcknowledgedEcho() }
            serving.observer = observer
            let listener = try await registry.listen(at: Endpoint(plan.url), on: loop, serving)
            kind = .listener(listener)
            endpoint = listener.endpoint
        } else {
            let server = try await EmbeddedServer.start(plan.url, on: loop, registry: registry, observer: observer)
            kind = .plain(server)
            endpoint = server.endpoint
        }
        self.reported = reported
    }

    /// The number of endings, by the error's code or by ``AttackPlan/Ending``.
    func endings(_ crowd: HostileCrowd) async -> [String: Int] {
        var endings = reported.withLock { $0 }
        let counts = crowd.soFar
        if counts.refusals > 0 { endings[AttackPlan.Ending.refused] = counts.refusals }
        for (status, count) in counts.answers.refusals { endings[AttackPlan.Ending.status(status)] = count }
        if counts.questions > 0 { endings[AttackPlan.Ending.questioned] = counts.questions }
        if case .plain(let server) = kind, let dropped = await server.brokerStatistics()?.dropped, dropped > 0 {
            endings[AttackPlan.Ending.dropped] = Int(clamping: dropped)
        }
        return endings
    }

    func stop() async {
        switch kind {
        case .plain(let server): await server.stop()
        case .room(let server): await server.stop()
        case .listener(let listener): await listener.close()
        }
    }

    /// Connects the clients that are measured.
    func honest(on loop: EventLoop) async throws(TransportError) -> any HonestParty {
        if hasMembers { return try await HonestMembers(to: endpoint, on: loop) }
        return try await HonestClients(to: endpoint, on: loop)
    }
}

/// Sends every message back to its sender, at QoS 1.
private final class AcknowledgedEcho: MessageHandler {
    func opened(_: any MessagePeer) {}

    func received(_ payload: Payload, from peer: any MessagePeer) {
        var echo = payload
        echo.qos = .atLeastOnce
        if case .rejected(let error) = peer.sendNow(echo), error.code == .bufferFull {
            peer.endNow(CloseReason(error))
        }
    }

    func ended(_: any MessagePeer) {}
}
