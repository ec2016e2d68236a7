import EmbeddedServers
import Protocols
import SocketIO
import TransportAPI
import Transports
import TrialCertificates

/// A command of imbench. The ``Vocabulary`` has those that a build offers.
enum Command: String, Sendable, Hashable, CaseIterable {
    case run, open, compare, overhead, serve, trace
    case storm, outage, fanout, heartbeat, advise, crowd, chat, simulate, work

    /// One line for the help text.
    var summary: String {
        switch self {
        case .run: "measure every transport, codec and size; the default command"
        case .open: "open connections: round trips, bytes and time until the first message, plain and over TLS"
        case .compare: "compare two reports of 'run --format json': real differences, and those within noise"
        case .overhead: "count bytes per message, per handshake and per day of keepalive, layer by layer"
        case .serve: "run the embedded servers until interrupted"
        case .trace: "show the bytes of one chat message on every wire, one line per field"
        case .storm: "simulate how clients reconnect after a restart, by reconnect policy, in virtual time"
        case .outage: "break the path in twelve ways: time to detect, time to recover, lost messages"
        case .fanout: "send each message to many subscribers: time until they have it, and the server's cost"
        case .crowd: "hold thousands of idle clients, or start hostile ones: memory and round trips"
        case .chat: "chat through a chat server ('imbench serve --chat') or an MQTT broker"
        case .simulate: "check the supervisor, or the whole stack, in simulated worlds full of faults"
        case .work: "repeat one step of a message's path, for a profiler; without a name, list the steps"
        case .heartbeat:
            "the costs of a keepalive interval, and what a NAT does to a connection, calculated and measured"
        case .advise: "rank the transports for your app from measurements, and write a configuration file"
        }
    }

    /// Command lines for the help text, each with its effect.
    var examples: [(line: String, effect: String)] {
        switch self {
        case .run:
            [
                ("imbench run --transport ws,tcp --size 32,4KiB", "two transports, two sizes"),
                ("imbench run --url ws://chat.example:8080/echo --rate 100", "another server, open loop"),
                ("imbench run --quiet --format json --output a.json", "a report for 'imbench compare'"),
            ]
        case .open:
            [
                ("imbench open --network 4g --network satellite", "the start of a conversation over two networks"),
                ("imbench open --transport ws,mqtt", "over loopback, where only the code costs time"),
            ]
        case .compare:
            [
                ("imbench compare a.json b.json", "every difference of two runs"),
                ("imbench compare a.json b.json --noise 3 --format html --output c.html", "a page with charts"),
            ]
        case .overhead:
            [
                ("imbench overhead --size 32,256", "all transports and codecs"),
                ("imbench overhead --transport mqtt --codec protobuf", "one row"),
            ]
        case .serve:
            [
                ("imbench serve --listen ws://127.0.0.1:8080", "an echo server"),
                ("imbench serve --chat --listen ws://[::1]:8080 --listen udp://[::1]:8081", "one chat room"),
                ("imbench serve --proxy udp://127.0.0.1:8081 --loss 2% --delay 50ms", "a bad path to it"),
            ]
        case .trace:
            [
                ("imbench trace \"Hello\" --transport ws,mqtt", "the same message on two wires"),
                ("imbench trace --codec protobuf -- \"--dashes\"", "a text that begins with dashes"),
            ]
        case .storm:
            [
                ("imbench storm --policy full-jitter,fixed --clients 10000", "two policies"),
                ("imbench storm --outage 1m --seed 7", "a longer outage, the same each time"),
            ]
        case .outage:
            [
                ("imbench outage --fault reset,black-hole --transport ws", "two faults"),
                ("imbench outage --interval 2s --timeout 1s", "a slower keepalive"),
            ]
        case .fanout:
            [
                ("imbench fanout --transport mqtt --subscribers 1000", "the embedded broker beside mosquitto"),
                ("imbench fanout --server room --rate 50", "chat rooms, in the open loop"),
                ("imbench fanout --assert 'ws.fan-out.100.last.p99_us < 20000'", "a check for scripts"),
            ]
        case .crowd:
            [
                ("imbench crowd --idle 1000 --transport ws,tcp", "idle clients"),
                ("imbench crowd --hostile --attack ping-flood --transport ws", "one attack"),
                ("imbench crowd --hostile --repeat 3 --assert 'ws.ratio_p99 < 3'", "a check for scripts"),
            ]
        case .chat:
            [
                ("imbench chat ws://127.0.0.1:8080 --name ann", "after 'imbench serve --chat'"),
                ("imbench chat mqtt://broker.example --name ann --room lunch", "over a broker"),
            ]
        case .simulate:
            [
                ("imbench simulate --seeds 100000", "the supervisor"),
                ("imbench simulate --stack --seed 7 --verbose", "every event of one world"),
                ("imbench simulate --stack --until-failure", "up to the first broken rule"),
            ]
        case .work:
            [
                ("imbench work", "the names of all steps"),
                ("imbench work json-encode --times 10000", "one step, 10,000 times"),
            ]
        case .heartbeat:
            [
                ("imbench heartbeat", "four transports, and 10 s behind a NAT that forgets"),
                ("imbench heartbeat --interval 285s --nat 5m --radio 3g", "one more interval, one NAT"),
                ("imbench heartbeat --tls --radio 'tail=5s,wake=100ms'", "with TLS, and another radio"),
            ]
        case .advise:
            [
                ("imbench advise", "asks five questions"),
                ("imbench advise --workload game --network 4g --output game.json", "no questions"),
                ("imbench advise --workload chat --from run.json", "figures of an earlier run"),
            ]
        }
    }

