import EmbeddedServers
import SocketIO
import TestSupport
import TransportAPI
import TrialCertificates

@testable import Transports

/// One server, one bad path to it, a few connections, and many tasks that use them at random.
final class OperationRound: Sendable {
    private static let tasks = 16
    private static let clients = 5
    private static let servers = 6

    private struct Connections {
        /// An element is `nil` if there is no connection or if it has ended.
        var clients: [(any Connection)?] = Array(repeating: nil, count: OperationRound.clients)
        var servers: [any Connection] = []
        /// Whether connections are no longer kept.
        var isOver = false
    }

    /// The place of a connection.
    private enum Place: Sendable {
        case client(Int), server(Int)
    }

    private let mode: String
    private let number: Int
    private let seed: UInt64
    private let log: OperationLog
    private let drivers: LiveDrivers
    private let loops: [EventLoop]
    private let connections = Locked(Connections())
    private let path = Locked<(proxy: FaultProxy?, stop: (@Sendable () async -> Void)?)>((nil, nil))

    /// - Parameter loops: The loops of the clients, of the server, of the path, and of the test's own timers.
    init(
        _ mode: String,
        _ number: Int,
        _ seed: UInt64,
        _ log: OperationLog,
        _ drivers: LiveDrivers,
        _ loops: [EventLoop]
    ) {
        (self.mode, self.number, self.seed, self.log, self.drivers) = (mode, number, seed, log, drivers)
        self.loops = loops
    }

    /// Starts everything and runs `count` operations.
    @concurrent
    func run(_ count: Int) async {
        do {
            let endpoint = try await start()
            var random = RandomSource.seeded(seed)
            let weather = Task.detached { [random] in await self.changePath(random) }
            await withTaskGroup(of: Void.self) { group in
                for task in 0..<Self.tasks {
                    let share = count / Self.tasks + (task < count % Self.tasks ? 1 : 0)
                    let seed = random.next()
                    group.addTask { await self.work(share, RandomSource.seeded(seed), endpoint) }
                }
            }
            weather.cancel()
            await weather.value
        } catch {
            log.problem("\(mode): a server does not start: \(error)")
        }
    }

    private func start() async throws -> Endpoint {
        let registry = TransportRegistry.trial
        let scheme = String(mode.prefix { $0 != "?" })
        let settings = try Endpoint("\(scheme)://host\(mode.dropFirst(scheme.count))").options
        let descriptor = try registry.transport(named: scheme)
        // Small buffers fill sooner.
        let bounds = [Endpoint.Option(name: "write-buffer", value: "65536"), .init(name: "inbox", value: "16")]
        var served = Endpoint(scheme: scheme, host: "127.0.0.1", port: 0, options: bounds)
        served.options += settings.filter { descriptor.hasSetting($0.name) }
        let target: Endpoint
        if !descriptor.loopback("").isEmpty {
            let server = try await EmbeddedServer.start(served.description, on: loops[1], registry: .trial)
            target = server.endpoint
            path.withLock { $0.stop = { await server.stop() } }
        } else {
            let listener = try await registry.listen(served.description, on: loops[1])
            target = listener.endpoint
            path.withLock { $0.stop = { await listener.close() } }
            Task.detached { [self] in
                while let connection = try? await listener.accept() { keep(server: connection) }
            }
        }
        let proxy = try await FaultProxy.start(to: target, on: loops[2], seed: seed)
        path.withLock { $0.proxy = proxy }
        log.note(port: target.port)
        log.note(port: proxy.endpoint.port)
        var endpoint = proxy.endpoint
        endpoint.options = settings + bounds + descriptor.loopback("round-\(number)")
        return endpoint
    }

    /// Ends all connections over a path that heals, is cut or is gone, and then ends the server.
    @concurrent
    func close() async {
        let what = "the end of round \(number), \(mode)"
        let (proxy, stop) = path.withLock { path in
            defer { path = (nil, nil) }
            return path
        }
        let all = connections.withLock { connections in
            defer { (connections.clients, connections.servers, connections.isOver) = ([], [], true) }
            return connections.clients.compactMap { $0 } + connections.servers
        }
        await log.expectEnd(of: what) {
            switch seed % 3 {
            case 0: await proxy?.set(.none)
            case 1:
                await proxy?.set(.none)
                await proxy?.cut(.reset)
            default: await proxy?.stop()
            }
            await withTaskGroup(of: Void.self) { group in
                for connection in all { group.addTask { await connection.close() } }
            }
            await stop?()
            await proxy?.stop()
        }
    }

