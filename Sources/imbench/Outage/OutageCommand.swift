import CommandSupport
import EmulatedNetworks
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports
import Workloads

/// `imbench outage`: how each transport's supervisor recovers from each fault, and what a store of its outbox costs.
struct OutageCommand: RunnableCommand {
    static let command = Command(
        name: "outage",
        summary: "break the path in twelve ways, or kill the app: time to detect, time to recover, lost messages",
        examples: [
            .init("imbench outage --fault reset,black-hole --transport ws", "two faults"),
            .init("imbench outage --fault client-killed,server-killed", "an app or a server that is killed"),
            .init("imbench outage --store-cost /var/tmp", "what the stores of an outbox cost on this disk"),
        ]
    )

    var general = GeneralOptions()
    /// Names of transports, in the order of the command line.
    var transports: [String]
    /// Whether the encrypted counterparts of the transports are added.
    var usesTLS = false
    var faults = OutageFault.onPath
    /// What keeps the outbox of the app in rows with a kill.
    var stores = OutageStore.allCases
    /// The folder in which the costs of the stores are measured, in place of faults.
    var storeCost: String?
    var timing = OutageTiming()
    /// The network between client and server; at most one. If empty, loopback.
    var networks: [Network] = []
    var seed: UInt64?
    var report = ReportOptions()

    private static let time = SettingFormat.duration(.milliseconds(50) ... .seconds(600))

    static func ownOptions(_ vocabulary: Vocabulary) -> OptionList<OutageCommand> {
        var list = OptionList(OutageCommand(transports: vocabulary.defaultTransports))
        list.add(
            .what,
            [
                Setting("transport", .names(vocabulary.withPath), \.transports, "transports"), .tls(\.usesTLS),
                Setting("fault", .commaSeparated(.word), \.faults, "faults"),
                Setting(
                    "store",
                    .commaSeparated(.word),
                    \.stores,
                    "where the client's outbox is, for client-killed and server-killed; none is the memory"
                ),
                Setting(
                    "store-cost",
                    SettingFormat.file.called("FOLDER").orAbsent("faults are measured"),
                    \.storeCost,
                    "in place of faults, what each store costs beside the memory, with its files in this folder"
                ),
            ]
        )
        list.add(.path, [.network(\.networks)])
        list.add(
            .load,
            [
                .seed(\.seed),
                Setting("interval", time, \.timing.interval, "keepalive: silence before a ping"),
                Setting("timeout", time, \.timing.timeout, "keepalive: time limit of the answer"),
                Setting("down", time, \.timing.outage, "duration of a fault that does not end by itself"),
            ]
        )
        list.add(ReportOptions.listWithCharts, at: \.report)
        return list
    }

    mutating func check(_ line: TypedLine, _ vocabulary: Vocabulary) throws(UsageError) {
        if usesTLS { transports = withEncrypted(transports, among: vocabulary.transports) }
        if storeCost != nil,
            let other = ["transport", "tls", "fault", "store", "network"].first(where: line.has)
        {
            throw UsageError("--store-cost measures no faults; remove --\(other)")
        }
        let kill = faults.first(where: \.isKill)
        if line.has("store"), kill == nil {
            throw UsageError("--store is for processes that are killed; add --fault client-killed,server-killed")
        }
        if let kill, !networks.isEmpty {
            throw UsageError("--fault \(kill.rawValue) is measured over loopback; remove it, or --network")
        }
        try networks.check(transports, vocabulary, limit: 1, of: Self.command, allowsNAT: true)
    }

    func prepare() throws {
        // A process with threads cannot move.
        if !networks.isEmpty { try NetworkLab.isolateProcess() }
    }

    func run() throws -> Int32 { try storeCost.map { try measureStores(self, in: $0) } ?? outage(self) }
}

