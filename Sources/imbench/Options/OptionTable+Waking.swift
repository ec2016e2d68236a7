import TransportAPI

extension OptionTable {
    /// What a wake-up costs in a run, and whether there is one.
    static let waking: [OptionRow] = [
        OptionRow(
            name: "awake",
            group: .load,
            commands: [.run],
            summary:
                "keep the cores from sleeping, and client and server on different cores: compares code, not power management",
            shown: { $0.awake ? "yes" : "no" },
            apply: { (options, _, _) throws(UsageError) in options.awake = true }
        ),
        OptionRow(
            name: "busy-poll",
            placeholder: "TIME",
            group: .load,
            commands: [.run],
            summary:
                "how long client and server poll before they sleep, as in 50us, in place of not at all; their CPU time counts it",
            shown: { $0.busyPoll == .zero ? nil : DurationText.format($0.busyPoll) },
            apply: { (options, text, _) throws(UsageError) in
                options.busyPoll = try DurationText.parse(text, "busy-poll", in: .zero ... .seconds(1))
            }
        ),
    ]
}
