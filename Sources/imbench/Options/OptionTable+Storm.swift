import TransportAPI

extension OptionTable {
    /// What `imbench storm` simulates.
    static let storm: [OptionRow] = [
        OptionRow(
            name: "policy",
            placeholder: "LIST",
            group: .what,
            commands: [.storm],
            summary: "reconnect policies",
            allowed: { _ in StormPolicy.allCases.map(\.rawValue) },
            shown: { $0.storm.policies.map(\.rawValue).joined(separator: ",") },
            apply: { (options, text, _) throws(UsageError) in
                let names = try OptionValue.words(text, "policy", of: StormPolicy.allCases.map(\.rawValue))
                options.storm.policies = names.compactMap(StormPolicy.init)
            }
        ),
        count("clients", "how many clients lose their link at once", in: 1...1_000_000, \.clients),
        count("handshakes", "how many handshakes the server does in a second", in: 1...1_000_000, \.handshakes),
        count("backlog", "how many connections may wait for the server", in: 0...1_000_000, \.backlog),
        time("outage", "how long the server refuses everybody", in: .zero ... .seconds(3600), \.outage),
        time(
            "connect-timeout",
            "how long a client waits for its handshake",
            in: .milliseconds(100) ... .seconds(3600),
            \.connectTimeout
        ),
        time("limit", "virtual time after which the simulation ends", in: .seconds(1) ... .seconds(3600), \.limit),
    ]

    private static func count(
        _ name: String,
        _ summary: String,
        in range: ClosedRange<Int>,
        _ path: WritableKeyPath<StormModel, Int> & Sendable
    ) -> OptionRow {
        OptionRow(
            name: name,
            placeholder: "N",
            group: .load,
            commands: [.storm],
            summary: summary,
            shown: { String($0.storm.model[keyPath: path]) },
            apply: { (options, text, _) throws(UsageError) in
                options.storm.model[keyPath: path] = try OptionValue.integer(text, name, in: range)
            }
        )
    }

    private static func time(
        _ name: String,
        _ summary: String,
        in range: ClosedRange<Duration>,
        _ path: WritableKeyPath<StormModel, Duration> & Sendable
    ) -> OptionRow {
        OptionRow(
            name: name,
            placeholder: "TIME",
            group: .load,
            commands: [.storm],
            summary: summary,
            shown: { DurationText.format($0.storm.model[keyPath: path]) },
            apply: { (options, text, _) throws(UsageError) in
                options.storm.model[keyPath: path] = try DurationText.parse(text, name, in: range)
            }
        )
    }
}