private func outage(_ options: OutageCommand) throws -> Int32 {
    let target = try options.report.target()
    let seed = runSeed(options.seed)
    let transports = TransportRegistry.measured.transports.filter {
        options.transports.contains($0.name) && $0.defaultPort != nil
    }
    let network = options.networks.first
    var timing = options.timing
    var (host, clientLoop, serverLoop) = ("127.0.0.1", EventLoop.shared, EventLoop.shared)
    var lab: NetworkLab?
    if let network {
        let made = try NetworkLab.forOption()
        let stage = try Stage(registry: .measured, outside: [], seed: seed, placement: nil, lab: made)
        (host, clientLoop, serverLoop) = (stage.host, stage.clientLoop, stage.serverLoop)
        made.use(network, seed: seed)
        lab = made
        timing.adapt(to: network, transports: transports.count)
    }
    defer { lab?.stop() }
    var results = OutageResults(run: RunResults(of: options, seed: seed), timing: timing, rows: [])
    let kills = killRuns(options, transports, seed: seed)
    let faults = options.faults.filter { !$0.isKill }
    var progress = Progress(total: faults.count + kills.count, isQuiet: options.general.isQuiet)
    for fault in faults where !Interruption.isRequested {
        progress.step(fault.rawValue)
        // The transports wait most of the time, so they run concurrently.
        let rows = runBlocking(on: serverLoop) { [timing, host, clientLoop, serverLoop] in
            await withTaskGroup(of: (Int, OutageRow).self) { group in
                for (index, transport) in transports.enumerated() {
                    let run = OutageRun(
                        transport: transport,
                        fault: fault,
                        timing: timing,
                        seed: seed,
                        host: host,
                        clientLoop: clientLoop,
                        loop: serverLoop
                    )
                    group.addTask { (index, await run.measure()) }
                }
                var rows: [(Int, OutageRow)] = []
                for await row in group { rows.append(row) }
                return rows.sorted { $0.0 < $1.0 }.map(\.1)
            }
        }
        // An interrupted fault has no result.
        if !Interruption.isRequested { results.rows += rows }
    }
    // A row has the machine for itself, because its apps send as fast as they can.
    for run in kills where !Interruption.isRequested {
        progress.step("\(run.transport.name) \(run.fault.rawValue) \(run.store.rawValue)")
        let row = run.measure()
        if !Interruption.isRequested { results.kills.append(row) }
    }
    progress.finish()
    if let network, let lab { results.run.networks = [NetworkUse(network, seed, lab, over: transports.map(\.name))] }
    results.run.end()
    try target.write(results.report, options.report)
    let hasFailed = results.rows.contains { $0.failure != nil } || results.kills.contains { $0.failure != nil }
    return hasFailed ? ExitStatus.failed : ExitStatus.good
}

/// The rows in which a process is killed, each at a moment that the seed chooses.
private func killRuns(_ options: OutageCommand, _ transports: [TransportDescriptor], seed: UInt64) -> [KillRun] {
    var random = RandomSource.seeded(seed)
    return transports.flatMap { transport in
        options.faults.filter(\.isKill).flatMap { fault in
            options.stores.map { store in
                KillRun(
                    transport: transport,
                    fault: fault,
                    store: store,
                    timing: options.timing,
                    moment: .milliseconds(Int64.random(in: 100...400, using: &random))
                )
            }
        }
    }
}

/// The result of one transport and one fault.
struct OutageRow: Sendable {
    var transport: String
    var fault: OutageFault
    /// From the fault to the loss of the connection; `nil` if it was kept.
    var detect: Duration?
    /// From the beginning of the fault to its end; `nil` if the connection was kept.
    var broken: Duration?
    /// From the end of the fault to the open connection; `nil` if it was kept, or never reopened.
    var recover: Duration?
    var sent = 0
    /// How messages ended, by the outcome's name.
    var outcomes: [String: Int] = [:]
    /// Acknowledged messages that the server has not received.
    var lost = 0
    /// Acknowledged messages that the server has received more than once.
    var duplicated = 0
    var reordered = 0
    /// Why the row was not measured.
    var skipped: String?
    /// Why the row is a failure.
    var failure: String?

    var acked: Int { outcomes["acknowledged", default: 0] }
    var inFlight: Int { sent - outcomes.values.reduce(0, +) }
}

/// The times of all rows.
struct OutageTiming: Sendable, Equatable {
    /// The keepalive interval: silence before a ping.
    var interval: Duration = .milliseconds(500)
    /// The time limit of the answer.
    var timeout: Duration = .milliseconds(500)
    /// The duration of a fault that does not end by itself.
    var outage: Duration = .milliseconds(1500)
    /// The time limit of an attempt to connect.
    var connectTimeout: Duration = .seconds(2)
    /// The time between messages.
    var pace: Duration = .milliseconds(5)
    /// How long after the beginning of a fault packets can still arrive that have passed its place before.
    var inTransit: Duration = .zero

    /// The bytes of a message with its headers, and of its acknowledgement, in one direction.
    private static let messageBytes = 150.0
    /// The share of the network's rate that all messages together take at most, so that they do not wait for it.
    private static let share = 0.25

