import CommandSupport
import EmulatedNetworks
import Measuring
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports
import Workloads

/// `imbench open`: opens connections over each network, and measures what happens before the first message has its answer.
struct OpenCommand: RunnableCommand {
    static let command = Command(
        name: "open",
        summary: "open connections: round trips, bytes and time until the first message, plain and over TLS",
        examples: [
            .init("imbench open --network 4g --network satellite", "the start of a conversation over two networks"),
            .init("imbench open --transport ws,mqtt", "over loopback, where only the code costs time"),
        ]
    )

    var general = GeneralOptions()
    /// Names of transports, in the order of the command line.
    var transports: [String]
    /// The networks between client and server, one after the other. If empty, loopback.
    var networks: [Network] = []
    var placement = Placement.apart
    /// The connections of each row. As few as sentences about the differences of 25 rows need, because connections over a
    /// network take long.
    var repeats = 10
    var seed: UInt64?
    var report = ReportOptions()

    static func ownOptions(_ vocabulary: Vocabulary) -> OptionList<OpenCommand> {
        var list = OptionList(OpenCommand(transports: vocabulary.defaultTransports))
        list.add(.what, [Setting("transport", .names(vocabulary.transports), \.transports, "transports")])
        list.add(.path, [.network(\.networks)])
        list.add(
            .load,
            [
                .seed(\.seed),
                Setting("repeat", .integer(1...1000), \.repeats, "connections of each row"),
                .placement(\.placement),
            ]
        )
        list.add(ReportOptions.listWithCharts, at: \.report)
        return list
    }

    mutating func check(_ line: TypedLine, _ vocabulary: Vocabulary) throws(UsageError) {
        // By default, plain and encrypted connections are compared.
        if !line.has("transport") { transports = withEncrypted(transports, among: vocabulary.transports) }
        try networks.check(transports, vocabulary, of: Self.command, allowsNAT: true)
    }

    func prepare() throws {
        // A process with threads cannot move.
        if !networks.isEmpty { try NetworkLab.isolateProcess() }
    }

    func run() throws -> Int32 { try openConnections(self) }
}

private func openConnections(_ options: OpenCommand) throws -> Int32 {
    let target = try options.report.target()
    let seed = runSeed(options.seed)
    var results = OpenResults(run: RunResults(of: options, seed: seed))
    let (placement, remark) = ThreadPlacement.resolve(options.placement, cores: CoreMask.ofThisThread()?.cores)
    if let remark { results.run.remarks.append("--placement \(options.placement.rawValue): \(remark)") }
    results.run.placement = placement
    let lab = options.networks.isEmpty ? nil : try NetworkLab.forOption()
    defer { lab?.stop() }
    let stage = try Stage(registry: .measured, outside: [], seed: seed, placement: placement, lab: lab)
    let networks: [Network?] = options.networks.isEmpty ? [nil] : options.networks
    let kinds = OpenKind.all(of: options.transports)
    var progress = Progress(
        total: networks.count * kinds.count * (options.repeats + 1),
        isQuiet: options.general.isQuiet
    )
    for network in networks where !Interruption.isRequested {
        if let network { lab?.use(network, seed: seed) }
        var all = kinds.map { OpenSeries($0, network, lab, stage) }
        for (place, number) in OpenSeries.order(of: all.count, options.repeats, alternates: network == nil)
        where !Interruption.isRequested {
            progress.step(
                (network.map { $0.name + " " } ?? "") + kinds[place].name,
                figures: OpenRow.figures(results.rows + all.map(\.row))
            )
            // The first connection fills caches, and gets the session that the next one continues.
            all[place].open(isMeasured: number > 0, isRecorded: number == options.repeats)
        }
        results.rows += all.map(\.row)
        if let network, let lab {
            results.run.networks.append(NetworkUse(network, seed, lab, over: options.transports))
        }
    }
    progress.finish()
    results.run.end()
    try target.write(results.report, options.report)
    stage.close()
    return results.rows.contains { $0.failure != nil } ? ExitStatus.failed : ExitStatus.good
}

/// A transport, and how its connections are encrypted.
struct OpenKind: Sendable, Hashable {
    var transport: String
    /// For people.
    var security: String
    /// The options of the URL.
    var options: [Endpoint.Option] = []
    /// Whether each connection continues the TLS session of the one before.
    var isResumed = false

