import CommandSupport
import Protocols
import Reporting
import TransportAPI
import Transports
import Workloads

/// The measured NAT in the report of `imbench heartbeat`.
extension HeartbeatResults {
    /// Whether the calculation agrees with what happened, or why that is not known.
    var trialVerdict: [String] {
        if let refusal = options.refusal {
            return [
                "No NAT was measured, because that needs \(refusal). So the verdicts about NATs are calculated only."
            ]
        }
        if let trialFailure { return ["No NAT was measured: \(trialFailure)"] }
        guard !trial.isEmpty else { return [] }
        var sentences: [String] = []
        let differing = trial.filter(\.differs)
        let measured = trial.filter { $0.seen != nil }
        if differing.isEmpty, !measured.isEmpty {
            sentences.append(
                "Behind a NAT that really forgets, \(measured.count == 1 ? "the client" : "all \(measured.count) clients") "
                    + "had the verdict that is calculated."
            )
        } else if !differing.isEmpty {
            let cases = differing.map { row in
                "\(row.transport), \(row.delivery.rawValue), \(row.pings.text): seen '\(row.seen?.rawValue ?? "")', calculated "
                    + "'\(row.calculated?.rawValue ?? "")'"
            }
            sentences.append(
                "THE CALCULATION DIFFERS from what happened behind a NAT that really forgets, for \(differing.count) of "
                    + "\(measured.count) clients: \(cases.joined(separator: "; ")). A busy machine, which pings too late, "
                    + "can cause this. If it happens again, the calculation is wrong."
            )
        }
        let failed = trial.count - measured.count
        if failed > 0 {
            sentences.append("\(failed) of \(counted(trial.count, "client")) behind the NAT had no result.")
        }
        return sentences
    }

    var trialSections: [Report.Section] {
        guard let timing = trial.first?.timing else { return [] }
        return [
            Report.Section(
                heading: "A NAT that forgets after \(timing.memory.settingText): measured",
                question: "What happens to a connection behind a NAT that really forgets?",
                charts: [timeline(timing)],
                table: trialTable,
                notes: [
                    "Each row is two clients on this machine, one with plain delivery and one in a session. They are silent after "
                        + "their handshake, apart from pings. The server sends one message after "
                        + "\(fixed(Self.seconds(timing.message), 2, trimmed: true)) s. The times are scaled down, because "
                        + "only the ratio of interval and memory matters. Packets of both directions refresh this NAT. "
                        + "RFC 4787 (2007, REQ-6) requires it only for packets of the client."
                ] + failures + run.networks.map { "NAT: \($0.sentence)" },
                reading:
                    "Each bar is a client in a session. A wide part is the time in which the NAT has forgotten the mapping, and the "
                    + "client does not know it. The number is the time until the server could reach the client again, in s. "
                    + "Without a number, it always could. The table has the longer time of two clients, one of them in a "
                    + "session, so it can differ a little.",
                isDetail: true
            )
        ]
    }

    /// The reasons of clients without a result.
    private var failures: [String] {
        trial.compactMap { row in
            row.failure.map { "\(row.transport), \(row.delivery.rawValue), \(row.pings.text): \($0)" }
        }
    }

    /// The two clients of each transport and its pings, plain first.
    private var pairs: [(transport: String, pings: NATPings, rows: [NATRow])] {
        trial.map(\.transport).distinct.flatMap { transport in
            let own = trial.filter { $0.transport == transport }
            return own.map(\.pings).distinct.map { pings in (transport, pings, own.filter { $0.pings == pings }) }
        }
    }

