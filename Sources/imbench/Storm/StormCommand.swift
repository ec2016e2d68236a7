/// `imbench storm`: simulates how clients reconnect after a restart of their server, under each requested policy.
func storm(_ options: Options) throws(SystemFailure) -> Int32 {
    let target = try ReportTarget(path: options.output)
    // 32 bits, because some JSON readers keep no more than 53.
    let seed = options.seed ?? UInt64.random(in: 0...UInt64(UInt32.max))
    let run = RunResults(environment: .current(), options: OptionTable.record(of: options), seed: seed)
    var results = StormResults(run: run, model: options.storm.model)
    var progress = Progress(total: options.storm.policies.count, isQuiet: options.quiet)
    for policy in options.storm.policies {
        progress.step(policy.rawValue)
        let model = options.storm.model
        let outcome = ReconnectStorm.run(model, policy.backoff, seed: seed) { Interruption.isRequested }
        guard let outcome else { break }
        results.outcomes.append((policy, outcome))
    }
    progress.finish()
    results.run.wasCutShort = results.outcomes.count < options.storm.policies.count
    let isUnicode = options.format == .html || options.format == .table && target.isTerminal
    try target.write(results.report(isUnicode: isUnicode).text(options.format, target.style))
    return ExitStatus.good
}