    /// Changes the times to those of a network, which this many transports use at the same time.
    mutating func adapt(to network: Network, transports: Int) {
        // Otherwise a long delay would look like a dead connection.
        timeout += network.delay * 4
        connectTimeout += network.delay * 20
        inTransit = network.delay + network.jitter
        if let rate = [network.rateToClient, network.rateToServer].compactMap({ $0 }).min() {
            let seconds = Double(transports) * Self.messageBytes * 8 / (rate * Self.share)
            pace = max(pace, .milliseconds(Int64((seconds * 1000).rounded(.up))))
        }
    }

    /// The configuration of a supervisor. Its backoff is short, so that the recovery time is the library's and not that
    /// of a delay.
    var configuration: SupervisorConfiguration {
        var configuration = SupervisorConfiguration()
        configuration.connectTimeout = connectTimeout
        configuration.backoff = .exponential(
            initial: .milliseconds(20),
            maximum: .milliseconds(200),
            multiplier: 2,
            jitter: .full
        )
        configuration.stableAfter = .milliseconds(100)
        configuration.keepalive.interval = .fixed(interval)
        configuration.keepalive.timeout = timeout
        configuration.delivery.mode = .session
        return configuration
    }

    /// The longest acceptable recovery.
    var longestRecovery: Duration { interval + timeout + outage + connectTimeout + .seconds(8) }
}

/// The results of `imbench outage`.
struct OutageResults: Sendable {
    /// Environment, options and seed, without rows.
    var run: RunResults
    var timing: OutageTiming
    var rows: [OutageRow]
    /// The rows in which a process was killed.
    var kills: [KillRow] = []

    var report: Report {
        let (table, transports) = (table, rows.map(\.transport).distinct)
        let killed = killTable
        return Report(
            name: "imbench outage",
            title: "When the path breaks: time to detect, time to recover, and the accounts",
            trust: run.trust,
            warnings: run.warnings,
            verdict: pathVerdict + killVerdict,
            facts: run.facts,
            sections: (rows.isEmpty ? [] : pathSections(table, transports))
                + (kills.isEmpty ? [] : [killSection(killed)]),
            records: rows.isEmpty ? killed : table,
            data: run.envelope(
                results: zip(table.members, rows).map { members, row in
                    let outcomes = row.outcomes.sorted { $0.key < $1.key }.map {
                        ($0.key, ReportValue.integer($0.value))
                    }
                    return .object(members + [("in_flight", .integer(row.inFlight)), ("outcomes", .object(outcomes))])
                },
                more: kills.isEmpty ? [] : [("killed_processes", .array(killed.members.map(ReportValue.object)))]
            )
        )
    }

    /// The sections of the faults that one process makes.
    private func pathSections(_ table: Table, _ transports: [String]) -> [Report.Section] {
        [
            Report.Section(
                question: "How long does each fault interrupt the conversation?",
                charts: transports.map(timeline),
                reading:
                    "Each row is one fault, which begins at 0. Until the connection is lost, the client does not know of "
                    + "the fault (wide bar). Then it tries to reconnect (thin bar) until the next connection is open. "
                    + "The numbers are the lengths of both, in ms. The vertical mark is the end of the fault. "
                    + "Messages that are sent in between wait for the next connection.",
                next: [
                    .init("To see the effect of a slower keepalive", "imbench outage --interval 2s --timeout 1s"),
                    .init("To see many clients reconnect at the same time", "imbench storm"),
                ],
                media: .htmlOnly
            ),
            Report.Section(
                heading: "Detected after + open again after the end of the fault, in ms",
                table: summary,
                notes: rows.compactMap { row in
                    row.failure.map { "\(row.transport) \(row.fault.rawValue): \($0)" }
                } + [conditions],
                media: .textOnly
            ),
        ]
            + transports.map { transport in
                let isLast = transport == transports.last
                return section(table, transport, notes: isLast ? [conditions] : [])
            }
    }

    private func killSection(_ table: Table) -> Report.Section {
        Report.Section(
            heading: "When a process is killed",
            question: "Which messages survive the end of a process?",
            table: table,
            notes: kills.compactMap { row in row.failure.map { "\(row.name) has FAILED: \($0)" } } + [
                "One app submits messages as fast as its outbox of \(KilledApp.waiting) takes them, and another one receives them. "
                    + "One of them is killed at a random moment and started again \(timing.outage.settingText) later. "
                    + "With none, the outbox is in memory, so its messages are lost with the process of the client."
            ],
            next: [
                .init("To see what a store costs", "imbench outage --store-cost /var/tmp")
            ]
        )
    }

