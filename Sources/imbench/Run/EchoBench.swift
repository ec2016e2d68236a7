import Codecs
import CommandSupport
import EmulatedNetworks
import Measuring
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports
import Workloads

/// The rows of a run. Each is set up once, and then measured in slices that are interleaved with all other rows and floors.
final class EchoBench {
    /// One row.
    struct Key: Sendable, Hashable {
        var transport: String
        var codec: WireFormat
        /// Bytes of text.
        var size: Int
        /// Where a picture goes at the same time.
        var picture = PicturePlace.none

        /// For the progress.
        var name: String {
            "\(transport) \(codec.name) \(size)" + (picture == .none ? "" : ", picture on the \(picture.words)")
        }
    }

    private struct Entry {
        var row: ResultRow
        /// Bytes of the encoded message.
        var encoded = 0
        var clients: [EchoClient] = []
        /// The second connections, for pictures.
        var others: [any Connection] = []
        var pictures = Histogram()
        var costs = ConnectionCosts()
        var rtt = Histogram()
        var service = Histogram()
        var repeats: RepeatedValues = [:]
        /// Open loop: messages sent per second, in each repeat.
        var sendRates: [Double] = []
        var answered = 0
        var cpu: Int64 = 0

        mutating func repeated(_ metric: RepeatedMetric, _ value: Double?) {
            repeats[metric, default: []].append(value)
        }
    }

    /// Time limits of a server.
    struct Limits {
        /// The time to accept a connection.
        var connect = Duration.seconds(5)
        /// The time to answer a ping.
        var ping = Duration.seconds(5)
        /// The time to answer any message, in nanoseconds; `nil` is ``EchoClient/answerTimeout(_:)``.
        var answer: Int64?
        /// The network between client and server, which lengthens the default of `answer`.
        var network = Network.free
        /// Whether the keepalive is measured. A lossy network may lose its pings.
        var measuresKeepalive = true
        /// The descriptors that this process may have; `nil` raises the soft limit to the hard one.
        var descriptors: Int?
    }

    /// Descriptors for floors, loops, servers and files.
    static let otherDescriptors = 64
    /// The seed of the texts of a run. They are the same in all runs, so that runs can be compared.
    static let textSeed: UInt64 = 1

    let keys: [Key]
    private let stage: Stage
    private let rows: RowOptions
    private let load: EchoLoad
    private let limits: Limits
    private var entries: [Key: Entry] = [:]
    /// Bytes a day, by transport; they are the same for all codecs and sizes.
    private var keepalive: [String: Double?] = [:]
    /// Why no row of a transport can be measured. Its first row fails with this.
    private var failures: [String: (sentence: String, error: TransportError?)] = [:]
    /// The descriptors that this process may have, and how many of them are left for connections.
    private let descriptors: Int
    private(set) var descriptorsLeft: Int

    /// Opens the connections of all rows.
    ///
    /// - Parameter opening: called before those of each row.
    init(
        _ rows: RowOptions,
        _ load: EchoLoad,
        stage: Stage,
        seed: UInt64,
        limits: Limits = Limits(),
        opening: (Key) -> Void = { _ in }
    ) {
        (self.rows, self.load) = (rows, load)
        self.limits = limits
        self.stage = stage
        descriptors = limits.descriptors ?? raiseDescriptorLimit()
        descriptorsLeft = descriptors - Self.otherDescriptors
        keys = rows.rowTransports.flatMap { transport in
            rows.codecs.compactMap(WireFormat.init).flatMap { codec in
                rows.sizes.flatMap { size in
                    load.picturePlaces.map { Key(transport: transport, codec: codec, size: size, picture: $0) }
                }
            }
        }
        for endpoint in stage.outside where rows.rowTransports.contains(endpoint.scheme) { probe(endpoint, seed) }
        for key in keys {
            if !Interruption.isRequested { opening(key) }
            entries[key] = open(key, seed)
        }
    }

    /// How many rows there will be.
    static func count(_ rows: RowOptions, _ load: EchoLoad) -> Int { rows.count * load.picturePlaces.count }

    /// Whether a row has failed, and no other one can be measured.
    var haveAllFailed: Bool {
        let rows = entries.values.map(\.row)
        return rows.contains(where: \.hasFailed) && rows.allSatisfy { $0.outcome != .measured }
    }

