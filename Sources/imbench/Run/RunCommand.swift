import CommandSupport
import EmulatedNetworks
import Measuring
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports
import Workloads

/// `imbench run`: measures every transport, codec and size.
struct RunCommand: RunnableCommand {
    static let command = Command(
        name: "run",
        summary: "measure every transport, codec and size; the default command",
        examples: [
            .init("imbench run --transport ws,tcp --size 32,4KiB", "two transports, two sizes"),
            .init("imbench run --url ws://chat.example:8080/echo --rate 100", "another server, open loop"),
            .init("imbench run --quiet --format json --output a.json", "a report for 'imbench compare'"),
        ]
    )

    var general = GeneralOptions()
    var rows: RowOptions
    var load = EchoLoad()
    /// Outside servers in place of the embedded ones, at most one for each transport.
    var urls: [Endpoint] = []
    /// A configuration file, which names them.
    var config: String?
    /// Whether a codec of the command line overrides that of the configuration file.
    var isCodecGiven = false
    /// The networks between client and server, one after the other. If empty, loopback.
    var networks: [Network] = []
    /// Whether the encrypted counterparts of the transports are added.
    var usesTLS = false
    var machine = MachineOptions()
    /// `nil` lets the run choose a seed, which the report then names.
    var seed: UInt64?
    var report = ReportOptions()
    var assertions: [Assertion] = []

    init(_ vocabulary: Vocabulary) { rows = RowOptions(vocabulary) }

    static func ownOptions(_ vocabulary: Vocabulary) -> OptionList<RunCommand> {
        var list = OptionList(RunCommand(vocabulary))
        list.add(RowOptions.list(vocabulary), at: \.rows)
        list.add(EchoLoad.list, at: \.load)
        list.add(
            .what,
            [
                Setting(
                    "url",
                    each: .url(of: vocabulary.transports),
                    \.urls,
                    "an outside server in place of the embedded one, as in mqtt://host:1883; may be repeated"
                ),
                .tls(\.usesTLS),
            ]
        )
        list.add(.path, excludes: "url", [.network(\.networks)])
        list.add(.what, [.config(\.config)])
        list.add(.load, [.seed(\.seed)])
        list.add(MachineOptions.list, at: \.machine)
        list.add(ReportOptions.listWithCharts, at: \.report)
        list.add(.report, [.assertions(.rows(vocabulary), vocabulary, \.assertions)])
        return list
    }

    func prepare() throws {
        // A process with threads cannot move.
        if !networks.isEmpty { try NetworkLab.isolateProcess() }
    }

    func run() throws -> Int32 {
        let options = try UsageError.translate("--config") { () throws(TransportError) in try withConfiguredServers() }
        for endpoint in options.urls { try checkURL(endpoint, "--url", .measured) }
        try refusePlain(options.urls, usesTLS: usesTLS)
        return try networks.isEmpty ? runComparison(options) : runOverNetworks(options)
    }

    // MARK: Options together

    mutating func check(_ line: TypedLine, _ vocabulary: Vocabulary) throws(UsageError) {
        for (index, url) in urls.enumerated() where urls[..<index].contains(where: { $0.scheme == url.scheme }) {
            throw UsageError("--url: there are two servers for \(url.scheme); allowed is one")
        }
        try refusePlain(urls, usesTLS: usesTLS)
        if usesTLS { rows.transports = withEncrypted(rows.transports, among: vocabulary.transports) }
        if !urls.isEmpty, !line.has("transport") { rows.transports = urls.map(\.scheme) }
        if let stray = urls.first(where: { !rows.transports.contains($0.scheme) }) {
            let transports = rows.transports.joined(separator: ",")
            throw UsageError("--url \(stray.address) is not of a transport of --transport \(transports)")
        }
        try rows.checkDelivery(vocabulary, outside: !urls.isEmpty ? "url" : config != nil ? "config" : nil)
        isCodecGiven = line.has("codec") && config != nil
        try networks.check(rows.transports, vocabulary, of: Self.command, allowsNAT: false)
        if !networks.isEmpty { adaptToNetworks(line, vocabulary) }
        if load.pictureBytes != nil { try adaptToPicture(line, vocabulary) }
        guard config == nil else {
            guard let other = ["transport", "url", "network"].first(where: line.has) else { return }
            throw .exclusion("config", other)
        }
        for assertion in assertions {
            try assertion.check(
                rows.rowTransports,
                rows.codecs,
                rows.sizes.map { String($0) },
                load.picturePlaces.map(\.rawValue)
            )
        }
    }

