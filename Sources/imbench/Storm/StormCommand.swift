import CommandSupport
import Protocols
import Reporting
import TransportAPI
import Transports
import Workloads

/// `imbench storm`: simulates how clients reconnect after a restart of their server, under each requested policy.
struct StormCommand: RunnableCommand {
    static let command = Command(
        name: "storm",
        summary: "simulate how clients reconnect after a restart, by reconnect policy, in virtual time",
        examples: [
            .init("imbench storm --policy full-jitter,fixed --clients 10000", "two policies"),
            .init("imbench storm --outage 1m --seed 7", "a longer outage, the same each time"),
            .init("imbench storm --servers 10 --every 2m --limit 30m", "ten servers, restarted one after another"),
        ]
    )

    var general = GeneralOptions()
    var storm = StormOptions()
    var seed: UInt64?
    var report = ReportOptions()

    private static let million = SettingFormat.integer(1...1_000_000)

    static func ownOptions(_: Vocabulary) -> OptionList<StormCommand> {
        var list = OptionList(StormCommand())
        list.add(.what, [Setting("policy", .commaSeparated(.word), \.storm.policies, "reconnect policies")])
        list.add(
            .load,
            [
                .seed(\.seed),
                Setting(
                    "clients",
                    million,
                    \.storm.model.clients,
                    "clients that lose their connection at the same time"
                ),
                Setting("handshakes", million, \.storm.model.handshakes, "handshakes of the server per second"),
                Setting(
                    "backlog",
                    .integer(0...1_000_000),
                    \.storm.model.backlog,
                    "connections that the server's queue holds"
                ),
                Setting("outage", .upToHour(), \.storm.model.outage, "how long the server refuses all connections"),
                Setting(
                    "connect-timeout",
                    .upToHour(from: .milliseconds(100)),
                    \.storm.model.connectTimeout,
                    "how long a client waits for its handshake"
                ),
                Setting(
                    "limit",
                    .upToHour(from: .seconds(1)),
                    \.storm.model.limit,
                    "virtual time at which the simulation ends"
                ),
                Setting(
                    "servers",
                    .integer(1...1000),
                    \.storm.model.servers,
                    "servers, each with this capacity; several fail one after another"
                ),
                Setting("every", .upToHour(), \.storm.model.interval, "time between the failures of two servers"),
            ]
        )
        list.add(ReportOptions.listWithCharts, at: \.report)
        return list
    }

    func run() throws -> Int32 { try simulateStorm(self) }
}

private func simulateStorm(_ options: StormCommand) throws -> Int32 {
    let target = try options.report.target()
    let seed = runSeed(options.seed)
    let isUnicode = options.report.format == .html || options.report.format == .table && target.isTerminal
    let (model, run) = (options.storm.model, RunResults(of: options, seed: seed))
    let report: Report
    if model.servers == 1 {
        let outcomes = outcomes(of: options) {
            ReconnectStorm.run(model, $0.backoff, seed: seed) { Interruption.isRequested }
        }
        var results = StormResults(run: run, model: model, outcomes: outcomes)
        results.run.wasCutShort = outcomes.count < options.storm.policies.count
        report = results.report(isUnicode: isUnicode)
    } else {
        let outcomes = outcomes(of: options) {
            RollingRestart.run(model, $0.backoff, seed: seed) { Interruption.isRequested }
        }
        var results = RollingResults(run: run, model: model, outcomes: outcomes)
        results.run.wasCutShort = outcomes.count < options.storm.policies.count
        report = results.report
    }
    try target.write(report, options.report)
    return ExitStatus.good
}

/// Simulates one policy after the other, until all are done or one of them was interrupted.
private func outcomes<Outcome>(
    of options: StormCommand,
    _ simulate: (StormPolicy) -> Outcome?
) -> [(policy: StormPolicy, outcome: Outcome)] {
    var outcomes: [(policy: StormPolicy, outcome: Outcome)] = []
    var progress = Progress(total: options.storm.policies.count, isQuiet: options.general.isQuiet)
    for policy in options.storm.policies {
        progress.step(policy.rawValue)
        guard let outcome = simulate(policy) else { break }
        outcomes.append((policy, outcome))
    }
    progress.finish()
    return outcomes
}

/// The outcomes of all policies in one model.
struct StormResults: Sendable {
    /// Environment, options and seed, without rows.
    var run: RunResults
    var model: StormModel
    var outcomes: [(policy: StormPolicy, outcome: StormOutcome)] = []

