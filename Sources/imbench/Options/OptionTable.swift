import TransportAPI

/// All options, in the order of the help text.
enum OptionTable {
    static let rows: [OptionRow] =
        comparison + compare + serve + chat + load + waking + proxy + storm + outage + crowd + simulate + work + report
        + general

    static let comparison: [OptionRow] = [
        OptionRow(
            name: "transport",
            placeholder: "LIST",
            group: .what,
            commands: [.run, .overhead, .trace, .outage, .crowd],
            summary: "transports",
            allowed: { $0.transports },
            shown: { $0.transports.joined(separator: ",") },
            apply: { (options, text, words) throws(UsageError) in
                options.transports = try OptionValue.words(text, "transport", of: words.transports)
            }
        ),
        OptionRow(
            name: "codec",
            placeholder: "LIST",
            group: .what,
            commands: [.run, .overhead, .trace, .chat],
            summary: "codecs; of a chat, one",
            allowed: { $0.codecs },
            shown: { $0.codecs.joined(separator: ",") },
            apply: { (options, text, words) throws(UsageError) in
                options.codecs = try OptionValue.words(text, "codec", of: words.codecs)
            }
        ),
        OptionRow(
            name: "size",
            placeholder: "LIST",
            group: .what,
            commands: [.run, .overhead],
            summary: "bytes of text in a message",
            shown: { $0.sizes.map(String.init).joined(separator: ",") },
            apply: { (options, text, _) throws(UsageError) in
                options.sizes = try OptionValue.integers(text, "size", in: 1...(1 << 24))
            }
        ),
        OptionRow(
            name: "url",
            placeholder: "URL",
            group: .what,
            commands: [.run],
            summary: "an outside server in place of the embedded one, as in mqtt://host:1883; may be repeated",
            shown: { $0.urls.isEmpty ? nil : $0.urls.map(\.description).joined(separator: " ") },
            apply: { (options, text, words) throws(UsageError) in
                let endpoint = try OptionValue.endpoint(text, "url", schemes: words.transports)
                guard !options.urls.contains(where: { $0.scheme == endpoint.scheme }) else {
                    throw UsageError("--url: there are two servers for \(endpoint.scheme)")
                }
                options.urls.append(endpoint)
            }
        ),
    ]

    static let load: [OptionRow] = [
        OptionRow(
            name: "duration",
            placeholder: "TIME",
            group: .load,
            commands: [.run],
            summary: "how long each row is measured, over all repeats: 250ms, 5s, 2m",
            excludes: "messages",
            shown: { if case .duration(let duration) = $0.extent { DurationText.format(duration) } else { nil } },
            apply: { (options, text, _) throws(UsageError) in
                let range = Duration.milliseconds(1)...Duration.seconds(86400)
                options.extent = .duration(try DurationText.parse(text, "duration", in: range))
            }
        ),
        OptionRow(
            name: "messages",
            placeholder: "N",
            group: .load,
            commands: [.run],
            summary: "how many messages each row measures, in place of a duration",
            excludes: "duration",
            shown: { if case .messages(let count) = $0.extent { String(count) } else { nil } },
            apply: { (options, text, _) throws(UsageError) in
                options.extent = .messages(try OptionValue.integer(text, "messages", in: 1...1_000_000_000))
            }
        ),
        OptionRow(
            name: "warmup",
            placeholder: "TIME",
            group: .load,
            commands: [.run],
            summary: "how long each row runs before it is measured",
            shown: { DurationText.format($0.warmup) },
            apply: { (options, text, _) throws(UsageError) in
                options.warmup = try DurationText.parse(text, "warmup", in: .zero ... .seconds(3600))
            }
        ),
        OptionRow(
            name: "repeat",
            placeholder: "N",
            group: .load,
            commands: [.run, .crowd],
            summary:
                "into how many repeats, in random order, a row is cut; with crowd --hostile, how often each attack is "
                + "measured, of which the one in the middle counts (1)",
            shown: { String($0.repeats) },
            apply: { (options, text, _) throws(UsageError) in
                options.repeats = try OptionValue.integer(text, "repeat", in: 1...1000)
            }
        ),
        OptionRow(
            name: "connections",
            placeholder: "N",
            group: .load,
            commands: [.run],
            summary: "connections at once",
            shown: { String($0.connections) },
            apply: { (options, text, _) throws(UsageError) in
                options.connections = try OptionValue.integer(text, "connections", in: 1...10_000)
            }
        ),
        OptionRow(
            name: "in-flight",
            placeholder: "N",
            group: .load,
            commands: [.run],
            summary: "closed loop: messages under way on each connection",
            excludes: "rate",
            shown: { $0.rate == nil ? String($0.inFlight) : nil },
            apply: { (options, text, _) throws(UsageError) in
                options.inFlight = try OptionValue.integer(text, "in-flight", in: 1...1024)
            }
        ),
        OptionRow(
            name: "rate",
            placeholder: "R",
            group: .load,
            commands: [.run],
            summary: "open loop: messages per second on each connection, whether answers come or not",
            excludes: "in-flight",
            shown: { $0.rate.map { fixed($0, 3, trimmed: true) } },
            apply: { (options, text, _) throws(UsageError) in
                options.rate = try OptionValue.positive(text, "rate", upTo: 10_000_000)
            }
        ),
        OptionRow(
            name: "seed",
            placeholder: "S",
            group: .load,
            commands: [.run, .serve, .storm, .outage, .simulate],
            summary: "what is left to chance: order, texts, clients, losses; chosen and printed if not given",
            shown: { $0.seed.map(String.init) },
            apply: { (options, text, _) throws(UsageError) in
                // The largest whole number that every reader of JSON keeps exactly (RFC 8259, section 6).
                options.seed = UInt64(try OptionValue.integer(text, "seed", in: 0...9_007_199_254_740_991))
            }
        ),
    ]

