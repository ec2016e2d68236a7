import Codecs
import CommandSupport
import Foundation
import Primitives
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports
import TrialCertificates

/// `imbench chat`: a chat in the terminal, or through pipes. At the end of its input it waits until the server has
/// acknowledged all messages.
struct ChatCommand: RunnableCommand {
    static let command = Command(
        name: "chat",
        summary: "chat through a chat server ('imbench serve --chat') or a broker",
        argument: "URL",
        examples: [
            .init("imbench chat ws://127.0.0.1:8080 --name ann", "after 'imbench serve --chat'"),
            .init("imbench chat mqtt://broker.example --name ann --room lunch", "over a broker"),
        ]
    )

    var general = GeneralOptions()
    /// The URL of the chat server; `nil` if the configuration file names it.
    var url: Endpoint?
    var name = ""
    var room = "lobby"
    /// The format of the messages; `nil` for that of the configuration file.
    var codec: String?
    /// A configuration file.
    var config: String?

    /// A text that fits in one line and in one level of a topic.
    private static let word = SettingFormat.text(1...64, "without + # / and control characters") { text in
        ChatLine.printable(text) == text
            && text.unicodeScalars.allSatisfy {
                $0.value >= 0x20 && !(0x7f..<0xa0).contains($0.value) && !"+#/".unicodeScalars.contains($0)
            }
    }

    static func ownOptions(_ vocabulary: Vocabulary) -> OptionList<ChatCommand> {
        var list = OptionList(ChatCommand())
        list.add(
            .what,
            [
                Setting(
                    "codec",
                    SettingFormat.word(of: vocabulary.codecs).orAbsent("json, or that of --config"),
                    \.codec,
                    "format of the messages"
                ),
                Setting("name", word.called("NAME"), \.name, "your name in the chat; required"),
                Setting("room", word.called("ROOM"), \.room, "the room; at a broker the topic imbench/chat/ROOM"),
                .config(\.config),
            ]
        )
        return list
    }

    mutating func check(_ line: TypedLine, _ vocabulary: Vocabulary) throws(UsageError) {
        guard line.arguments.count <= 1 else {
            throw UsageError("'chat' takes one URL, but got '\(line.arguments[1])' as well")
        }
        if let argument = line.arguments.first {
            url = try UsageError.translate("'chat'") { () throws(TransportError) in
                try SettingFormat.url(of: vocabulary.transports).read(argument, key: "URL")
            }
        } else if config == nil {
            throw UsageError("'chat' needs a URL: imbench chat ws://127.0.0.1:8080 --name ann")
        }
        guard !name.isEmpty else { throw UsageError("'chat' needs a name: --name ann") }
    }

    func run() throws -> Int32 { try chat(self) }
}

private func chat(_ options: ChatCommand) throws -> Int32 {
    if let url = options.url { try checkURL(url, "'chat'", .trial) }
    let place = options.config == nil ? "'chat'" : "--config"
    let setup = try UsageError.translate(place) { () throws(TransportError) in try ChatSetup(options) }
    func start(_ display: any ChatDisplay) throws -> ChatSession {
        let client = try UsageError.translate(place) { () throws(TransportError) in
            try tryBlocking(on: .shared) { () async throws(TransportError) in try await ChatClient.start(setup, display)
            }
        }
        return ChatSession(
            client: client,
            display: display,
            connectTimeout: setup.configuration.supervisor.connectTimeout
        )
    }
    let style = Style(isOn: Terminal.allowsColour(STDOUT_FILENO))
    if var screen = ChatScreen(style: style) {
        let session = try start(screen)
        screen.show(.status("/help lists the commands; Ctrl-D ends the chat"))
        return session.run(&screen)
    }
    var input = LineInput(STDIN_FILENO)
    return try start(StandardDisplay(isTerminal: Terminal.isTerminal(STDOUT_FILENO), style: style)).run(&input)
}

/// Reads the user's input until the chat ends.
private struct ChatSession {
    static let help = [
        (
            "/history",
            "the last messages and their ticks: ✓ the server has it, ✓✓ so many of the other members have read it"
        ),
        ("/state", "the state of the connection"),
        ("/quit", "ends the chat, after at most two seconds for messages in flight"),
        ("//text", "sends a line that begins with a slash"),
    ].flatMap { HelpText.entry($0, $1, indent: 0, column: 10) }

    let client: LoopBound<ChatClient>
    let display: any ChatDisplay
    /// How long the end of the input waits for the first connection.
    let connectTimeout: Duration

    /// Sends the lines of `input` until it ends, and waits for acknowledgements.
    func run(_ input: inout some LineSource & ~Copyable) -> Int32 {
        var (wasFull, isUnconnected) = (false, false)
        reading: while !Interruption.isRequested, !isFinal {
            // While too many messages are in flight, no input is read.
            let isFull = inFlight >= ChatClient.inFlightLimit
            if isFull, !wasFull {
                display.show(.status("\(inFlight) messages are in flight; input is paused"))
            }
            wasFull = isFull
            if isFull {
                _ = poll(nil, 0, 20)
                continue
            }
            switch input.next(timeout: 100) {
            case .nothing: break
            case .tooLong: display.show(.status("a line of more than \(LineInput.longestLine) bytes was not sent"))
            case .end:
                input.close()
                if inFlight == 0, !waitForConnection() {
                    isUnconnected = true
                    break reading
                }
                if inFlight > 0 {
                    let count = inFlight == 1 ? "a message is" : "\(inFlight) messages are"
                    display.show(.status("waiting until \(count) acknowledged; Ctrl-C gives up"))
                }
                wait { !isFinal }
                break reading
            case .line("/quit"):
                input.close()
                let deadline = Clocks.monotonic() + 2_000_000_000
                wait { isOpen && Clocks.monotonic() < deadline }
                break reading
            case .line(let line): take(line)
            }
        }
        input.close()
        let hasFailed = isFinal
        let left = runBlocking(on: .shared) { [client] in
            let left = client.value.inFlight
            await client.value.close()
            return left
        }
        if left > 0 { display.show(.status("\(left) messages were not acknowledged")) }
        return left == 0 && !hasFailed && !isUnconnected ? ExitStatus.good : ExitStatus.failed
    }

