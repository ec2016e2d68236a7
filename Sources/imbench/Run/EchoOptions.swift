import CommandSupport
import Measuring
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports
import Workloads

/// The rows of a measurement of echoes: one for each transport, delivery, codec and size.
struct RowOptions: Sendable, Equatable {
    /// Names of transports, in the order of the command line.
    var transports: [String]
    var codecs: [String]
    /// How messages are delivered in the rows of each transport.
    var deliveries = [DeliveryConfiguration.Mode.plain]
    /// Bytes of text in a message.
    var sizes = [32, 256, 4096]

    /// The transports of the rows: each one for each kind of delivery that it has.
    var rowTransports: [String] {
        transports.flatMap { name in
            deliveries.compactMap { $0 == .plain ? name : TransportRegistry.nameWithSessions(name) }
        }
    }

    /// The number of rows.
    var count: Int { rowTransports.count * codecs.count * sizes.count }

    /// The rows that are measured by default.
    init(_ vocabulary: Vocabulary) { (transports, codecs) = (vocabulary.defaultTransports, vocabulary.defaultCodecs) }

    /// Rows with one size.
    init(transports: [String], codec: String, size: Int) {
        (self.transports, codecs, sizes) = (transports, [codec], [size])
    }

    static func list(_ vocabulary: Vocabulary) -> OptionList<RowOptions> {
        var list = OptionList(RowOptions(vocabulary))
        list.add(
            .what,
            [
                Setting("transport", .names(vocabulary.transports), \.transports, "transports"),
                Setting("codec", .names(vocabulary.codecs), \.codecs, "codecs"),
                Setting("size", .sizes, \.sizes, "bytes of text in a message, as in 32,4KiB"),
                Setting(
                    "delivery",
                    .commaSeparated(.word),
                    \.deliveries,
                    "how messages are delivered, each in rows of its own; in a session, the peer acknowledges each message"
                ),
            ]
        )
        return list
    }

    /// Checks that session delivery has a server. Only embedded servers are session servers that send messages back.
    ///
    /// - Parameter outside: The option that names other servers, if there is one.
    func checkDelivery(_ vocabulary: Vocabulary, outside: String? = nil) throws(UsageError) {
        guard deliveries.contains(.session) else { return }
        if let outside {
            throw UsageError("--delivery session measures embedded servers, so it excludes --\(outside)")
        }
        guard rowTransports.isEmpty else { return }
        let known = vocabulary.transports.filter { TransportRegistry.nameWithSessions($0) != nil }
        throw UsageError(
            "--delivery session: \(transports.joined(separator: ", ")) has no session server; "
                + "allowed is \(known.joined(separator: ", "))"
        )
    }
}

/// The messages of a measurement of echoes, and how long each row is measured.
struct EchoLoad: Sendable, Equatable {
    /// The extent of each row of the report, over all its repeats together.
    enum Extent: Sendable, Hashable {
        case duration(Duration)
        case messages(Int)
    }

    /// The event after which a connection sends its next message.
    enum Pacing: Sendable, Hashable {
        /// An answer, so that this many messages are in flight.
        case closed(inFlight: Int)
        /// The clock: messages per second, independent of the answers.
        case open(rate: Double)
    }

    var connections = 1
    var extent = Extent.duration(.milliseconds(2500))
    var pacing = Pacing.closed(inFlight: 1)
    /// How long each row runs before each repeat.
    var warmup = Duration.milliseconds(20)
    /// Many short repeats find smaller differences than few long ones.
    var repeats = 30
    /// By how many percent each round trip is made longer, to test `imbench compare`.
    var delayPercent = 0.0
    /// The size of the picture that goes beside the messages; `nil` without one.
    var pictureBytes: Int?

    /// Messages per second on each connection; `nil` in the closed loop.
    var rate: Double? { if case .open(let rate) = pacing { rate } else { nil } }
    /// How many messages of the closed loop are in flight on each connection.
    var inFlight: Int { if case .closed(let count) = pacing { count } else { 1 } }
    /// Where a picture goes, in rows of their own.
    var picturePlaces: [PicturePlace] { pictureBytes == nil ? [.none] : PicturePlace.allCases }