    /// Sends one message to an outside server, so that a dead or a wrong server is known before anything is measured.
    private func probe(_ endpoint: Endpoint, _ seed: UInt64) {
        guard !Interruption.isRequested, let format = rows.codecs.compactMap(WireFormat.init).first else { return }
        do {
            let transport = try stage.transport(endpoint.scheme)
            let bytes = try format.codec().encode(ChatMessage.sample(size: rows.sizes.min() ?? 1, seed: seed))
            let message = Payload(bytes, kind: format.isText ? .text : .binary)
            let probe = EchoProbe(message: message, limits: limits, loop: stage.clientLoop)
            let failure = runInterruptibly(on: stage.clientLoop) { await probe.failure(of: transport) }
            if let failure { failures[endpoint.scheme] = (stage.failure(failure, of: endpoint.scheme), failure) }
        } catch {
            guard !Interruption.isRequested else { return }
            failures[endpoint.scheme] = (stage.failure(error, of: endpoint.scheme), error as? TransportError)
        }
    }

    /// The sizes of the encoded messages, at which the floors are measured.
    static func encodedSizes(_ rows: RowOptions, seed: UInt64) -> [Int] {
        let sizes = rows.codecs.compactMap(WireFormat.init).flatMap { codec in
            rows.sizes.compactMap { size in
                try? codec.codec().encode(ChatMessage.sample(size: size, seed: seed)).count
            }
        }
        return Array(Set(sizes)).sorted()
    }

    // MARK: Setting up

    private func open(_ key: Key, _ seed: UInt64) -> Entry {
        var row = ResultRow(transport: key.transport, codec: key.codec.name, size: key.size)
        row.loop = load.rate == nil ? .closed : .open
        row.targetRate = load.rate.map { $0 * Double(load.connections) }
        row.picture = load.pictureBytes.map { PictureFigures(place: key.picture, bytes: $0) }
        var entry = Entry(row: row)
        guard !Interruption.isRequested else { return entry }
        let message = ChatMessage.sample(size: key.size, seed: seed)
        do {
            entry.encoded = try key.codec.codec().encode(message).count
            let count = load.connections
            // The second connections come after the first ones.
            let connectionCount = key.picture == .second ? 2 * count : count
            // This process has both ends of the connections, unless the server is an outside one. All rows are open at once.
            let needed = connectionCount * (stage.outside.contains { $0.scheme == key.transport } ? 1 : 2)
            guard needed <= descriptorsLeft else {
                entry.row.outcome = .skipped(
                    "it needs \(needed) descriptors beside those of the rows above; a process may have \(descriptors) "
                        + "(ulimit -Hn)"
                )
                return entry
            }
            let transports = try (0..<connectionCount).map { _ in try stage.transport(key.transport) }
            if let limit = transports.first?.capabilities.maximumMessageSize, entry.encoded > limit {
                entry.row.outcome = .skipped(
                    "the encoded message has \(entry.encoded) bytes; the limit of \(key.transport) is \(limit)"
                )
                return entry
            }
            if load.pictureBytes != nil, let capabilities = transports.first?.capabilities,
                let obstacle = Picture.obstacle(key.transport, capabilities)
            {
                entry.row.outcome = .skipped(obstacle)
                return entry
            }
            if let failure = failures[key.transport] {
                entry.row.fail(failure.sentence, failure.error)
                return entry
            }
            let loop = stage.clientLoop
            let inFlight = count * load.inFlight * (entry.encoded + (load.pictureBytes ?? 0))
            let slack = limits.network.delay * 20 + limits.network.timeToTransfer(inFlight) * 2
            let (limits, isKeepaliveKnown) = (limits, !limits.measuresKeepalive || keepalive[key.transport] != nil)
            let isPlain = key.picture == .none
            let opened = runInterruptibly(on: loop) {
                do throws(TransportError) {
                    // A ping comes first, because it detects a silent server early.
                    let bytes =
                        isKeepaliveKnown
                        ? nil
                        : try await ConnectionCosts.keepaliveBytesPerDay(transports[0], on: loop, limits)
                    // They are the same beside a picture.
                    let costs =
                        isPlain
                        ? try await ConnectionCosts.measure(transports[0], timeout: limits.connect) : ConnectionCosts()
                    return Result<_, TransportError>.success(
                        (try await Self.connect(transports, timeout: limits.connect), costs, bytes)
                    )
                } catch {
                    return .failure(error)
                }
            }
            let (connections, costs, bytes) = try opened.get()
            entry.costs = costs
            descriptorsLeft -= needed
            if !isKeepaliveKnown { keepalive[key.transport] = .some(try withIdleTraffic(bytes, of: key.transport)) }
            entry.others = Array(connections.dropFirst(count))
            entry.clients = connections.prefix(count).enumerated().map { index, connection in
                let picture = load.pictureBytes.flatMap { bytes -> PictureSender.Plan? in
                    switch key.picture {
                    case .none: nil
                    case .same: PictureSender.Plan(connection: connection, bytes: bytes, isShared: true)
                    case .second:
                        PictureSender.Plan(connection: connections[count + index], bytes: bytes, isShared: false)
                    }
                }
                return EchoClient(
                    connection,
                    codec: key.codec.codec(),
                    message: message,
                    answerTimeout: limits.answer ?? EchoClient.answerTimeout(connection.capabilities)
                        + slack.wholeNanoseconds,
                    picture: picture,
                    on: loop
                )
            }
        } catch {
            guard !Interruption.isRequested else { return entry }
            let failure = (sentence: stage.failure(error, of: key.transport), error: error as? TransportError)
            failures[key.transport] = failure
            entry.row.fail(failure.sentence, failure.error)
        }
        return entry
    }

