import Protocols
import SocketIO
import TransportAPI
import Transports

/// The rows of `imbench fanout`.
struct FanoutOptions: Sendable, Equatable {
    static let mostSubscribers = 10_000

    /// How many subscribers each message has.
    var subscribers = [1, 10, 100]
    var servers = FanoutServerKind.allCases
}

/// `imbench fanout`: one client publishes, and a number of subscribers receive each message.
func fanout(_ options: Options) throws -> Int32 {
    let target = try options.reportTarget()
    let seed = options.runSeed
    var results = FanoutResults(run: RunResults(of: options, seed: seed))
    if results.run.environment.isDebugBuild { remark("this is a debug build", isQuiet: options.quiet) }
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
    let bench = FanoutBench(options, stage: stage, seed: seed, limits: limits)
    let (measured, planned) = measure(bench, options, seed)
    results.rows = bench.results
    if let network = options.networks.first, let lab { results.run.networks = [NetworkUse(network, seed, lab)] }
    if Interruption.isRequested {
        results.run.wasCutShort = true
        results.run.remarks.append(
            "interrupted after \(measured) of \(planned) measurements, \(options.repeats) of each row"
        )
    }
    try target.write(results.report, options)
    bench.close()
    stage.close()
    return options.status(of: results.rows, hasFailed: results.rows.contains(where: \.hasFailed))
}

/// Measures all repeats of the rows, interleaved in an order drawn from the seed.
///
/// - Returns: how many measurements were done before an interruption, and how many were planned.
private func measure(_ bench: FanoutBench, _ options: Options, _ seed: UInt64) -> (measured: Int, planned: Int) {
    guard case .duration(let duration) = options.extent else { return (0, 0) }
    var generator = RandomSource.seeded(seed)
    var measured = 0
    let planned = options.repeats * bench.keys.count
    var progress = Progress(total: planned, isQuiet: options.quiet)
    for _ in 0..<options.repeats {
        for key in bench.keys.shuffled(using: &generator) where !Interruption.isRequested {
            progress.step("\(key.transport) \(key.server.rawValue) \(key.subscribers)", figures: bench.figures)
            bench.measure(key, duration: duration / options.repeats)
            if !Interruption.isRequested { measured += 1 }
        }
    }
    progress.finish()
    return (measured, planned)
}