    /// The report of `imbench storm`.
    ///
    /// - Parameter isUnicode: whether the plots may have more than ASCII.
    func report(isUnicode: Bool) -> Report {
        let table = table
        let timelines = outcomes.map(\.outcome.timeline)
        let plot = StormPlot(timelines, isUnicode: isUnicode)
        let plots = zip(outcomes, timelines).map { entry, timeline in
            Report.Section(
                heading: "\(entry.policy.rawValue): attempts/s, clients connected again",
                drawing: plot.lines(timeline, clients: model.clients),
                media: .textOnly,
                isDetail: true,
                shortName: "a plot for each policy"
            )
        }
        return Report(
            name: "imbench storm",
            title: "All clients reconnect after a restart: reconnect policies in virtual time",
            trust: .simulated(seed: run.record.seed),
            warnings: run.record.cutShort,
            verdict: verdict,
            facts: run.facts,
            sections: [
                Report.Section(
                    heading: "The server",
                    question: "How many attempts must the server bear?",
                    charts: peaks,
                    table: table.selecting(["peak/s", "once up", "attempts", "refused", "timed out", "wasted"]),
                    reading:
                        "Lower is better. A policy without jitter makes all clients try at the same moments. Attempts above "
                        + "what the server can complete in a second fill its queue, and those that do not fit are dropped.",
                    next: [
                        .init("To see a longer outage", "imbench storm --outage 1m"),
                        .init("To see a faster server", "imbench storm --handshakes 10000"),
                    ]
                ),
                Report.Section(
                    heading: "The clients",
                    question: "How soon are the clients connected again?",
                    charts: [times, connected(timelines)],
                    table: table.selecting(["50 % s", "99 % s", "100 % s", "gave up", "trying"]),
                    reading:
                        "The sooner a line reaches the top, the better. The server cannot complete more handshakes than "
                        + "its capacity, so no policy can be steeper than that. A line that ends below the top has clients "
                        + "that gave up, or that still try at the end.",
                    next: [.init("To see how one client of each transport recovers", "imbench outage")]
                ),
            ] + plots,
            records: table,
            data: run.envelope(
                results: zip(table.members, zip(outcomes, timelines)).map { members, entry in
                    let timeline = entry.1.enumerated().map { second, value in
                        ReportValue.object([
                            ("s", .integer(second)), ("attempts", .integer(value.attempts)),
                            ("back", .integer(value.back)),
                        ])
                    }
                    let isLimited = entry.0.outcome.stillTrying > 0
                    return .object(members + [("limit_reached", .bool(isLimited)), ("timeline", .array(timeline))])
                }
            )
        )
    }

    /// The most attempts in a second: all of them, and those after the outage beside the capacity of the server. A policy that
    /// has far more than the others is cut.
    private var peaks: [BarChart] {
        func chart(_ title: String, lines: [Double] = [], _ peak: (StormOutcome) -> Int) -> BarChart {
            let peaks = outcomes.map { Double(peak($0.outcome)) }.sorted(by: >)
            let end = max(min(peaks.first ?? 1, 3 * (peaks.dropFirst().first ?? .infinity)), lines.max() ?? 1)
            return BarChart(
                title: title,
                rows: outcomes.enumerated().map { index, entry in
                    let peak = peak(entry.outcome)
                    let name = entry.policy.rawValue
                    return BarChart.Row(name, Double(peak), shown: grouped(String(peak)), style: SeriesStyle(index))
                },
                range: 0...max(1, end),
                lines: lines
            )
        }
        let capacity = "Most attempts in a second once the server is up; the line is what it can complete"
        return [
            chart("Most attempts in a second") { $0.peak },
            chart(capacity, lines: [Double(model.handshakes)]) { $0.peakOnceUp },
        ]
    }

    private var times: BarChart {
        BarChart(
            title: "Seconds until 99 % are connected again",
            rows: outcomes.enumerated().map { index, entry in
                let seconds = entry.outcome.secondsUntilBack(percent: 99)
                let text = time(entry.outcome, percent: 99).text
                return BarChart.Row(entry.policy.rawValue, seconds, shown: text, style: SeriesStyle(index))
            }
        )
    }

    /// The most points of a line, without the one that continues it.
    private static let points = 150

