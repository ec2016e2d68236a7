/// The formats for programs. What was never reached is null in JSON and empty in CSV.
extension StormReport {
    /// The members of ``JSONReport``, with results of another kind.
    static func json(_ results: StormResults) -> JSONValue {
        JSONReport.value(results.run, results: results.outcomes.map(result))
    }

    private static func result(_ policy: StormPolicy, _ outcome: StormOutcome) -> JSONValue {
        let timeline = outcome.timeline.enumerated().map { second, value in
            JSONValue.object([
                ("s", .integer(second)), ("attempts", .integer(value.attempts)), ("back", .integer(value.back)),
            ])
        }
        let members = fields(outcome).map { name, value in (name, JSONValue(value)) }
        return .object(
            [("policy", .string(policy.rawValue))] + members + [
                ("limit_reached", .bool(outcome.stillTrying > 0)), ("timeline", .array(timeline)),
            ]
        )
    }

    /// One line for each policy, without the timeline (RFC 4180).
    static func csv(_ results: StormResults) -> String {
        let names = results.outcomes.first.map { fields($0.outcome).map(\.name) } ?? []
        let lines = results.outcomes.map { policy, outcome in
            [policy.rawValue] + fields(outcome).map { $0.value.map { fixed($0, 3, trimmed: true) } ?? "" }
        }
        return ([["policy"] + names] + lines).map { $0.joined(separator: ",") + "\r\n" }.joined()
    }

    private static func fields(_ outcome: StormOutcome) -> [(name: String, value: Double?)] {
        func seconds(_ percent: Int) -> Double? {
            outcome.secondsUntilBack(percent: percent).map { ($0 * 1000).rounded() / 1000 }
        }
        return [
            ("peak_attempts_per_s", Double(outcome.peak)), ("peak_attempts_once_up_per_s", Double(outcome.peakOnceUp)),
            ("attempts", Double(outcome.attempts)), ("refused", Double(outcome.refused)),
            ("timed_out", Double(outcome.timedOut)), ("wasted_handshakes", Double(outcome.wasted)),
            ("back_50_s", seconds(50)), ("back_99_s", seconds(99)), ("back_100_s", seconds(100)),
            ("back", Double(outcome.back)), ("gave_up", Double(outcome.gaveUp)),
            ("still_trying", Double(outcome.stillTrying)), ("attempts_under_way", Double(outcome.underWay)),
        ]
    }
}
