import CommandSupport
import Crowds
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports

/// `imlab hostile`: starts hostile clients and measures their effect on honest ones.
struct HostileCommand: RunnableCommand {
    static let command = Command(
        name: "hostile",
        summary:
            "start hostile clients beside honest ones: round trips, memory, and whether each limit holds; end with "
            + "status 99 if one of the server's limits is exceeded or not reached, or others lose anything",
        examples: [
            .init("imlab hostile --attack ping-flood --transport ws", "one attack"),
            .init("imlab hostile --repeat 3 --assert 'ws.ratio_p99 < 3'", "a check for scripts"),
        ]
    )

    private static let usualAttackers = 100

    var general = GeneralOptions()
    /// Names of transports, in the order of the command line.
    var transports = HostileScript.transports.filter { !HostileScript.isEncrypted($0) }
    /// Whether the encrypted counterparts of the transports are added.
    var usesTLS = false
    var attacks = HostileKind.allCases
    /// How many hostile clients run at the same time.
    var attackers = Self.usualAttackers
    /// How many idle clients a second process holds meanwhile.
    var idle = 0
    /// The shortest time of each attack.
    var hold = Duration.seconds(3)
    /// How often each attack is measured. The median counts.
    var repeats = 1
    var report = ReportOptions()
    var assertions: [Assertion] = []

    static func ownOptions(_ vocabulary: Vocabulary) -> OptionList<HostileCommand> {
        var list = OptionList(HostileCommand())
        list.add(
            .what,
            [
                Setting("transport", .names(HostileScript.transports), \.transports, "transports"), .tls(\.usesTLS),
                Setting("attack", .commaSeparated(.word), \.attacks, "behaviours of hostile clients"),
            ]
        )
        list.add(
            .load,
            [
                Setting("attackers", .integer(2...10_000), \.attackers, "hostile clients that run at the same time"),
                Setting(
                    "idle",
                    .integer(0...ClientsProcess.connectionsPerAddress),
                    \.idle,
                    "idle clients that a second process holds meanwhile"
                ),
                Setting("hold", .upToHour(from: .milliseconds(100)), \.hold, "the shortest time of each attack"),
                Setting(
                    "repeat",
                    .integer(1...1000),
                    \.repeats,
                    "how often each attack is measured; the median counts"
                ),
            ]
        )
        list.add(ReportOptions.listWithCharts, at: \.report)
        list.add(.report, [.assertions(.attacks, vocabulary, \.assertions)])
        return list
    }

    mutating func check(_ line: TypedLine, _: Vocabulary) throws(UsageError) {
        // Idle UDP clients are not measured: they use no descriptor of the server, and the answer to a ping may be lost.
        let datagrams = HostileScript.transports.filter { name in
            TransportRegistry.available.transports.contains { $0.name == name && $0.isDatagram }
        }
        let known = HostileScript.transports.filter { idle == 0 || !datagrams.contains($0) }
        if !line.has("transport") { transports = transports.filter(known.contains) }
        if usesTLS { transports = withEncrypted(transports, among: known) }
        if let other = transports.first(where: { !known.contains($0) }) {
            let allowed = known.map(\.debugDescription).joined(separator: ", ")
            throw UsageError("--transport is \"\(other)\"; allowed with --idle is \(allowed)")
        }
    }

    func run() throws -> Int32 { try attack(self) }
}

/// Attacks, one after the other.
private func attack(_ options: HostileCommand) throws -> Int32 {
    let target = try options.report.target()
    var run = RunRecord(of: options, .laboratory, seed: 0)
    if run.environment.isDebugBuild { remark("this is a debug build", isQuiet: options.general.isQuiet) }
    let (server, client) = (try makeLoop("im-server"), try makeLoop("im-client"))
    // This process has both ends of the connections of hostile and honest clients.
    let limit = raiseDescriptorLimit()
    var room = max(1, limit - 64 - 2 * (options.attackers + HonestClients.count))
    // A session over HTTP has a connection in each direction.
    if options.transports.contains(where: { $0.hasPrefix(TransportDescriptor.http.name) }) { room /= 2 }
    guard options.idle <= room else {
        throw UsageError(
            "--idle is \"\(options.idle)\"; a process may have \(limit) descriptors (ulimit -Hn), so allowed is 0 to \(room)"
        )
    }
    let placement = CrowdPlacement.apart()
    server.execute { placement?.placeServer() }
    client.execute { placement?.placeHonest() }
    let plans = options.transports.flatMap { transport in
        options.attacks.compactMap {
            AttackPlan($0, transport, attackers: options.attackers, connections: options.idle)
        }
    }
    var progress = Progress(total: plans.count * options.repeats, isQuiet: options.general.isQuiet)
    defer { progress.finish() }
    // The repeats are interleaved, so that a slow phase of the machine does not affect all repeats of one attack.
    var measured: [[AttackRow]] = Array(repeating: [], count: plans.count)
    let order = (0..<options.repeats).flatMap { _ in plans.enumerated() }
    for (number, plan) in order where !Interruption.isRequested {
        progress.step("\(plan.transport) \(plan.kind.rawValue)")
        let run = AttackRun(
            plan: plan,
            attackers: options.attackers,
            connections: options.idle,
            hold: options.hold,
            serverLoop: server,
            clientLoop: client,
            placement: placement
        )
        measured[number].append(run.measure())
    }
    progress.finish()
    run.end()
    let rows = measured.compactMap(AttackRow.middle)
    let results = AttackResults(run: run, rows: rows)
    try target.write(results.report, options.report)
    return options.assertions.status(
        of: rows,
        hasFailed: rows.contains { $0.reason != nil },
        breaches: rows.flatMap { row in row.breaches.map { "\(row.name): \($0)" } }
    )
}
