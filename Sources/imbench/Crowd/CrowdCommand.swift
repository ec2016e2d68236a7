import CSocketIO
import Protocols
import SocketIO
import TransportAPI
import Transports

/// `imbench crowd`: holds a crowd of idle clients, or starts hostile ones.
struct CrowdCommand: RunnableCommand {
    static let command = Command.crowd

    var general = GeneralOptions()
    /// Names of transports, in the order of the command line. If empty, those that fit the clients.
    var transports: [String] = []
    /// Whether the encrypted counterparts of the transports are added.
    var usesTLS = false
    var crowd = CrowdOptions()
    /// The measurements of each attack, of which the median counts.
    var repeats = 1
    var report = ReportOptions()
    var assertions: [Assertion] = []

    static func ownOptions(_ vocabulary: Vocabulary) -> OptionList<CrowdCommand> {
        var list = OptionList(CrowdCommand())
        let transports = (CrowdOptions.transports + ["udp"]).filter(vocabulary.transports.contains)
        list.add(
            .what,
            [
                Setting(
                    "transport",
                    .names(transports).withDefault("ws; with --hostile all of them"),
                    \.transports,
                    "transports"
                ),
                .tls(\.usesTLS),
                Setting(
                    "hostile",
                    .mark(on: "yes"),
                    \.crowd.isHostile,
                    "start hostile clients and measure their effect on others; end with status 99 if one of the server's "
                        + "limits is exceeded or not reached, or others lose anything"
                ),
            ]
        )
        list.add(
            .what,
            requires: "hostile",
            [Setting("attack", .commaSeparated(.word), \.crowd.attacks, "behaviours of hostile clients")]
        )
        list.add(
            .load,
            [
                Setting(
                    "idle",
                    SettingFormat.integer(1...CrowdOptions.mostConnections).orAbsent("10000; with --hostile none"),
                    \.crowd.idle,
                    "idle clients that a second process holds"
                ),
                Setting(
                    "hold",
                    .upToHour(from: .milliseconds(100)),
                    \.crowd.hold,
                    "how long they are held and pinged; with --hostile, the shortest time of each attack"
                ),
            ]
        )
        list.add(
            .load,
            excludes: "hostile",
            [
                Setting(
                    "transfer",
                    .bytes(0...CrowdOptions.mostTransferred),
                    \.crowd.transfer,
                    "bytes that each idle client sends and receives back, after which the memory is read again"
                )
            ]
        )
        list.add(
            .load,
            requires: "hostile",
            [
                Setting(
                    "attackers",
                    .integer(2...10_000),
                    \.crowd.attackers,
                    "hostile clients that run at the same time"
                )
            ]
        )
        list.add(
            .load,
            [
                Setting(
                    "repeat",
                    .integer(1...1000),
                    \.repeats,
                    "with --hostile: measurements of each attack, of which the median counts"
                )
            ]
        )
        list.add(ReportOptions.listWithCharts, at: \.report)
        list.add(
            .report,
            [.assertions(command, vocabulary, \.assertions, example: "ws.ping-flood.heap_peak_bytes < 65536")]
        )
        return list
    }

    mutating func check(_ line: TypedLine, _ vocabulary: Vocabulary) throws(UsageError) {
        guard crowd.isHostile || repeats == 1 else { throw UsageError("--repeat needs --hostile") }
        guard !crowd.isHostile || crowd.connections <= IdleCrowd.connectionsPerAddress else {
            throw UsageError(
                "--idle is \"\(crowd.connections)\"; allowed with --hostile is 1 to \(IdleCrowd.connectionsPerAddress)"
            )
        }
        // Idle UDP clients are not measured: they use no descriptor of the server, and the answer to a ping may be lost.
        let mustIdle = crowd.connections > 0
        let known = (crowd.isHostile ? HostileScript.transports : CrowdOptions.transports)
            .filter { !mustIdle || CrowdOptions.transports.contains($0) }
        guard line.has("transport") else {
            let plain = known.filter { !HostileScript.isEncrypted($0) }
            let usual = crowd.isHostile ? plain : [TransportDescriptor.webSocket.name]
            transports = usesTLS ? withEncrypted(usual, among: known) : usual
            return
        }
        if usesTLS { transports = withEncrypted(transports, among: vocabulary.transports) }
        if let other = transports.first(where: { !known.contains($0) }) {
            let allowed = known.map(\.debugDescription).joined(separator: ", ")
            throw UsageError(
                "--transport is \"\(other)\"; allowed with idle clients is \(allowed); "
                    + "--hostile without --idle allows it"
            )
        }
    }

