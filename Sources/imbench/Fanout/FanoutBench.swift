import Codecs
import CommandSupport
import Measuring
import Reporting
import SocketIO
import TransportAPI
import Transports
import Workloads

/// The rows of `imbench fanout`. Each repeat of a row has its own server and its own connections, so that rows do not affect
/// each other.
final class FanoutBench {
    /// One row.
    struct Key: Sendable, Hashable {
        var transport: String
        var server: FanoutServerKind
        var subscribers: Int
        /// Bytes of text.
        var size: Int
    }

    private struct Entry {
        var row: FanoutRow
        var times = FanoutCounts.Times()
        /// For each repeat, the median times of the first, half and last subscriber, and the processor time per delivery, in
        /// microseconds.
        var firstP50: [Double?] = []
        var halfP50: [Double?] = []
        var lastP50: [Double?] = []
        var cpuRepeats: [Double?] = []
        var rates: [Double] = []
        var delivered = 0
        /// The deliveries of the repeats whose processor time is known, and that time.
        var cpu: (deliveries: Int, nanoseconds: Int64) = (0, 0)
    }

    let keys: [Key]
    private let load: FanoutLoad
    private let stage: Stage
    private let seed: UInt64
    private let limits: FanoutClients.Limits
    private var entries: [Key: Entry] = [:]
    /// The mosquitto processes, by transport.
    private var brokers: [String: FanoutServer] = [:]
    private var repeats = 0

    init(
        _ rows: FanoutRows,
        _ load: FanoutLoad,
        stage: Stage,
        seed: UInt64,
        limits: FanoutClients.Limits = FanoutClients.Limits()
    ) {
        (self.load, self.stage, self.seed, self.limits) = (load, stage, seed, limits)
        let transports = TransportRegistry.measured.transports
        keys = rows.transports.compactMap { name in transports.first { $0.name == name } }.flatMap { transport in
            rows.servers.filter { $0.serves(transport) }.flatMap { server in
                rows.sizes.flatMap { size in
                    rows.subscribers.map {
                        Key(transport: transport.name, server: server, subscribers: $0, size: size)
                    }
                }
            }
        }
        for key in keys { entries[key] = Entry(row: row(key)) }
    }

    /// A row without numbers, and why there will be none.
    private func row(_ key: Key) -> FanoutRow {
        var row = FanoutRow(
            transport: key.transport,
            server: key.server,
            subscribers: key.subscribers,
            size: key.size,
            targetRate: load.rate
        )
        let transport = TransportRegistry.measured.transports.first { $0.name == key.transport }
        // This process has both ends of the connections, unless the server is another process.
        let ends = key.server == .mosquitto ? 1 : 2
        let (needed, limit) = (ends * (key.subscribers + 1) + 64, raiseDescriptorLimit())
        if let obstacle = transport.flatMap(key.server.obstacle) {
            row.outcome = .skipped(obstacle)
        } else if needed > limit {
            row.outcome = .skipped("it needs \(needed) descriptors; a process may have \(limit) (ulimit -Hn)")
        }
        return row
    }

    // MARK: Measuring

    /// Measures one repeat of a row, after a warm-up that is not recorded. Ends early when interrupted. A row that has failed
    /// is not measured again.
    func measure(_ key: Key, duration: Duration, messages: Int = .max) {
        guard var entry = entries[key], entry.row.outcome == .measured else { return }
        defer { entries[key] = entry }
        repeats += 1
        do {
            let transport = try TransportRegistry.measured.transport(named: key.transport)
            let message = try FanoutMessage(size: key.size, codec: .json, seed: seed)
            let server = try server(key, transport)
            defer { if key.server != .mosquitto { runBlocking(on: stage.serverLoop) { await server.stop() } } }
            let (loop, limits, topic) = (stage.clientLoop, limits, "fanout-\(seed)-\(repeats)")
            let opened: Result<FanoutClients, TransportError> = runInterruptibly(on: loop) {
                do throws(TransportError) {
                    return .success(
                        try await FanoutClients.connect(
                            key.server.transport(transport),
                            server.endpoint,
                            subscribers: key.subscribers,
                            message,
                            topic: topic,
                            limits,
                            on: loop
                        )
                    )
                } catch {
                    return .failure(error)
                }
            }
            let clients = try opened.get()
            measure(clients, server, duration, messages, &entry)
            runInterruptibly(on: loop) { await clients.close() }
        } catch {
            guard !Interruption.isRequested else { return }
            let isTooLarge = (error as? TransportError)?.code == .messageTooLarge
            entry.row.outcome = isTooLarge ? .skipped(sentence(of: error)) : .failed(sentence(of: error))
        }
    }