    /// One connection of each transport, or none.
    private static func connect(
        _ transports: [any Transport],
        timeout: Duration
    ) async throws(TransportError) -> [any Connection] {
        var connections: [any Connection] = []
        do throws(TransportError) {
            for transport in transports { connections.append(try await transport.connect(timeout: timeout)) }
        } catch {
            for connection in connections { await connection.close() }
            throw error
        }
        return connections
    }

    // MARK: Measuring

    /// Measures one repeat of one row, after a warm-up that is not recorded. Ends early when interrupted. A row that
    /// has failed is not measured again.
    ///
    /// - Parameter messages: the most messages of all connections together; each of them sends at least one.
    func measure(_ key: Key, duration: Duration, messages: Int) {
        guard var entry = entries[key], entry.row.outcome == .measured, !entry.clients.isEmpty else { return }
        defer { entries[key] = entry }
        let interval = load.rate.map { Int64(1e9 / $0) }
        var slice = EchoClient.Slice(
            end: 0,
            inFlight: load.inFlight,
            interval: interval,
            delay: load.delayPercent
        )
        if load.warmup > .zero {
            slice.end = Clocks.now().advanced(by: load.warmup).nanoseconds
            _ = run(entry.clients.map { ($0, slice) })
            noteFailure(of: entry.clients, in: &entry.row)
            guard entry.row.outcome == .measured, !Interruption.isRequested else { return }
        }
        slice.end = Clocks.now().advanced(by: duration).nanoseconds
        slice.hasPicture = key.picture != .none
        let before = statistics(entry.clients)
        let began = Clocks.monotonic()
        let shares = RepeatPlan.shares(of: max(messages, entry.clients.count), among: entry.clients.count)
        let outcomes = run(
            zip(entry.clients, shares).map { client, share in
                slice.messages = share
                return (client, slice)
            }
        )
        // Beside a picture, bytes and CPU time are not those of the messages alone.
        if !slice.hasPicture {
            // In an open loop, a connection also costs bytes from its last message to the time at which the next one would
            // follow. The wait for the last answers is not part of that schedule.
            let scheduled = interval == nil ? nil : outcomes.map(\.elapsed).max()
            if let scheduled, case let rest = began + scheduled - Clocks.monotonic(), rest > 0 {
                let loop = stage.clientLoop
                runInterruptibly(on: loop) { await loop.pause(.nanoseconds(rest)) }
            }
            entry.costs.add(
                from: before,
                to: statistics(entry.clients),
                in: scheduled ?? Clocks.monotonic() - began
            )
        }
        noteFailure(of: entry.clients, in: &entry.row)

        var (rtt, pictures) = (Histogram(), Histogram())
        for outcome in outcomes {
            rtt.merge(outcome.rtt)
            if let picture = outcome.picture { pictures.merge(picture) }
            entry.service.merge(outcome.service)
            entry.answered += outcome.answered
        }
        // All clients share one thread, whose CPU time includes all of them. So the largest value is the total.
        let cpu = outcomes.map(\.cpu).max() ?? 0
        let answered = outcomes.reduce(0) { $0 + $1.answered }
        entry.cpu += cpu
        entry.rtt.merge(rtt)
        entry.repeated(.p50, rtt.median.map { Double($0) / 1000 })
        entry.repeated(.p99, rtt.percentile(990).map { Double($0) / 1000 })
        entry.repeated(.throughput, Self.rate(outcomes, isOpenLoop: interval != nil, of: \.answered))
        if interval != nil, let rate = Self.rate(outcomes, isOpenLoop: true, of: \.sent) {
            entry.sendRates.append(rate)
        }
        entry.repeated(.cpu, answered > 0 && !slice.hasPicture ? Double(cpu) / 1000 / Double(answered) : nil)
        guard slice.hasPicture else { return }
        entry.pictures.merge(pictures)
        entry.row.picture?.repeats.append(pictures.mean.map { $0 / 1e6 })
    }

