import CommandSupport
import EmulatedNetworks
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports
import Workloads

/// `imbench heartbeat`: the costs of a keepalive interval, and whether it keeps a connection alive behind a NAT.
struct HeartbeatCommand: RunnableCommand {
    static let command = Command(
        name: "heartbeat",
        summary: "the costs of a keepalive interval, and what a NAT does to a connection, calculated and measured",
        examples: [
            .init("imbench heartbeat", "five transports, and 10 s behind a NAT that forgets"),
            .init("imbench heartbeat --interval 285s --nat 5m --radio 3g", "one more interval, one NAT"),
            .init("imbench heartbeat --tls --radio 'tail=5s,wake=100ms'", "with TLS, and another radio"),
        ]
    )

    var general = GeneralOptions()
    /// Names of transports, in the order of the command line.
    var transports: [String]
    /// Whether the encrypted counterparts of the transports are added.
    var usesTLS = false
    var heartbeat = HeartbeatOptions()
    var report = ReportOptions()

    /// The interval of a keepalive, as in a configuration file, and the memory of a NAT.
    private static let times = SettingFormat<[Duration]>.commaSeparated(
        .duration(.seconds(1) ... .seconds(86_400)),
        atMost: 16
    )

    static func ownOptions(_ vocabulary: Vocabulary) -> OptionList<HeartbeatCommand> {
        var list = OptionList(HeartbeatCommand(transports: vocabulary.defaultTransports))
        list.add(
            .what,
            [
                Setting(
                    "transport",
                    .names(vocabulary.withPath + TransportMode.namesOverHTTP),
                    \.transports,
                    "transports"
                ), .tls(\.usesTLS),
            ]
        )
        list.add(
            .load,
            [
                Setting(
                    "interval",
                    times,
                    \.heartbeat.intervals,
                    "silence before a ping, beside each transport's own; as in 30s,5m"
                ),
                Setting(
                    "timeout",
                    .duration(.milliseconds(100) ... .seconds(600)),
                    \.heartbeat.timeout,
                    "time limit of the answer"
                ),
                Setting("nat", times, \.heartbeat.expiries, "how long a NAT remembers a silent mapping; as in 30s,2m"),
                Setting("radio", .radio, \.heartbeat.radio, "model of the device's radio"),
            ]
        )
        list.add(ReportOptions.listWithCharts, at: \.report)
        return list
    }

    mutating func check(_: TypedLine, _ vocabulary: Vocabulary) throws(UsageError) {
        if usesTLS { transports = withEncrypted(transports, among: vocabulary.transports) }
    }

    mutating func prepare() throws { heartbeat.refusal = NetworkLab.refusal() }

    func run() throws -> Int32 { try measureHeartbeats(self) }
}

/// How many times as long as one transport the clients behind the NAT take.
private let trialWeight = 100

private func measureHeartbeats(_ options: HeartbeatCommand) throws -> Int32 {
    let target = try options.report.target()
    let seed = runSeed()
    var results = HeartbeatResults(run: RunResults(of: options, seed: seed), options: options.heartbeat)
    let lab = results.makeLab()
    defer { lab?.stop() }
    let stage = try Stage(registry: .measured, outside: [], seed: seed, placement: nil)
    var progress = Progress(
        total: options.transports.count + (lab == nil ? 0 : trialWeight),
        isQuiet: options.general.isQuiet
    )
    for descriptor in TransportRegistry.measured.transports where options.transports.contains(descriptor.name) {
        guard !Interruption.isRequested else { break }
        progress.step(descriptor.name)
        var (bytes, outcome) = pingBytes(descriptor.name, on: stage)
        var idle = IdleTraffic(of: descriptor.name)
        do {
            if outcome == .measured { try idle?.measure(descriptor.name, on: stage) }
        } catch {
            (bytes, outcome) = (nil, .failed(stage.failure(error, of: descriptor.name)))
        }
        // An interrupted measurement has no result.
        guard !Interruption.isRequested else { break }
        results.rows += options.heartbeat.rows(of: descriptor, pingBytes: bytes, idle: idle, outcome)
    }
    if let lab, !Interruption.isRequested {
        progress.step("clients behind a NAT", weight: trialWeight)
        do {
            let (rows, use) = try measureBehindNAT(options, lab, seed: seed)
            if !Interruption.isRequested { (results.trial, results.run.networks) = (rows, [use]) }
        } catch {
            // The costs are measured, and are reported.
            results.trialFailure = sentence(of: error)
        }
    }
    progress.finish()
    results.run.end()
    try target.write(results.report, options.report)
    stage.close()
    let isGood =
        results.trialFailure == nil && results.rows.allSatisfy { $0.outcome.failure == nil }
        && results.trial.allSatisfy { $0.failure == nil && !$0.differs }
    return isGood ? ExitStatus.good : ExitStatus.failed
}

