import EmbeddedServers
import SocketIO
import TransportAPI

/// The checked command line. ``OptionParser`` builds it.
struct Options: Sendable, Equatable {
    /// How much is measured for each row of the report, over all its repeats together.
    enum Extent: Sendable, Hashable {
        case duration(Duration)
        case messages(Int)
    }

    var command: Command
    /// The command whose help is wanted; `nil` if the line names none.
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
    /// What `simulate` runs.
    var simulation = SimulateOptions()
    /// How often `work` repeats its step.
    var times = 1_000_000
    /// The words after the command, for commands that take some.
    var arguments: [String] = []

    /// What an empty command line means.
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
    /// The transports whose clients can be idle.
    static let transports = ["ws", "tcp", "mqtt", "mqtt+ws"]
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
    var assertions: [CrowdAssertion] = []
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