    /// For charts and sentences.
    var name: String { security == "none" ? transport : "\(transport) \(security)" }

    /// Plain transports once; encrypted ones with each version, and with a session that is continued.
    static func all(of transports: [String]) -> [OpenKind] {
        transports.flatMap { name -> [OpenKind] in
            let descriptor = TransportRegistry.measured.transports.first { $0.name == name }
            guard let descriptor, descriptor.isEncrypted else { return [OpenKind(transport: name, security: "none")] }
            let versions = descriptor.isDatagram ? [("DTLS 1.2", "1.2")] : [("TLS 1.2", "1.2"), ("TLS 1.3", "1.3")]
            let fresh = versions.map { title, version in
                OpenKind(
                    transport: name,
                    security: title,
                    options: [.init(name: "max-tls", value: version), .init(name: "resumption", value: "off")]
                )
            }
            let last = versions[versions.count - 1].0
            return fresh + [OpenKind(transport: name, security: last + ", resumed", isResumed: true)]
        }
    }
}

/// The connections of one kind over one network.
struct OpenRow: Sendable {
    var network: String?
    var kind: OpenKind
    /// Round trips until a message may leave, TCP's own included.
    var roundTrips: Int?
    /// Bytes of the handshakes in both directions, without TCP and IP headers.
    var bytes: Double?
    /// The time until the connection is open, in milliseconds.
    var opened: RepeatStatistics?
    /// The time until the first message has its answer, in milliseconds.
    var answered: RepeatStatistics?
    /// That time of each connection, in their order.
    var answers: [Double] = []
    /// The packets of one connection until the answer, if there is a network.
    var packets: [LinkRecord] = []
    /// The round trip of the network without waiting, in milliseconds; `nil` for loopback.
    var roundTrip: Double?
    var failure: String?

    /// The time until the answer that the round trips alone take: those until a message may leave, and that of the message.
    var expected: Double? { roundTrip.flatMap { time in roundTrips.map { Double($0 + 1) * time } } }

    /// Whether the answer took more than a fifth longer than that.
    var isLate: Bool {
        guard let expected, let median = answered?.median else { return false }
        return median > expected * 1.2
    }

    /// The times until the answer so far, in ms: a line for each kind, and a column for each network.
    static func figures(_ rows: [OpenRow]) -> Table {
        let networks = rows.map(\.network).distinct
        return Table(
            columns: [.text("answer ms")] + networks.map { .number($0 ?? "loopback") },
            rows: rows.map(\.kind).distinct.map { kind in
                let cells = networks.map { network -> Table.Cell in
                    let row = rows.first { $0.kind == kind && $0.network == network }
                    guard let row, row.failure == nil else { return Table.Cell("") }
                    return Table.Cell(row.answered?.median)
                }
                return Table.Row(cells: [Table.Cell(kind.name)] + cells)
            }
        )
    }
}

/// The connections of one kind over one network, which are opened one at a time.
struct OpenSeries {
    private var measured: OpenRow
    private var transport: (any Transport)?
    private var opened: [Double] = []
    private let lab: NetworkLab?
    private let stage: Stage
    private let limit: Duration

    /// The text of the messages.
    private static let message = Payload(Array("A first message, as long as many in a chat.".utf8))

    init(_ kind: OpenKind, _ network: Network?, _ lab: NetworkLab?, _ stage: Stage) {
        measured = OpenRow(network: network?.name, kind: kind)
        let delay = network?.delay ?? .zero
        measured.roundTrip = delay > .zero ? Double((delay * 2).wholeNanoseconds) / 1e6 : nil
        (self.lab, self.stage) = (lab, stage)
        limit = .seconds(20) + (network?.delay ?? .zero) * 20
        do throws(TransportError) {
            transport = try stage.transport(kind.transport, options: kind.options)
        } catch {
            measured.failure = stage.failure(error, of: kind.transport)
        }
    }

