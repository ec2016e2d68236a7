import EmbeddedServers
import Protocols
import SocketIO
import TransportAPI
import Transports

/// An option of the command line. The same row reads its value, suggests its name, documents it and records it in reports.
struct OptionRow: Sendable {
    /// The heading in the help text.
    enum Group: String, Sendable, CaseIterable {
        case what = "What is compared"
        case load = "How it is loaded"
        case path = "What is wrong with the path"
        case report = "What comes out"
        case general = "General"
    }

    /// Reads the value into the options.
    typealias Apply = @Sendable (inout Options, String, Vocabulary) throws(UsageError) -> Void

    /// The name without its dashes.
    var name: String
    /// The name of the value in the help text; `nil` for a switch.
    var placeholder: String?
    var group = Group.general
    /// The commands that have this option.
    var commands = Command.allCases
    /// The help text. The allowed words and the default are appended.
    var summary: String
    /// The allowed words, if there are only a few.
    var allowed: @Sendable (Vocabulary) -> [String] = { _ in [] }
    /// An option that must not be given together with this one.
    var excludes: String?
    /// An option that this one requires.
    var requires: String?
    /// The value in the options as it would be typed; `nil` if there is none. For the default and the record.
    var shown: @Sendable (Options) -> String? = { _ in nil }
    var apply: Apply
}

extension OptionRow {
    /// An option with a value, whose format may depend on the vocabulary.
    init<Value>(
        _ name: String,
        _ placeholder: String,
        _ summary: String,
        _ format: @escaping @Sendable (Vocabulary) -> SettingFormat<Value>,
        excludes: String? = nil,
        requires: String? = nil,
        shown: @escaping @Sendable (Options) -> String?,
        set: @escaping @Sendable (inout Options, Value) throws(UsageError) -> Void
    ) {
        self.init(name: name, placeholder: placeholder, summary: summary, excludes: excludes, requires: requires) {
            (options, text, words) throws(UsageError) in
            let value = try UsageError.translate { () throws(TransportError) in
                try format(words).read(text, key: "--\(name)")
            }
            try set(&options, value)
        }
        (allowed, self.shown) = ({ format($0).words }, shown)
    }

    /// An option with a value, which is a property of the options.
    init<Value>(
        _ name: String,
        _ placeholder: String,
        _ summary: String,
        _ format: SettingFormat<Value>,
        _ property: WritableKeyPath<Options, Value> & Sendable,
        excludes: String? = nil,
        requires: String? = nil,
        shown: (@Sendable (Options) -> String?)? = nil
    ) {
        let shown = shown ?? { format.text($0[keyPath: property]) }
        self.init(name, placeholder, summary, { _ in format }, excludes: excludes, requires: requires, shown: shown) {
            (options, value) throws(UsageError) in options[keyPath: property] = value
        }
    }

    /// An option with a value, which is `nil` by default.
    init<Value>(
        _ name: String,
        _ placeholder: String,
        _ summary: String,
        _ format: SettingFormat<Value>,
        optional property: WritableKeyPath<Options, Value?> & Sendable,
        excludes: String? = nil,
        requires: String? = nil
    ) {
        self.init(name, placeholder, summary, { _ in format }, excludes: excludes, requires: requires) {
            $0[keyPath: property].flatMap(format.text)
        } set: { (options, value) throws(UsageError) in
            options[keyPath: property] = value
        }
    }

    /// A switch, which is off by default.
    ///
    /// - Parameter shown: the texts in reports for on and off.
    init(
        switch name: String,
        _ summary: String,
        _ property: WritableKeyPath<Options, Bool> & Sendable,
        shown: (on: String?, off: String?) = (nil, nil)
    ) {
        self.init(name: name, summary: summary) { (options, _, _) throws(UsageError) in
            options[keyPath: property] = true
        }
        self.shown = { $0[keyPath: property] ? shown.on : shown.off }
    }
}

/// All options, in the order of the help text.
enum OptionTable {
    static let rows =
        comparison + serve + chat + load + waking + proxy + storm + outage + crowd + simulate + report + general

    /// The options as they could be typed again, for the report.
    static func record(of options: Options) -> [(name: String, value: String)] {
        rows.filter { $0.commands.contains(options.command) }
            .compactMap { row in row.shown(options).map { (row.name, $0) } }
    }

    /// Rows of one group, for the same commands.
    private static func section(_ group: OptionRow.Group, _ commands: [Command], _ rows: OptionRow...) -> [OptionRow] {
        rows.map { row in
            var row = row
            (row.group, row.commands) = (group, commands)
            return row
        }
    }

