import Protocols
import SocketIO
import TransportAPI
import Transports

/// The process of the clients of `imbench crowd`. It reads requests from its input and writes answers to its output. It ends
/// when its input ends, also while a request is in progress, so it never outlives its parent.
func crowdClients(_ input: Int32, _ output: Int32) -> Int32 {
    // The parent sends one request at a time.
    let (requests, inbox) = AsyncStream.makeStream(of: CrowdRequest.self, bufferingPolicy: .bufferingOldest(4))
    defer { inbox.finish() }
    do throws(SystemFailure) {
        let loop = try makeLoop("im-client")
        Task(executorPreference: loop) {
            var clients = CrowdClients(on: loop)
            for await request in requests { writeAll(output, await clients.answer(request).line + "\n") }
            _ = await clients.answer(.close)
        }
        var lines = LineInput(input)
        while true {
            switch lines.next(timeout: -1) {
            case .line(CrowdRequest.stop): Interruption.request()
            case .line(let line):
                if case .dropped = inbox.yield(try CrowdRequest(line)) { throw SystemFailure("too many requests") }
            case .tooLong: throw SystemFailure("a request was too long")
            case .nothing: continue
            case .end: return ExitStatus.good
            }
        }
    } catch {
        writeAll(output, CrowdAnswer.failed(error.message).line + "\n")
        return ExitStatus.failed
    }
}

/// The clients of a crowd, on one loop.
struct CrowdClients {
    /// How many connections open, or close, concurrently.
    static let atOnce = 32

    private let loop: EventLoop
    private var connections: [any Connection] = []

    init(on loop: EventLoop) {
        self.loop = loop
    }

    /// Executes a request.
    mutating func answer(_ request: CrowdRequest) async -> CrowdAnswer {
        switch request {
        case .connect(let transport, let count, let ports):
            guard connections.isEmpty else { return .failed("the clients are already connected") }
            do {
                return try await connect(transport, count, ports)
            } catch {
                return .failed(sentence(of: error))
            }
        case .ping(let nanoseconds): return await ping(over: nanoseconds)
        case .close:
            await close()
            return .closed
        }
    }

    private mutating func connect(_ transport: String, _ count: Int, _ ports: [UInt16]) async throws -> CrowdAnswer {
        let transports = try ports.enumerated().map { place, port throws(TransportError) in
            let endpoint = Endpoint(scheme: transport, host: "127.0.0.\(place + 1)", port: port, path: "/")
            return try TransportRegistry.standard.transport(for: endpoint, on: loop)
        }
        let before = await HeapUse.settled(on: loop)
        let started = Clocks.monotonic()
        connections = try await connect(transports, count)
        let nanoseconds = Clocks.monotonic() - started
        let after = await HeapUse.settled(on: loop)
        let heap = before.flatMap { before in after.map { $0 - before } }
        return .connected(connections: connections.count, nanoseconds: nanoseconds, heap: heap)
    }

    private func connect(_ transports: [any Transport], _ count: Int) async throws -> [any Connection] {
        try await withThrowingTaskGroup(of: (any Connection).self) { group in
            var connections: [any Connection] = []
            connections.reserveCapacity(count)
            for number in 0..<count where !Interruption.isRequested {
                if number >= Self.atOnce, let connection = try await group.next() { connections.append(connection) }
                let transport = transports[number / IdleCrowd.connectionsPerAddress]
                group.addTask(executorPreference: loop) { try await transport.connect(timeout: .seconds(30)) }
            }
            for try await connection in group { connections.append(connection) }
            return connections
        }
    }

    /// Pings every connection once, spread over the given time.
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
