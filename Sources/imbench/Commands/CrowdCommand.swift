import SocketIO
import TransportAPI
import Transports

/// `imbench crowd`: holds a crowd of idle clients, or lets hostile ones loose.
func crowd(_ options: Options) throws(SystemFailure) -> Int32 {
    let target = try ReportTarget(path: options.output)
    var run = RunResults(environment: .current(), options: OptionTable.record(of: options), seed: 0)
    if run.environment.isDebugBuild { remark("this is a debug build", isQuiet: options.quiet) }
    let loop = try makeLoop("im-server")
    let rows =
        options.crowd.isHostile ? attack(options, loop, try makeLoop("im-client")) : gather(options, loop, &run)
    run.wasCutShort = Interruption.isRequested
    let report = CrowdReport(run: run, isHostile: options.crowd.isHostile, rows: rows)
    try target.write(report.text(options.format, target.style))
    let failures = options.crowd.assertions.compactMap { $0.failure(in: rows) }
    for failure in failures { remark(failure, isQuiet: false) }
    if rows.contains(where: { $0.failure != nil }) { return ExitStatus.failed }
    return failures.isEmpty ? ExitStatus.good : ExitStatus.assertion
}

/// Idle crowds, one transport after the other.
private func gather(_ options: Options, _ loop: EventLoop, _ run: inout RunResults) -> [CrowdRow] {
    var links = options.crowd.links
    // The process of the clients inherits the limit.
    let limit = raiseDescriptorLimit()
    let room = max(1, limit - 64)
    if links > room {
        run.remarks.append(
            "\(room) in place of \(links) links: a process may have \(limit) descriptors (ulimit -Hn), "
                + "and each link takes one of the server's and one of the clients'"
        )
        links = room
    }
    var progress = Progress(total: options.transports.count, isQuiet: options.quiet)
    defer { progress.finish() }
    var rows: [CrowdRow] = []
    for transport in options.transports where !Interruption.isRequested {
        progress.step(transport)
        rows.append(IdleCrowd(transport: transport, links: links, hold: options.crowd.hold, loop: loop).measure())
    }
    return rows
}

/// Attacks, one after the other.
private func attack(_ options: Options, _ server: EventLoop, _ client: EventLoop) -> [CrowdRow] {
    _ = raiseDescriptorLimit()
    let runs = options.transports.flatMap { transport in
        options.crowd.attacks.compactMap { kind in
            HostileScript(kind, transport).map { script in
                AttackRun(
                    transport: transport,
                    kind: kind,
                    script: script,
                    attackers: options.crowd.attackers,
                    hold: options.crowd.hold,
                    serverLoop: server,
                    clientLoop: client
                )
            }
        }
    }
    var progress = Progress(total: runs.count, isQuiet: options.quiet)
    defer { progress.finish() }
    var rows: [CrowdRow] = []
    for run in runs where !Interruption.isRequested {
        progress.step("\(run.transport) \(run.kind.rawValue)")
        rows.append(runBlocking(on: client) { await run.measure() })
    }
    return rows
}

/// Lets this process have as many descriptors as the system allows without asking anybody; how many that is.
private func raiseDescriptorLimit() -> Int {
    #if canImport(Glibc)
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    #else
    let resource = RLIMIT_NOFILE
    #endif
    var limit = rlimit()
    guard getrlimit(resource, &limit) == 0 else { return 1024 }
    limit.rlim_cur = limit.rlim_max
    if setrlimit(resource, &limit) != 0 { getrlimit(resource, &limit) }
    return Int(clamping: limit.rlim_cur)
}
