import TransportAPI

// What `serve` runs.
extension OptionTable {
    static let serve: [OptionRow] = [
        OptionRow(
            name: "listen",
            placeholder: "URL",
            group: .what,
            commands: [.serve],
            summary: "which server listens where, as in ws://[::1]:8080; may be repeated",
            excludes: "proxy",
            shown: { $0.listen.isEmpty ? nil : $0.listen.map(\.description).joined(separator: " ") },
            apply: { (options, text, words) throws(UsageError) in
                guard options.listen.count < 64 else { throw UsageError("--listen may be given at most 64 times") }
                options.listen.append(try OptionValue.endpoint(text, "listen", schemes: words.transports))
            }
        ),
        OptionRow(
            name: "user",
            placeholder: "NAME:PASSWORD",
            group: .what,
            commands: [.serve],
            summary: "who may come in at the MQTT broker, in place of everybody; may be repeated",
            excludes: "proxy",
            apply: { (options, text, _) throws(UsageError) in
                guard options.users.count < 64 else { throw UsageError("--user may be given at most 64 times") }
                options.users.append(try ServedUser(text))
            }
        ),
        admission(
            "origins",
            "which web pages the WebSocket servers admit: same, null (pages from disk), any, or origins",
            \.origins
        ),
        admission(
            "hosts",
            "which Host headers the WebSocket servers admit: loopback, any, or hosts",
            \.hosts
        ),
    ]

    /// An option that is handed on to those servers that have an option of the same name.
    private static func admission(
        _ name: String,
        _ summary: String,
        _ list: WritableKeyPath<Options, String?> & Sendable
    ) -> OptionRow {
        OptionRow(
            name: name,
            placeholder: "LIST",
            group: .what,
            commands: [.serve],
            summary: summary,
            excludes: "proxy",
            shown: { $0[keyPath: list] },
            apply: { (options, text, _) throws(UsageError) in
                guard !text.isEmpty else { throw UsageError("--\(name) needs a list, separated by commas") }
                options[keyPath: list] = text
            }
        )
    }
}
