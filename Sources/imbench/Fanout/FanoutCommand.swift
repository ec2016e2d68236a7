import CommandSupport
import EmulatedNetworks
import Measuring
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports
import Workloads

/// The rows of `imbench fanout`: one for each transport, server, size and number of subscribers that fit.
struct FanoutRows: Sendable, Equatable {
    static let mostSubscribers = 10_000

    /// Names of transports, in the order of the command line.
    var transports: [String]
    var servers = FanoutServerKind.allCases
    /// Bytes of text in a message.
    var sizes = [256]
    /// How many subscribers each message has.
    var subscribers = [1, 10, 100]
}

/// The messages of each row, and how long it is measured.
struct FanoutLoad: Sendable, Equatable {
    /// How long each row is measured, over all its repeats together.
    var duration = Duration.milliseconds(2500)
    /// How long each row runs before each repeat.
    var warmup = Duration.milliseconds(20)
    var repeats = 30
    /// Messages per second; `nil` is the closed loop.
    var rate: Double?
}

/// `imbench fanout`: one client publishes, and a number of subscribers receive each message.
struct FanoutCommand: RunnableCommand {
    static let command = Command(
        name: "fanout",
        summary: "send each message to many subscribers: time until they have it, and the server's cost",
        examples: [
            .init("imbench fanout --transport mqtt --subscribers 1000", "the embedded broker beside mosquitto"),
            .init("imbench fanout --server room --rate 50", "chat rooms, in the open loop"),
            .init("imbench fanout --assert 'ws.fan-out.100.last.p99_us < 20000'", "a check for scripts"),
        ]
    )

    var general = GeneralOptions()
    var rows: FanoutRows
    var load = FanoutLoad()
    /// Whether the encrypted counterparts of the transports are added.
    var usesTLS = false
    /// The network between clients and server; at most one. If empty, loopback.
    var networks: [Network] = []
    var placement = Placement.apart
    var seed: UInt64?
    var report = ReportOptions()
    var assertions: [Assertion] = []

    static func ownOptions(_ vocabulary: Vocabulary) -> OptionList<FanoutCommand> {
        var list = OptionList(FanoutCommand(rows: FanoutRows(transports: vocabulary.defaultTransports)))
        list.add(
            .what,
            [
                Setting("transport", .names(vocabulary.transports), \.rows.transports, "transports"),
                .tls(\.usesTLS),
                Setting(
                    "server",
                    .commaSeparated(.word),
                    \.rows.servers,
                    "servers, each for the transports that it has"
                ),
                Setting("size", .sizes, \.rows.sizes, "bytes of text in a message, as in 32,4KiB"),
            ]
        )
        list.add(.path, [.network(\.networks)])
        list.add(
            .load,
            [
                .seed(\.seed),
                Setting(
                    "subscribers",
                    .commaSeparated(.integer(1...FanoutRows.mostSubscribers), atMost: 16),
                    \.rows.subscribers,
                    "how many subscribers each message has"
                ),
                Setting(
                    "duration",
                    .duration(.milliseconds(1) ... .seconds(86_400)),
                    \.load.duration,
                    "how long each row is measured, over all repeats"
                ),
                Setting("warmup", .upToHour(), \.load.warmup, "how long each repeat runs before it is measured"),
                Setting("repeat", .integer(1...1000), \.load.repeats, "repeats of each row, in random order"),
                Setting(
                    "rate",
                    SettingFormat.messagesPerSecond.orAbsent(
                        "the closed loop: a message follows when all have the one before"
                    ),
                    \.load.rate,
                    "open loop: messages per second, independent of the deliveries"
                ),
                .placement(\.placement, clients: "clients"),
            ]
        )
        list.add(ReportOptions.listWithCharts, at: \.report)
        list.add(
            .report,
            [.assertions(.fanout, vocabulary, \.assertions)]
        )
        return list
    }

