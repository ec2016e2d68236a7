import CSocketIO
import Protocols
import SocketIO
import TransportAPI
import Transports

/// `imbench crowd`: holds a crowd of idle clients, or starts hostile ones.
func crowd(_ options: Options) throws -> Int32 {
    let target = try options.reportTarget()
    var run = RunResults(of: options, seed: 0)
    if run.environment.isDebugBuild { remark("this is a debug build", isQuiet: options.quiet) }
    let loop = try makeLoop("im-server")
    let rows =
        options.crowd.isHostile
        ? try attack(options, loop, try makeLoop("im-client")) : try gather(options, loop, &run)
    run.wasCutShort = Interruption.isRequested
    let results = CrowdResults(run: run, isHostile: options.crowd.isHostile, rows: rows)
    try target.write(results.report, options)
    return options.status(
        of: rows,
        hasFailed: rows.contains { $0.reason != nil },
        breaches: rows.flatMap { row in row.breaches.map { "\(row.name): \($0)" } }
    )
}

/// How many of the requested connections fit into the descriptor limit beside `others`, and that limit.
///
/// - Throws: if the user has requested more.
private func room(_ options: Options, others: Int) throws(UsageError) -> (connections: Int, descriptors: Int) {
    // The process of the clients inherits the limit.
    let (limit, connections) = (raiseDescriptorLimit(), options.crowd.idle)
    let room = max(1, limit - 64 - others)
    guard connections <= room || !options.crowd.isIdleGiven else {
        throw UsageError(
            "--idle is \"\(connections)\"; a process may have \(limit) descriptors (ulimit -Hn), so allowed is 1 to \(room)"
        )
    }
    return (min(connections, room), limit)
}

/// Idle crowds, one transport after the other.
private func gather(_ options: Options, _ loop: EventLoop, _ run: inout RunResults) throws -> [CrowdRow] {
    let (connections, limit) = try room(options, others: 0)
    if connections < options.crowd.idle {
        run.remarks.append(
            "\(connections) in place of \(options.crowd.idle) connections: a process may have \(limit) descriptors (ulimit -Hn), "
                + "and each connection takes one of the server's and one of the clients'"
        )
    }
    var progress = Progress(total: options.transports.count, isQuiet: options.quiet)
    defer { progress.finish() }
    var rows: [CrowdRow] = []
    for transport in options.transports where !Interruption.isRequested {
        progress.step(transport)
        var crowd = IdleCrowd(transport: transport, connections: connections, hold: options.crowd.hold, loop: loop)
        crowd.transfer = options.crowd.transfer
        rows.append(crowd.measure())
    }
    return rows
}

/// Attacks, one after the other.
private func attack(_ options: Options, _ server: EventLoop, _ client: EventLoop) throws -> [CrowdRow] {
    let (attackers, others) = (options.crowd.attackers, HonestClients.count)
    // This process has both ends of their connections.
    let (connections, _) = try room(options, others: 2 * (attackers + others))
    let placement = CrowdPlacement.apart()
    server.execute { placement?.placeServer() }
    client.execute { placement?.placeHonest() }
    let plans = options.transports.flatMap { transport in
        options.crowd.attacks.compactMap { AttackPlan($0, transport, attackers: attackers, connections: connections) }
    }
    var progress = Progress(total: plans.count * options.repeats, isQuiet: options.quiet)
    defer { progress.finish() }
    // The repeats are interleaved, so that a slow phase of the machine does not affect all repeats of one attack.
    var rows: [[CrowdRow]] = Array(repeating: [], count: plans.count)
    for (number, plan) in (0..<options.repeats).flatMap({ _ in plans.enumerated() }) where !Interruption.isRequested {
        progress.step("\(plan.transport) \(plan.kind.rawValue)")
        let run = AttackRun(
            plan: plan,
            attackers: attackers,
            connections: connections,
            hold: options.crowd.hold,
            serverLoop: server,
            clientLoop: client,
            placement: placement
        )
        rows[number].append(run.measure())
    }
    return rows.compactMap(CrowdRow.middle)
}

/// Raises the soft limit of descriptors to the hard limit, and returns it.
func raiseDescriptorLimit() -> Int {
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

/// The cores of the server, of its honest clients and of its hostile ones. In production they are separate machines. The
/// measurement is about the cost of hostile clients for the server, not for this machine. So the server has its own core.
/// Honest and hostile clients have their own cores where there are three. On two cores they share one, and honest clients
/// have priority.
struct CrowdPlacement: Sendable {
    private let near: Int
    private let far: Int
    private let hostile: Int

    /// `nil` if there is only one core, or the system does not provide the cores.
    static func apart() -> CrowdPlacement? {
        guard let cores = CoreMask.ofThisThread()?.cores, let ends = ThreadPlacement.apart() else { return nil }
        return CrowdPlacement(near: ends.near, far: ends.far, hostile: cores.count > 2 ? cores[1] : ends.near)
    }

    /// Places the calling thread, which is the server's. If the user may set it, the thread has priority over other programs
    /// (nice(2)). Otherwise it would wait for them more often during an attack, when it has more work.
    func placeServer() {
        CoreMask(only: far).applyToThisThread()
        #if os(Linux)
        _ = csocketio_set_favoured()
        #endif
    }

    /// Places the calling thread, which is that of honest clients. It preempts hostile ones at once (SCHED_FIFO, sched(7)),
    /// if the user may set that. Otherwise the scheduler may take milliseconds.
    func placeHonest() {
        CoreMask(only: near).applyToThisThread()
        #if os(Linux)
        _ = csocketio_set_first_priority()
        #endif
    }

    /// Places the calling thread, which is that of hostile clients. It runs while its core is otherwise idle (SCHED_IDLE),
    /// unless its clients connect at a fixed rate, for which they need little time and must have it.
    func placeHostile(isPaced: Bool) {
        CoreMask(only: hostile).applyToThisThread()
        guard !isPaced else { return }
        #if os(Linux)
        _ = csocketio_set_idle_priority()
        #endif
    }
}
