import EmbeddedServers
import SocketIO
import TransportAPI
import Transports

/// One attack on one server: what a few honest clients feel of it, and what the server's owner hears.
struct AttackRun {
    private static let honestClients = 8

    let transport: String
    let kind: HostileKind
    let script: HostileScript
    let attackers: Int
    let hold: Duration
    let serverLoop: EventLoop
    let clientLoop: EventLoop

    func measure() async -> CrowdRow {
        var row = CrowdRow(transport: transport, attack: kind)
        do {
            try await measure(&row)
        } catch {
            row.failure = (error as? SystemFailure)?.message ?? "\(error)"
        }
        return row
    }

    private func measure(_ row: inout CrowdRow) async throws {
        let endings = Locked<[String: Int]>([:])
        let options = kind == .compressionBomb ? "/?deflate=on" : ""
        let server = try await EmbeddedServer.start("\(transport)://127.0.0.1:0\(options)", on: serverLoop) { note in
            guard let error = note.reason.error else { return }
            endings.withLock { $0[error.code.rawValue, default: 0] += 1 }
        }
        let honest = try await HonestClients(Self.honestClients, to: server.endpoint, .standard, on: clientLoop)
        _ = await honest.measure(until: Clocks.monotonic() + 200_000_000)
        let (quiet, heap) = await measure(honest)
        let crowd = HostileCrowd()
        let (script, attackers, port) = (script, attackers, server.endpoint.port ?? 0)
        let thread = try WorkerThread { crowd.run(script, clients: attackers, port: port) }
        let (attacked, peak) = await measure(honest)
        // What ends from here on ends because they leave.
        row.endings = endings.withLock { $0 }.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        crowd.stop()
        thread.join()
        let grown = peak.flatMap { peak in heap.map { max(0, peak - $0) } }
        row.failure = quiet.failure ?? attacked.failure
        fill(&row, Latency(quiet.rtt), Latency(attacked.rtt), crowd.connections, grown)
        await honest.close()
        await server.stop()
    }

    /// What honest clients see for a while, and the most heap in use in that time.
    private func measure(_ honest: HonestClients) async -> (HonestClients.Outcome, heap: Int?) {
        let end = Clocks.monotonic() + hold.wholeNanoseconds
        async let peak = peakHeap(until: end)
        return (await honest.measure(until: end), await peak)
    }

    private func fill(_ row: inout CrowdRow, _ quiet: Latency, _ attacked: Latency, _ connections: Int, _ heap: Int?) {
        var ratio: Double?
        if let before = quiet.p99, let after = attacked.p99, before > 0 { ratio = after / before }
        row.metrics = [
            ("quiet_p50_us", quiet.p50), ("quiet_p99_us", quiet.p99),
            ("attacked_p50_us", attacked.p50), ("attacked_p99_us", attacked.p99), ("ratio_p99", ratio),
            ("attackers", Double(attackers)), ("connections", Double(connections)),
            ("endings", Double(row.endings.reduce(0) { $0 + $1.count })),
            ("heap_peak_bytes", heap.map { Double($0) / Double(attackers) }),
        ]
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
}
