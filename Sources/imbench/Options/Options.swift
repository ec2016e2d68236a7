import EmbeddedServers
import SocketIO
import TransportAPI

/// Everything that the command line says, checked. Built by ``OptionParser``.
struct Options: Sendable, Equatable {
    /// How much is measured for each row of the report, over all its repeats together.
    enum Extent: Sendable, Hashable {
        case duration(Duration)
        case messages(Int)
    }

    var command: Command
    /// The command of which help is wanted; `nil` if the line names none.
    var helpTopic: Command?
    /// Names of transports, in the order in which they were asked for.
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
    /// How many messages of the closed loop are under way on each connection.
    var inFlight = 1
    /// How client and server share the cores, and the two threads of each floor in the same way.
    var placement = Placement.apart
    /// Whether spinning threads keep the cores from sleeping.
    var awake = false
    /// Whether the loops poll before they sleep.
    var polling = Polling.never
    /// Outside servers in place of the embedded ones, at most one for each transport.
    var urls: [Endpoint] = []
    /// Where `serve` listens; empty for every transport on a port that the system chooses.
    var listen: [Endpoint] = []
    /// Whom the broker of `serve` lets in; everybody if there are none.
    var users: [ServedUser] = []
    /// Which origins and Host headers the WebSocket servers admit, as their URLs would say it.
    var origins: String?
    var hosts: String?
    var storm = StormOptions()
    var outage = OutageOptions()
    var crowd = CrowdOptions()
    var comparison = CompareOptions()
    /// The server to which `serve` gives a bad path, in place of the embedded ones.
    var proxy: Endpoint?
    /// What is wrong with that path.
    var faults = PathFaults.none
    var chat = ChatOptions()
    /// A configuration file.
    var config: String?
    /// Whether `codecs` was asked for where a configuration file or a default would decide otherwise.
    var isCodecGiven = false
    var format = Format.table
    /// The file that gets the report in place of standard output.
    var output: String?
    var assertions: [Assertion] = []
    var quiet = false
    var wantsHelp = false
    var wantsVersion = false
    /// What `simulate` runs.
    var simulation = SimulateOptions()
    /// How often `work` does what it does.
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

/// A user whom `serve` lets in.
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
