/// `imbench run`: measures, writes the report, and returns the status with which the program ends.
func runComparison(_ options: Options) throws(SystemFailure) -> Int32 {
    let target = try ReportTarget(path: options.output)
    // A seed that every reader of JSON keeps exactly.
    let seed = options.seed ?? UInt64.random(in: 0...UInt64(UInt32.max))
    var results = RunResults(environment: .current(), options: OptionTable.record(of: options), seed: seed)
    if results.environment.isDebugBuild { remark("this is a debug build", isQuiet: options.quiet) }

    var spinners: AwakeSpinners?
    if options.awake {
        do throws(SystemFailure) {
            spinners = try AwakeSpinners()
        } catch {
            results.remarks.append(error.message)
        }
    }
    let placement = options.awake ? ThreadPlacement.apart() : nil
    let floors = FloorBench(kinds: FloorKind.allCases, sizes: options.sizes, placement: placement)
    measure(floors, options, seed)
    spinners?.stop()

    results.floors = floors.results
    results.placement = placement
    results.wasCutShort = Interruption.isRequested
    try target.write(Report.text(results, format: options.format, style: target.style))
    return status(of: results, options)
}

/// Measures all repeats, in an order that the seed gives.
private func measure(_ floors: FloorBench, _ options: Options, _ seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    var progress = Progress(total: options.repeats * floors.keys.count, isQuiet: options.quiet)
    // A floor is steadier than a transport and needs a quarter of the time.
    let share = Int64(4 * options.repeats)
    let (duration, rounds): (Duration, Int) =
        switch options.extent {
        case .duration(let duration): (duration / share, .max)
        case .messages(let count): (.seconds(3600), max(1, count / Int(share)))
        }
    for _ in 0..<options.repeats {
        for key in floors.keys.shuffled(using: &generator) where !Interruption.isRequested {
            progress.step("\(key.kind.rawValue) \(key.size)")
            floors.measure(key, duration: duration, rounds: rounds)
        }
    }
    progress.finish()
}

/// Says what failed and chooses the status: a failed run is worse than an assertion that does not hold.
private func status(of results: RunResults, _ options: Options) -> Int32 {
    let failures = options.assertions.compactMap { $0.failure(in: results.rows) }
    for failure in failures { remark(failure, isQuiet: false) }
    if results.hasFailed { return ExitStatus.failed }
    return failures.isEmpty ? ExitStatus.good : ExitStatus.assertion
}
