import CommandSupport
import Reporting
import TransportAPI
import Workloads

/// The outcomes of all policies in one model with several servers, which fail one after another.
struct RollingResults: Sendable {
    /// Environment, options and seed, without rows.
    var run: RunResults
    var model: StormModel
    var outcomes: [(policy: StormPolicy, outcome: RollingOutcome)] = []

    var report: Report {
        let table = table
        return Report(
            name: "imbench storm",
            title: "\(model.servers) servers fail one after another: reconnect policies in virtual time",
            trust: .simulated(seed: run.record.seed),
            warnings: run.record.cutShort,
            verdict: verdict,
            facts: run.facts,
            sections: [
                Report.Section(
                    heading: "The clients",
                    question: "How long is a client without a connection, and how often?",
                    charts: [without],
                    table: table.selecting(["per client", "50 % s", "99 % s", "100 % s", "gave up", "trying"]),
                    reading:
                        "The times are those from the loss of a connection to the next one. A client loses more than one "
                        + "if its new server fails after it.",
                    next: [
                        .init(
                            "To see more time between two servers",
                            "imbench storm --servers 10 --every 5m --limit 1h"
                        )
                    ]
                ),
                Report.Section(
                    heading: "The servers",
                    question: "What must one server bear?",
                    table: table.selecting(["peak/s", "at once", "refused", "timed out", "wasted", "fullest %"]),
                    reading:
                        "A server that was restarted late gets few clients, because nobody moves those that are connected. The "
                        + "others need room for its clients.",
                    next: [.init("To see a single server with all clients", "imbench storm")]
                ),
            ],
            records: table,
            data: run.envelope(
                results: zip(table.members, outcomes).map { members, entry in
                    let outcome = entry.outcome
                    return .object(
                        members + [
                            ("limit_reached", .bool(outcome.stillTrying > 0)),
                            ("clients_by_server", .array(outcome.clientsByServer.map { .integer($0) })),
                            ("without_connection_by_s", .array(outcome.timeline.map { .integer($0) })),
                        ]
                    )
                }
            )
        )
    }

    /// The most points of a line.
    private static let points = 150

    private var without: LineChart {
        let timelines = outcomes.map(\.outcome.timeline)
        let step = max(1, ((timelines.map(\.count).max() ?? 0) + Self.points - 1) / Self.points)
        let most = timelines.map { $0.max() ?? 0 }.max() ?? 0
        return LineChart(
            title: "Clients without a connection",
            x: Axis(title: "seconds after the first failure"),
            y: Axis(title: "clients", range: 0...Double(max(1, most))),
            series: zip(outcomes, timelines).enumerated().map { index, entry in
                let (outcome, timeline) = entry
                // The most within each step, so that no peak falls between two points.
                let points = stride(from: 0, to: timeline.count, by: step).map { start in
                    let end = min(start + step, timeline.count)
                    return LineChart.Point(Double(end), Double(timeline[start..<end].max() ?? 0))
                }
                return LineChart.Series(label: outcome.policy.rawValue, style: SeriesStyle(index), points: points)
            },
            labels: .along
        )
    }

    private var verdict: [String] {
        let limit = fixed(Double(model.limit.wholeNanoseconds) / 1e9, 1, trimmed: true)
        let complete = outcomes.filter { $0.outcome.stillTrying == 0 && $0.outcome.gaveUp == 0 }
        var sentences: [String] = []
        let shortest = complete.compactMap { entry in entry.outcome.seconds(percent: 99).map { (entry, $0) } }
        if let ((policy, outcome), seconds) = shortest.min(by: { $0.1 < $1.1 }) {
            sentences.append(
                "With \(policy.rawValue), 99 % of the losses last at most \(fixed(seconds, 1)) s, and at most "
                    + "\(grouped(String(outcome.mostWithout))) of \(grouped(String(model.clients))) clients have no connection "
                    + "at the same moment. A client loses \(fixed(perClient(outcome), 2)) connections on average."
            )
        }
        let others = outcomes.filter { $0.outcome.stillTrying > 0 || $0.outcome.gaveUp > 0 }.map(\.policy.rawValue)
        if !others.isEmpty {
            sentences.append(
                "With \(others.joined(separator: ", ")), not all clients are connected again within \(limit) s."
            )
        }
        return sentences
    }

    private func perClient(_ outcome: RollingOutcome) -> Double {
        Double(outcome.losses) / Double(max(1, model.clients))
    }

    var table: Table {
        Table(
            columns: [
                .text("policy", "policy", "when a client connects again"),
                .number("per client", "losses_per_client", "connections that a client lost, on average"),
                .number("50 % s", "gap_50_s", "seconds without a connection at most, for half of the losses"),
                .number("99 % s", "gap_99_s", "the same for 99 % of the losses"),
                .number("100 % s", "gap_100_s", "the same for all losses"),
                .number("gave up", "gave_up", "clients whose policy has ended"),
                .number("trying", "still_trying", "clients that still try at --limit"),
                .number("peak/s", "peak_attempts_per_s", "most attempts that reached one server within a second"),
                .number("at once", "most_without_connection", "most clients without a connection at the same moment"),
                .number("refused", "refused", "attempts that were refused"),
                .number("timed out", "timed_out", "attempts that the client gave up after --connect-timeout"),
                .number("wasted", "wasted_handshakes", "handshakes of a server for clients that had left"),
                .number(
                    "fullest %",
                    "fullest_percent",
                    "clients of the fullest server at the end, 100 if all had the same"
                ),
                .number(nil, "losses"), .number(nil, "attempts"),
            ],
            rows: outcomes.map { policy, outcome in
                let limit = "> " + fixed(Double(model.limit.wholeNanoseconds) / 1e9, 1, trimmed: true)
                func time(_ percent: Int) -> Table.Cell {
                    let seconds = outcome.seconds(percent: percent)
                    return Table.Cell(seconds, seconds.map { fixed($0, 1) } ?? (outcome.gaveUp > 0 ? "never" : limit))
                }
                let (losses, fullest) = (perClient(outcome), 100 * outcome.fullest)
                return Table.Row(
                    cells: [
                        Table.Cell(policy.rawValue), Table.Cell(losses, fixed(losses, 2)), time(50), time(99),
                        time(100),
                        Table.Cell(outcome.gaveUp), Table.Cell(outcome.stillTrying), Table.Cell(outcome.peak),
                        Table.Cell(outcome.mostWithout), Table.Cell(outcome.refused), Table.Cell(outcome.timedOut),
                        Table.Cell(outcome.wasted), Table.Cell(fullest, fixed(fullest, 0)), Table.Cell(outcome.losses),
                        Table.Cell(outcome.attempts),
                    ]
                )
            }
        )
    }
}
