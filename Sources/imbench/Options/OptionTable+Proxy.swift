extension OptionTable {
    /// The options of `serve --proxy`.
    static let proxy: [OptionRow] = [
        OptionRow(
            name: "proxy",
            placeholder: "URL",
            group: .path,
            commands: [.serve],
            summary: "a proxy to this server in place of the embedded ones, with this wrong on the path",
            excludes: "listen",
            shown: { $0.proxy?.description },
            apply: { (options, text, words) throws(UsageError) in
                // What is compared by default is what has a network.
                options.proxy = try OptionValue.endpoint(text, "proxy", schemes: words.defaultTransports)
            }
        ),
        fault(
            "delay",
            "TIME",
            "how long everything is on its way, each way: 50ms",
            shown: { DurationText.format($0.faults.delay) },
            apply: { (options, text, _) throws(UsageError) in
                options.faults.delay = try DurationText.parse(text, "delay", in: .zero ... .seconds(3600))
            }
        ),
        fault(
            "jitter",
            "TIME",
            "up to so much is added to the delay, by chance",
            shown: { DurationText.format($0.faults.jitter) },
            apply: { (options, text, _) throws(UsageError) in
                options.faults.jitter = try DurationText.parse(text, "jitter", in: .zero ... .seconds(3600))
            }
        ),
        fault(
            "throttle",
            "N",
            "bytes per second, each way of each connection",
            shown: { $0.faults.bytesPerSecond.map(String.init) },
            apply: { (options, text, _) throws(UsageError) in
                options.faults.bytesPerSecond = try OptionValue.integer(text, "throttle", in: 1...1_000_000_000_000)
            }
        ),
        fault(
            "loss",
            "SHARE",
            "datagrams that get lost, each way, from 0 to 1",
            shown: { fixed($0.faults.loss, 9, trimmed: true) },
            apply: { (options, text, _) throws(UsageError) in
                options.faults.loss = try OptionValue.share(text, "loss")
            }
        ),
        fault(
            "duplicate",
            "SHARE",
            "datagrams that arrive twice, each way, from 0 to 1",
            shown: { fixed($0.faults.duplication, 9, trimmed: true) },
            apply: { (options, text, _) throws(UsageError) in
                options.faults.duplication = try OptionValue.share(text, "duplicate")
            }
        ),
        fault(
            "reorder",
            "SHARE",
            "datagrams that arrive behind the next one, each way, from 0 to 1",
            shown: { fixed($0.faults.reordering, 9, trimmed: true) },
            apply: { (options, text, _) throws(UsageError) in
                options.faults.reordering = try OptionValue.share(text, "reorder")
            }
        ),
    ]

    private static func fault(
        _ name: String,
        _ placeholder: String,
        _ summary: String,
        shown: @escaping @Sendable (Options) -> String?,
        apply: @escaping OptionRow.Apply
    ) -> OptionRow {
        OptionRow(
            name: name,
            placeholder: placeholder,
            group: .path,
            commands: [.serve],
            summary: summary,
            requires: "proxy",
            shown: shown,
            apply: apply
        )
    }
}

extension OptionValue {
    /// A share of the whole, from 0 to 1.
    static func share(_ text: String, _ name: String) throws(UsageError) -> Double {
        guard let value = decimal(text) else { throw UsageError("--\(name): '\(text)' is not a number") }
        guard value <= 1 else { throw UsageError("--\(name): \(text) is not between 0 and 1") }
        return value
    }
}
