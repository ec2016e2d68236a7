import EmbeddedServers
import Protocols
import SocketIO
import TransportAPI
import Transports

/// All options, in the order of the help text.
enum OptionTable {
    typealias Row = OptionRow

    static let rows =
        subject + encryption + network + serve + chat + load + waking + proxy + storm + outage + heartbeat + advice
        + fanout + crowd + simulate + report + general

    /// The rows of a command.
    static func rows(of command: Command) -> [Row] { rows.filter { $0.commands.contains(command) } }

    /// The options as the user could type them again, for the report.
    static func record(of options: Options) -> [(name: String, value: String)] {
        rows(of: options.command).compactMap { row in row.shown(options).map { (row.name, $0) } }
    }

    /// Rows of one group, for the same commands, with the same exclusion and requirement.
    static func section(
        _ group: Row.Group,
        _ commands: [Command],
        excludes: String? = nil,
        requires: String? = nil,
        _ rows: Row...
    ) -> [Row] {
        rows.map { row in
            var row = row
            (row.group, row.commands) = (group, commands)
            (row.excludes, row.requires) = (row.excludes ?? excludes, row.requires ?? requires)
            return row
        }
    }

    // MARK: Formats

    /// Integers that every JSON reader keeps exactly (RFC 8259, section 6).
    static let seed = SettingFormat.integer(0...9_007_199_254_740_991).map(
        { UInt64($0) },
        back: { Int(clamping: $0) }
    )
    static let file = SettingFormat.text(1...4096)

    static func upToHour(from least: Duration = .zero) -> SettingFormat<Duration> {
        .duration(least ... .seconds(3600))
    }

    // MARK: Rows

    private static func transports(
        _ summary: String,
        _ commands: [Command],
        standard: String? = nil,
        _ names: @escaping @Sendable (Vocabulary) -> [String]
    ) -> [Row] {
        var row = Row("transport", "LIST", summary, { .commaSeparated(.word(of: names($0))) }) {
            $0.transports.joined(separator: ",")
        } set: { (options, names) throws(UsageError) in
            options.transports = names
        }
        row.standard = standard
        return section(.what, commands, row)
    }

    private static let subject =
        transports("transports", [.run, .open, .overhead, .fanout]) { $0.transports }
        + transports("transports", [.trace]) { $0.transports.filter(WireCapture.transports.contains) }
        + transports("transports", [.outage, .heartbeat]) { words in
            words.transports.filter { !words.local.contains($0) && !words.modes.contains($0) }
        }
        + transports("transports", [.crowd], standard: "ws; with --hostile all of them") { words in
            (CrowdOptions.transports + ["udp"]).filter(words.transports.contains)
        }
        + section(
            .what,
            [.run, .overhead, .trace],
            Row(
                "codec",
                "LIST",
                "codecs",
                { .commaSeparated(.word(of: $0.codecs)) },
                shown: { $0.codecs.joined(separator: ",") },
                set: { (options, names) throws(UsageError) in options.codecs = names }
            )
        )
        + section(
            .what,
            [.chat],
            Row(
                "codec",
                "WORD",
                "format of the messages",
                { .word(of: $0.codecs) },
                shown: { $0.codecs.count == 1 ? $0.codecs.first : nil },
                set: { (options, name) throws(UsageError) in options.codecs = [name] }
            ).with(standard: "json, or that of --config")
        )
        + section(
            .what,
            [.run, .overhead],
            Row(
                "size",
                "LIST",
                "bytes of text in a message, as in 32,4KiB",
                .commaSeparated(.bytes(1...1 << 24), atMost: 16),
                \.sizes
            )
        )
        + section(
            .what,
            [.run, .overhead],
            Row(
                "delivery",
                "LIST",
                "how messages are delivered, each in rows of its own; in a session, the peer acknowledges each message",
                .commaSeparated(.word),
                \.deliveries
            )
        )
        + section(
            .what,
            [.run],
            Row(
                "mix",
                "picture=SIZE",
                "also send a picture of this size, as in picture=1MB: rows without it, with it on the connection of the "
                    + "messages, and with it on a second connection",
                { _ in .text(1...100) },
                shown: { $0.pictureBytes.map { "picture=\($0)" } },
                set: { (options, text) throws(UsageError) in options.pictureBytes = try Picture.bytes(text) }
            ).with(standard: "no picture")
        )
        + section(
            .what,
            [.run],
            Row(
                "url",
                "URL",
                "an outside server in place of the embedded one, as in mqtt://host:1883; may be repeated",
                { .url(of: $0.transports) },
                shown: { $0.urls.isEmpty ? nil : $0.urls.map(\.description).joined(separator: " ") },
                set: { (options, endpoint) throws(UsageError) in
                    guard !options.urls.contains(where: { $0.scheme == endpoint.scheme }) else {
                        throw UsageError("--url: there are two servers for \(endpoint.scheme); allowed is one")
                    }
                    options.urls.append(endpoint)
                }
            )
        )
        + section(
            .what,
            [.compare],
            Row(
                "noise",
                "PERCENT",
                "difference that two runs of the same code may have, in %; a smaller one counts as noise",
                .number(0...100, percents: 1),
                \.comparison.noisePercent
            )
        )