/// Measures one ping and its answer, or says why there is none.
private func pingBytes(_ name: String, on stage: Stage) -> (bytes: Double?, outcome: ResultRow.Outcome) {
    do {
        let transport = try stage.transport(name)
        let loop = stage.clientLoop
        let measured = runInterruptibly(on: loop) { () async -> Result<Double?, TransportError> in
            do throws(TransportError) {
                return .success(try await ConnectionCosts.pingBytes(transport, on: loop, EchoBench.Limits()))
            } catch {
                return .failure(error)
            }
        }
        guard let bytes = try measured.get() else {
            return (nil, .skipped("heart-beats, whose bytes are not counted"))
        }
        return (bytes, .measured)
    } catch {
        return (nil, .failed(stage.failure(error, of: name)))
    }
}

/// The results of `imbench heartbeat`.
struct HeartbeatResults: Sendable {
    /// Environment, options and seed, without rows.
    var run: RunResults
    var options: HeartbeatOptions
    var rows: [HeartbeatRow] = []
    /// The clients behind the measured NAT.
    var trial: [NATRow] = []
    /// Why the NAT could not be measured, although the system allows a network.
    var trialFailure: String?

    /// The network of the measured NAT; `nil` if the system refuses one.
    fileprivate mutating func makeLab() -> NetworkLab? {
        guard options.refusal == nil else { return nil }
        do throws(SystemFailure) {
            return try NetworkLab()
        } catch {
            options.refusal = "a network of its own: \(error.message.replacing("--network: ", with: ""))"
            return nil
        }
    }

    var report: Report {
        Report(
            name: "imbench heartbeat",
            title: "Keepalive: bytes, radio and detection at each interval, and the NATs that a connection survives",
            trust: trial.isEmpty ? .exact : run.trust,
            warnings: run.record.cutShort,
            outcomes: rows.map {
                RowOutcome("\($0.transport) \($0.interval.settingText)", failure: $0.outcome.failure)
            },
            verdict: trial.contains(where: \.differs) ? trialVerdict + costVerdict : costVerdict + trialVerdict,
            facts: run.facts,
            sections: [
                Report.Section(
                    heading: "The costs of an interval",
                    question: "How much does a shorter interval cost, and how soon does it detect a dead connection?",
                    charts: [awakeChart],
                    table: costs,
                    notes: [options.radio.sentence],
                    reading:
                        "Shorter is better. A bar is the time a day in which pings, or what goes over HTTP beside them, keep the "
                        + "radio awake, by the model. "
                        + "A longer interval costs less, and detects a dead connection later.",
                    next: [
                        .init("To see the model of another radio", "imbench heartbeat --radio wifi"),
                        .init("To see what happens after the detection", "imbench outage"),
                    ]
                ),
                Report.Section(
                    heading: "NATs that forget idle mappings: calculated",
                    question: "Which interval keeps a connection alive behind a NAT?",
                    table: verdicts.withoutNotes,
                    notes: [
                        "A ping must leave before the NAT forgets the mapping. Only the client's pings count here. If the server pings "
                            + "more often, its interval counts. "
                            + "RFC 4787 (2007, REQ-5) allows a NAT to forget a UDP mapping after 2 minutes. RFC 5382 (2008) "
                            + "requires 2 h 4 min for TCP (RFC 9308, 2022, knows no evidence that many do), and mobile operators' NATs keep it for 5 to 30 minutes "
                            + "(High Performance Browser Networking, 2013)."
                    ],
                    next: [
                        .init("To see other NATs and intervals", "imbench heartbeat --nat 5m,30m --interval 4m,25m")
                    ],
                    isDetail: true
                ),
            ] + trialSections,
            records: records,
            data: run.envelope(results: rows.map(data), more: [("measured_nat", trialData)])
        )
    }