    private func run(_ slices: [(client: EchoClient, slice: EchoClient.Slice)]) -> [EchoClient.Outcome] {
        let loop = stage.clientLoop
        return runInterruptibly(on: loop) {
            await withTaskGroup(of: EchoClient.Outcome.self) { group in
                for (client, slice) in slices {
                    group.addTask(executorPreference: loop) { await client.run(slice) }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
        }
    }

    /// Messages per second of all clients; `nil` without any time. Clients of the closed loop share the time of the last one.
    /// In the open loop each has the time of its own schedule.
    static func rate(
        _ outcomes: [EchoClient.Outcome],
        isOpenLoop: Bool,
        of count: (EchoClient.Outcome) -> Int
    ) -> Double? {
        let elapsed = outcomes.map(\.elapsed).max() ?? 0
        guard elapsed > 0 else { return nil }
        return outcomes.reduce(0) { sum, outcome in
            let time = isOpenLoop ? outcome.elapsed : elapsed
            return time > 0 ? sum + Double(count(outcome)) * 1e9 / Double(time) : sum
        }
    }

    /// A row has failed as soon as one of its clients has.
    private func noteFailure(of clients: [EchoClient], in row: inout ResultRow) {
        let first = runBlocking(on: stage.clientLoop) {
            clients.lazy.compactMap { client in client.summary.failure.map { ($0, client.error) } }.first
        }
        if let (sentence, error) = first { row.fail(sentence, error) }
    }

    private func statistics(_ clients: [EchoClient]) -> [ConnectionStatistics] {
        runBlocking(on: stage.clientLoop) {
            var all: [ConnectionStatistics] = []
            for client in clients { all.append(await client.connection.statistics()) }
            return all
        }
    }

    // MARK: Results

    /// The rows of one line of the figures.
    private struct Line: Hashable {
        var transport: String
        var picture: PicturePlace
    }

    /// The medians so far, in µs: a line for each transport, and a column for each codec and size.
    var figures: Table {
        let columns = keys.map { key in (key.codec, key.size) }
        var named: [(codec: WireFormat, size: Int)] = []
        for column in columns where !named.contains(where: { $0 == column }) { named.append(column) }
        return Table(
            columns: [.text("p50 µs")] + named.map { .number("\($0.codec.name) \($0.size)") },
            rows: keys.map { Line(transport: $0.transport, picture: $0.picture) }.distinct.map { line in
                let cells = named.map { column -> Table.Cell in
                    let key = Key(
                        transport: line.transport,
                        codec: column.codec,
                        size: column.size,
                        picture: line.picture
                    )
                    guard let entry = entries[key], entry.row.outcome == .measured else { return Table.Cell("") }
                    return Table.Cell(RepeatStatistics(entry.repeats.known(.p50))?.median)
                }
                let place = line.picture == .none ? "" : ", \(line.picture.words)"
                return Table.Row(cells: [Table.Cell(line.transport + place)] + cells)
            }
        )
    }

    /// The finished rows, each beside the floor that carries as many bytes.
    ///
    /// - Parameter floors: `nil` over a network, whose delay is most of every round trip.
    func results(_ floors: FloorBench? = nil) -> [ResultRow] {
        keys.compactMap { key in entries[key].map { finish(key, $0, floors) } }
    }

    private func finish(_ key: Key, _ entry: Entry, _ floors: FloorBench?) -> ResultRow {
        var row = entry.row
        for client in entry.clients {
            let (accounts, errors, _) = runBlocking(on: stage.clientLoop) { client.summary }
            row.accounts += accounts
            row.errors += errors
            row.picture?.pieces += runBlocking(on: stage.clientLoop) { client.pieces }
        }
        row.picture?.count = entry.pictures.count
        // A run has few pictures, so even that of a single one is shown.
        row.picture?.median = entry.pictures.percentile(500, beyond: 0).map { Double($0) / 1e6 }
        row.picture?.minimum = entry.pictures.minimum.map { Double($0) / 1e6 }
        row.picture?.maximum = entry.pictures.maximum.map { Double($0) / 1e6 }
        var topic = 0
        if let client = entry.clients.first {
            let more = TransportMode.named(key.transport)?.guarantee
            row.guarantee = client.connection.capabilities.guarantee + (more.map { ", \($0)" } ?? "")
            topic = runBlocking(on: stage.clientLoop) { client.topicBytes }
        }
        guard case .measured = row.outcome, entry.answered > 0 else {
            if row.outcome == .measured, Interruption.isRequested {
                row.outcome = .skipped("not measured: interrupted before")
            }
            return row
        }
        row.rtt = Latency(entry.rtt)
        row.distribution = entry.rtt.distribution
        if row.loop == .open { row.service = Latency(entry.service) }
        let floor = floorKey(key, entry.encoded)
        row.repeats = entry.repeats
        row.estimateMedian()
        row.compare(with: floors?.result(floor))
        row.throughput = RepeatStatistics(row.repeats.known(.throughput))?.median
        row.sendRate = RepeatStatistics(entry.sendRates)?.median
        if key.picture == .none { row.cpuPerMessage = Double(entry.cpu) / 1000 / Double(entry.answered) }
        row.bytesPerMessage = entry.costs.perMessage(text: key.size, encoded: entry.encoded, topic: topic)
        if row.loop == .open { row.bytesPerDay = entry.costs.bytesPerDay }
        row.handshake = entry.costs.handshake
        row.keepaliveBytesPerDay = keepalive[key.transport] ?? nil
        return row
    }

    /// The bytes of a day's pings, and of what comes beside them on an idle connection; `nil` if that is not known.
    private func withIdleTraffic(_ pings: Double?, of transport: String) throws -> Double? {
        guard let pings, var idle = IdleTraffic(of: transport) else { return pings }
        // Only an embedded server can be told to send it often.
        guard !stage.outside.contains(where: { $0.scheme == transport }) else { return nil }
        try idle.measure(transport, on: stage)
        return idle.bytesPerDay.map { $0 + pings }
    }

    /// The floor of an unreliable transport is UDP. The floor of any other is TCP.
    private func floorKey(_ key: Key, _ bytes: Int) -> FloorBench.Key {
        let isReliable = entries[key]?.clients.first?.connection.capabilities.isReliable ?? true
        return FloorBench.Key(kind: isReliable ? .tcpEpoll : .udpEpoll, size: bytes)
    }

    /// Closes all connections concurrently, because each one without an answer runs into its timeout. Does not wait for the
    /// answers when interrupted.
    func close() {
        let connections = entries.values.flatMap { $0.clients.map(\.connection) + $0.others }
        let loop = stage.clientLoop
        runInterruptibly(on: loop) {
            await withTaskGroup(of: Void.self) { group in
                for connection in connections { group.addTask(executorPreference: loop) { await connection.close() } }
            }
        }
    }
}

extension ResultRow {
    /// Makes the median of the repeats' medians the median of the row, so that it lies in its interval. With too few repeats
    /// that have a median, the one of all round trips together stays, without an interval.
    mutating func estimateMedian() {
        let (all, known) = (repeats[.p50] ?? [], repeats.known(.p50))
        guard 2 * known.count > all.count, let statistics = RepeatStatistics(known) else { return }
        rtt?.p50 = statistics.median
        rttP50Spread = statistics
    }

    /// Puts the row beside its floor, and gives their ratio unless the floor has a heavy tail.
    mutating func compare(with floor: FloorResult?) {
        guard let floor else { return }
        let medians = floor.repeats[.p50] ?? []
        self.floor = floor.kind.rawValue
        floorP50 = RepeatStatistics(medians.compactMap { $0 })?.median
        ratioNote = floor.heavyTail.map {
            "p90 is \(fixed($0, 1)) times p50 in its floor \(floor.kind.rawValue) \(floor.size)"
        }
        guard ratioNote == nil else { return }
        repeats[.ratioToFloor] = RepeatStatistics.ratios(repeats[.p50] ?? [], to: medians)
        ratioToFloor = RepeatStatistics(repeats.known(.ratioToFloor))
    }
}
