import Protocols
import SocketIO
import TransportAPI
import Transports

/// The clients' half of a crowd, on one loop.
struct CrowdClients {
    /// How many handshakes, or goodbyes, are under way at a time.
    static let atOnce = 32

    private let loop: EventLoop
    private var connections: [any Connection] = []

    init(on loop: EventLoop) {
        self.loop = loop
    }

    /// Does what is asked.
    mutating func answer(_ request: CrowdRequest) async -> CrowdAnswer {
        switch request {
        case .connect(let transport, let count, let ports):
            guard connections.isEmpty else { return .failed("there are clients already") }
            do {
                return try await connect(transport, count, ports)
            } catch {
                return .failed("\(error)")
            }
        case .ping(let nanoseconds): return await ping(over: nanoseconds)
        case .close:
            await close()
            return .closed
        }
    }

    private mutating func connect(_ transport: String, _ count: Int, _ ports: [UInt16]) async throws -> CrowdAnswer {
        let recipes = try ports.enumerated().map { place, port throws(TransportError) in
            let endpoint = Endpoint(scheme: transport, host: "127.0.0.\(place + 1)", port: port, path: "/")
            return try TransportRegistry.standard.transport(for: endpoint, on: loop)
        }
        let before = await HeapUse.settled(on: loop)
        let started = Clocks.monotonic()
        connections = try await connect(recipes, count)
        let nanoseconds = Clocks.monotonic() - started
        let after = await HeapUse.settled(on: loop)
        let heap = before.flatMap { before in after.map { $0 - before } }
        return .connected(connections: connections.count, nanoseconds: nanoseconds, heap: heap)
    }

    private func connect(_ recipes: [any Transport], _ count: Int) async throws -> [any Connection] {
        try await withThrowingTaskGroup(of: (any Connection).self) { group in
            var connections: [any Connection] = []
            connections.reserveCapacity(count)
            for number in 0..<count where !Interruption.isRequested {
                if number >= Self.atOnce, let connection = try await group.next() { connections.append(connection) }
                let recipe = recipes[number / IdleCrowd.connectionsPerAddress]
                group.addTask(executorPreference: loop) { try await recipe.connect(timeout: .seconds(30)) }
            }
            for try await connection in group { connections.append(connection) }
            return connections
        }
    }

    /// Pings every connection once, spread over the time given.
    private func ping(over nanoseconds: Int64) async -> CrowdAnswer {
        let start = Clocks.monotonic()
        let step = nanoseconds / Int64(max(1, connections.count))
        let workers = 64
        let (loop, connections) = (loop, connections)
        return await withTaskGroup(of: (Int, Histogram).self) { group in
            for worker in 0..<workers {
                group.addTask(executorPreference: loop) {
                    var rtt = Histogram()
                    var count = 0
                    for number in stride(from: worker, to: connections.count, by: workers)
                    where !Interruption.isRequested {
                        await pause(on: loop, until: start + Int64(number) * step)
                        count += 1
                        let answer = try? await connections[number].ping()
                        if let answer { rtt.record(answer.wholeNanoseconds) }
                    }
                    return (count, rtt)
                }
            }
            var pings = 0
            var rtt = Histogram()
            for await (count, part) in group {
                pings += count
                rtt.merge(part)
            }
            return .pinged(pings: pings, pongs: rtt.count, p50: rtt.percentile(500), p99: rtt.percentile(990))
        }
    }

    private mutating func close() async {
        let (loop, connections) = (loop, connections)
        await withTaskGroup(of: Void.self) { group in
            for (number, connection) in connections.enumerated() {
                if number >= Self.atOnce { await group.next() }
                group.addTask(executorPreference: loop) { await connection.close() }
            }
        }
        self.connections = []
    }
}