    private static let comparison =
        section(
            .what,
            [.run, .overhead, .trace, .outage, .crowd],
            OptionRow(
                "transport",
                "LIST",
                "transports",
                { .commaSeparated(.word(of: $0.transports)) },
                shown: { $0.transports.joined(separator: ",") },
                set: { (options, names) throws(UsageError) in options.transports = names }
            )
        )
        + section(
            .what,
            [.run, .overhead, .trace, .chat],
            OptionRow(
                "codec",
                "LIST",
                "codecs; of a chat, one",
                { .commaSeparated(.word(of: $0.codecs)) },
                shown: { $0.codecs.joined(separator: ",") },
                set: { (options, names) throws(UsageError) in options.codecs = names }
            )
        )
        + section(
            .what,
            [.run, .overhead],
            OptionRow(
                "size",
                "LIST",
                "bytes of text in a message, as in 32,4KiB",
                .commaSeparated(.bytes(1...1 << 24), atMost: 16),
                \.sizes
            )
        )
        + section(
            .what,
            [.run],
            OptionRow(
                "url",
                "URL",
                "an outside server in place of the embedded one, as in mqtt://host:1883; may be repeated",
                { .url(of: $0.transports) },
                shown: { $0.urls.isEmpty ? nil : $0.urls.map(\.description).joined(separator: " ") },
                set: { (options, endpoint) throws(UsageError) in
                    guard !options.urls.contains(where: { $0.scheme == endpoint.scheme }) else {
                        throw UsageError("--url: there are two servers for \(endpoint.scheme)")
                    }
                    options.urls.append(endpoint)
                }
            )
        )
        + section(
            .what,
            [.compare],
            OptionRow(
                "noise",
                "PERCENT",
                "by how much two runs of the same code may differ; smaller differences are noise, however sure",
                .number(0...100, percents: 1),
                \.comparison.noisePercent
            )
        )

    private static let serve = section(
        .what,
        [.serve],
        OptionRow(
            "listen",
            "URL",
            "which server listens where, as in ws://[::1]:8080; may be repeated",
            { .url(of: $0.transports) },
            excludes: "proxy",
            shown: { $0.listen.isEmpty ? nil : $0.listen.map(\.description).joined(separator: " ") },
            set: { (options, endpoint) throws(UsageError) in
                guard options.listen.count < 64 else { throw UsageError("--listen may be given at most 64 times") }
                options.listen.append(endpoint)
            }
        ),
        OptionRow(
            name: "user",
            placeholder: "NAME:PASSWORD",
            summary: "a user of the MQTT broker, which then rejects all others; may be repeated",
            excludes: "proxy",
            apply: { (options, text, _) throws(UsageError) in
                guard options.users.count < 64 else { throw UsageError("--user may be given at most 64 times") }
                options.users.append(try ServedUser(text))
            }
        ),
        OptionRow(
            "origins",
            "LIST",
            "which web pages the WebSocket servers admit: same, null (pages from disk), any, or origins",
            .text(1...8192),
            optional: \.origins,
            excludes: "proxy"
        ),
        OptionRow(
            "hosts",
            "LIST",
            "which Host headers the WebSocket servers admit: loopback, any, or hosts",
            .text(1...8192),
            optional: \.hosts,
            excludes: "proxy"
        ),
        OptionRow(
            switch: "chat",
            "serve one chat room on all transports in place of echoes",
            \.chat.isServed,
            shown: ("yes", nil)
        )
    )

    private static let chat =
        section(
            .what,
            [.chat],
            OptionRow("name", "NAME", "your name in the chat", chatName, \.chat.name) {
                $0.chat.name.isEmpty ? nil : $0.chat.name
            },
            OptionRow("room", "ROOM", "the room; over MQTT the topic imbench/chat/ROOM", chatName, \.chat.room)
        )
        + section(
            .what,
            [.run, .chat, .serve],
            OptionRow(
                "config",
                "FILE",
                "a configuration file (Docs/configuration.md): endpoints and codec; of a chat, also its supervisor; to serve: where",
                .text(1...4096),
                optional: \.config,
                excludes: "listen"
            )
        )

    /// A text that fits in one line and in one level of a topic.
    private static let chatName = SettingFormat.text(1...64, "without + # / and control characters") { text in
        ChatLine.printable(text) == text
            && text.unicodeScalars.allSatisfy {
                $0.value >= 0x20 && !(0x7f..<0xa0).contains($0.value) && !"+#/".unicodeScalars.contains($0)
            }
    }

