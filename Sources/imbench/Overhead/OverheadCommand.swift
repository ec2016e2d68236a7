import Codecs
import Protocols
import Transports

/// `imbench overhead`: bytes per message, per handshake and per day of keepalive, counted on real connections through
/// the embedded servers and in the kernel.
func overhead(_ options: Options) throws(SystemFailure) -> Int32 {
    var counted = options
    // One message in flight at a time, so that only the message and its acknowledgements are counted.
    counted.extent = .messages(200)
    counted.repeats = 1
    counted.warmup = .zero
    counted.inFlight = 1
    counted.connections = 1
    counted.rate = nil
    let target = try ReportTarget(path: options.output)
    let seed = options.seed ?? 1
    let stage = try Stage(registry: .measured, outside: options.urls, seed: seed, placement: nil)
    let bench = EchoBench(counted, stage: stage, seed: seed)
    for key in bench.keys where !Interruption.isRequested {
        bench.measure(key, duration: .seconds(5), messages: 200)
    }
    var results = RunResults(environment: .current(), options: OptionTable.record(of: options), seed: seed)
    results.rows = bench.results(FloorBench(kinds: [], sizes: []))
    results.wasCutShort = Interruption.isRequested
    try target.write(results.overheadReport.text(options.format, target.style))
    bench.close()
    stage.close()
    return results.hasFailed ? ExitStatus.failed : ExitStatus.good
}