    /// The words that follow the command, as they are typed, if it takes any.
    var argument: String? {
        switch self {
        case .trace: #""TEXT""#
        case .chat: "URL"
        case .work: "[NAME]"
        case .compare: "A.json B.json"
        case .run, .open, .overhead, .serve, .storm, .outage, .fanout, .heartbeat, .advise, .crowd, .simulate: nil
        }
    }
}

/// The format of a report.
enum Format: String, Sendable, Hashable, CaseIterable {
    case table, json, csv, markdown, html
}

/// The words of the command line. The names of transports come from their registry, so that a new transport needs no change
/// here.
struct Vocabulary: Sendable {
    /// The offered commands. The first one is the default.
    var commands: [Command]
    /// All transports.
    var transports: [String]
    /// The transports that are compared by default.
    var defaultTransports: [String]
    /// All codecs.
    var codecs: [String]
    /// The transports without a network, which has no path that could break.
    var local: [String] = []

    /// The names of transports in reports.
    var rowNames: [String] { transports + transports.compactMap(TransportRegistry.nameWithSessions) }
    /// The modes of transports that only `run` and `overhead` measure.
    var modes: [String] = []
}

/// The checked command line. ``OptionParser`` builds it.
struct Options: Sendable, Equatable {
    /// The extent of each row of the report, over all its repeats together.
    enum Extent: Sendable, Hashable {
        case duration(Duration)
        case messages(Int)
    }

    var command: Command
    /// The command in the command line, for its help; `nil` if there is none.
    var helpTopic: Command?
    /// Names of transports, in the order of the command line.
    var transports: [String]
    var codecs: [String]
    /// Whether the encrypted counterparts of the transports are added.
    var usesTLS = false
    /// How messages are delivered in the rows of each transport.
    var deliveries = [DeliveryConfiguration.Mode.plain]
    /// Bytes of text in a message.
    var sizes: [Int] = [32, 256, 4096]
    var connections = 1
    var extent = Extent.duration(.milliseconds(2500))
    /// How long each row runs before each repeat.
    var warmup = Duration.milliseconds(20)
    /// Many short repeats find smaller differences than few long ones.
    var repeats = 30
    /// By how many percent each round trip is made longer, to test `imbench compare`.
    var delayPercent = 0.0
    /// `nil` lets the run choose a seed, which the report then names.
    var seed: UInt64?
    /// Messages per second on each connection; `nil` is the closed loop.
    var rate: Double?
    /// How many messages of the closed loop are in flight on each connection.
    var inFlight = 1
    /// The size of the picture that goes beside the messages; `nil` without one.
    var pictureBytes: Int?
    /// How client and server share the cores, and the two threads of each floor in the same way.
    var placement = Placement.apart
    /// Whether spinning threads keep the cores from sleeping.
    var awake = false
    /// Whether the loops poll before they sleep.
    var polling = Polling.never
    /// The networks between client and server, one after the other. If empty, loopback.
    var networks: [Network] = []
    /// Outside servers in place of the embedded ones, at most one for each transport.
    var urls: [Endpoint] = []
    /// The addresses of the servers of `serve`. If empty, all transports listen on ports chosen by the system.
    var listen: [Endpoint] = []
    /// The users that the broker of `serve` accepts. If empty, it accepts all clients.
    var users: [ServedUser] = []
    /// The origins and Host headers that the WebSocket servers admit, written as in their URLs.
    var origins: String?
    var hosts: String?
    var storm = StormOptions()
    var outage = OutageOptions()
    var fanout = FanoutOptions()
    var heartbeat = HeartbeatOptions()
    var advice = AdviceOptions()
    var crowd = CrowdOptions()
    var comparison = CompareOptions()
    /// The server behind the bad path of `serve`, in place of the embedded ones.
    var proxy: Endpoint?
    /// The faults of that path.
    var faults = PathFaults.none
    var chat = ChatOptions()
    /// A configuration file.
    var config: String?
    /// Whether `codecs` was given and overrides a configuration file or a default.
    var isCodecGiven = false
    var format = Format.table
    /// The file of the report; standard output if `nil`.
    var output: String?
    /// The folder into which each chart of the report is written too.
    var charts: String?
    var assertions: [Assertion] = []
    /// Whether the lines of a table report may be longer than ``TextRenderer/width``.
    var isWide = false
    var quiet = false
    var wantsHelp = false
    var wantsVersion = false
    var simulation = SimulateOptions()
    /// How often `work` repeats its step.
    var times = 1_000_000
    /// The words after the command, for commands that take some.
    var arguments: [String] = []