    private static let load =
        section(
            .load,
            [.run],
            OptionRow(
                "duration",
                "TIME",
                "how long each row is measured, over all repeats: 250ms, 5s, 2m",
                { _ in .duration(.milliseconds(1) ... .seconds(86_400)) },
                excludes: "messages",
                shown: { if case .duration(let duration) = $0.extent { duration.settingText } else { nil } },
                set: { (options, duration) throws(UsageError) in options.extent = .duration(duration) }
            ),
            OptionRow(
                "messages",
                "N",
                "how many messages each row measures, in place of a duration",
                { _ in .integer(1...1_000_000_000) },
                excludes: "duration",
                shown: { if case .messages(let count) = $0.extent { String(count) } else { nil } },
                set: { (options, count) throws(UsageError) in options.extent = .messages(count) }
            ),
            OptionRow("warmup", "TIME", "how long each row runs before it is measured", upToHour(), \.warmup)
        )
        + section(
            .load,
            [.run, .crowd],
            OptionRow(
                "repeat",
                "N",
                "into how many repeats, in random order, a row is cut; with crowd --hostile, how often each attack is "
                    + "measured, of which the one in the middle counts (1)",
                .integer(1...1000),
                \.repeats
            )
        )
        + section(
            .load,
            [.run],
            OptionRow("connections", "N", "connections at once", .integer(1...10_000), \.connections),
            OptionRow(
                "in-flight",
                "N",
                "closed loop: messages in flight on each connection",
                .integer(1...1024),
                \.inFlight,
                excludes: "rate",
                shown: { $0.rate == nil ? String($0.inFlight) : nil }
            ),
            OptionRow(
                "rate",
                "R",
                "open loop: messages per second on each connection, whether answers come or not",
                .number(.leastNonzeroMagnitude...10_000_000),
                optional: \.rate,
                excludes: "in-flight"
            )
        )
        + section(
            .load,
            [.run, .serve, .storm, .outage, .simulate],
            OptionRow(
                "seed",
                "S",
                "what is left to chance: order, texts, clients, losses; chosen and printed if not given",
                seed,
                optional: \.seed
            )
        )
        + section(
            .load,
            [.work],
            OptionRow("times", "N", "how often it is done", .integer(1...1_000_000_000), \.times)
        )

    /// Up to the largest integer that every JSON reader keeps exactly (RFC 8259, section 6).
    private static let seed = SettingFormat.integer(0...9_007_199_254_740_991).map(
        { UInt64($0) },
        back: { Int(clamping: $0) }
    )

    private static func upToHour(from least: Duration = .zero) -> SettingFormat<Duration> {
        .duration(least ... .seconds(3600))
    }

    /// The cost of a wake-up in a run, and whether there is one.
    private static let waking = section(
        .load,
        [.run],
        OptionRow(
            "placement",
            "WORD",
            "client and server, and the two sides of each floor, on different cores, on one, or as the scheduler likes",
            .word,
            \.placement
        ),
        OptionRow(
            switch: "awake",
            "keep the cores from sleeping: compares code, not power management",
            \.awake,
            shown: ("yes", "no")
        ),
        OptionRow(
            "busy-poll",
            "TIME",
            "how long client and server poll before they sleep, as in 50us; CPU time counts it. Default: never; as long as it pays",
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
        )
    )

    private static let proxy = section(
        .path,
        [.serve],
        OptionRow(
            "proxy",
            "URL",
            "a proxy to this server in place of the embedded ones, with this wrong on the path",
            // The transports compared by default are those with a network.
            { .url(of: $0.defaultTransports) },
            excludes: "listen",
            shown: { $0.proxy?.description },
            set: { (options, endpoint) throws(UsageError) in options.proxy = endpoint }
        ),
        OptionRow(
            "delay",
            "TIME",
            "the latency of everything, each way: 50ms",
            upToHour(),
            \.faults.delay,
            requires: "proxy"
        ),
        OptionRow(
            "jitter",
            "TIME",
            "the most that is added to the delay, by chance",
            upToHour(),
            \.faults.jitter,
            requires: "proxy"
        ),
        OptionRow(
            "throttle",
            "N",
            "bytes per second, each way of each connection, as in 64KiB",
            .bytes(1...1_000_000_000_000),
            optional: \.faults.bytesPerSecond,
            requires: "proxy"
        ),
        OptionRow(
            "loss",
            "SHARE",
            "datagrams that get lost, each way, from 0 to 1, or in %",
            share,
            \.faults.loss,
            requires: "proxy"
        ),
        OptionRow(
            "duplicate",
            "SHARE",
            "datagrams that arrive twice, as --loss",
            share,
            \.faults.duplication,
            requires: "proxy"
        ),
        OptionRow(
            "reorder",
            "SHARE",
            "datagrams that arrive behind the next one, as --loss",
            share,
            \.faults.reordering,
            requires: "proxy"
        )
    )

    private static let share = SettingFormat.number(0...1, percents: 100)