    private func measure(
        _ clients: FanoutClients,
        _ server: FanoutServer,
        _ duration: Duration,
        _ messages: Int,
        _ entry: inout Entry
    ) {
        let (loop, interval) = (stage.clientLoop, load.rate.map { Int64(1e9 / $0) })
        if load.warmup > .zero {
            let end = Clocks.now().advanced(by: load.warmup).nanoseconds
            runInterruptibly(on: loop) { _ = await clients.run(.init(end: end, interval: interval)) }
        }
        let end = Clocks.now().advanced(by: duration).nanoseconds
        let (outcome, summary, cpu) = runInterruptibly(on: loop) {
            let before = await server.cpu()
            let outcome = await clients.run(.init(end: end, messages: messages, interval: interval))
            let after = await server.cpu()
            return (outcome, clients.summary, before.flatMap { before in after.map { $0 - before } })
        }
        entry.row.accounts += summary.accounts
        entry.row.messages += summary.messages
        if let failure = summary.failure { entry.row.outcome = .failed(failure) }
        guard !Interruption.isRequested || outcome.delivered > 0 else { return }
        guard outcome.delivered > 0 else {
            // A repeat without a delivery has no numbers. The row fails only if all its repeats are like that.
            entry.firstP50.append(nil)
            entry.halfP50.append(nil)
            entry.lastP50.append(nil)
            entry.cpuRepeats.append(nil)
            return
        }
        entry.row.measuredRepeats += 1
        entry.delivered += outcome.delivered
        entry.times.merge(outcome.times)
        entry.rates.append(Double(outcome.delivered) * 1e9 / Double(outcome.elapsed))
        entry.firstP50.append(outcome.times.first.median.map { Double($0) / 1000 })
        entry.halfP50.append(outcome.times.half.median.map { Double($0) / 1000 })
        entry.lastP50.append(outcome.times.last.median.map { Double($0) / 1000 })
        entry.cpuRepeats.append(cpu.map { Double($0) / 1000 / Double(outcome.delivered) })
        if let cpu { entry.cpu = (entry.cpu.deliveries + outcome.delivered, entry.cpu.nanoseconds + cpu) }
    }

    private func server(_ key: Key, _ transport: TransportDescriptor) throws(TransportError) -> FanoutServer {
        if key.server == .mosquitto, let running = brokers[key.transport] { return running }
        let (loop, host) = (stage.serverLoop, stage.host)
        let started: Result<FanoutServer, TransportError> = runInterruptibly(on: loop) {
            do throws(TransportError) {
                let clients = key.subscribers + 1
                return .success(
                    try await FanoutServer.start(key.server, transport, host: host, clients: clients, on: loop)
                )
            } catch {
                return .failure(error)
            }
        }
        let server = try started.get()
        if key.server == .mosquitto { brokers[key.transport] = server }
        return server
    }

    // MARK: Results

    /// The medians so far, in µs: a line for each transport and server, and a column for each number of subscribers and size.
    var figures: Table {
        let hasSizes = keys.map(\.size).distinct.count > 1
        func line(_ key: Key) -> String { "\(key.transport) \(key.server.rawValue)" }
        func column(_ key: Key) -> String { "\(key.subscribers)" + (hasSizes ? " × \(key.size)" : "") }
        let (lines, columns) = (keys.map { line($0) }.distinct, keys.map { column($0) }.distinct)
        return Table(
            columns: [.text("last p50 µs")] + columns.map { .number("\($0)") },
            rows: lines.map { name in
                let cells = columns.map { title -> Table.Cell in
                    let key = keys.first { line($0) == name && column($0) == title }
                    guard let key, let entry = entries[key], entry.row.outcome == .measured else {
                        return Table.Cell("")
                    }
                    return Table.Cell(RepeatStatistics(entry.lastP50.compactMap { $0 })?.median)
                }
                return Table.Row(cells: [Table.Cell(name)] + cells)
            }
        )
    }

    /// The finished rows.
    var results: [FanoutRow] {
        keys.compactMap { key in entries[key].map(finish) }
    }

    private func finish(_ entry: Entry) -> FanoutRow {
        var row = entry.row
        guard row.outcome == .measured else { return row }
        guard entry.delivered > 0 else {
            if Interruption.isRequested {
                row.outcome = .skipped(Interruption.sentence)
            } else if !entry.lastP50.isEmpty {
                row.outcome = .failed("no subscriber has received any of \(row.messages) messages")
            }
            return row
        }
        row.first = Self.latency(entry.times.first, entry.firstP50)
        row.half = Self.latency(entry.times.half, entry.halfP50)
        row.last = Self.latency(entry.times.last, entry.lastP50)
        row.lastP50Repeats = entry.lastP50
        row.cpuRepeats = entry.cpuRepeats
        row.deliveryRate = RepeatStatistics(entry.rates)?.median
        if entry.cpu.deliveries > 0 {
            row.cpuPerDelivery = Double(entry.cpu.nanoseconds) / 1000 / Double(entry.cpu.deliveries)
        }
        return row
    }

    /// The times of all repeats. Their median is that of the repeats' medians, which the sentences compare too. If few repeats
    /// have one, it is that of all times together.
    static func latency(_ times: Histogram, _ medians: [Double?]) -> Latency {
        var latency = Latency(times)
        let known = medians.compactMap { $0 }
        if 2 * known.count > medians.count, let median = RepeatStatistics(known)?.median { latency.p50 = median }
        return latency
    }

    /// Ends the mosquitto processes.
    func close() {
        for server in brokers.values { runBlocking(on: stage.serverLoop) { await server.stop() } }
        brokers = [:]
    }
}