    /// The given seed, or a random one of 32 bits, because some JSON readers keep no more than 53.
    var runSeed: UInt64 { seed ?? UInt64.random(in: 0...UInt64(UInt32.max)) }

    /// The options of an empty command line.
    init(_ vocabulary: Vocabulary) {
        command = vocabulary.commands.first ?? .run
        transports = vocabulary.defaultTransports
        codecs = vocabulary.codecs
    }
}

/// The chat server and the client's part in it.
struct ChatOptions: Sendable, Hashable {
    /// The URL of the chat server; `nil` if the configuration file names it.
    var url: Endpoint?
    var name = ""
    var room = "lobby"
    /// Whether `serve` runs chat servers.
    var isServed = false
}

/// The reports that are compared, and how strictly.
struct CompareOptions: Sendable, Equatable {
    /// The files.
    var before = ""
    var after = ""
    /// By how many percent two runs of the same code may differ. Criterion.rs calls it the noise threshold.
    var noisePercent = 1.0
}

/// The faults of `imbench outage` and their times.
struct OutageOptions: Sendable, Equatable {
    var faults = OutageFault.allCases
    var timing = OutageTiming()
}

/// The clients of `imbench crowd`.
struct CrowdOptions: Sendable, Equatable {
    /// The transports whose clients can be idle: those over streams with ports.
    static let transports = TransportRegistry.available.transports
        .filter { !$0.isDatagram && $0.defaultPort != nil }.map(\.name)
    static let mostConnections = 1_000_000
    static let mostTransferred = 1 << 30

    /// How many idle clients there are. Beside hostile ones the default is 0.
    var idle = 10_000
    /// Whether the user gave `idle`. The default is reduced to what the system allows.
    var isIdleGiven = false
    /// How long they are held, and the shortest time of each attack.
    var hold = Duration.seconds(3)
    /// How many bytes each idle client sends and receives back before the memory is read again.
    var transfer = 0
    var isHostile = false
    /// How many hostile clients run at the same time.
    var attackers = 100
    var attacks = HostileKind.allCases
}

/// A user of the broker of `serve`.
struct ServedUser: Sendable, Equatable {
    var name: String
    var password: String

    /// Reads `NAME:PASSWORD`; a password may have colons.
    init(_ text: String) throws(UsageError) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        // The value may be a password, so the error does not quote it.
        guard parts.count == 2, !parts[0].isEmpty else {
            throw UsageError("--user needs NAME:PASSWORD, but the value has no \(parts.count == 2 ? "name" : "colon")")
        }
        (name, password) = (String(parts[0]), String(parts[1]))
    }
}

/// Reads a configuration file.
///
/// - Throws: `.invalidConfiguration` with the file, the line and what is allowed, or because the file cannot be read.
func readConfiguration(_ path: String) throws(TransportError) -> TransportConfiguration {
    try TransportConfiguration(json: readInput(path, limit: 1 << 20).utf8, label: path)
}

/// The text of a file that the command line names.
///
/// - Throws: `.invalidConfiguration` with the file and the reason.
func readInput(_ path: String, limit: Int) throws(TransportError) -> String {
    do throws(SystemFailure) {
        return try readText(path, limit: limit)
    } catch {
        throw TransportError(.invalidConfiguration, .configure, error.message)
    }
}

extension Options {
    /// Where a picture goes, in rows of their own.
    var picturePlaces: [PicturePlace] { pictureBytes == nil ? [.none] : PicturePlace.allCases }

    /// The options of a comparison with those of the configuration file: its endpoints as outside servers, and its codec
    /// unless the command line names codecs.
    func withConfiguredServers() throws(TransportError) -> Options {
        guard let config else { return self }
        let configuration = try readConfiguration(config)
        var options = self
        options.urls = []
        for endpoint in configuration.endpoints {
            guard !options.urls.contains(where: { $0.scheme == endpoint.scheme }) else {
                throw TransportError(
                    .invalidConfiguration,
                    .configure,
                    "\(config): \"endpoints\" has two servers for \(endpoint.scheme); one of each transport can be measured"
                )
            }
            options.urls.append(endpoint)
        }
        options.transports = options.urls.map(\.scheme)
        if !isCodecGiven { options.codecs = [configuration.codec.name] }
        return options
    }
}