    /// Waits for the first connection until the connect timeout is over, or the chat has ended by an error. Without one, shows
    /// the last reason and returns `false`.
    private func waitForConnection() -> Bool {
        let deadline = Clocks.monotonic() + connectTimeout.wholeNanoseconds
        // An attempt that takes the whole time gets a reason right after it.
        while !Interruption.isRequested, !isFinal, !hasOpened,
            Clocks.monotonic() < deadline + (lastReason == nil ? 1_000_000_000 : 0)
        {
            _ = poll(nil, 0, 20)
        }
        // The state has shown a final error.
        guard !hasOpened, !isFinal, !Interruption.isRequested else { return hasOpened }
        display.show(
            .status("no connection within \(connectTimeout.settingText)" + (lastReason.map { ": \($0)" } ?? ""))
        )
        return false
    }

    private var lastReason: String? { runBlocking(on: .shared) { [client] in client.value.lastReason } }
    private var hasOpened: Bool { runBlocking(on: .shared) { [client] in client.value.hasOpened } }
    private var isFinal: Bool { runBlocking(on: .shared) { [client] in client.value.state.isFinal } }
    private var isOpen: Bool { runBlocking(on: .shared) { [client] in client.value.state.isOpen } }

    private var inFlight: Int { runBlocking(on: .shared) { [client] in client.value.inFlight } }

    /// Waits for messages in flight, while `canFinish` is true.
    private func wait(while canFinish: () -> Bool) {
        while !Interruption.isRequested, runBlocking(on: .shared, { [client] in client.value.inFlight > 0 }),
            canFinish()
        {
            _ = poll(nil, 0, 20)
        }
    }

    private func take(_ line: String) {
        switch line {
        case "": break
        case "/help": for line in Self.help { display.show(.status(line)) }
        case "/history": runBlocking(on: .shared) { [client] in client.value.showHistory() }
        case "/state": runBlocking(on: .shared) { [client] in await client.value.showState() }
        case _ where line.hasPrefix("/") && !line.hasPrefix("//"):
            display.show(.status("unknown command \(line); /help lists the commands"))
        default:
            let text = line.hasPrefix("//") ? String(line.dropFirst()) : line
            runBlocking(on: .shared) { [client] in await client.value.typed(text, client) }
        }
    }
}

/// Standard output: a file, a pipe, or a terminal whose lines cannot be edited.
private struct StandardDisplay: ChatDisplay {
    let isTerminal: Bool
    let style: Style

    func show(_ line: ChatLine) {
        let text = isTerminal ? line.styled(style, now: Clocks.milliseconds()) : line.text
        if !writeAll(STDOUT_FILENO, text + "\n"), errno == EPIPE { Interruption.endByBrokenPipe() }
    }
}

/// The configuration of a chat.
struct ChatSetup: Sendable {
    var configuration: TransportConfiguration
    var name: String
    var room: String
    /// How long another member's message waits for its predecessor, which its sender repeats after an outage.
    var longestHold = Duration.seconds(30)

    /// The setup of the command line and its configuration file.
    ///
    /// - Throws: an error of the file or of a URL.
    init(_ options: ChatCommand, registry: TransportRegistry = .trial) throws(TransportError) {
        name = options.name
        room = options.room
        if let path = options.config {
            configuration = try readConfiguration(path)
            if let url = options.url { configuration.endpoints = [url] }
        } else {
            configuration = TransportConfiguration(endpoints: options.url.map { [$0] } ?? [])
            configuration.supervisor = Self.supervisor
        }
        if let codec = options.codec.flatMap(WireFormat.init(rawValue:)) {
            configuration.codec = codec
        }
        try joinRoom(registry)
    }

    /// A setup with a configuration of the program.
    init(
        _ configuration: TransportConfiguration,
        name: String,
        room: String,
        registry: TransportRegistry = .trial
    ) throws(TransportError) {
        (self.configuration, self.name, self.room) = (configuration, name, room)
        try joinRoom(registry)
    }

    /// Sessions, with a keepalive that is short enough for a user at the screen.
    private static let supervisor: SupervisorConfiguration = {
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = .session
        configuration.keepalive.interval = .seconds(15)
        configuration.keepalive.timeout = .seconds(5)
        return configuration
    }()

    /// A broker has no rooms. A room is a topic there, unless the URL names topics. At QoS 1, or with receipts, the broker acknowledges.
    private mutating func joinRoom(_ registry: TransportRegistry) throws(TransportError) {
        for index in configuration.endpoints.indices {
            let endpoint = configuration.endpoints[index]
            guard try registry.transport(for: endpoint).capabilities.routesByTopic else { continue }
            let known = try registry.transport(named: endpoint.scheme).clientSettings.map(\.name)
            let topic = "imbench/chat/\(room)"
            for (name, value) in [("publish", topic), ("subscribe", topic), ("qos", "1"), ("receipt", "on")]
            where known.contains(name) && !endpoint.options.contains(where: { $0.name == name }) {
                configuration.endpoints[index].options.append(.init(name: name, value: value))
            }
        }
    }
}