    /// Over a network, a message at a time would measure its delay alone, and thousands a second its rate. So the default
    /// is a chat: 20 messages a second on each of 4 connections. They send up to 25 kB a second. A slow network gets one
    /// connection, because a queue at its entry would hide the rest.
    private mutating func adaptToNetworks(_ line: TypedLine, _ vocabulary: Vocabulary) {
        if !line.has("rate"), !line.has("in-flight") {
            load.pacing = .open(rate: 20)
            if !line.has("connections") {
                let slowest = networks.flatMap { [$0.rateToServer, $0.rateToClient] }.compactMap { $0 }.min()
                load.connections = (slowest ?? .infinity) < 400_000 ? 1 : 4
            }
        }
        if !line.has("duration"), !line.has("messages") { load.extent = .duration(.seconds(15)) }
        // As many as the comparisons of up to 26 rows need.
        if !line.has("repeat") { load.repeats = 10 }
        if !line.has("size") { rows.sizes = [128] }
        if !line.has("codec") { rows.codecs = ["protobuf"].filter(vocabulary.codecs.contains) }
        if !line.has("transport") {
            rows.transports += ["udp-reliable", "udp-unordered"].filter(
                (vocabulary.transports + vocabulary.modes).contains
            )
        }
    }

    /// There are three rows for each transport, codec and size. So by default there is one codec and one size, and over a
    /// network one connection, whose messages share its rate with one picture.
    private mutating func adaptToPicture(_ line: TypedLine, _ vocabulary: Vocabulary) throws(UsageError) {
        if !line.has("size") { rows.sizes = [128] }
        if !line.has("codec"), config == nil { rows.codecs = ["protobuf"].filter(vocabulary.codecs.contains) }
        if !networks.isEmpty, !line.has("connections") { load.connections = 1 }
        // Enough repeats for differences to be sure, and as long as possible, because messages beside a picture are few.
        if !line.has("repeat") { load.repeats = 12 }
        if !line.has("transport"), urls.isEmpty, config == nil {
            rows.transports.removeAll { $0 == "udp-unordered" }
            rows.transports += ["udp-reliable"].filter {
                vocabulary.transports.contains($0) && !rows.transports.contains($0)
            }
        }
        let names = rows.rowTransports
        guard names.isEmpty || !names.allSatisfy({ $0 == "udp" || $0 == "dtls" }) else {
            throw UsageError(
                "--mix picture: \(rows.transports.joined(separator: ", ")) does not send lost datagrams again, so a "
                    + "picture would not arrive whole; allowed is any other transport, such as udp-reliable"
            )
        }
    }

    /// The options of a comparison with those of the configuration file: its endpoints as outside servers, and its codec
    /// unless the command line names codecs.
    func withConfiguredServers() throws(TransportError) -> RunCommand {
        guard let config else { return self }
        let configuration = try readConfiguration(config)
        var options = self
        options.urls = []
        for endpoint in configuration.endpoints {
            guard !options.urls.contains(where: { $0.scheme == endpoint.scheme }) else {
                throw TransportError(
                    .invalidConfiguration,
                    .configure,
                    "\(config): \"endpoints\" has two servers for \(endpoint.scheme); one of each transport can be measured"
                )
            }
            options.urls.append(endpoint)
        }
        options.rows.transports = options.urls.map(\.scheme)
        if !isCodecGiven { options.rows.codecs = [configuration.codec.name] }
        return options
    }
}

