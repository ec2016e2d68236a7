import TransportAPI

/// What `imbench outage` lets happen, and how fast.
struct OutageOptions: Sendable, Equatable {
    var faults = OutageFault.allCases
    var timing = OutageTiming()
}

extension OptionTable {
    /// What goes wrong in `imbench outage`.
    static let outage: [OptionRow] = [
        OptionRow(
            name: "fault",
            placeholder: "LIST",
            group: .what,
            commands: [.outage],
            summary: "what goes wrong",
            allowed: { _ in OutageFault.allCases.map(\.rawValue) },
            shown: { $0.outage.faults.map(\.rawValue).joined(separator: ",") },
            apply: { (options, text, _) throws(UsageError) in
                let names = try OptionValue.words(text, "fault", of: OutageFault.allCases.map(\.rawValue))
                options.outage.faults = names.compactMap(OutageFault.init)
            }
        ),
        time("interval", "keepalive: silence before the far side is asked", \.interval),
        time("timeout", "keepalive: how long the answer may take", \.timeout),
        time("down", "how long a fault lasts that does not pass by itself", \.outage),
    ]

    private static func time(
        _ name: String,
        _ summary: String,
        _ path: WritableKeyPath<OutageTiming, Duration> & Sendable
    ) -> OptionRow {
        OptionRow(
            name: name,
            placeholder: "TIME",
            group: .load,
            commands: [.outage],
            summary: summary,
            shown: { DurationText.format($0.outage.timing[keyPath: path]) },
            apply: { (options, text, _) throws(UsageError) in
                options.outage.timing[keyPath: path] =
                    try DurationText.parse(text, name, in: .milliseconds(50) ... .seconds(600))
            }
        )
    }
}
