import TransportAPI

/// `imbench compare BEFORE AFTER`: reads two reports of `imbench run` and reports which differences are real.
func compare(_ options: Options) throws(SystemFailure) -> Int32 {
    let comparison: Comparison
    do throws(TransportError) {
        comparison = Comparison(
            try readRun(options.comparison.before),
            try readRun(options.comparison.after),
            noise: options.comparison.noisePercent / 100
        )
    } catch {
        return complain(error)
    }
    let target = try ReportTarget(path: options.output)
    try target.write(comparison.report.text(options.format, target.style))
    let failures = options.assertions.compactMap { $0.failure(in: comparison.rows) }
    for failure in failures { remark(failure, isQuiet: false) }
    return failures.isEmpty ? ExitStatus.good : ExitStatus.assertion
}