    private var trialTable: Table {
        Table(
            labels: 2,
            columns: [
                .text("transport", nil, "the protocol, as in the scheme of its URL"),
                .text("interval", nil, "silence before a ping of the client, or before one of the server"),
                .text("seen", nil, "the effect on the connection, as in the calculated table"),
                .number(
                    "detect s",
                    nil,
                    "from the last packet until the supervisor ended the connection; longer of both"
                ),
                .number(
                    "back s",
                    nil,
                    "from the last packet until the server reached the client again; longer of both"
                ),
                .text(
                    "plain",
                    nil,
                    "with plain delivery: the message arrived at once, late, after a reconnect, or was lost"
                ),
                .text("session", nil, "the same in a session; over MQTT with qos=1 and clean-session=off"),
            ],
            rows: pairs.map { transport, pings, rows in
                func longest(_ time: (NATRow) -> Duration?) -> Table.Cell {
                    let longest = rows.compactMap(time).max().map(Self.seconds)
                    return Table.Cell(longest, longest.map { fixed($0, 2) } ?? "-")
                }
                func fate(_ delivery: DeliveryConfiguration.Mode) -> Table.Cell {
                    Table.Cell(rows.first { $0.delivery == delivery }?.fate?.rawValue ?? "-")
                }
                let seen = rows.compactMap(\.seen?.rawValue).distinct.joined(separator: ", ")
                let cells = [
                    Table.Cell(transport), Table.Cell(pings.text), Table.Cell(seen.isEmpty ? "-" : seen),
                    longest(\.detected), longest(\.recovered), fate(.plain), fate(.session),
                ]
                return Table.Row(
                    cells: cells,
                    isFailure: rows.contains { $0.failure != nil || $0.differs }
                )
            }
        )
    }

    /// The states of each client in a session.
    private func timeline(_ timing: NATTiming) -> BarChart {
        let end = Self.seconds(timing.effect + timing.delivery)
        let memory = Self.seconds(timing.memory)
        return BarChart(
            title: "State of the connection, in seconds after the last packet",
            legend: [
                (.connected, "the server reaches the client"), (.undetected, "the mapping is forgotten"),
                (.reconnecting, "connecting again"),
            ],
            rows: trial.filter { $0.delivery == .session && $0.seen != nil }.map { row in
                let back = row.recovered.map(Self.seconds)
                let detected = row.detected.map(Self.seconds)
                var spans: [BarChart.Span] = []
                if let back {
                    spans = [
                        .init(kind: .connected, from: 0, to: memory),
                        .init(kind: .undetected, from: memory, to: detected ?? back),
                    ]
                    if let detected { spans.append(.init(kind: .reconnecting, from: detected, to: back)) }
                }
                spans.append(.init(kind: .connected, from: back ?? 0, to: end))
                return BarChart.Row(
                    label: "\(row.transport) \(row.pings.text)",
                    spans: spans,
                    value: back.map { fixed($0, 2) } ?? "-"
                )
            },
            range: 0...end
        )
    }

    // MARK: For programs

    /// The members of one client behind the measured NAT.
    static func members(_ row: NATRow) -> [(String, ReportValue)] {
        func time(_ duration: Duration?) -> ReportValue { .rounded(duration.map(seconds)) }
        return [
            ("transport", .string(row.transport)), ("delivery", .string(row.delivery.rawValue)),
            ("interval_s", time(row.pings.client)), ("server_interval_s", time(row.pings.server)),
            ("nat_s", time(row.timing.memory)), ("verdict", ReportValue(row.calculated?.rawValue)),
            ("seen", ReportValue(row.seen?.rawValue)), ("forgotten_mappings", ReportValue(row.observation?.forgotten)),
            ("detected_after_s", time(row.detected)), ("recovered_after_s", time(row.recovered)),
            ("message", ReportValue(row.fate?.rawValue)), ("message_sent_after_s", time(row.timing.message)),
            ("message_after_s", time(row.observation?.message)), ("reason", ReportValue(row.failure)),
        ]
    }

    var trialData: ReportValue {
        .object([
            ("needs", ReportValue(options.refusal)),
            ("agrees", trial.allSatisfy { $0.seen == nil } ? .null : .bool(!trial.contains(where: \.differs))),
            ("clients", .array(trial.map { .object(Self.members($0)) })),
            ("networks", .array(run.networks.map(\.data))),
        ])
    }
}
