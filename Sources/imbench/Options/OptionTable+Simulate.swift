extension OptionTable {
    static let simulate: [OptionRow] = [
        OptionRow(
            name: "seeds",
            placeholder: "N",
            group: .load,
            commands: [.simulate],
            summary: "how many worlds, one after the other seed",
            shown: { String($0.simulation.count) },
            apply: { (options, text, _) throws(UsageError) in
                options.simulation.count = try OptionValue.integer(text, "seeds", in: 1...1_000_000_000)
            }
        ),
        OptionRow(
            name: "from",
            placeholder: "S",
            group: .load,
            commands: [.simulate],
            summary: "the first seed",
            shown: { String($0.simulation.first) },
            apply: { (options, text, _) throws(UsageError) in
                options.simulation.first = UInt64(try OptionValue.integer(text, "from", in: 0...9_007_199_254_740_991))
            }
        ),
        OptionRow(
            name: "threads",
            placeholder: "N",
            group: .load,
            commands: [.simulate],
            summary: "threads; the result is the same for any number",
            shown: { String($0.simulation.threads) },
            apply: { (options, text, _) throws(UsageError) in
                options.simulation.threads = try OptionValue.integer(text, "threads", in: 1...64)
            }
        ),
        OptionRow(
            name: "stack",
            group: .what,
            commands: [.simulate],
            summary: "the whole stack: transports, supervisors and servers over a simulated kernel",
            apply: { (options, _, _) throws(UsageError) in options.simulation.isStack = true }
        ),
        OptionRow(
            name: "defect",
            placeholder: "NAME",
            group: .what,
            commands: [.simulate],
            summary: "with --stack: brings a former defect back, and succeeds if the checks find it; "
                + StackDefect.names,
            apply: { (options, text, _) throws(UsageError) in
                guard let defect = StackDefect(rawValue: text) else {
                    throw UsageError("--defect is '\(text)'; allowed are \(StackDefect.names)")
                }
                options.simulation.defect = defect
            }
        ),
        OptionRow(
            name: "verbose",
            group: .report,
            commands: [.simulate],
            summary: "with --seed: everything that happens in that world",
            apply: { (options, _, _) throws(UsageError) in options.simulation.isVerbose = true }
        ),
    ]
}
