import Codecs
import CommandSupport
import EmulatedNetworks
import Protocols
import Reporting
import TransportAPI
import Transports
import Workloads

/// The answers to one question: the words of an option.
protocol Answer: RawRepresentable<String>, CaseIterable, Sendable, Hashable {
    /// What the word means, for the questionnaire.
    var meaning: String { get }
}

/// A kind of app. It has usual answers to the other questions, its messages, and the weight of each criterion.
enum Workload: String, Answer {
    case chat, presence, game, iot, live, corporate

    var meaning: String {
        switch self {
        case .chat: "messages between people"
        case .presence: "typing and presence"
        case .game: "positions and moves, many a second"
        case .iot: "a fleet of devices"
        case .live: "comments on a live event"
        case .corporate: "an app inside company networks"
        }
    }

    /// Bytes of text in a typical message.
    var size: Int {
        switch self {
        case .presence: 32
        case .game, .iot: 64
        case .chat, .live: 128
        case .corporate: 256
        }
    }

    /// The messages of one client, in both directions. They are a judgement, not a measurement.
    var traffic: DailyTraffic {
        switch self {
        case .chat: DailyTraffic(bursts: 40, messages: 5, rate: 0.1)
        case .presence: DailyTraffic(bursts: 40, messages: 30, rate: 1)
        // Three matches of 20 minutes.
        case .game: DailyTraffic(bursts: 3, messages: 24_000, rate: 20)
        // A reading every five minutes.
        case .iot: DailyTraffic(bursts: 288, messages: 1, rate: 0.02)
        // Two events of half an hour.
        case .live: DailyTraffic(bursts: 2, messages: 18_000, rate: 10)
        case .corporate: DailyTraffic(bursts: 60, messages: 5, rate: 0.1)
        }
    }

    /// The answers that fit most apps of this kind.
    var usual: Answers {
        switch self {
        case .chat: Answers(self, [.mobile, .browsers], .mustArrive, .internet, .room)
        case .presence: Answers(self, [.mobile], .mayBeLost, .internet, .room)
        case .game: Answers(self, [.mobile], .mayBeLost, .internet, .peer)
        case .iot: Answers(self, [.devices], .mayBeLate, .internet, .topic)
        case .live: Answers(self, [.browsers, .mobile], .mayBeLost, .internet, .room)
        case .corporate: Answers(self, [.browsers], .mustArrive, .company, .room)
        }
    }
}

/// Where clients run.
enum ClientKind: String, Answer {
    case browsers, mobile, servers, devices

    var meaning: String {
        switch self {
        case .browsers: "web pages"
        case .mobile: "apps on phones and tablets"
        case .servers: "other servers, and desktops"
        case .devices: "small devices on a battery"
        }
    }

    /// Whether its radio or battery matters.
    var hasRadio: Bool { self == .mobile || self == .devices }
}

/// The requirement for a message.
enum Arrival: String, Answer {
    case mustArrive = "must-arrive"
    case mayBeLate = "may-be-late"
    case mayBeLost = "may-be-lost"

    var meaning: String {
        switch self {
        case .mustArrive: "each one, and soon"
        case .mayBeLate: "each one, but it may be late"
        case .mayBeLost: "a late one is worthless, so it may be lost"
        }
    }
}

/// The network between client and server.
enum PathKind: String, Answer {
    case own, internet, company

    var meaning: String {
        switch self {
        case .own: "you control it, with its firewalls"
        case .internet: "you do not control it"
        case .company: "perhaps only HTTP through its proxy"
        }
    }
}

/// The receivers of a message.
enum Receivers: String, Answer {
    case peer, room, topic

    var meaning: String {
        switch self {
        case .peer: "one peer"
        case .room: "the members of a room, through a server of yours"
        case .topic: "all subscribers of a topic, through a broker"
        }
    }
}

/// The answers to the questions about the app.
struct Answers: Sendable, Equatable {
    var workload: Workload
    var clients: [ClientKind]
    var arrival: Arrival
    var path: PathKind
    var receivers: Receivers

    init(
        _ workload: Workload,
        _ clients: [ClientKind],
        _ arrival: Arrival,
        _ path: PathKind,
        _ receivers: Receivers
    ) {
        self.workload = workload
        self.clients = clients
        self.arrival = arrival
        self.path = path
        self.receivers = receivers
    }

    /// The given answers, and for the others the usual ones of the workload.
    init(_ workload: Workload, _ options: AdviceOptions) {
        let usual = workload.usual
        self.init(
            workload,
            options.clients.isEmpty ? usual.clients : options.clients,
            options.arrival ?? usual.arrival,
            options.path ?? usual.path,
            options.receivers ?? usual.receivers
        )
    }

    /// Browsers parse JSON without a library. Others take the smaller format.
    var codec: WireFormat { clients.contains(.browsers) ? .json : .protobuf }

    /// Messages of people keep their order.
    var isOrdered: Bool { arrival == .mustArrive }

