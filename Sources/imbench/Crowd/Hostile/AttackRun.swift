import EmbeddedServers
import Protocols
import SocketIO
import TransportAPI
import Transports

/// One attack on one server: what a few honest clients feel of it, and what the server's owner hears.
struct AttackRun {
    let plan: AttackPlan
    let attackers: Int
    /// How many idle clients the server has besides, in a process of their own.
    var connections = 0
    let hold: Duration
    /// How many round trips there must be with hostile clients, and as many without: by default what a 99th percentile takes.
    var enough = 1000
    let serverLoop: EventLoop
    let clientLoop: EventLoop
    /// Where hostile clients run; where the system likes, if `nil`. The loops are where they are.
    var placement: CrowdPlacement?
    /// How long hostile clients rest after each round, in milliseconds.
    var rest: Int32 = 0
    /// How long the attack goes on beyond `hold` if there are not enough round trips, and then if what is expected of
    /// it has not come: hostile clients that are placed give way to whoever else uses this machine, so it may take them
    /// a while to do any harm.
    var patience = Duration.seconds(30)
    /// For how long all else comes to rest before the quiet time: at first, and after the attack, which is longer than the
    /// server lingers with those who were hung up on.
    var pauses = (first: Duration.milliseconds(200), afterwards: Duration.milliseconds(2500))
    /// What is started for the idle clients, and its arguments; `nil` is this program.
    var program: [String]?

    /// For how long honest clients are measured without a break, in nanoseconds.
    private static let slice: Int64 = 100_000_000

    /// Measures, on a thread that may wait and is no loop's.
    func measure() -> CrowdRow {
        var row = CrowdRow(transport: plan.transport, attack: plan.kind)
        row.expected = plan.expected
        do throws(SystemFailure) {
            try measure(&row)
        } catch {
            row.failure = error.message
        }
        return row
    }

    private func measure(_ row: inout CrowdRow) throws(SystemFailure) {
        let victim = try step { () async throws(TransportError) in try await AttackedServer(plan, on: serverLoop) }
        defer { runBlocking(on: serverLoop) { await victim.stop() } }
        let endpoint = victim.endpoint
        let idle = connections > 0 ? try ClientsProcess(program, patience: .seconds(60)) : nil
        _ = try idle?.connect(plan.transport, connections, [endpoint.port ?? 0])
        // So that none of them is one who has never said a word.
        try ping(idle, &row)
        let honest = try step { () async throws(TransportError) in try await victim.honest(on: clientLoop) }
        // Half of the quiet time comes before the attack and half behind it: a machine that becomes slower or faster in the
        // meantime does so for both.
        var quiet = runBlocking(on: clientLoop) { await calm(honest, after: pauses.first) }
        let attack = try storm(victim, honest)
        if attack.failure == nil {
            let after = runBlocking(on: clientLoop) { await calm(honest, after: pauses.afterwards) }
            quiet.rtt.merge(after.rtt)
            quiet.failure = quiet.failure ?? after.failure
        }
        row.endings = attack.endings.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        fill(&row, quiet, attack)
        row.breaches += breaches(quiet, attack)
        try ping(idle, &row)
        try idle?.end()
        runBlocking(on: clientLoop) { await honest.close() }
    }

    /// What honest clients see for a while, and the most heap in use in that time.
    private struct Phase {
        var rtt = Histogram()
        var failure: String?
        var heap: Int?
        var endings: [String: Int] = [:]
        var counts = HostileCrowd.Counts()
    }

    /// Half of the time without hostile clients, behind a while in which all else comes to rest.
    private func calm(_ honest: any HonestParty, after pause: Duration) async -> Phase {
        _ = await measure(honest, for: pause, 0)
        return await measure(honest, for: hold / 2, enough / 2)
    }