    /// This many messages, one at a time on one connection.
    static func counted(_ messages: Int) -> EchoLoad {
        EchoLoad(extent: .messages(messages), warmup: .zero, repeats: 1)
    }

    private static let messageCount = SettingFormat.integer(1...1_000_000_000).map(
        { Extent.messages($0) },
        back: { if case .messages(let count) = $0 { count } else { nil } }
    )
    private static let time = SettingFormat.duration(.milliseconds(1) ... .seconds(86_400)).map(
        { Extent.duration($0) },
        back: { if case .duration(let duration) = $0 { duration } else { nil } }
    )
    private static let windows = SettingFormat.integer(1...1024).map(
        { Pacing.closed(inFlight: $0) },
        back: { if case .closed(let count) = $0 { count } else { nil } }
    )
    private static let rates = SettingFormat.messagesPerSecond.map(
        { Pacing.open(rate: $0) },
        back: { if case .open(let rate) = $0 { rate } else { nil } }
    )
    /// Reports do not mention the usual run without a delay.
    private static let delays = {
        var format = SettingFormat.number(0...1000, percents: 1).withDefault("0")
        let text = format.text
        format.text = { $0 > 0 ? text($0) : nil }
        return format
    }()
    private static let picture = SettingFormat<String>.text(1...100).called("picture=SIZE").read(
        by: { (text) throws(UsageError) in try Picture.bytes(text) },
        back: { "picture=\($0)" }
    )

    static let list = {
        var list = OptionList(EchoLoad())
        list.add(
            .what,
            [
                Setting(
                    "mix",
                    picture.orAbsent("no picture"),
                    \.pictureBytes,
                    "also send a picture of this size, as in picture=1MB: rows without it, with it on the connection of "
                        + "the messages, and with it on a second connection"
                )
            ]
        )
        list.add(
            .load,
            excludes: "messages",
            [Setting("duration", time, \.extent, "how long each row is measured, over all repeats")]
        )
        list.add(
            .load,
            excludes: "duration",
            [Setting("messages", messageCount, \.extent, "how many messages each row measures, in place of a duration")]
        )
        list.add(
            .load,
            [
                Setting("warmup", .upToHour(), \.warmup, "how long each row runs before each repeat"),
                Setting("repeat", .integer(1...1000), \.repeats, "repeats of each row, in random order"),
                Setting(
                    "delay-percent",
                    delays,
                    \.delayPercent,
                    "to test 'compare': make each round trip longer by this"
                ),
                Setting("connections", .integer(1...10_000), \.connections, "concurrent connections"),
            ]
        )
        list.add(
            .load,
            excludes: "rate",
            [Setting("in-flight", windows, \.pacing, "closed loop: messages in flight on each connection")]
        )
        list.add(
            .load,
            excludes: "in-flight",
            [
                Setting(
                    "rate",
                    rates.withDefault("the closed loop"),
                    \.pacing,
                    "open loop: messages per second on each connection, independent of the answers"
                )
            ]
        )
        return list
    }()
}

/// How client and server use the cores of this machine.
struct MachineOptions: Sendable, Equatable {
    /// How client and server share the cores, and the two threads of each floor in the same way.
    var placement = Placement.apart
    /// Whether spinning threads keep the cores from sleeping.
    var isAwake = false
    /// Whether the loops poll before they sleep.
    var polling = Polling.never

    private static let pollTime = SettingFormat.duration(.zero ... .seconds(1)).or("auto").map(
        { time in time.map { $0 == .zero ? Polling.never : .always(for: $0) } ?? .adaptive },
        back: { polling -> Duration?? in
            switch polling {
            case .never: .none
            case .adaptive: .some(nil)
            case .always(let time): .some(time)
            }
        }
    )

    static let list = {
        var list = OptionList(MachineOptions())
        list.add(
            .load,
            [
                .placement(\.placement),
                Setting(
                    "awake",
                    .mark(on: "yes", off: "no"),
                    \.isAwake,
                    "keep the cores from sleeping, to compare code and not power management"
                ),
                Setting(
                    "busy-poll",
                    pollTime.withDefault("0s"),
                    \.polling,
                    "how long client and server poll before they sleep, as in 50us, or auto; CPU time counts it"
                ),
            ]
        )
        return list
    }()
}
