import EmbeddedServers
import Protocols
import SocketIO
import TransportAPI
import Transports

/// An option of the command line. One row reads its value, suggests its name, documents it and records it in reports. An
/// option that has different meanings in different commands has one row for each meaning.
struct OptionRow: Sendable {
    /// The heading in the help text.
    enum Group: String, Sendable, CaseIterable {
        case what = "Subject"
        case load = "Load"
        case path = "Faults of the path"
        case report = "Report"
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
    /// The value as the user would type it; `nil` if there is none. For the default and the record.
    var shown: @Sendable (Options) -> String? = { _ in nil }
    /// The default in the help text, if it is not the shown value of the default options.
    var standard: String?
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
            let value: Value
            do throws(TransportError) {
                value = try format(words).read(text, key: "--\(name)")
            } catch {
                throw UsageError(error, option: name, text)
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
    private static func section(
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
    private static let seed = SettingFormat.integer(0...9_007_199_254_740_991).map(
        { UInt64($0) },
        back: { Int(clamping: $0) }
    )
    private static let million = SettingFormat.integer(1...1_000_000)
    private static let share = SettingFormat.number(0...1, percents: 100)
    private static let file = SettingFormat.text(1...4096)
    private static let outageTime = SettingFormat.duration(.milliseconds(50) ... .seconds(600))

    private static func upToHour(from least: Duration = .zero) -> SettingFormat<Duration> {
        .duration(least ... .seconds(3600))
    }

    /// A text that fits in one line and in one level of a topic.
    private static let chatName = SettingFormat.text(1...64, "without + # / and control characters") { text in
        ChatLine.printable(text) == text
            && text.unicodeScalars.allSatisfy {
                $0.value >= 0x20 && !(0x7f..<0xa0).contains($0.value) && !"+#/".unicodeScalars.contains($0)
            }
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

    private static let serve = section(
        .what,
        [.serve],
        excludes: "proxy",
        Row(
            "listen",
            "URL",
            "the address of a server, as in ws://[::1]:8080; may be repeated",
            { .url(of: $0.transports) },
            shown: { $0.listen.isEmpty ? nil : $0.listen.map(\.description).joined(separator: " ") },
            set: { (options, endpoint) throws(UsageError) in
                guard options.listen.count < 64 else { throw UsageError("--listen may be given at most 64 times") }
                options.listen.append(endpoint)
            }
        ).with(standard: "one server of each transport, on free ports of 127.0.0.1"),
        Row(
            name: "user",
            placeholder: "NAME:PASSWORD",
            summary: "a user of the MQTT broker, which then rejects all others; may be repeated",
            standard: "all clients are accepted",
            apply: { (options, text, _) throws(UsageError) in
                guard options.users.count < 64 else { throw UsageError("--user may be given at most 64 times") }
                options.users.append(try ServedUser(text))
            }
        ),
        Row(
            "origins",
            "LIST",
            "web pages that the WebSocket servers admit: same, null (pages from disk), any, or origins",
            .text(1...8192),
            optional: \.origins
        ).with(standard: "same"),
        Row(
            "hosts",
            "LIST",
            "Host headers that the WebSocket servers admit: loopback, any, or hosts",
            .text(1...8192),
            optional: \.hosts
        ).with(standard: "loopback for clients on this machine, any for others")
    )

    private static let chat =
        section(
            .what,
            [.serve],
            Row(
                switch: "chat",
                "serve one chat room on all transports in place of echoes",
                \.chat.isServed,
                shown: ("yes", nil)
            )
        )
        + section(
            .what,
            [.chat],
            Row("name", "NAME", "your name in the chat; required", chatName, \.chat.name) {
                $0.chat.name.isEmpty ? nil : $0.chat.name
            },
            Row("room", "ROOM", "the room; over MQTT the topic imbench/chat/ROOM", chatName, \.chat.room)
        )
        + section(
            .what,
            [.run, .chat, .serve],
            excludes: "listen",
            Row(
                "config",
                "FILE",
                "a configuration file (Docs/reference/configuration.md), which gives endpoints and codec",
                file,
                optional: \.config
            )
        )

    private static func duration(excludes: String? = nil) -> Row {
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
            Row("repeat", "N", "connections of each row", .integer(1...1000), \.repeats).with(standard: "5"),
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

    private static let proxy =
        section(
            .path,
            [.serve],
            excludes: "listen",
            Row(
                "proxy",
                "URL",
                "a proxy to this server in place of the embedded ones, with these faults on the path",
                // The transports compared by default are those with a network.
                { .url(of: $0.defaultTransports) },
                shown: { $0.proxy?.description },
                set: { (options, endpoint) throws(UsageError) in options.proxy = endpoint }
            )
        )
        + section(
            .path,
            [.serve],
            requires: "proxy",
            Row("delay", "TIME", "latency in each direction", upToHour(), \.faults.delay),
            Row("jitter", "TIME", "largest random addition to the delay", upToHour(), \.faults.jitter),
            Row(
                "throttle",
                "BYTES",
                "bytes per second in each direction of each connection",
                .bytes(1...1_000_000_000_000),
                optional: \.faults.bytesPerSecond
            ).with(standard: "no limit"),
            Row("loss", "SHARE", "lost datagrams in each direction", share, \.faults.loss),
            Row("duplicate", "SHARE", "datagrams that arrive twice", share, \.faults.duplication),
            Row("reorder", "SHARE", "datagrams that arrive after the next one", share, \.faults.reordering)
        )

    private static let storm =
        section(
            .what,
            [.storm],
            Row("policy", "LIST", "reconnect policies", .commaSeparated(.word), \.storm.policies)
        )
        + section(
            .load,
            [.storm],
            Row("clients", "N", "clients that lose their connection at the same time", million, \.storm.model.clients),
            Row("handshakes", "N", "handshakes of the server per second", million, \.storm.model.handshakes),
            Row(
                "backlog",
                "N",
                "connections that the server's queue holds",
                .integer(0...1_000_000),
                \.storm.model.backlog
            ),
            Row("outage", "TIME", "how long the server refuses all connections", upToHour(), \.storm.model.outage),
            Row(
                "connect-timeout",
                "TIME",
                "how long a client waits for its handshake",
                upToHour(from: .milliseconds(100)),
                \.storm.model.connectTimeout
            ),
            Row(
                "limit",
                "TIME",
                "virtual time at which the simulation ends",
                upToHour(from: .seconds(1)),
                \.storm.model.limit
            )
        )

    private static let outage =
        section(.what, [.outage], Row("fault", "LIST", "faults", .commaSeparated(.word), \.outage.faults))
        + section(
            .load,
            [.outage],
            Row("interval", "TIME", "keepalive: silence before a ping", outageTime, \.outage.timing.interval),
            Row("timeout", "TIME", "keepalive: time limit of the answer", outageTime, \.outage.timing.timeout),
            Row("down", "TIME", "duration of a fault that does not end by itself", outageTime, \.outage.timing.outage)
        )

    private static let fanout =
        section(
            .what,
            [.fanout],
            Row(
                "server",
                "LIST",
                "servers, each for the transports that it has",
                .commaSeparated(.word),
                \.fanout.servers
            ),
            Row(
                "size",
                "LIST",
                "bytes of text in a message, as in 32,4KiB",
                .commaSeparated(.bytes(1...1 << 24), atMost: 16),
                \.sizes
            ).with(standard: "256")
        )
        + section(
            .load,
            [.fanout],
            Row(
                "subscribers",
                "LIST",
                "how many subscribers each message has",
                .commaSeparated(.integer(1...FanoutOptions.mostSubscribers), atMost: 16),
                \.fanout.subscribers
            ),
            duration(),
            Row("warmup", "TIME", "how long each repeat runs before it is measured", upToHour(), \.warmup),
            Row("repeat", "N", "repeats of each row, in random order", .integer(1...1000), \.repeats),
            Row(
                "rate",
                "R",
                "open loop: messages per second, independent of the deliveries",
                .number(0.001...10_000_000),
                optional: \.rate
            ).with(standard: "the closed loop: a message follows when all have the one before"),
            Row(
                "placement",
                "WORD",
                "clients and server on different cores, on one core, or where the scheduler puts them",
                .word,
                \.placement
            )
        )

    private static let heartbeat = section(
        .load,
        [.heartbeat],
        Row(
            "interval",
            "LIST",
            "silence before a ping, beside each transport's own; as in 30s,5m",
            .commaSeparated(keepaliveTime, atMost: 16),
            \.heartbeat.intervals
        ),
        Row(
            "timeout",
            "TIME",
            "time limit of the answer",
            .duration(.milliseconds(100) ... .seconds(600)),
            \.heartbeat.timeout
        ),
        Row(
            "nat",
            "LIST",
            "how long a NAT remembers a silent mapping; as in 30s,2m",
            .commaSeparated(keepaliveTime, atMost: 16),
            \.heartbeat.expiries
        ),
        radio(\.heartbeat.radio)
    )

    /// The interval of a keepalive, as in a configuration file, and the memory of a NAT.
    private static let keepaliveTime = SettingFormat.duration(.seconds(1) ... .seconds(86_400))

    private static func radio(_ property: WritableKeyPath<Options, RadioModel> & Sendable) -> Row {
        Row(
            name: "radio",
            placeholder: "WORD",
            summary: "model of the device's radio",
            allowed: { _ in RadioModel.words },
            shown: { $0[keyPath: property].name },
            apply: { (options, text, _) throws(UsageError) in options[keyPath: property] = try RadioModel(text) }
        )
    }

    private static let advice =
        section(
            .what,
            [.advise],
            Row("workload", "WORD", "the app", .word, optional: \.advice.workload)
                .with(standard: "asked on a terminal"),
            Row("clients", "LIST", "where clients run", .commaSeparated(.word), \.advice.clients) {
                $0.advice.clients.isEmpty ? nil : $0.advice.clients.map(\.rawValue).joined(separator: ",")
            }.with(standard: usual),
            Row("messages", "WORD", "the requirement for a message", .word, optional: \.advice.arrival).with(
                standard: usual
            ),
            Row("path", "WORD", "the network between client and server", .word, optional: \.advice.path)
                .with(standard: usual),
            Row("receivers", "WORD", "the receivers of a message", .word, optional: \.advice.receivers)
                .with(standard: usual),
            Row("host", "NAME", "the host in the configuration", host, \.advice.host),
            Row("from", "FILE", "a report of 'run' or 'overhead' in JSON", file, optional: \.advice.source)
                .with(standard: "measure now, in a few seconds")
        )
        + section(
            .load,
            [.advise],
            Row(
                "network",
                "NETWORK",
                "the assumed network, in place of --round-trip and --loss: "
                    + "\(Network.presets.map(\.name).joined(separator: ", ")), or a description such as "
                    + "'delay=50ms,loss=2%', of which these two count",
                { _ in .text(1...200) },
                shown: { $0.advice.network?.name },
                set: { (options, text) throws(UsageError) in try options.advice.assume(try Network(text)) }
            ).with(standard: "--round-trip and --loss"),
            Row(
                "round-trip",
                "TIME",
                "assumed round trip between client and server",
                .duration(AdviceOptions.roundTrips),
                \.advice.roundTrip,
                excludes: "network"
            ),
            Row("loss", "SHARE", "assumed share of lost packets", share, \.advice.loss, excludes: "network"),
            radio(\.advice.radio)
        )

    private static let usual = "the usual answer of the workload"
    /// A host that is allowed in a URL without escapes.
    private static let host = SettingFormat.text(1...253, "of letters, digits, dots and hyphens") { text in
        text.utf8.allSatisfy { byte in
            (0x30...0x39).contains(byte) || (0x41...0x5a).contains(byte) || (0x61...0x7a).contains(byte)
                || byte == 0x2d || byte == 0x2e
        }
    }

    private static let crowd =
        section(
            .load,
            [.crowd],
            Row(
                "idle",
                "N",
                "idle clients that a second process holds",
                .integer(1...CrowdOptions.mostConnections),
                \.crowd.idle
            ).with(standard: "10000; with --hostile none"),
            Row(
                "hold",
                "TIME",
                "how long they are held and pinged; with --hostile, the shortest time of each attack",
                upToHour(from: .milliseconds(100)),
                \.crowd.hold
            ),
            Row(
                "transfer",
                "SIZE",
                "bytes that each idle client sends and receives back, after which the memory is read again",
                .bytes(0...CrowdOptions.mostTransferred),
                \.crowd.transfer,
                excludes: "hostile"
            ),
            Row(
                "attackers",
                "N",
                "hostile clients that run at the same time",
                .integer(2...10_000),
                \.crowd.attackers,
                requires: "hostile",
                shown: { $0.crowd.isHostile ? String($0.crowd.attackers) : nil }
            ).with(standard: "100"),
            Row(
                "repeat",
                "N",
                "with --hostile: measurements of each attack, of which the median counts",
                .integer(1...1000),
                \.repeats
            ).with(standard: "1")
        )
        + section(
            .what,
            [.crowd],
            Row(
                switch: "hostile",
                "start hostile clients and measure their effect on others; end with status 99 if one of the server's limits "
                    + "is exceeded or not reached, or others lose anything",
                \.crowd.isHostile,
                shown: ("yes", "no")
            ),
            Row(
                "attack",
                "LIST",
                "behaviours of hostile clients",
                .commaSeparated(.word),
                \.crowd.attacks,
                requires: "hostile",
                shown: { $0.crowd.isHostile ? $0.crowd.attacks.map(\.rawValue).joined(separator: ",") : nil }
            ).with(standard: "all of them")
        )

    private static let simulate =
        section(
            .load,
            [.simulate],
            excludes: "seed",
            Row(
                "seeds",
                "N",
                "number of worlds, one for each seed",
                .integer(1...1_000_000_000),
                \.simulation.count,
                shown: { $0.seed == nil ? String($0.simulation.count) : nil }
            ),
            Row("from", "S", "the first seed", seed, \.simulation.first) {
                $0.seed == nil ? String($0.simulation.first) : nil
            },
            Row(
                "threads",
                "N",
                "number of threads; the result is the same for any number",
                .integer(1...64),
                \.simulation.threads,
                shown: { $0.seed == nil ? String($0.simulation.threads) : nil }
            )
        )
        + section(
            .what,
            [.simulate],
            Row("seed", "S", "run only the world of this seed", seed, optional: \.seed)
                .with(standard: "the worlds of --from and --seeds"),
            Row(
                switch: "stack",
                "the whole stack: transports, TLS, supervisors and servers over a simulated kernel",
                \.simulation.isStack,
                shown: ("yes", nil)
            ),
            Row(
                "defect",
                "NAME",
                "add a known defect, and succeed if the checks find it",
                .word,
                optional: \.simulation.defect,
                requires: "stack"
            ).with(standard: "none")
        )
        + section(
            .report,
            [.simulate],
            requires: "seed",
            Row(switch: "verbose", "with --seed: print every event of that world", \.simulation.isVerbose)
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

extension OptionRow {
    /// The row with another default in the help text, and with other allowed words there.
    fileprivate func with(allowed: (@Sendable (Vocabulary) -> [String])? = nil, standard: String) -> OptionRow {
        var row = self
        if let allowed { row.allowed = allowed }
        row.standard = standard
        return row
    }
}