    private static let storm =
        section(
            .what,
            [.storm],
            OptionRow("policy", "LIST", "reconnect policies", .commaSeparated(.word), \.storm.policies)
        )
        + section(
            .load,
            [.storm],
            OptionRow(
                "clients",
                "N",
                "how many clients lose their connection at once",
                .integer(1...1_000_000),
                \.storm.model.clients
            ),
            OptionRow(
                "handshakes",
                "N",
                "handshakes of the server in a second",
                .integer(1...1_000_000),
                \.storm.model.handshakes
            ),
            OptionRow(
                "backlog",
                "N",
                "connections that may wait for the server",
                .integer(0...1_000_000),
                \.storm.model.backlog
            ),
            OptionRow(
                "outage",
                "TIME",
                "how long the server refuses all connections",
                upToHour(),
                \.storm.model.outage
            ),
            OptionRow(
                "connect-timeout",
                "TIME",
                "how long a client waits for its handshake",
                upToHour(from: .milliseconds(100)),
                \.storm.model.connectTimeout
            ),
            OptionRow(
                "limit",
                "TIME",
                "virtual time at which the simulation ends",
                upToHour(from: .seconds(1)),
                \.storm.model.limit
            )
        )

    private static let outage =
        section(
            .what,
            [.outage],
            OptionRow("fault", "LIST", "what goes wrong", .commaSeparated(.word), \.outage.faults)
        )
        + section(
            .load,
            [.outage],
            OptionRow("interval", "TIME", "keepalive: silence before a ping", outageTime, \.outage.timing.interval),
            OptionRow(
                "timeout",
                "TIME",
                "keepalive: how long the answer may take",
                outageTime,
                \.outage.timing.timeout
            ),
            OptionRow(
                "down",
                "TIME",
                "how long a fault lasts that does not pass by itself",
                outageTime,
                \.outage.timing.outage
            )
        )

    private static let outageTime = SettingFormat.duration(.milliseconds(50) ... .seconds(600))

    private static let crowd =
        section(
            .load,
            [.crowd],
            OptionRow(
                "idle",
                "N",
                "how many idle clients are held, in a process of their own; with --hostile beside them, if given",
                .integer(1...CrowdOptions.mostConnections),
                \.crowd.idle
            ),
            OptionRow(
                "hold",
                "TIME",
                "how long they are held and pinged; with --hostile, the shortest time of each attack",
                upToHour(from: .milliseconds(100)),
                \.crowd.hold
            ),
            OptionRow(
                "attackers",
                "N",
                "how many hostile clients run at the same time",
                .integer(2...10_000),
                \.crowd.attackers,
                requires: "hostile",
                shown: { $0.crowd.isHostile ? String($0.crowd.attackers) : nil }
            )
        )
        + section(
            .what,
            [.crowd],
            OptionRow(
                switch: "hostile",
                "starts hostile clients, and measures their effect on others; ends with status 99 if one of the server's limits "
                    + "is exceeded or not reached, or others lose anything",
                \.crowd.isHostile,
                shown: ("yes", "no")
            ),
            OptionRow(
                "attack",
                "LIST",
                "what hostile clients do",
                .commaSeparated(.word),
                \.crowd.attacks,
                requires: "hostile",
                shown: { $0.crowd.isHostile ? $0.crowd.attacks.map(\.rawValue).joined(separator: ",") : nil }
            )
        )

    private static let simulate =
        section(
            .load,
            [.simulate],
            OptionRow(
                "seeds",
                "N",
                "how many worlds, one for each seed",
                .integer(1...1_000_000_000),
                \.simulation.count
            ),
            OptionRow("from", "S", "the first seed", seed, \.simulation.first),
            OptionRow(
                "threads",
                "N",
                "threads; the result is the same for any number",
                .integer(1...64),
                \.simulation.threads
            )
        )
        + section(
            .what,
            [.simulate],
            OptionRow(
                switch: "stack",
                "the whole stack: transports, supervisors and servers over a simulated kernel",
                \.simulation.isStack
            ),
            OptionRow(
                "defect",
                "NAME",
                "with --stack: brings a former defect back, and succeeds if the checks find it",
                .word,
                optional: \.simulation.defect
            )
        )
        + section(
            .report,
            [.simulate],
            OptionRow(switch: "verbose", "with --seed: everything that happens in that world", \.simulation.isVerbose)
        )

    private static let report =
        section(
            .report,
            [.run, .compare, .overhead, .trace, .storm, .outage, .crowd],
            OptionRow("format", "FORMAT", "how the report is written", .word, \.format),
            OptionRow(
                "output",
                "FILE",
                "write the report there in place of standard output",
                .text(1...4096),
                optional: \.output
            )
        )
        + section(
            .report,
            [.run, .compare, .crowd],
            OptionRow(
                name: "assert",
                placeholder: "EXPR",
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
            )
        )

    private static let general = [
        OptionRow(switch: "quiet", "no progress and no remarks", \.quiet),
        OptionRow(switch: "help", "this text", \.wantsHelp),
        OptionRow(switch: "version", "the version", \.wantsVersion),
    ]
}