    /// Whether all rows are good, and the longest times to detect a fault.
    private var pathVerdict: [String] {
        let measured = rows.filter { $0.skipped == nil }
        guard !measured.isEmpty else { return [] }
        let failed = measured.filter { $0.failure != nil }.map { "\($0.transport) \($0.fault.rawValue)" }
        var sentences = [
            failed.isEmpty
                ? "After each of \(measured.count) faults the connection was kept or open again, and no acknowledged message "
                    + "was lost, duplicated or reordered."
                : "\(failed.count) of \(measured.count) faults ended badly: \(failed.joined(separator: ", "))."
        ]
        func longest(_ isSilent: Bool) -> String? {
            measured.filter { $0.fault.isSilent == isSilent }.compactMap { Self.milliseconds($0.detect) }.max()
                .map { Self.whole($0) }
        }
        if let silent = longest(true) {
            sentences.append("Faults that only the keepalive can detect were detected within \(silent) ms.")
        }
        if let other = longest(false) {
            sentences.append("Any other fault that broke the connection was detected within \(other) ms.")
        }
        return sentences
    }

    /// What was lost with a store, and without one.
    private var killVerdict: [String] {
        let measured = kills.filter { $0.skipped == nil }
        let failed = measured.filter { $0.failure != nil }
        guard failed.isEmpty else {
            return [
                "\(failed.count) of \(counted(measured.count, "kill")) ended badly: \(failed.map(\.name).joined(separator: ", "))."
            ]
        }
        let (losing, kept) = (measured.filter(\.mayLose), measured.filter { !$0.mayLose })
        func accepted(_ rows: [KillRow]) -> String { counted(rows.reduce(0) { $0 + $1.accepted }, "accepted message") }
        var sentences: [String] = []
        if !kept.isEmpty {
            let repeated = kept.reduce(0) { $0 + $1.repeated }
            sentences.append(
                "In \(counted(kept.count, "kill")) of a server, or of an app with a store, none of \(accepted(kept)) was lost, and "
                    + "\(shown(repeated)) arrived again, under the same identifier."
            )
        }
        if !losing.isEmpty {
            let lost = losing.reduce(0) { $0 + $1.lost }
            sentences.append(
                "In \(counted(losing.count, "kill")) of an app without a store, \(shown(lost)) of \(accepted(losing)) were lost."
            )
        }
        return sentences
    }

    private var conditions: String {
        "keepalive \(timing.interval.settingText) + \(timing.timeout.settingText), "
            + "outage \(timing.outage.settingText) (if packets are dropped, after the time to detect it), "
            + "a message every \(timing.pace.settingText)"
            + run.networks.map { "; over \($0.network.name): \($0.sentence)" }.joined()
    }

    /// The rows of one transport. Their failures are sentences below the table.
    private func section(_ table: Table, _ transport: String, notes: [String]) -> Report.Section {
        var own = table
        own.rows = zip(table.rows, rows).filter { $0.1.transport == transport }.map(\.0)
        own.columns[0].title = nil
        let failures = rows.filter { $0.transport == transport }.compactMap { row in
            row.failure.map { "\(row.fault.rawValue): \($0)" }
        }
        return Report.Section(
            heading: transport,
            question: "What became of the connection and of the messages over \(transport)?",
            table: own,
            notes: failures + notes,
            isDetail: true
        )
    }

    /// A line for each fault, and a column for each transport.
    private var summary: Table {
        let transports = rows.map(\.transport).distinct
        return Table(
            columns: [.text("fault", nil, "how the path breaks, or the first connect fails")]
                + transports.map {
                    .number($0, nil, "over \($0); open if it stayed open, - if the fault cannot happen")
                },
            rows: rows.map(\.fault).distinct.map { fault in
                let own = transports.map { name in rows.first { $0.fault == fault && $0.transport == name } }
                return Table.Row(
                    cells: [Table.Cell(fault.rawValue)] + own.map { Table.Cell($0.map(Self.times) ?? "") },
                    isFailure: own.contains { $0?.failure != nil }
                )
            }
        )
    }

    private static func times(_ row: OutageRow) -> String {
        if row.skipped != nil { return "-" }
        if row.failure != nil { return "FAILED" }
        guard let detect = milliseconds(row.detect) else { return "open" }
        return "\(whole(detect)) + \(whole(milliseconds(row.recover)))"
    }