    /// Adds the encrypted transports to plain ones.
    private static let encryption = section(
        .what,
        [.run, .overhead, .trace, .outage, .heartbeat, .fanout, .crowd, .serve],
        Row(
            switch: "tls",
            "also the same transports over TLS, with certificates of an authority for this run",
            \.usesTLS
        )
    )

    /// The network between client and server.
    private static let network = section(
        .path,
        [.run, .open, .outage, .fanout],
        excludes: "url",
        Row(
            "network",
            "NETWORK",
            "the network between client and server, on Linux: \(Network.presets.map(\.name).joined(separator: ", ")), or a "
                + "description such as 'delay=50ms±10ms,loss=2%,rate=1mbit/500kbit,queue=100,reorder=1%' (with 'open' and 'outage' also nat=30s); may be "
                + "repeated to compare networks",
            { _ in .text(1...200) },
            shown: { $0.networks.isEmpty ? nil : $0.networks.map(\.name).joined(separator: " ") },
            set: { (options, text) throws(UsageError) in
                guard options.networks.count < 16 else { throw UsageError("--network may be given at most 16 times") }
                let network = try Network(text)
                guard !options.networks.contains(where: { $0.name == network.name }) else {
                    throw UsageError("--network: '\(text)' is there twice")
                }
                options.networks.append(network)
            }
        ).with(standard: "loopback")
    )

    static func duration(excludes: String? = nil) -> Row {
        Row(
            "duration",
            "TIME",
            "how long each row is measured, over all repeats",
            { _ in .duration(.milliseconds(1) ... .seconds(86_400)) },
            excludes: excludes,
            shown: { if case .duration(let duration) = $0.extent { duration.settingText } else { nil } },
            set: { (options, duration) throws(UsageError) in options.extent = .duration(duration) }
        )
    }

    private static let load =
        section(
            .load,
            [.run],
            duration(excludes: "messages"),
            Row(
                "messages",
                "N",
                "how many messages each row measures, in place of a duration",
                { _ in .integer(1...1_000_000_000) },
                excludes: "duration",
                shown: { if case .messages(let count) = $0.extent { String(count) } else { nil } },
                set: { (options, count) throws(UsageError) in options.extent = .messages(count) }
            ),
            Row("warmup", "TIME", "how long each row runs before each repeat", upToHour(), \.warmup),
            Row("repeat", "N", "repeats of each row, in random order", .integer(1...1000), \.repeats),
            Row(
                "delay-percent",
                "PERCENT",
                "to test 'compare': make each round trip longer by this",
                .number(0...1000, percents: 1),
                \.delayPercent,
                shown: { $0.delayPercent > 0 ? fixed($0.delayPercent, 3, trimmed: true) : nil }
            ).with(standard: "0"),
            Row("connections", "N", "concurrent connections", .integer(1...10_000), \.connections),
            Row(
                "in-flight",
                "N",
                "closed loop: messages in flight on each connection",
                .integer(1...1024),
                \.inFlight,
                excludes: "rate",
                shown: { $0.rate == nil ? String($0.inFlight) : nil }
            ),
            Row(
                "rate",
                "R",
                "open loop: messages per second on each connection, independent of the answers",
                .number(0.001...10_000_000),
                optional: \.rate,
                excludes: "in-flight"
            ).with(standard: "the closed loop")
        )
        + section(
            .load,
            [.run, .open, .serve, .storm, .outage, .fanout],
            Row(
                "seed",
                "S",
                "seed of all random choices: order, clients, losses",
                seed,
                optional: \.seed
            ).with(standard: "chosen at random, and printed")
        )
        + section(
            .load,
            [.open],
            Row("repeat", "N", "connections of each row", .integer(1...1000), \.repeats).with(standard: "10"),
            Row(
                "placement",
                "WORD",
                "client and server on different cores, on one core, or where the scheduler puts them",
                .word,
                \.placement
            )
        )
        + section(.load, [.work], Row("times", "N", "how often the step runs", .integer(1...1_000_000_000), \.times))

