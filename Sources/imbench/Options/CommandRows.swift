import EmbeddedServers
import Protocols
import SocketIO
import TransportAPI
import Transports

/// The options of single commands: servers, chat, faults, simulations and crowds.
extension OptionTable {
    private static let million = SettingFormat.integer(1...1_000_000)
    private static let share = SettingFormat.number(0...1, percents: 100)
    private static let outageTime = SettingFormat.duration(.milliseconds(50) ... .seconds(600))

    /// A text that fits in one line and in one level of a topic.
    private static let chatName = SettingFormat.text(1...64, "without + # / and control characters") { text in
        ChatLine.printable(text) == text
            && text.unicodeScalars.allSatisfy {
                $0.value >= 0x20 && !(0x7f..<0xa0).contains($0.value) && !"+#/".unicodeScalars.contains($0)
            }
    }

    static let serve = section(
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
            "Host headers that the WebSocket servers admit: loopback, address, any, or hosts",
            .text(1...8192),
            optional: \.hosts
        ).with(standard: "loopback,address for clients on this machine, any for others")
    )

    static let chat =
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

    static let proxy =
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

    static let storm =
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

    static let outage =
        section(.what, [.outage], Row("fault", "LIST", "faults", .commaSeparated(.word), \.outage.faults))
        + section(
            .load,
            [.outage],
            Row("interval", "TIME", "keepalive: silence before a ping", outageTime, \.outage.timing.interval),
            Row("timeout", "TIME", "keepalive: time limit of the answer", outageTime, \.outage.timing.timeout),
            Row("down", "TIME", "duration of a fault that does not end by itself", outageTime, \.outage.timing.outage)
        )

    static let fanout =
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

    static let heartbeat = section(
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

    static let advice =
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

    static let crowd =
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

    static let simulate =
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
            ),
            Row(switch: "until-failure", "end after the first broken rule", \.simulation.stopsAtFailure)
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
            )
        )
        + section(
            .report,
            [.simulate],
            requires: "seed",
            Row(switch: "verbose", "with --seed: print every event of that world", \.simulation.isVerbose)
        )
}
