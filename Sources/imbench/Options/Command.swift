/// A command with its options. Each one declares the options that it reads, and no others.
protocol RunnableCommand: Sendable, Equatable {
    static var command: Command { get }

    var general: GeneralOptions { get set }

    /// The options of the command beside ``general``, with their defaults.
    static func ownOptions(_ vocabulary: Vocabulary) -> OptionList<Self>

    /// Checks the options together, and sets defaults that depend on others.
    mutating func check(_ line: TypedLine, _ vocabulary: Vocabulary) throws(UsageError)

    /// Prepares the process while it has one thread only. By default there is nothing to prepare.
    mutating func prepare() throws

    /// Runs the command, and returns the exit status. Throws a ``UsageError``, or a ``SystemFailure`` if the command failed.
    func run() throws -> Int32
}

extension RunnableCommand {
    func check(_: TypedLine, _: Vocabulary) throws(UsageError) {}
    func prepare() throws {}

    /// All options of the command.
    static func options(_ vocabulary: Vocabulary) -> OptionList<Self> {
        var options = ownOptions(vocabulary)
        options.add(GeneralOptions.list, at: \.general)
        return options
    }

    /// The options, as they are documented.
    static func descriptions(_ vocabulary: Vocabulary) -> [OptionDescription] { options(vocabulary).descriptions }

    /// The options as the user could type them again, for the report.
    var record: [(name: String, value: String)] { Self.options(.measured).record(of: self) }
}

/// A command of imbench. The ``Vocabulary`` has those that a build offers.
enum Command: String, Sendable, Hashable, CaseIterable {
    case run, open, compare, overhead, serve, trace
    case storm, outage, fanout, crowd, chat, simulate, work, heartbeat, advise

    /// Its type, which has its options.
    var type: any RunnableCommand.Type {
        switch self {
        case .run: RunCommand.self
        case .open: OpenCommand.self
        case .compare: CompareCommand.self
        case .overhead: OverheadCommand.self
        case .serve: ServeCommand.self
        case .trace: TraceCommand.self
        case .storm: StormCommand.self
        case .outage: OutageCommand.self
        case .fanout: FanoutCommand.self
        case .heartbeat: HeartbeatCommand.self
        case .advise: AdviseCommand.self
        case .crowd: CrowdCommand.self
        case .chat: ChatCommand.self
        case .simulate: SimulateCommand.self
        case .work: WorkCommand.self
        }
    }

    /// Its options, as they are documented.
    func options(_ vocabulary: Vocabulary) -> [OptionDescription] { type.descriptions(vocabulary) }

    /// Whether the command checks ``Interruption`` and then ends early with its report. Ctrl-C ends any other command at
    /// once.
    var isInterruptible: Bool {
        switch self {
        case .compare, .trace, .work: false
        case .run, .open, .overhead, .serve, .storm, .outage, .fanout, .heartbeat, .advise, .crowd, .chat, .simulate:
            true
        }
    }

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