    /// The cost of a wake-up in a run, and whether there is one.
    private static let waking = section(
        .load,
        [.run],
        Row(
            "placement",
            "WORD",
            "client and server on different cores, on one core, or where the scheduler puts them",
            .word,
            \.placement
        ),
        Row(
            switch: "awake",
            "keep the cores from sleeping, to compare code and not power management",
            \.awake,
            shown: ("yes", "no")
        ),
        Row(
            "busy-poll",
            "TIME",
            "how long client and server poll before they sleep, as in 50us, or auto; CPU time counts it",
            { _ in SettingFormat.duration(.zero ... .seconds(1)).or("auto") },
            shown: { options in
                switch options.polling {
                case .never: nil
                case .adaptive: "auto"
                case .always(let time): time.settingText
                }
            },
            set: { (options, time) throws(UsageError) in
                options.polling = time.map { $0 == .zero ? .never : .always(for: $0) } ?? .adaptive
            }
        ).with(allowed: { _ in [] }, standard: "0s")
    )

    private static let report =
        section(
            .report,
            [.run, .open, .compare, .overhead, .trace, .storm, .outage, .heartbeat, .fanout, .crowd, .simulate],
            Row("format", "WORD", "format of the report", .word, \.format),
            Row("output", "FILE", "write the report to this file", file, optional: \.output)
                .with(standard: "standard output"),
            Row(switch: "wide", "do not wrap the lines of a table report to 80 columns", \.isWide)
        )
        + section(
            .report,
            [.advise],
            Row("format", "WORD", "format of the report", .word, \.format),
            Row("output", "FILE", "write the configuration to this file", file, optional: \.output)
                .with(standard: "only in the report"),
            Row(switch: "wide", "do not wrap the lines of a table report to 80 columns", \.isWide)
        )
        + section(
            .report,
            [.run, .open, .compare, .overhead, .trace, .storm, .outage, .heartbeat, .fanout, .crowd, .advise],
            Row("charts", "FOLDER", "also write each chart of the report as an SVG file", file, optional: \.charts)
                .with(standard: "charts are only in --format html")
        )
        + section(.report, [.run], assertion("'ws.rtt.p99_us < 2000'"))
        + section(.report, [.compare], assertion("'ws.rtt.p50_us.ratio_low <= 1.05'"))
        + section(.report, [.fanout], assertion("'ws.fan-out.100.last.p99_us < 20000'"))
        + section(.report, [.crowd], assertion("'ws.ping-flood.heap_peak_bytes < 65536'"))

    private static func assertion(_ example: String) -> Row {
        Row(
            name: "assert",
            placeholder: "EXPR",
            summary: "end with status 99 unless this holds, as in \(example); may be repeated",
            shown: { $0.assertions.isEmpty ? nil : $0.assertions.map(\.text).joined(separator: "; ") },
            apply: { (options, text, words) throws(UsageError) in
                guard options.assertions.count < 1000 else {
                    throw UsageError("--assert may be given at most 1000 times")
                }
                options.assertions.append(try Assertion(text, words, for: options.command))
            }
        )
    }

    private static let general = [
        Row(switch: "quiet", "no progress and no remarks", \.quiet),
        Row(switch: "help", "print this text", \.wantsHelp),
        Row(switch: "version", "print the version", \.wantsVersion),
    ]
}
