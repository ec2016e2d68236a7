extension OptionTable {
    static let work: [OptionRow] = [
        OptionRow(
            name: "times",
            placeholder: "N",
            group: .load,
            commands: [.work],
            summary: "how often it is done",
            shown: { String($0.times) },
            apply: { (options, text, _) throws(UsageError) in
                options.times = try OptionValue.integer(text, "times", in: 1...1_000_000_000)
            }
        )
    ]
}