    /// The cheapest and the most expensive rows in bytes, and the longest and the shortest silence in time of the radio.
    private var costVerdict: [String] {
        let measured = rows.filter { $0.outcome == .measured }
        var sentences: [String] = []
        let costs = measured.compactMap { row in row.bytesPerDay.map { (row: row, bytes: $0) } }
        if let least = costs.min(by: { $0.bytes < $1.bytes }), let most = costs.max(by: { $0.bytes < $1.bytes }) {
            func text(_ cost: (row: HeartbeatRow, bytes: Double)) -> String {
                "\(grouped(fixed(cost.bytes, 0))) bytes a day over \(cost.row.transport) at an interval of \(cost.row.interval.settingText)"
            }
            let range = most.bytes > least.bytes ? "from \(text(least)) to \(text(most))" : text(least)
            let others = rows.filter { if case .skipped = $0.outcome { true } else { false } }.map(\.transport).distinct
            let leftOut = others.isEmpty ? "" : ", without the heart-beats of \(RowDifferences.list(others))"
            sentences.append("Without messages, a connection costs \(range)\(leftOut).")
        }
        if let longest = measured.map(\.silence).max(), let shortest = measured.map(\.silence).min() {
            func text(_ interval: Duration) -> String {
                "for \(fixed(options.radio.awakeHoursPerDay(every: interval), 2)) h a day if something is sent every \(interval.settingText)"
            }
            let both = longest > shortest ? "\(text(longest)), and \(text(shortest))" : text(longest)
            sentences.append("By the model, the radio (\(options.radio.name)) is awake \(both).")
        }
        return sentences
    }

    private static func labels(_ row: HeartbeatRow) -> [Table.Cell] {
        let interval = row.interval.settingText + (row.isOwn ? " (own)" : "")
        return [
            Table.Cell(row.transport), Table.Cell(value: .rounded(seconds(row.interval)), text: interval),
        ]
    }

    static func seconds(_ duration: Duration) -> Double { Double(duration.wholeNanoseconds) / 1e9 }

    private static let labelColumns: [Table.Column] = [
        .text("transport", "transport", "the protocol, as in the scheme of its URL"),
        .text("interval", "interval_s", "silence before a ping; (own) is the transport's default"),
    ]

    private var costs: Table {
        Table(
            labels: 2,
            columns: Self.labelColumns + [
                .number("ping B", "ping_bytes", "bytes of a ping and its answer, all layers, measured"),
                .number(
                    "idle B",
                    "idle_bytes",
                    "bytes of a poll, or of a comment of an event stream, all layers, measured"
                ),
                .number("idle s", "idle_s", "seconds between two of them by default"),
                .number("B/day", "bytes_per_day", "bytes of a day without messages"),
                .number("radio h/day", "radio_awake_h_per_day", "hours a day with the radio awake, by the model below"),
                .number(
                    "detect s",
                    "detect_s",
                    "longest time until a dead connection is detected: interval + \(options.timeout.settingText)"
                ),
            ],
            rows: rows.map { row in
                let awake = options.radio.awakeHoursPerDay(every: row.silence)
                let detection = Self.seconds(row.detection(timeout: options.timeout))
                let idle = row.idle.map { Self.seconds($0.interval) }
                let cells = [
                    Table.Cell(row.pingBytes, row.pingBytes.map { fixed($0, 0) } ?? "-"),
                    Table.Cell(row.idle?.bytes, row.idle?.bytes.map { fixed($0, 0) } ?? "-"),
                    Table.Cell(idle, idle.map { fixed($0, 3, trimmed: true) } ?? "-"),
                    Table.Cell(row.bytesPerDay, row.bytesPerDay.map { grouped(fixed($0, 0)) } ?? "-"),
                    Table.Cell(awake, fixed(awake, 2)), Table.Cell(detection, fixed(detection, 3, trimmed: true)),
                ]
                return Table.Row(
                    cells: Self.labels(row) + cells,
                    note: row.outcome.reason,
                    isFailure: row.outcome.failure != nil
                )
            }
        )
    }