    // MARK: The path

    /// Makes the path worse and better until the task is cancelled.
    @concurrent
    private func changePath(_ seed: RandomSource) async {
        var random = seed
        guard let proxy = path.withLock({ $0.proxy }) else { return }
        while !Task.isCancelled {
            switch random.next() % 20 {
            case 0...6: await proxy.set(.none)
            case 7...8: await proxy.set(.dead)
            case 9: await proxy.set(PathFaults(blackHoleToServer: true))
            case 10: await proxy.set(PathFaults(blackHoleToClient: true))
            case 11...12: await proxy.set(PathFaults(bytesPerSecond: 2000))
            case 13: await proxy.set(PathFaults(delay: .milliseconds(2), jitter: .milliseconds(3)))
            case 14: await proxy.set(PathFaults(loss: 0.3, duplication: 0.2, reordering: 0.2))
            case 15: await proxy.cut(.reset)
            case 16: await proxy.cut(.finish)
            case 17:
                try? await proxy.refuse(true)
                try? await proxy.refuse(false)
            case 18: await proxy.rebindClients()
            default: break
            }
            await loops[3].wait(.microseconds(Int(random.next() % 20_000)))
        }
        await proxy.set(.none)
    }

    // MARK: Operations

    @concurrent
    private func work(_ count: Int, _ seed: RandomSource, _ endpoint: Endpoint) async {
        var random = seed
        for _ in 0..<count {
            let (place, connection) = pick(&random)
            guard let connection, random.next() % 40 > 0 else {
                let milliseconds = Int(random.next() % 300)
                await runCancellable("connect", cancelledAfter: .milliseconds(milliseconds)) { [self, random] in
                    await connect(endpoint, place, random)
                }
                continue
            }
            let kind = Kind(random.next() % 100)
            let microseconds = random.next() % 4 == 0 ? 0 : Int(random.next() % 5000)
            await runCancellable("\(kind)", cancelledAfter: .microseconds(microseconds)) { [self, random] in
                await perform(kind, connection, place, random)
            }
        }
    }

    /// Runs an operation in its own task, and cancels that task after `delay`.
    private func runCancellable(
        _ what: String,
        cancelledAfter delay: Duration,
        _ operation: @escaping @Sendable () async -> String
    ) async {
        let task = Task.detached { [self] in await log.run("\(what), round \(number), \(mode)", operation) }
        if delay == .zero {
            task.cancel()
            return await task.value
        }
        // The cancellation has no effect if the operation has ended by then.
        loops[3].after(delay) { task.cancel() }
        await task.value
    }

    private func pick(_ random: inout RandomSource) -> (Place, (any Connection)?) {
        let number = Int(random.next() % 1000)
        return connections.withLock { connections in
            if number % 2 == 0, !connections.servers.isEmpty {
                let place = number % connections.servers.count
                return (.server(place), connections.servers[place])
            }
            let place = number % Self.clients
            return (.client(place), connections.clients.isEmpty ? nil : connections.clients[place])
        }
    }

    private enum Kind: Sendable {
        case send, receive, ping, closed, statistics, close

        /// The share of each operation in percent. A closed connection has nothing more to do.
        init(_ number: UInt64) {
            switch number {
            case 0..<35: self = .send
            case 35..<75: self = .receive
            case 75..<85: self = .ping
            case 85..<92: self = .closed
            case 92..<99: self = .statistics
            default: self = .close
            }
        }
    }

