import Protocols
import SocketIO
import TransportAPI
import Transports

/// One network of a run, with what became of its packets.
struct NetworkUse: Sendable {
    var network: Network
    var seed: UInt64
    var congestionControl: String
    var counts: LinkCounts

    /// One line for the report.
    var sentence: String {
        let losses = network.loss > 0 || counts.toServer.lost + counts.toClient.lost > 0
        return "\(network.description)" + (network.source.isEmpty ? "" : " (\(network.source))")
            + "; TCP uses \(congestionControl); "
            + [("to the server", counts.toServer), ("to the client", counts.toClient)].map { name, direction in
                var parts: [String] = []
                if losses { parts.append("\(direction.lost) lost") }
                if direction.overflowed > 0 { parts.append("\(direction.overflowed) dropped by the full queue") }
                if direction.reordered > 0 { parts.append("\(direction.reordered) delayed for reordering") }
                if direction.untranslated > 0 { parts.append("\(direction.untranslated) without a mapping of the NAT") }
                return "\(name) \(counted(direction.packets, "packet"))"
                    + (parts.isEmpty ? "" : " (\(parts.joined(separator: ", ")))")
            }.joined(separator: ", ")
            + (counts.lostByMachine > 0
                ? "; this machine was too busy and dropped \(counts.lostByMachine) more" : "")
    }
}

extension NetworkUse {
    /// The use of a network until now.
    init(_ network: Network, _ seed: UInt64, _ lab: NetworkLab) {
        self.init(
            network: network,
            seed: seed,
            congestionControl: lab.congestionControlInForce,
            counts: lab.counts
        )
    }
}

/// Measures every row over each network, one network after the other.
func runOverNetworks(_ options: RunCommand) throws -> Int32 {
    let target = try options.report.target()
    let seed = runSeed(options.seed)
    var results = RunResults(of: options, seed: seed)
    results.pictureBytes = options.load.pictureBytes
    let (placement, remark) = ThreadPlacement.resolve(options.machine.placement, cores: CoreMask.ofThisThread()?.cores)
    if let remark { results.remarks.append("--placement \(options.machine.placement.rawValue): \(remark)") }
    results.placement = placement
    let spinners = AwakeSpinners.start(options.machine, &results)
    let plan = RepeatPlan(options.load)
    results.remarks += [plan.remark].compactMap { $0 }
    let lab = try NetworkLab.forOption()
    defer { lab.stop() }
    var progress = Progress(
        total: options.networks.count * options.rows.rowTransports.count * options.rows.codecs.count
            * options.rows.sizes.count
            * options.load.picturePlaces.count * plan.messages.count,
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
    for network in options.networks where !Interruption.isRequested {
        lab.use(network, seed: seed)
        let limits = EchoBench.Limits(
            connect: .seconds(20) + network.delay * 20,
            ping: .seconds(10) + network.delay * 4,
            network: network,
            measuresKeepalive: false
        )
        let rows = EchoBench(options.rows, options.load, stage: stage, seed: EchoBench.textSeed, limits: limits)
        measure(rows, plan, network, seed, &progress)
        results.networks.append(NetworkUse(network, seed, lab))
        for var row in rows.results() {
            row.network = network.name
            results.rows.append(row)
        }
        // A lost close would only take time.
        lab.use(.free, seed: seed)
        if !Interruption.isRequested { rows.close() }
    }
    progress.finish()
    spinners?.stop()
    results.wasCutShort = Interruption.isRequested
    try target.write(results.report, options.report)
    results.writeFailures()
    stage.close()
    return options.assertions.status(of: results.rows, hasFailed: results.hasFailed)
}

/// Measures all repeats of the rows in an order drawn from the seed.
private func measure(
    _ rows: EchoBench,
    _ plan: RepeatPlan,
    _ network: Network,
    _ seed: UInt64,
    _ progress: inout Progress
) {
    var generator = RandomSource.seeded(seed)
    for messages in plan.messages {
        for key in rows.keys.shuffled(using: &generator) where !Interruption.isRequested {
            progress.step("\(network.name) \(key.name)", figures: rows.figures)
            rows.measure(key, duration: plan.duration, messages: messages)
        }
    }
}
