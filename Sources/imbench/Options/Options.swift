import EmbeddedServers
import Protocols
import SocketIO
import TransportAPI
import Transports

/// A command of imbench. The ``Vocabulary`` has those that a build offers.
enum Command: String, Sendable, Hashable, CaseIterable {
    case run, compare, overhead, serve, trace
    case storm, outage, crowd, chat, simulate, work

    /// One line for the help text.
    var summary: String {
        switch self {
        case .run: "compare every transport, codec and size; the default command"
        case .compare: "compare two reports of 'run --format json': real differences, and those within noise"
        case .overhead: "count bytes per message, per handshake and per day of keepalive, layer by layer"
        case .serve: "run the embedded servers until interrupted"
        case .trace: "show the bytes of one chat message on every wire, one line per field"
        case .storm: "simulate how clients reconnect after a restart, by reconnect policy, in virtual time"
        case .outage: "break the path in a dozen ways: time to detect, time to recover, lost and duplicated messages"
        case .crowd: "hold thousands of idle clients, or start hostile ones: memory, time, and the effect on others"
        case .chat: "talk to others through a chat server ('imbench serve --chat') or an MQTT broker"
        case .simulate: "run the supervisor through simulated worlds full of faults, and check that it keeps its rules"
        case .work: "run one step of a message's path many times, for a profiler; without a name, list the steps"
        }
    }

    /// The words that follow the command, as they are typed, if it takes any.
    var argument: String? {
        switch self {
        case .trace: #""TEXT""#
        case .chat: "URL"
        case .work: "[NAME]"
        case .compare: "A.json B.json"
        case .run, .overhead, .serve, .storm, .outage, .crowd, .simulate: nil
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
    /// Bytes of text in a message.
    var sizes: [Int] = [32, 256, 4096]
    var connections = 1
    var extent = Extent.duration(.seconds(2))
    /// How long each row runs before it is measured.
    var warmup = Duration.milliseconds(100)
    var repeats = 5
    /// `nil` lets the run choose a seed, which the report then names.
    var seed: UInt64?
    /// Messages per second on each connection; `nil` is the closed loop.
    var rate: Double?
    /// How many messages of the closed loop are in flight on each connection.
    var inFlight = 1
    /// How client and server share the cores, and the two threads of each floor in the same way.
    var placement = Placement.apart
    /// Whether spinning threads keep the cores from sleeping.
    var awake = false
    /// Whether the loops poll before they sleep.
    var polling = Polling.never
    /// Outside servers in place of the embedded ones, at most one for each transport.
    var urls: [Endpoint] = []
    /// Where `serve` listens. If empty, all transports listen on ports chosen by the system.
    var listen: [Endpoint] = []
    /// The users that the broker of `serve` accepts. If empty, it accepts all clients.
    var users: [ServedUser] = []
    /// The origins and Host headers that the WebSocket servers admit, written as in their URLs.
    var origins: String?
    var hosts: String?
    var storm = StormOptions()
    var outage = OutageOptions()
    var crowd = CrowdOptions()
    var comparison = CompareOptions()
    /// The server behind the bad path of `serve`, in place of the embedded ones.
    var proxy: Endpoint?
    /// What is wrong with that path.
    var faults = PathFaults.none
    var chat = ChatOptions()
    /// A configuration file.
    var config: String?
    /// Whether `codecs` was given and overrides a configuration file or a default.
    var isCodecGiven = false
    var format = Format.table
    /// The file of the report; standard output if `nil`.
    var output: String?
    var assertions: [Assertion] = []
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
    static let transports = TransportRegistry.standard.transports
        .filter { !$0.isDatagram && $0.defaultPort != nil }.map(\.name)
    static let mostConnections = 1_000_000

    /// How many idle clients there are. Beside hostile ones the default is 0.
    var idle = 10_000
    /// Whether the user gave `idle`. The default is reduced to what the system allows.
    var isIdleGiven = false
    /// How long they are held, and the shortest time of each attack.
    var hold = Duration.seconds(3)
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
        guard parts.count == 2, !parts[0].isEmpty else { throw UsageError("--user is written NAME:PASSWORD") }
        (name, password) = (String(parts[0]), String(parts[1]))
    }
}

/// Reads a configuration file.
///
/// - Throws: `.invalidConfiguration` with the file, the line and what is allowed, or because the file cannot be read.
func readConfiguration(_ path: String) throws(TransportError) -> TransportConfiguration {
    guard let text = readFile(path, limit: 1 << 20) else {
        throw TransportError(
            .invalidConfiguration,
            .configure,
            "\(path): there is no such readable file of at most 1 MiB"
        )
    }
    return try TransportConfiguration(json: text.utf8, label: path)
}

extension Options {
    /// The options of a comparison with those of the configuration file: its endpoints as outside servers, and its codec unless
    /// the command line names codecs.
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
