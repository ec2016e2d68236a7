import Protocols
import TransportAPI
import Transports

/// `imbench run`: measures, writes the report, and returns the exit status.
func runComparison(_ given: Options) throws -> Int32 {
    let options = try UsageError.translate("--config") { () throws(TransportError) in try given.withConfiguredServers()
    }
    for endpoint in options.urls { try checkURL(endpoint, "--url", .measured) }
    try refusePlain(options.urls, options)
    guard options.networks.isEmpty else { return try runOverNetworks(options) }
    let target = try options.reportTarget()
    let seed = options.runSeed
    var results = RunResults(of: options, seed: seed)
    if results.environment.isDebugBuild { remark("this is a debug build", isQuiet: options.quiet) }

    let spinners = AwakeSpinners.start(options, &results)
    let (placement, remark) = ThreadPlacement.resolve(options.placement, cores: CoreMask.ofThisThread()?.cores)
    if let remark { results.remarks.append("--placement \(options.placement.rawValue): \(remark)") }
    let stage = try Stage(
        registry: .withSessions,
        outside: options.urls,
        seed: seed,
        placement: placement,
        polling: options.polling
    )
    let sizes = EchoBench.encodedSizes(options, seed: EchoBench.textSeed)
    // A floor has no picture beside it, so only the wake-ups are measured then.
    let kinds = options.pictureBytes == nil ? FloorKind.allCases : [.wakeUp]
    // The rows come first, because they raise the limit of descriptors.
    let rows = EchoBench(options, stage: stage, seed: EchoBench.textSeed)
    // Beside rows that have failed, floors say nothing.
    let floors = FloorBench(kinds: rows.haveAllFailed ? [] : kinds, sizes: sizes, placement: placement)
    let plan = RepeatPlan(options)
    results.remarks += [plan.remark].compactMap { $0 }
    let (measured, planned) = measure(rows, floors, plan, options, seed)
    spinners?.stop()

    results.rows = rows.results(floors)
    results.floors = floors.results
    results.placement = placement
    if Interruption.isRequested {
        results.wasCutShort = true
        results.remarks.append(
            "interrupted after \(measured) of \(planned) measurements, \(plan.messages.count) of each row and floor"
        )
    }
    try target.write(results.report, options)
    results.writeFailures()
    rows.close()
    stage.close()
    return options.status(of: results.rows, hasFailed: results.hasFailed)
}

/// Measures all repeats of rows and floors, interleaved in an order drawn from the seed.
///
/// - Returns: how many measurements were done before an interruption, and how many were planned.
private func measure(
    _ rows: EchoBench,
    _ floors: FloorBench,
    _ plan: RepeatPlan,
    _ options: Options,
    _ seed: UInt64
) -> (measured: Int, planned: Int) {
    enum Step {
        case floor(FloorBench.Key)
        case row(EchoBench.Key)
    }
    let steps = floors.keys.map(Step.floor) + rows.keys.map(Step.row)
    var generator = RandomSource.seeded(seed)
    var measured = 0
    let planned = plan.messages.count * steps.count
    var progress = Progress(total: planned, isQuiet: options.quiet)
    for messages in plan.messages {
        for step in steps.shuffled(using: &generator) where !Interruption.isRequested {
            switch step {
            case .floor(let key):
                progress.step("\(key.kind.rawValue) \(key.size)", figures: rows.figures)
                // A floor is steadier than a transport and needs a quarter of the time.
                let rounds = messages == .max ? .max : max(1, messages / 4)
                floors.measure(key, duration: min(plan.duration / 4, .milliseconds(250)), rounds: rounds)
            case .row(let key):
                progress.step(key.name, figures: rows.figures)
                rows.measure(key, duration: plan.duration, messages: messages)
            }
            if !Interruption.isRequested { measured += 1 }
        }
    }
    progress.finish()
    return (measured, planned)
}
