import CommandSupport
import Measuring
import Protocols
import SocketIO
import TransportAPI
import Transports
import TrialCertificates

/// The process of the clients of `imbench crowd`. It reads requests from its input and writes answers to its output. It ends
/// when its input ends, also while a request is in progress, so it never outlives its parent.
///
/// - Parameter authority: the certificate of the authority that has issued those of the parent's servers, in PEM format.
package func crowdClients(_ input: Int32, _ output: Int32, trusting authority: String?) -> Int32 {
    // The parent sends one request at a time.
    let (requests, inbox) = AsyncStream.makeStream(of: CrowdRequest.self, bufferingPolicy: .bufferingOldest(4))
    defer { inbox.finish() }
    do throws(SystemFailure) {
        let loop = try makeLoop("im-client")
        Task(executorPreference: loop) {
            var clients = CrowdClients(on: loop, trusting: authority)
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
package struct CrowdClients {
    /// How many connections open, or close, concurrently.
    package static let atOnce = 32

    private let loop: EventLoop
    private let registry: TransportRegistry
    private var connections: [any Connection] = []
    /// The bytes of heap in use before the first connection.
    private var heapBefore: Int?

    package init(on loop: EventLoop, trusting authority: String?) {
        self.loop = loop
        registry = .encrypted(by: TLSContexts(TrialTLS(trusting: authority)))
    }

    /// Executes a request.
    package mutating func answer(_ request: CrowdRequest) async -> CrowdAnswer {
        switch request {
        case .connect(let transport, let count, let ports, let use):
            guard connections.isEmpty else { return .failed("the clients are already connected") }
            do {
                return try await connect(transport, count, ports, use)
            } catch {
                return .failed(sentence(of: error))
            }
        case .ping(let nanoseconds): return await ping(over: nanoseconds)
        case .transfer(let bytes):
            do {
                return try await transfer(bytes)
            } catch {
                return .failed(sentence(of: error))
            }
        case .close:
            await close()
            return .closed
        }
    }

    private mutating func connect(
        _ transport: String,
        _ count: Int,
        _ ports: [UInt16],
        _ use: CrowdRequest.Use
    ) async throws -> CrowdAnswer {
        let descriptor = try registry.transport(named: transport)
        let (loop, endpoints) = (
            loop,
            ports.enumerated().map { place, port in
                Endpoint(scheme: transport, host: "127.0.0.\(place + 1)", port: port, path: "/")
            }
        )
        // Idle clients of one server share a transport.
        let shared = try endpoints.map { endpoint throws(TransportError) in
            try descriptor.make(endpoint, ConnectionContext(on: loop))
        }
        func make(_ number: Int) throws(TransportError) -> any Transport {
            let place = number / ClientsProcess.connectionsPerAddress
            guard use == .transfer else { return shared[place] }
            var endpoint = endpoints[place]
            endpoint.options = descriptor.loopback("crowd-\(number)")
            return try descriptor.make(endpoint, ConnectionContext(on: loop))
        }
        heapBefore = await HeapUse.settled(on: loop)
        let started = Clocks.monotonic()
        connections = try await connect(count, make)
        let nanoseconds = Clocks.monotonic() - started
        return .connected(connections: connections.count, nanoseconds: nanoseconds, heap: await heap())
    }

    /// The bytes of heap of all connections, if known.
    private func heap() async -> Int? {
        let now = await HeapUse.settled(on: loop)
        return heapBefore.flatMap { before in now.map { $0 - before } }
    }

    private func connect(
        _ count: Int,
        _ make: (_ number: Int) throws(TransportError) -> any Transport
    ) async throws -> [any Connection] {
        try await withThrowingTaskGroup(of: (any Connection).self) { group in
            var connections: [any Connection] = []
            connections.reserveCapacity(count)
            for number in 0..<count where !Interruption.isRequested {
                if number >= Self.atOnce, let connection = try await group.next() { connections.append(connection) }
                let transport = try make(number)
                group.addTask(executorPreference: loop) { try await transport.connect(timeout: .seconds(30)) }
            }
            for try await connection in group { connections.append(connection) }
            return connections
        }
    }

    /// Pings every connection once, spread over the given time. Only waits for that time if the protocol has no ping.
    private func ping(over nanoseconds: Int64) async -> CrowdAnswer {
        let start = Clocks.monotonic()
        guard connections.first?.capabilities.hasNativePing != false else {
            await pause(on: loop, until: start + nanoseconds)
            return .held
        }
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

    /// Sends `bytes` over each connection in messages of up to 64 KiB, and receives each message back before the next one.
    private func transfer(_ bytes: Int) async throws -> CrowdAnswer {
        let (loop, connections) = (loop, connections)
        let block = [UInt8](repeating: 66, count: min(bytes, 64 << 10))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, connection) in connections.enumerated() where !Interruption.isRequested {
                if number >= Self.atOnce { try await group.next() }
                group.addTask(executorPreference: loop) {
                    var left = bytes
                    while left > 0 {
                        let message = Payload(Array(block.prefix(left)))
                        let outcome = await connection.send(message)
                        guard outcome.isSuccess else { throw SystemFailure("a message was not sent: \(outcome)") }
                        guard let answer = try await connection.receive() else {
                            throw SystemFailure("a connection ended during the transfer")
                        }
                        guard answer.bytes == message.bytes else { throw SystemFailure("a message was changed") }
                        left -= message.bytes.count
                    }
                }
            }
            try await group.waitForAll()
        }
        await pause(on: loop, until: Clocks.monotonic() + 1_000_000_000)
        return .transferred(heap: await heap())
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
