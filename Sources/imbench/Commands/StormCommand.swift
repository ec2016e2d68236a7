#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// `imbench storm`: simulates how clients come back after a restart of their server, under each policy asked for.
func storm(_ options: Options) throws(SystemFailure) -> Int32 {
    let target = try ReportTarget(path: options.output)
    // A seed that every reader of JSON keeps exactly.
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
    let isUnicode = options.output == nil && Terminal.isTerminal(STDOUT_FILENO)
    try target.write(StormReport.text(results, format: options.format, style: target.style, isUnicode: isUnicode))
    return ExitStatus.good
}