    private func storm(_ victim: AttackedServer, _ honest: any HonestParty) throws(SystemFailure) -> Phase {
        let crowd = HostileCrowd()
        let (plan, attackers, port) = (plan, attackers, victim.endpoint.port ?? 0)
        let thread = try WorkerThread { [placement, rest] in
            placement?.placeHostile()
            crowd.run(plan, clients: attackers, port: port, rest: rest)
        }
        defer {
            crowd.stop()
            thread.join()
        }
        return runBlocking(on: clientLoop) {
            var phase = await measure(honest, for: hold, enough)
            phase.endings = await victim.endings(crowd)
            if plan.kind == .sessionSquatting, phase.failure == nil { phase.failure = await newcomer(victim) }
            let end = Clocks.monotonic() + patience.wholeNanoseconds
            while !plan.expected.allSatisfy({ phase.endings[$0] != nil }), Clocks.monotonic() < end,
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

    /// A client that comes while others squat on sessions; why it was not let in, if it was not.
    private func newcomer(_ victim: AttackedServer) async -> String? {
        do throws(TransportError) {
            let newcomer = try await HonestMembers.enter(victim.endpoint, on: clientLoop)
            await newcomer.close()
            return nil
        } catch {
            return "an honest newcomer was not let in: \(error)"
        }
    }

    /// What honest clients see for `time`, and beyond it until there are `enough` round trips.
    private func measure(_ honest: any HonestParty, for time: Duration, _ enough: Int) async -> Phase {
        var phase = Phase(heap: HeapUse.now())
        let end = Clocks.monotonic() + time.wholeNanoseconds
        let last = end + patience.wholeNanoseconds
        while phase.failure == nil, !Interruption.isRequested {
            let now = Clocks.monotonic()
            let bound = phase.rtt.count < enough ? last : end
            guard now < bound else { break }
            let outcome = await honest.measure(until: min(now + Self.slice, bound))
            for trip in outcome.times { phase.rtt.record(trip) }
            phase.failure = outcome.failure
            // While no honest client waits: who counts the heap keeps everybody from allocating, the server too.
            if let now = HeapUse.now() { phase.heap = max(phase.heap ?? 0, now) }
        }
        return phase
    }

    /// Pings each idle client once. One that does not answer was lost.
    private func ping(_ idle: ClientsProcess?, _ row: inout CrowdRow) throws(SystemFailure) {
        guard let pinged = try idle?.ping(connections, over: .seconds(1)) else { return }
        let lost = pinged.pings - pinged.pongs
        if lost > 0 { row.breaches.append("\(lost) of \(connections) idle clients did not answer a ping") }
    }

    // MARK: Numbers

    private func heapEach(_ quiet: Phase, _ attack: Phase) -> Double? {
        guard let before = quiet.heap, let after = attack.heap else { return nil }
        return Double(max(0, after - before)) / Double(attackers)
    }

    private func fill(_ row: inout CrowdRow, _ quiet: Phase, _ attack: Phase) {
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
        ]
    }

    /// What must not be, and is.
    private func breaches(_ quiet: Phase, _ attack: Phase) -> [String] {
        var breaches = [quiet.failure, attack.failure].compactMap { $0 }
        for ending in plan.expected where attack.endings[ending] == nil && !Interruption.isRequested {
            breaches.append("no client was ended with \(ending)")
        }
        if let breach = heapEach(quiet, attack).flatMap({ plan.breach(heap: $0, attackers) }) {
            breaches.append(breach)
        }
        if attack.counts.wasAmplified {
            breaches.append("an address that had proved nothing got more than three times what came from there")
        }
        return breaches
    }

    private func step<Value: Sendable>(
        _ body: @escaping @Sendable () async throws(TransportError) -> Value
    ) throws(SystemFailure) -> Value {
        let result: Result<Value, TransportError> = runBlocking(on: clientLoop) {
            do throws(TransportError) { return .success(try await body()) } catch { return .failure(error) }
        }
        do throws(TransportError) { return try result.get() } catch { throw SystemFailure("\(error)") }
    }
}

/// SUBSCRIBEs whose filters nobody else has, nor the same client had before.
///
/// They are put together once, and only whose they are is written into them each time: else it would take a hostile
/// client longer to make them than a broker to work them off.
struct FilterLoad: Sendable {
    /// How each filter names its client and its round in what it is made from.
    static let mark = "c000000/r00000000/"

    private let template: [UInt8]
    /// Where the marks begin.
    private let places: [Int]

    init(_ template: [UInt8]) {
        let mark = Array(Self.mark.utf8)
        self.template = template
        places = template.indices.filter { template[$0...].starts(with: mark) }
    }

    /// What this client sends in this round.
    func bytes(_ client: Int, _ round: Int) -> [UInt8] {
        var mark = Array(Self.mark.utf8)
        Self.write(client, to: &mark[1..<7])
        Self.write(round, to: &mark[9..<17])
        var bytes = template
        for place in places {
            for (offset, byte) in mark.enumerated() { bytes[place + offset] = byte }
        }
        return bytes
    }

    private static func write(_ number: Int, to digits: inout ArraySlice<UInt8>) {
        var rest = number
        for index in digits.indices.reversed() {
            digits[index] = UInt8(ascii: "0") + UInt8(rest % 10)
            rest /= 10
        }
    }
}
