import SocketIO
import TransportAPI
import Transports

/// `imbench outage`: what each transport's supervisor makes of each fault.
func outage(_ options: Options) throws(SystemFailure) -> Int32 {
    let target = try ReportTarget(path: options.output)
    let seed = options.seed ?? UInt64.random(in: 0...UInt64(UInt32.max))
    let transports = TransportRegistry.measured.transports.filter {
        options.transports.contains($0.name) && $0.defaultPort != nil
    }
    var report = OutageReport(
        run: RunResults(environment: .current(), options: OptionTable.record(of: options), seed: seed),
        timing: options.outage.timing,
        rows: []
    )
    var progress = Progress(total: options.outage.faults.count, isQuiet: options.quiet)
    for fault in options.outage.faults where !Interruption.isRequested {
        progress.step(fault.rawValue)
        // The transports wait most of the time, so they go through a fault side by side.
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
        // A fault that was cut short says nothing.
        if !Interruption.isRequested { report.rows += rows }
    }
    progress.finish()
    report.run.wasCutShort = Interruption.isRequested
    try target.write(report.text(options.format, target.style))
    return report.rows.contains { $0.failure != nil } ? ExitStatus.failed : ExitStatus.good
}