    private func perform(_ kind: Kind, _ connection: any Connection, _ place: Place, _ seed: RandomSource) async
        -> String
    {
        var random = seed
        switch kind {
        case .send: return note(await connection.send(message(&random, connection)), connection, place)
        case .receive:
            do {
                guard let payload = try await connection.receive() else { return ended(connection, place) }
                check(payload)
                return "received"
            } catch {
                return failed(error, connection, place)
            }
        case .ping:
            do {
                _ = try await connection.ping()
                return "pong"
            } catch {
                return failed(error, connection, place)
            }
        case .closed:
            _ = await connection.closed()
            return "closed told"
        case .statistics:
            _ = await connection.statistics()
            return "statistics"
        case .close:
            await connection.close()
            forget(connection, place)
            return "closed"
        }
    }

    private func connect(_ endpoint: Endpoint, _ place: Place, _ seed: RandomSource) async -> String {
        var random = seed
        do {
            let transport = try TransportRegistry.trial.transport(for: endpoint, on: loops[0])
            let connection = try await transport.connect(timeout: .milliseconds(Int(1 + random.next() % 1000)))
            drivers.add(connection)
            let former: (any Connection)? = connections.withLock { connections in
                guard !connections.isOver else { return connection }
                let place = if case .client(let place) = place { place } else { 0 }
                defer { connections.clients[place] = connection }
                return connections.clients[place]
            }
            // The other half of the connections ends when it is released.
            if random.next() % 2 == 0 { await former?.close() }
            return "connected"
        } catch {
            return "not connected"
        }
    }

    private func keep(server connection: any Connection) {
        drivers.add(connection)
        connections.withLock { connections in
            guard !connections.isOver else { return }
            if connections.servers.count >= Self.servers { connections.servers.removeFirst() }
            connections.servers.append(connection)
        }
    }

    // MARK: Results

    private func note(_ outcome: SendOutcome, _ connection: any Connection, _ place: Place) -> String {
        switch outcome {
        case .acknowledged: return "acknowledged"
        case .written: return "written"
        case .expired: return "expired"
        case .unknown(let error): return "unknown: \(error.code)"
        case .rejected(let error): return "not sent: " + failed(error, connection, place)
        }
    }

    private func failed(_ error: any Error, _ connection: any Connection, _ place: Place) -> String {
        guard let error = error as? TransportError else { return "other error" }
        switch error.code {
        case .cancelled, .busy, .bufferFull, .messageTooLarge, .wouldBlock, .unsupported, .timedOut: break
        default: forget(connection, place)
        }
        return "\(error.code)"
    }

    private func ended(_ connection: any Connection, _ place: Place) -> String {
        forget(connection, place)
        return "ended"
    }

    private func forget(_ connection: any Connection, _ place: Place) {
        connections.withLock { connections in
            switch place {
            case .client(let place)
            where place < connections.clients.count && connections.clients[place] === connection:
                connections.clients[place] = nil
            case .client: break
            case .server: connections.servers.removeAll { $0 === connection }
            }
        }
    }

    // MARK: Messages

    private static let sizes = [0, 1, 3, 4, 125, 126, 1000, 1190, 1200, 1201, 5000, 20_000, 65_535, 65_536, 100_000]
    private static let pattern = longBytes(100_000)

    /// A message that contains its own length.
    private func message(_ random: inout RandomSource, _ connection: any Connection) -> Payload {
        let bound = random.next() % 8 == 0 ? Self.sizes.count : 8
        let size = Self.sizes[Int(random.next() % UInt64(bound))]
        if size == 126 { return Payload(text: String(repeating: "t", count: size)) }
        guard size >= 4 else { return Payload(Array(Self.pattern[..<size])) }
        let rest = size - 4
        let head = [UInt8(rest >> 24 & 255), UInt8(rest >> 16 & 255), UInt8(rest >> 8 & 255), UInt8(rest & 255)]
        return Payload(head + Self.pattern[..<rest])
    }

    private func check(_ payload: Payload) {
        let bytes = payload.bytes
        if bytes.count == 126, bytes.allSatisfy({ $0 == UInt8(ascii: "t") }) { return }
        let isGood =
            bytes.count < 4
            ? bytes.elementsEqual(Self.pattern[..<bytes.count])
            : bytes[..<4].reduce(0) { $0 << 8 | Int($1) } == bytes.count - 4
                && bytes[4...].elementsEqual(Self.pattern[..<(bytes.count - 4)])
        if !isGood { log.problem("\(mode): a message of \(bytes.count) bytes arrives changed") }
    }
}