    /// One column for each NAT.
    private var verdicts: Table {
        Table(
            labels: 2,
            columns: Self.labelColumns
                + options.expiries.map { expiry in
                    .text(
                        "NAT \(expiry.settingText)",
                        nil,
                        "a NAT that forgets a mapping after \(expiry.settingText) of silence"
                    )
                },
            rows: rows.map { row in
                let cells = options.expiries.map { Table.Cell(row.verdict($0)?.rawValue ?? "-") }
                return Table.Row(cells: Self.labels(row) + cells, note: row.outcome.reason)
            }
        )
    }

    private var awakeChart: BarChart {
        BarChart(
            title: "Hours a day with the radio awake (\(options.radio.name), a model)",
            rows: rows.filter { $0.outcome == .measured }.map { row in
                let hours = options.radio.awakeHoursPerDay(every: row.silence)
                let label = "\(row.transport) \(row.interval.settingText)"
                return BarChart.Row(label, hours, shown: fixed(hours, 2), style: .transport(row.transport))
            }
        )
    }

    // MARK: For programs

    /// The members of a row that do not depend on the NAT.
    private func members(_ row: HeartbeatRow) -> [(String, ReportValue)] {
        [
            ("transport", .string(row.transport)), ("interval_s", .rounded(Self.seconds(row.interval))),
            ("own", .bool(row.isOwn)), ("ping_bytes", .rounded(row.pingBytes)),
            ("idle_bytes", .rounded(row.idle?.bytes)), ("idle_s", .rounded(row.idle.map { Self.seconds($0.interval) })),
            ("bytes_per_day", .rounded(row.bytesPerDay)),
            ("radio", .string(options.radio.name)),
            ("radio_awake_h_per_day", .rounded(options.radio.awakeHoursPerDay(every: row.silence))),
            ("detect_s", .rounded(Self.seconds(row.detection(timeout: options.timeout)))),
            ("outcome", .string(row.outcome.name)), ("reason", ReportValue(row.outcome.reason)),
        ]
    }

    private func data(_ row: HeartbeatRow) -> ReportValue {
        let nats = options.expiries.map { expiry in
            ReportValue.object([
                ("nat_s", .rounded(Self.seconds(expiry))), ("verdict", ReportValue(row.verdict(expiry)?.rawValue)),
            ])
        }
        return .object(members(row) + [("nats", .array(nats))])
    }

    /// One row for each transport, interval and NAT, and one for each client behind the measured NAT.
    private var records: Table {
        let empty = HeartbeatRow(transport: "", interval: .zero)
        let own = members(empty).map(\.0) + ["nat_s", "verdict"]
        let others = trial.first.map { Self.members($0).map(\.0).filter { !own.contains($0) } } ?? []
        let names = own + others
        let calculated = rows.flatMap { row in
            options.expiries.map { expiry in
                members(row) + [
                    ("nat_s", .rounded(Self.seconds(expiry))), ("verdict", ReportValue(row.verdict(expiry)?.rawValue)),
                ]
            }
        }
        return Table(
            columns: names.map { .text(nil, $0) },
            rows: (calculated + trial.map(Self.members)).map { members in
                let values = Dictionary(members) { first, _ in first }
                return Table.Row(cells: names.map { Table.Cell(value: values[$0] ?? .null, text: "") })
            }
        )
    }
}
