import CommandSupport
import EmulatedNetworks
import Measuring
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports
import Workloads

/// Measures every row over each network, all networks in turn in each repeat.
func runOverNetworks(_ options: RunCommand) throws -> Int32 {
    let target = try options.report.target()
    let seed = runSeed(options.seed)
    var results = RunResults(of: options, seed: seed)
    (results.pictureBytes, results.rate) = (options.load.pictureBytes, options.load.rate)
    let (placement, remark) = ThreadPlacement.resolve(options.machine.placement, cores: CoreMask.ofThisThread()?.cores)
    if let remark { results.remarks.append("--placement \(options.machine.placement.rawValue): \(remark)") }
    results.placement = placement
    let spinners = AwakeSpinners.start(options.machine, &results)
    let plan = RepeatPlan(options.load)
    results.remarks += [plan.remark].compactMap { $0 }
    let lab = try NetworkLab.forOption()
    defer { lab.stop() }
    var progress = Progress(
        // Opening the connections of a row takes about as long as one of its repeats.
        total: options.networks.count * EchoBench.count(options.rows, options.load) * (plan.messages.count + 1),
        isQuiet: options.general.isQuiet
    )
    let stage = try Stage(
        registry: .withSessions,
        outside: [],
        seed: seed,
        placement: placement,
        polling: options.machine.polling,
        lab: lab
    )
    var places: [NetworkPlace] = []
    for network in options.networks where !Interruption.isRequested {
        lab.use(network, seed: seed)
        let limits = EchoBench.Limits(
            connect: .seconds(20) + network.delay * 20,
            ping: .seconds(10) + network.delay * 4,
            network: network,
            measuresKeepalive: false,
            // All networks have their connections at the same time.
            descriptors: places.last.map { $0.bench.descriptorsLeft + EchoBench.otherDescriptors }
        )
        let bench = EchoBench(
            options.rows,
            options.load,
            stage: stage,
            seed: EchoBench.textSeed,
            limits: limits
        ) { key in
            progress.step("\(network.name): opening \(key.name)")
        }
        places.append(NetworkPlace(bench: bench, use: NetworkUse(network, seed, lab, over: options.rows.transports)))
    }
    measure(&places, plan, lab, seed, options.load.rate, &progress)
    for place in places {
        results.networks.append(place.use)
        results.timelines += place.timelines
        for var row in place.bench.results() {
            row.network = place.use.network.name
            results.rows.append(row)
        }
    }
    // A lost close would only take time.
    lab.use(.free, seed: seed)
    if !Interruption.isRequested { for place in places { place.bench.close() } }
    progress.finish()
    spinners?.stop()
    results.end()
    try target.write(results.report, options.report)
    results.writeFailures()
    stage.close()
    return options.assertions.status(of: results.rows, hasFailed: results.hasFailed)
}

/// The rows over one network.
private struct NetworkPlace {
    let bench: EchoBench
    var use: NetworkUse
    /// The recorded packets of the first row of each transport, if the rate is low.
    var timelines: [RequestTimeline] = []

    /// Whether the packets of a row are recorded: in the last repeat, if single messages can be told apart, and if the
    /// transport has no other row that could poll meanwhile.
    func isRecorded(_ key: EchoBench.Key, isLast: Bool, rate: Double?) -> Bool {
        guard isLast, let rate, rate <= RequestTimeline.highestRate, key.picture == .none else { return false }
        return bench.keys.count { $0.transport == key.transport } == 1
    }
}

/// Measures all repeats of the rows. In each repeat all networks have their turn, in an order drawn from the seed, so that a
/// slow phase of the machine is one of all networks. Each turn of a network loses other packets.
private func measure(
    _ places: inout [NetworkPlace],
    _ plan: RepeatPlan,
    _ lab: NetworkLab,
    _ seed: UInt64,
    _ rate: Double?,
    _ progress: inout Progress
) {
    var generator = RandomSource.seeded(seed)
    for (number, messages) in plan.messages.enumerated() {
        for index in places.indices.shuffled(using: &generator) where !Interruption.isRequested {
            let place = places[index]
            if places.count > 1 { lab.use(place.use.network, seed: seed &+ UInt64(number) &+ 1) }
            for key in place.bench.keys.shuffled(using: &generator) where !Interruption.isRequested {
                progress.step("\(place.use.network.name) \(key.name)", figures: place.bench.figures)
                let isLast = number == plan.messages.indices.last
                let isRecorded = place.isRecorded(key, isLast: isLast, rate: rate)
                let began = Clocks.monotonic()
                if isRecorded { lab.startRecording() }
                place.bench.measure(key, duration: plan.duration, messages: messages)
                guard isRecorded else { continue }
                places[index].timelines.append(
                    RequestTimeline(
                        network: place.use.network.name,
                        transport: key.transport,
                        packets: lab.stopRecording(),
                        time: began..<max(began + 1, Clocks.monotonic())
                    )
                )
            }
            if places.count > 1 { places[index].use.counts += lab.counts }
        }
    }
    // Its counts go on from the opening of the connections.
    if places.count == 1 { places[0].use.counts = lab.counts }
}
