import EmbeddedServers
import SocketIO
import TransportAPI
import Transports

/// One attack on one server: what a few honest clients feel of it, and what the server's owner hears.
struct AttackRun {
    let plan: AttackPlan
    let attackers: Int
    /// How many idle clients the server has besides, in a process of their own.
    var links = 0
    let hold: Duration
    let serverLoop: EventLoop
    let clientLoop: EventLoop
    /// How long the attack goes on beyond `hold` if what is expected of it has not come: the hostile clients give way to
    /// whoever else uses this machine, so it may take them a while to do any harm.
    var patience = Duration.seconds(30)
    /// What is started for the idle clients, and its arguments; `nil` is this program.
    var program: [String]?

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
        defer { runBlocking(on: serverLoop) { await victim.server.stop() } }
        let endpoint = victim.server.endpoint
        let idle = links > 0 ? try ClientsProcess(program, patience: .seconds(60)) : nil
        _ = try idle?.connect(plan.transport, links, [endpoint.port ?? 0])
        // So that none of them is one who has never said a word.
        try ping(idle, &row)
        let honest = try step { () async throws(TransportError) in try await HonestClients(to: endpoint, on: clientLoop)
        }
        let quiet = runBlocking(on: clientLoop) { await calm(honest) }
        let attack = try storm(victim, honest)
        row.endings = attack.endings.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        fill(&row, quiet, attack)
        row.breaches += breaches(quiet, attack)
        try ping(idle, &row)
        try idle?.end()
        runBlocking(on: clientLoop) { await honest.close() }
    }

    /// What honest clients see for a while, and the most heap in use in that time.
    private struct Phase {
        var honest: HonestClients.Outcome
        var heap: Int?
        var endings: [String: Int] = [:]
        var counts = HostileCrowd.Counts()
    }

    private func calm(_ honest: HonestClients) async -> Phase {
        _ = await honest.measure(until: Clocks.monotonic() + 200_000_000)
        return await measure(honest)
    }

    private func storm(_ victim: AttackedServer, _ honest: HonestClients) throws(SystemFailure) -> Phase {
        let crowd = HostileCrowd()
        let (plan, attackers, port) = (plan, attackers, victim.server.endpoint.port ?? 0)
        let thread = try WorkerThread { crowd.run(plan, clients: attackers, port: port) }
        defer {
            crowd.stop()
            thread.join()
        }
        return runBlocking(on: clientLoop) {
            var phase = await measure(honest)
            phase.endings = await victim.endings(crowd)
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

    private func measure(_ honest: HonestClients) async -> Phase {
        let end = Clocks.monotonic() + hold.wholeNanoseconds
        async let heap = peakHeap(until: end)
        return Phase(honest: await honest.measure(until: end), heap: await heap)
    }

    /// The most heap in use, looked at now and then.
    private func peakHeap(until end: Int64) async -> Int? {
        var peak = HeapUse.now()
        while Clocks.monotonic() < end {
            await pause(on: clientLoop, until: Clocks.monotonic() + 100_000_000)
            if let now = HeapUse.now() { peak = max(peak ?? 0, now) }
        }
        return peak
    }

    /// Pings each idle client once. One that does not answer was lost.
    private func ping(_ idle: ClientsProcess?, _ row: inout CrowdRow) throws(SystemFailure) {
        guard let pinged = try idle?.ping(links, over: .seconds(1)) else { return }
        let lost = pinged.pings - pinged.pongs
        if lost > 0 { row.breaches.append("\(lost) of \(links) idle clients did not answer a ping") }
    }

    // MARK: Numbers

    private func heapEach(_ quiet: Phase, _ attack: Phase) -> Double? {
        guard let before = quiet.heap, let after = attack.heap else { return nil }
        return Double(max(0, after - before)) / Double(attackers)
    }

    private func fill(_ row: inout CrowdRow, _ quiet: Phase, _ attack: Phase) {
        let (before, after) = (Latency(quiet.honest.rtt), Latency(attack.honest.rtt))
        var ratio: Double?
        if let quiet = before.p99, let attacked = after.p99, quiet > 0 { ratio = attacked / quiet }
        row.metrics = [
            ("quiet_p50_us", before.p50), ("quiet_p99_us", before.p99),
            ("attacked_p50_us", after.p50), ("attacked_p99_us", after.p99), ("ratio_p99", ratio),
            ("attackers", Double(attackers)), ("links", Double(links)),
            ("connections", Double(attack.counts.connections)),
            ("endings", Double(attack.endings.values.reduce(0, +))),
            ("heap_peak_bytes", heapEach(quiet, attack)), ("heap_bound_bytes", Double(plan.heapBound(attackers))),
        ]
    }

    /// What must not be, and is.
    private func breaches(_ quiet: Phase, _ attack: Phase) -> [String] {
        var breaches = [quiet.honest.failure, attack.honest.failure].compactMap { $0 }
        for ending in plan.expected where attack.endings[ending] == nil && !Interruption.isRequested {
            breaches.append("no client was ended with \(ending)")
        }
        if let heap = heapEach(quiet, attack), heap > Double(plan.heapBound(attackers)) {
            breaches.append(
                "\(fixed(heap, 0)) bytes of heap for each client are more than \(plan.heapBound(attackers))"
            )
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
