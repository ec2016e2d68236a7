import CommandSupport
import Foundation
import Reporting
import SocketIO

/// Measures, prints the table, writes the JSON, and returns the status with which the program ends.
func compare(_ words: [String]) throws -> Int32 {
    let options = try Options(words)
    guard !options.wantsHelp else {
        writeAll(STDOUT_FILENO, Options.help)
        return ExitStatus.good
    }
    let comparisons = try options.chosen(from: Comparison.all)
    let environment = Environment.current()
    let screen = try ReportTarget(path: nil)
    // Opened before anything is measured, so that a wrong path is an error at once.
    let file = try ReportTarget(path: options.output)
    Interruption.listen()

    let measurements = try Runner(comparisons, options).run(on: Stage())
    Mosquitto.shared.withLock { $0 = nil }
    let byKey = Dictionary(uniqueKeysWithValues: measurements.map { ($0.recipe.key, $0) })
    let verdicts = comparisons.compactMap { comparison in
        byKey[comparison.ours.key].map { ours in
            Verdict(comparison: comparison, ours: ours, peer: comparison.peer.flatMap { byKey[$0.key] })
        }
    }
    let report = Report(
        environment: environment,
        options: options,
        verdicts: verdicts,
        measurements: measurements,
        wasCutShort: Interruption.isRequested
    )
    try screen.write(report.text(screen.style))
    if options.output != nil { try file.write(report.json.readableText + "\n") }
    return report.hasFailed ? ExitStatus.failed : ExitStatus.good
}

do {
    exit(try compare(Array(CommandLine.arguments.dropFirst())))
} catch let error as UsageError {
    writeAll(STDERR_FILENO, "bench: \(error.message)\n")
    exit(ExitStatus.usage)
} catch let error as SystemFailure {
    writeAll(STDERR_FILENO, "bench: \(error.message)\n")
    exit(ExitStatus.failed)
}