    /// Clients that are connected again, one line for each policy. The line of a policy that has ended without all of them
    /// continues to the end of the chart, so that it can be seen beside the others.
    private func connected(_ timelines: [[StormOutcome.Second]]) -> LineChart {
        let outage = Double(model.outage.wholeNanoseconds) / 1e9
        let seconds = timelines.map(\.count).max() ?? 0
        let step = max(1, (seconds + Self.points - 1) / Self.points)
        return LineChart(
            title: "Clients connected again",
            x: Axis(title: "seconds after the loss"),
            y: Axis(title: "clients", range: 0...Double(max(1, model.clients))),
            series: zip(outcomes, timelines).enumerated().map { index, entry in
                let (outcome, timeline) = entry
                var points = stride(from: 0, to: timeline.count, by: step).map { start in
                    let end = min(start + step, timeline.count)
                    return LineChart.Point(Double(end), Double(timeline[end - 1].back))
                }
                if outcome.outcome.back < model.clients, timeline.count < seconds {
                    points.append(.init(Double(seconds), Double(outcome.outcome.back)))
                }
                return LineChart.Series(label: outcome.policy.rawValue, style: SeriesStyle(index), points: points)
            },
            references: outage > 0 ? [.init(direction: .vertical, value: outage, label: "server up")] : [],
            labels: .along
        )
    }

    /// The factor below which two times may differ because of the seed alone.
    private static let similar = 1.02

    /// Which policy is the fastest, and which ones do not succeed.
    private var verdict: [String] {
        let times = outcomes.compactMap { policy, outcome in
            outcome.secondsUntilBack(percent: 99).map { (policy: policy, seconds: $0, peak: outcome.peakOnceUp) }
        }
        var sentences: [String] = []
        if let best = times.min(by: { $0.seconds < $1.seconds }) {
            let shortest = fixed(best.seconds, 1)
            let equal = times.filter { $0.policy != best.policy && $0.seconds <= best.seconds * Self.similar }
            let rank =
                if !equal.isEmpty {
                    ", about as soon as with \(RowDifferences.list(equal.map(\.policy.rawValue)))"
                } else if outcomes.count > 1 {
                    ", sooner than with any other policy"
                } else {
                    ""
                }
            sentences.append(
                "With \(best.policy.rawValue), 99 % of the clients are connected again after \(shortest) s"
                    + "\(rank). Once the server is up, it gets at most \(grouped(String(best.peak))) attempts in a second."
            )
        }
        let others = outcomes.map(\.policy.rawValue).filter { name in !times.contains { $0.policy.rawValue == name } }
        if !others.isEmpty {
            let limit = fixed(Double(model.limit.wholeNanoseconds) / 1e9, 1, trimmed: true)
            sentences.append("99 % are not reached within \(limit) s with \(others.joined(separator: ", ")).")
        }
        return sentences
    }

    var table: Table {
        Table(
            columns: [
                .text("policy", "policy", "when a client connects again"),
                .number("peak/s", "peak_attempts_per_s", "most attempts that reached the server within a second"),
                .number("once up", "peak_attempts_once_up_per_s", "the same, after the outage only"),
                .number("attempts", "attempts", "attempts that reached the server"),
                .number("refused", "refused", "attempts that the server refused"),
                .number("timed out", "timed_out", "attempts that the client gave up after --connect-timeout"),
                .number("wasted", "wasted_handshakes", "handshakes of the server for clients that had left"),
                .number("50 % s", "back_50_s", "seconds until half of the clients are connected again"),
                .number("99 % s", "back_99_s", "seconds until 99 % of the clients are connected again"),
                .number("100 % s", "back_100_s", "seconds until all clients are connected again"),
                .number(nil, "back"), .number("gave up", "gave_up", "clients whose policy has ended"),
                .number("trying", "still_trying", "clients that still try at --limit"),
                .number(nil, "attempts_under_way"),
            ],
            rows: outcomes.map { policy, outcome in
                let attempts = [
                    outcome.peak, outcome.peakOnceUp, outcome.attempts, outcome.refused, outcome.timedOut,
                    outcome.wasted,
                ]
                let clients = [outcome.back, outcome.gaveUp, outcome.stillTrying, outcome.inFlight]
                var cells = [Table.Cell(policy.rawValue)] + attempts.map { Table.Cell($0) }
                cells += [50, 99, 100].map { time(outcome, percent: $0) } + clients.map { Table.Cell($0) }
                return Table.Row(cells: cells)
            }
        )
    }

    /// Seconds until that many are connected again, or for people why there are none: too many gave up, or the limit
    /// came first.
    private func time(_ outcome: StormOutcome, percent: Int) -> Table.Cell {
        let limit = "> " + fixed(Double(model.limit.wholeNanoseconds) / 1e9, 1, trimmed: true)
        let seconds = outcome.secondsUntilBack(percent: percent)
        return Table.Cell(
            seconds,
            seconds.map { fixed($0, 1) } ?? (outcome.isOutOfReach(percent: percent) ? "never" : limit)
        )
    }
}

/// The policies that `imbench storm` compares, and the model.
struct StormOptions: Sendable, Hashable {
    var policies = StormPolicy.allCases
    var model = StormModel()
}