    private var table: Table {
        Table(
            labels: 2,
            columns: [
                .text("transport", "transport"),
                .text("fault", "fault", "how the path breaks, or the first connect fails"),
                .number("detect ms", "detect_ms", "from the fault to the loss of the connection; - if it stayed open"),
                .number(nil, "fault_ms"),
                .number("recover ms", "recover_ms", "from the end of the fault to the next open connection"),
                .number("sent", "sent", "messages sent"), .number("acked", "acked", "messages acknowledged"),
                .number("lost", "lost", "acknowledged messages that the server did not receive"),
                .number("twice", "duplicated", "acknowledged messages that the server received more than once"),
                .number("order", "reordered", "messages that overtook another"),
                .text("result", "failure", "ok, or FAILED with the reason below"), .text(nil, "skipped"),
            ],
            rows: rows.map { row in
                let times = [row.detect, row.broken, row.recover].map(Self.milliseconds)
                let counts = [row.sent, row.acked, row.lost, row.duplicated, row.reordered]
                var cells = [Table.Cell(row.transport), Table.Cell(row.fault.rawValue)]
                cells += times.map { Table.Cell($0, Self.whole($0)) } + counts.map { Table.Cell($0) }
                cells.append(Table.Cell(value: ReportValue(row.failure), text: row.failure == nil ? "ok" : "FAILED"))
                cells.append(Table.Cell(value: ReportValue(row.skipped), text: ""))
                return Table.Row(cells: cells, note: row.skipped, isFailure: row.failure != nil)
            }
        )
    }

    private var killTable: Table {
        Table(
            labels: 3,
            columns: [
                .text("transport", "transport"), .text("fault", "fault", "which process is killed"),
                .text("store", "store", "what keeps the outbox of the client"),
                .number("accepted", "accepted", "messages for which submit has returned"),
                .number("arrived", "arrived", "how many of these have arrived"),
                .number("lost", "lost", "how many have not"),
                .number("repeated", "repeated", "messages that arrived again, under the identifier of an earlier one"),
                .number(
                    "recover ms",
                    "recover_ms",
                    "from the start of the next process to the first message that arrives"
                ),
                .text(nil, "failure"), .text(nil, "skipped"),
            ],
            rows: kills.map { row in
                let counts = [row.accepted, row.arrived, row.lost, row.repeated]
                let recover = Self.milliseconds(row.recover)
                var cells = [row.transport, row.fault.rawValue, row.store.rawValue].map { Table.Cell($0) }
                cells += counts.map { Table.Cell($0) } + [Table.Cell(recover, Self.whole(recover))]
                cells += [row.failure, row.skipped].map { Table.Cell(value: ReportValue($0), text: "") }
                return Table.Row(cells: cells, note: row.skipped, isFailure: row.failure != nil)
            }
        )
    }

    /// The states of one transport's connection during each fault that broke it. All transports have the same axis.
    private func timeline(_ transport: String) -> BarChart {
        let start = -Self.lead * longest
        return BarChart(
            title: "\(transport): state of the connection in ms after the fault",
            legend: [
                (.connected, "open"), (.undetected, "fault not detected"), (.reconnecting, "reconnecting"),
                (.mark, "end of the fault"),
            ],
            rows: rows.filter { $0.transport == transport }.compactMap { row in
                guard let detect = Self.milliseconds(row.detect), let broken = Self.milliseconds(row.broken) else {
                    return nil
                }
                let recover = Self.milliseconds(row.recover)
                let open = recover.map { max(broken + $0, detect) }
                var spans: [BarChart.Span] = [
                    .init(kind: .connected, from: start, to: 0), .init(kind: .undetected, from: 0, to: detect),
                    .init(kind: .reconnecting, from: detect, to: open ?? longest),
                ]
                if let open { spans.append(.init(kind: .connected, from: open, to: longest)) }
                spans.append(.init(kind: .mark, from: broken, to: broken))
                return BarChart.Row(
                    label: row.fault.rawValue,
                    spans: spans,
                    value: "\(Self.whole(detect)) + \(Self.whole(open.map { $0 - detect }))"
                )
            },
            range: start...longest,
            lines: [0]
        )
    }

    /// The share of the time axis before the fault.
    private static let lead = 0.05

    /// The end of the time axis, in milliseconds after the fault.
    private var longest: Double {
        let ends = rows.compactMap { row -> Double? in
            guard let detect = Self.milliseconds(row.detect), let broken = Self.milliseconds(row.broken) else {
                return nil
            }
            return max(detect, broken + (Self.milliseconds(row.recover) ?? 0))
        }
        return (ends.max() ?? 1000) * 1.05
    }

    private static func milliseconds(_ duration: Duration?) -> Double? {
        duration.map { Double($0.wholeNanoseconds) / 1e6 }
    }

    private static func whole(_ number: Double?) -> String { number.map { fixed($0, 0) } ?? "-" }
}