    /// The order of the connections of `count` kinds: the place of the kind, and the number of its connection. Number 0 is
    /// not measured.
    ///
    /// - Parameter alternates: whether the kinds take turns, so that a slow phase of the machine affects all of them. Over a
    ///   network, its delay is most of each time, and late packets of another kind would be recorded.
    static func order(of count: Int, _ repeats: Int, alternates: Bool) -> [(place: Int, number: Int)] {
        alternates
            ? (0...repeats).flatMap { number in (0..<count).map { (place: $0, number: number) } }
            : (0..<count).flatMap { place in (0...repeats).map { (place: place, number: $0) } }
    }

    /// The row of the connections so far.
    var row: OpenRow {
        var row = measured
        guard row.failure == nil else { return row }
        (row.opened, row.answered) = (RepeatStatistics(opened), RepeatStatistics(row.answers))
        if opened.isEmpty, Interruption.isRequested { row.failure = Interruption.sentence }
        return row
    }

    /// Opens a connection, unless one has failed. An interruption keeps the samples before it.
    mutating func open(isMeasured: Bool, isRecorded: Bool) {
        guard measured.failure == nil, let transport else { return }
        if isRecorded { lab?.startRecording() }
        let (lab, limit, loop) = (lab, limit, stage.clientLoop)
        let result: Result<Sample, TransportError> = runInterruptibly(on: loop) {
            do throws(TransportError) {
                return .success(try await OpenSeries.connectAndSend(transport, lab, limit, on: loop))
            } catch {
                return .failure(error)
            }
        }
        guard !Interruption.isRequested else { return }
        switch result {
        case .failure(let error): measured.failure = stage.failure(error, of: measured.kind.transport)
        case .success(let sample): if isMeasured { add(sample) }
        }
    }

    private mutating func add(_ sample: Sample) {
        guard sample.isResumed == measured.kind.isResumed else {
            measured.failure = "the TLS session was \(sample.isResumed ? "" : "not ")continued"
            return
        }
        (measured.roundTrips, measured.bytes) = (sample.roundTrips, sample.bytes)
        measured.packets = sample.packets
        opened.append(sample.opened)
        measured.answers.append(sample.answered)
    }

    private struct Sample: Sendable {
        var roundTrips: Int
        var bytes: Double
        var opened: Double
        var answered: Double
        var isResumed: Bool
        var packets: [LinkRecord]
    }

    /// Opens a connection, sends one message, waits for its answer, and closes. A lost datagram is sent again.
    private static func connectAndSend(
        _ transport: any Transport,
        _ lab: NetworkLab?,
        _ limit: Duration,
        on loop: EventLoop
    ) async throws(TransportError) -> Sample {
        let start = Clocks.monotonic()
        let connection = try await transport.connect(timeout: limit)
        let opened = Clocks.monotonic()
        let statistics = await connection.statistics()
        do throws(TransportError) {
            let attempts = connection.capabilities.isReliable ? 1 : 10
            for attempt in 1...attempts {
                do throws(TransportError) {
                    try await exchange(over: connection, limit / attempts, of: limit, on: loop)
                    break
                } catch {
                    guard error.code == .timedOut, attempt < attempts else { throw error }
                }
            }
        } catch {
            await connection.close()
            throw error
        }
        let answered = Clocks.monotonic()
        let packets = lab?.stopRecording() ?? []
        let isResumed = connection.encryption?.isResumed == true
        await connection.close()
        return Sample(
            roundTrips: statistics.handshakeRoundTrips,
            bytes: Double(statistics.handshakeBytes),
            opened: Double(opened - start) / 1e6,
            answered: Double(answered - start) / 1e6,
            isResumed: isResumed,
            packets: packets
        )
    }

    /// Sends the message, and waits for its answer.
    private static func exchange(
        over connection: any Connection,
        _ time: Duration,
        of limit: Duration,
        on loop: EventLoop
    ) async throws(TransportError) {
        switch await connection.send(message) {
        case .written, .acknowledged: break
        case .rejected(let error), .unknown(let error): throw error
        case .expired: throw TransportError(.timedOut, .open, "the message expired")
        }
        let sentence = "the first message has had no answer for \(limit.settingText)"
        let answer = try await within(time, on: loop, else: sentence) { () async throws(TransportError) in
            try await connection.receive()
        }
        guard answer != nil else {
            throw TransportError(.connectionLost, .open, "the server has closed the connection without an answer")
        }
    }
}