/// Measures over loopback or outside servers, writes the report, and returns the exit status.
private func runComparison(_ options: RunCommand) throws -> Int32 {
    let target = try options.report.target()
    let seed = runSeed(options.seed)
    var results = RunResults(of: options, seed: seed)
    (results.pictureBytes, results.rate) = (options.load.pictureBytes, options.load.rate)
    if results.environment.isDebugBuild { remark("this is a debug build", isQuiet: options.general.isQuiet) }

    let spinners = AwakeSpinners.start(options.machine, &results)
    let (placement, remark) = ThreadPlacement.resolve(options.machine.placement, cores: CoreMask.ofThisThread()?.cores)
    if let remark { results.remarks.append("--placement \(options.machine.placement.rawValue): \(remark)") }
    let stage = try Stage(
        registry: .withSessions,
        outside: options.urls,
        seed: seed,
        placement: placement,
        polling: options.machine.polling
    )
    let sizes = EchoBench.encodedSizes(options.rows, seed: EchoBench.textSeed)
    // A floor has no picture beside it, so only the wake-ups are measured then.
    let kinds = options.load.pictureBytes == nil ? FloorKind.allCases : [.wakeUp]
    let plan = RepeatPlan(options.load)
    // Opening the connections of a row takes about as long as one of its repeats.
    var progress = Progress(
        total: (plan.messages.count + 1) * EchoBench.count(options.rows, options.load) * rowWeight
            + plan.messages.count * FloorBench.keys(kinds, sizes).count,
        isQuiet: options.general.isQuiet
    )
    // The rows come first, because they raise the limit of descriptors.
    let rows = EchoBench(options.rows, options.load, stage: stage, seed: EchoBench.textSeed) { key in
        progress.step("opening \(key.name)", weight: rowWeight)
    }
    // Beside rows that have failed, floors say nothing.
    let floors = FloorBench(kinds: rows.haveAllFailed ? [] : kinds, sizes: sizes, placement: placement)
    results.remarks += [plan.remark].compactMap { $0 }
    let (measured, planned) = measure(rows, floors, plan, seed, &progress)
    spinners?.stop()
    results.end()

    results.rows = rows.results(floors)
    results.floors = floors.results
    results.placement = placement
    if results.wasCutShort {
        results.remarks.append(
            "interrupted after \(measured) of \(planned) measurements, \(plan.messages.count) of each row and floor"
        )
    }
    try target.write(results.report, options.report)
    results.writeFailures()
    rows.close()
    stage.close()
    return options.assertions.status(of: results.rows, hasFailed: results.hasFailed)
}

/// The time of a repeat of a row beside that of a floor, which is steadier than a transport and needs a quarter of it.
private let rowWeight = 4

/// Measures all repeats of rows and floors, interleaved in an order drawn from the seed.
///
/// - Returns: how many measurements were done before an interruption, and how many were planned.
private func measure(
    _ rows: EchoBench,
    _ floors: FloorBench,
    _ plan: RepeatPlan,
    _ seed: UInt64,
    _ progress: inout Progress
) -> (measured: Int, planned: Int) {
    enum Step {
        case floor(FloorBench.Key)
        case row(EchoBench.Key)
    }
    let steps = floors.keys.map(Step.floor) + rows.keys.map(Step.row)
    var generator = RandomSource.seeded(seed)
    var measured = 0
    let planned = plan.messages.count * steps.count
    for messages in plan.messages {
        for step in steps.shuffled(using: &generator) where !Interruption.isRequested {
            switch step {
            case .floor(let key):
                progress.step("\(key.kind.rawValue) \(key.size)", figures: rows.figures)
                let rounds = messages == .max ? .max : max(1, messages / rowWeight)
                floors.measure(key, duration: min(plan.duration / rowWeight, .milliseconds(250)), rounds: rounds)
            case .row(let key):
                progress.step(key.name, weight: rowWeight, figures: rows.figures)
                rows.measure(key, duration: plan.duration, messages: messages)
            }
            if !Interruption.isRequested { measured += 1 }
        }
    }
    progress.finish()
    return (measured, planned)
}
