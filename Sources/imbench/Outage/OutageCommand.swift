import Protocols
import SocketIO
import TransportAPI
import Transports

/// `imbench outage`: how each transport's supervisor recovers from each fault.
func outage(_ options: Options) throws(SystemFailure) -> Int32 {
    let target = try ReportTarget(path: options.output)
    let seed = options.seed ?? UInt64.random(in: 0...UInt64(UInt32.max))
    let transports = TransportRegistry.measured.transports.filter {
        options.transports.contains($0.name) && $0.defaultPort != nil
    }
    var results = OutageResults(
        run: RunResults(environment: .current(), options: OptionTable.record(of: options), seed: seed),
        timing: options.outage.timing,
        rows: []
    )
    var progress = Progress(total: options.outage.faults.count, isQuiet: options.quiet)
    for fault in options.outage.faults where !Interruption.isRequested {
        progress.step(fault.rawValue)
        // The transports wait most of the time, so they run concurrently.
        let rows = runBlocking(on: .shared) {
            await withTaskGroup(of: (Int, OutageRow).self) { group in
                for (index, transport) in transports.enumerated() {
                    let run = OutageRun(
                        transport: transport,
                        fault: fault,
                        timing: options.outage.timing,
                        seed: seed,
                        loop: .shared
                    )
                    group.addTask { (index, await run.measure()) }
                }
                var rows: [(Int, OutageRow)] = []
                for await row in group { rows.append(row) }
                return rows.sorted { $0.0 < $1.0 }.map(\.1)
            }
        }
        // A fault that was cut short has no meaning.
        if !Interruption.isRequested { results.rows += rows }
    }
    progress.finish()
    results.run.wasCutShort = Interruption.isRequested
    try target.write(results.report.text(options.format, target.style))
    return results.rows.contains { $0.failure != nil } ? ExitStatus.failed : ExitStatus.good
}