    var sentence: String {
        "--workload \(workload.rawValue) --clients \(clients.map(\.rawValue).joined(separator: ",")) "
            + "--messages \(arrival.rawValue) --path \(path.rawValue) --receivers \(receivers.rawValue)"
    }
}

/// The options of `imbench advise`.
struct AdviceOptions: Sendable, Equatable {
    /// The answers of the command line. Without a workload, all questions are asked.
    var workload: Workload?
    var clients: [ClientKind] = []
    var arrival: Arrival?
    var path: PathKind?
    var receivers: Receivers?
    /// The host of the endpoints in the configuration.
    var host = "chat.example"
    /// A report with figures. Without one, they are measured.
    var source: String?
    /// The assumed path between client and server.
    var roundTrip = Self.usualRoundTrip
    var loss = Self.usualLoss
    /// The network that gives both; `nil` if they are given one by one.
    var network: Network?
    var radio = RadioModel.lte

    static let usualRoundTrip = Duration.milliseconds(100)
    static let usualLoss = 0.01
    /// The allowed round trips.
    static let roundTrips = Duration.milliseconds(1) ... .seconds(10)

    static let list = {
        var list = OptionList(AdviceOptions())
        let usual = "the usual answer of the workload"
        list.add(
            .what,
            [
                Setting(
                    "workload",
                    SettingFormat<Workload>.word.orAbsent("asked on a terminal"),
                    \.workload,
                    "the app"
                ),
                Setting("clients", kinds.withDefault(usual), \.clients, "where clients run"),
                Setting(
                    "messages",
                    SettingFormat<Arrival>.word.orAbsent(usual),
                    \.arrival,
                    "the requirement for a message"
                ),
                Setting(
                    "path",
                    SettingFormat<PathKind>.word.orAbsent(usual),
                    \.path,
                    "the network between client and server"
                ),
                Setting(
                    "receivers",
                    SettingFormat<Receivers>.word.orAbsent(usual),
                    \.receivers,
                    "the receivers of a message"
                ),
                Setting("host", hostName.called("NAME"), \.host, "the host in the configuration"),
                Setting(
                    "from",
                    SettingFormat.file.orAbsent("measure now, in about ten seconds"),
                    \.source,
                    "a report of 'run' or 'overhead' in JSON"
                ),
            ]
        )
        list.add(
            .load,
            [
                Setting(
                    "network",
                    SettingFormat<Network>.network.orAbsent("--round-trip and --loss"),
                    \.network,
                    "the assumed network, in place of --round-trip and --loss: "
                        + "\(Network.presets.map(\.name).joined(separator: ", ")), or a description such as "
                        + "'delay=50ms,loss=2%', of which these two count"
                )
            ]
        )
        list.add(
            .load,
            excludes: "network",
            [
                Setting(
                    "round-trip",
                    .duration(roundTrips),
                    \.roundTrip,
                    "assumed round trip between client and server"
                ),
                Setting("loss", .share, \.loss, "assumed share of lost packets"),
            ]
        )
        list.add(.load, [Setting("radio", .radio, \.radio, "model of the device's radio")])
        return list
    }()

    private static let kinds = SettingFormat<[ClientKind]>.commaSeparated(.word)

    /// A host that is allowed in a URL without escapes.
    private static let hostName = SettingFormat.text(1...253, "of letters, digits, dots and hyphens") { text in
        text.utf8.allSatisfy { byte in
            (0x30...0x39).contains(byte) || (0x41...0x5a).contains(byte) || (0x61...0x7a).contains(byte)
                || byte == 0x2d || byte == 0x2e
        }
    }

    /// Assumes the round trip and the loss of a network.
    mutating func assume(_ network: Network) throws(UsageError) {
        guard network.nat == nil else {
            throw UsageError("--network: 'nat' is for 'open' and 'outage', not for 'advise'")
        }
        let roundTrip = network.delay * 2
        guard Self.roundTrips.contains(roundTrip) else {
            throw UsageError(
                "--network: the delay is \(network.delay.settingText); allowed with 'advise' is "
                    + "\((Self.roundTrips.lowerBound / 2).settingText) to \((Self.roundTrips.upperBound / 2).settingText)"
            )
        }
        (self.roundTrip, loss, self.network) = (roundTrip, network.loss, network)
    }

    /// Whether nothing was said about the network.
    var assumesUsualNetwork: Bool {
        network == nil && roundTrip == Self.usualRoundTrip && loss == Self.usualLoss
    }

    static func figures(roundTrip: Duration, loss: Double) -> String {
        "round trip \(roundTrip.settingText), loss \(fixed(loss * 100, 2, trimmed: true)) %"
    }

    /// The assumptions about the network, with their source.
    var assumed: String {
        let figures = Self.figures(roundTrip: roundTrip, loss: loss)
        guard let network else { return figures }
        let source = network.source.isEmpty ? "--network" : network.source
        return "network \(network.name): \(figures) (\(source))"
    }
}