    mutating func check(_: TypedLine, _ vocabulary: Vocabulary) throws(UsageError) {
        if usesTLS { rows.transports = withEncrypted(rows.transports, among: vocabulary.transports) }
        try networks.check(rows.transports, vocabulary, limit: 1, of: Self.command, allowsNAT: false)
        let transports = TransportRegistry.measured.transports.filter { rows.transports.contains($0.name) }
        let servers = rows.servers.filter { transports.contains(where: $0.serves) }
        guard !servers.isEmpty else {
            let known = FanoutServerKind.allCases.filter { transports.contains(where: $0.serves) }.map(\.rawValue)
            throw UsageError(
                "--server \(rows.servers.map(\.rawValue).joined(separator: ",")) does not serve "
                    + "--transport \(rows.transports.joined(separator: ",")); allowed is \(known.joined(separator: ", "))"
            )
        }
        for assertion in assertions {
            try assertion.check(
                rows.transports,
                servers.map(\.rawValue),
                rows.subscribers.map { String($0) },
                rows.sizes.map { String($0) }
            )
        }
    }

    func prepare() throws {
        // A process with threads cannot move.
        if !networks.isEmpty { try NetworkLab.isolateProcess() }
    }

    func run() throws -> Int32 { try fanout(self) }
}

private func fanout(_ options: FanoutCommand) throws -> Int32 {
    let target = try options.report.target()
    let seed = runSeed(options.seed)
    var results = FanoutResults(run: RunResults(of: options, seed: seed))
    if results.run.environment.isDebugBuild { remark("this is a debug build", isQuiet: options.general.isQuiet) }
    let (placement, remark) = ThreadPlacement.resolve(options.placement, cores: CoreMask.ofThisThread()?.cores)
    if let remark { results.run.remarks.append("--placement \(options.placement.rawValue): \(remark)") }
    results.run.placement = placement
    let lab = options.networks.isEmpty ? nil : try NetworkLab.forOption()
    defer { lab?.stop() }
    let stage = try Stage(registry: .measured, outside: [], seed: seed, placement: placement, lab: lab)
    if let network = options.networks.first { lab?.use(network, seed: seed) }
    let delay = options.networks.first?.delay ?? .zero
    let limits = FanoutClients.Limits(
        connect: (lab == nil ? .seconds(5) : .seconds(20)) + delay * 20,
        slack: delay * 20
    )
    let bench = FanoutBench(options.rows, options.load, stage: stage, seed: seed, limits: limits)
    let (measured, planned) = measure(bench, options, seed)
    results.rows = bench.results
    if let network = options.networks.first, let lab {
        results.run.networks = [NetworkUse(network, seed, lab, over: options.rows.transports)]
    }
    results.run.end()
    if results.run.wasCutShort {
        results.run.remarks.append(
            "interrupted after \(measured) of \(planned) measurements, \(options.load.repeats) of each row"
        )
    }
    try target.write(results.report, options.report)
    bench.close()
    stage.close()
    return options.assertions.status(of: results.rows, hasFailed: results.rows.contains(where: \.hasFailed))
}

/// Measures all repeats of the rows, interleaved in an order drawn from the seed.
///
/// - Returns: how many measurements were done before an interruption, and how many were planned.
private func measure(_ bench: FanoutBench, _ options: FanoutCommand, _ seed: UInt64) -> (measured: Int, planned: Int) {
    var generator = RandomSource.seeded(seed)
    var measured = 0
    let planned = options.load.repeats * bench.keys.count
    var progress = Progress(total: planned, isQuiet: options.general.isQuiet)
    for _ in 0..<options.load.repeats {
        for key in bench.keys.shuffled(using: &generator) where !Interruption.isRequested {
            progress.step("\(key.transport) \(key.server.rawValue) \(key.subscribers)", figures: bench.figures)
            bench.measure(key, duration: options.load.duration / options.load.repeats)
            if !Interruption.isRequested { measured += 1 }
        }
    }
    progress.finish()
    return (measured, planned)
}