    static let report: [OptionRow] = [
        OptionRow(
            name: "format",
            placeholder: "FORMAT",
            group: .report,
            commands: [.run, .compare, .overhead, .trace, .storm, .outage, .crowd],
            summary: "how the report is written",
            allowed: { _ in Format.allCases.map(\.rawValue) },
            shown: { $0.format.rawValue },
            apply: { (options, text, _) throws(UsageError) in
                guard let format = Format(rawValue: text.lowercased()) else {
                    throw .unknown("format", text, allowed: Format.allCases.map(\.rawValue))
                }
                options.format = format
            }
        ),
        OptionRow(
            name: "output",
            placeholder: "FILE",
            group: .report,
            commands: [.run, .compare, .overhead, .trace, .storm, .outage, .crowd],
            summary: "write the report there in place of standard output",
            shown: { $0.output },
            apply: { (options, text, _) throws(UsageError) in
                guard !text.isEmpty else { throw UsageError("--output needs the name of a file") }
                options.output = text
            }
        ),
        OptionRow(
            name: "assert",
            placeholder: "EXPR",
            group: .report,
            commands: [.run, .compare, .crowd],
            summary: "end with status 99 unless this holds, as in 'ws.rtt.p99_us < 2000', with crowd "
                + "'ws.ping-flood.heap_peak_bytes < 65536', with compare 'ws.rtt.p50_us.ratio_low <= 1.05'; may be repeated",
            shown: { options in
                let texts = options.assertions.map(\.text) + options.crowd.assertions.map(\.text)
                return texts.isEmpty ? nil : texts.joined(separator: "; ")
            },
            apply: { (options, text, words) throws(UsageError) in
                guard options.assertions.count + options.crowd.assertions.count < 1000 else {
                    throw UsageError("--assert may be given at most 1000 times")
                }
                guard options.command != .crowd else {
                    return options.crowd.assertions.append(try CrowdAssertion(text, words))
                }
                let metrics = options.command == .compare ? ComparedRow.metrics : Metric.all.map(\.name)
                options.assertions.append(try Assertion(text, words, metrics: metrics))
            }
        ),
    ]

    static let general: [OptionRow] = [
        OptionRow(
            name: "quiet",
            group: .general,
            commands: Command.allCases,
            summary: "no progress and no remarks",
            apply: { (options, _, _) throws(UsageError) in options.quiet = true }
        ),
        OptionRow(
            name: "help",
            group: .general,
            commands: Command.allCases,
            summary: "this text",
            apply: { (options, _, _) throws(UsageError) in options.wantsHelp = true }
        ),
        OptionRow(
            name: "version",
            group: .general,
            commands: Command.allCases,
            summary: "the version",
            apply: { (options, _, _) throws(UsageError) in options.wantsVersion = true }
        ),
    ]
}

extension OptionTable {
    /// The options as they could be typed again, for the report.
    static func record(of options: Options) -> [(name: String, value: String)] {
        rows.filter { $0.commands.contains(options.command) }
            .compactMap { row in row.shown(options).map { (row.name, $0) } }
    }
}