    func run() throws -> Int32 { try measureCrowds(self) }
}

/// The clients of `imbench crowd`.
struct CrowdOptions: Sendable, Equatable {
    /// The transports whose clients can be idle: those over streams with ports.
    static let transports = TransportRegistry.available.transports
        .filter { !$0.isDatagram && $0.defaultPort != nil }.map(\.name)
    static let mostConnections = 1_000_000
    static let mostTransferred = 1 << 30

    /// How many idle clients the user wants; `nil` if no number was given.
    var idle: Int?
    /// How long they are held, and the shortest time of each attack.
    var hold = Duration.seconds(3)
    /// How many bytes each idle client sends and receives back before the memory is read again.
    var transfer = 0
    var isHostile = false
    /// How many hostile clients run at the same time.
    var attackers = 100
    var attacks = HostileKind.allCases

    /// How many idle clients there are.
    var connections: Int { idle ?? (isHostile ? 0 : 10_000) }
}

private func measureCrowds(_ options: CrowdCommand) throws -> Int32 {
    let target = try options.report.target()
    var run = RunResults(of: options, seed: 0)
    if run.environment.isDebugBuild { remark("this is a debug build", isQuiet: options.general.isQuiet) }
    let loop = try makeLoop("im-server")
    let rows =
        options.crowd.isHostile
        ? try attack(options, loop, try makeLoop("im-client")) : try gather(options, loop, &run)
    run.wasCutShort = Interruption.isRequested
    let results = CrowdResults(run: run, isHostile: options.crowd.isHostile, rows: rows)
    try target.write(results.report, options.report)
    return options.assertions.status(
        of: rows,
        hasFailed: rows.contains { $0.reason != nil },
        breaches: rows.flatMap { row in row.breaches.map { "\(row.name): \($0)" } }
    )
}

/// How many of the requested connections fit into the descriptor limit beside `others`, and that limit.
///
/// - Throws: if the user has requested more.
private func room(_ options: CrowdCommand, others: Int) throws(UsageError) -> (connections: Int, descriptors: Int) {
    // The process of the clients inherits the limit.
    let (limit, connections) = (raiseDescriptorLimit(), options.crowd.connections)
    let room = max(1, limit - 64 - others)
    guard connections <= room || options.crowd.idle == nil else {
        throw UsageError(
            "--idle is \"\(connections)\"; a process may have \(limit) descriptors (ulimit -Hn), so allowed is 1 to \(room)"
        )
    }
    return (min(connections, room), limit)
}

/// Idle crowds, one transport after the other.
private func gather(_ options: CrowdCommand, _ loop: EventLoop, _ run: inout RunResults) throws -> [CrowdRow] {
    let (connections, limit) = try room(options, others: 0)
    if connections < options.crowd.connections {
        run.remarks.append(
            "\(connections) in place of \(options.crowd.connections) connections: a process may have \(limit) descriptors (ulimit -Hn), "
                + "and each connection takes one of the server's and one of the clients'"
        )
    }
    var progress = Progress(total: options.transports.count, isQuiet: options.general.isQuiet)
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
private func attack(_ options: CrowdCommand, _ server: EventLoop, _ client: EventLoop) throws -> [CrowdRow] {
    let (attackers, others) = (options.crowd.attackers, HonestClients.count)
    // This process has both ends of their connections.
    let (connections, _) = try room(options, others: 2 * (attackers + others))
    let placement = CrowdPlacement.apart()
    server.execute { placement?.placeServer() }
    client.execute { placement?.placeHonest() }
    let plans = options.transports.flatMap { transport in
        options.crowd.attacks.compactMap { AttackPlan($0, transport, attackers: attackers, connections: connections) }
    }
    var progress = Progress(total: plans.count * options.repeats, isQuiet: options.general.isQuiet)
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
