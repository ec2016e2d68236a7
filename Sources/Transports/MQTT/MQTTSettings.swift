import Protocols
import TransportAPI

/// The settings of an MQTT client.
struct MQTTClientSettings: Sendable {
    var configuration = MQTTConfiguration()
    var filters: [String] = []
    var will = WillSettings()
    /// In seconds; `nil` if the URL does not set it.
    var keepAlive: Int?
    /// `nil` for the usual windows.
    var inFlight: Int?
    /// The keepalive of the supervisor, if there is one.
    private var keepalive: KeepaliveConfiguration?
    /// The request of the WebSocket, if there is one.
    var handshake = HandshakeSettings()

    /// The settings of a client over TCP.
    static let list = {
        var list = SettingList(
            MQTTClientSettings(),
            [
                .init(
                    "publish",
                    SettingFormat.text("a topic").orAbsent,
                    \.configuration.publishTopic,
                    "the topic of messages without their own"
                ),
                .init("subscribe", each: .filter, \.filters, "the messages to receive; may be repeated"),
                .init(
                    "qos",
                    .qos,
                    \.configuration.qos,
                    "the QoS of subscriptions, and of messages without their own"
                ),
            ]
        )
        list.append(WillSettings.list, at: \.will)
        return list.adding(connectSettings)
    }()

    /// The settings of a client over WebSocket.
    static let webSocketList = {
        var list = MQTTClientSettings.list
        list.append(HandshakeSettings.list, at: \.handshake)
        return list
    }()

    private static let connectSettings: [Setting<MQTTClientSettings>] = [
        .init(
            "client-id",
            SettingFormat.text("up to 65535 bytes").orAbsent("random"),
            \.configuration.clientID,
            "the client identifier"
        ),
        .init("clean-session", .flag, \.configuration.cleanSession, "whether the session ends with the connection"),
        .init(
            "early-publish",
            .flag,
            \.configuration.publishesEarly,
            "whether messages leave before CONNACK; not with clean-session=off"
        ),
        .init(
            "keepalive-interval",
            SettingFormat.duration().orAbsent("the transport's, or the supervisor's"),
            \.configuration.keepaliveInterval,
            "the silence in either direction after which the client pings"
        ),
        .init(
            "keep-alive",
            SettingFormat.integer(0...65_535).orAbsent("4/3 of keepalive-interval"),
            \.keepAlive,
            "the keep alive in seconds; the broker ends the connection after 1.5 times this silence; 0 turns this off"
        ),
        .init(
            "in-flight",
            SettingFormat.integer(1...65_535).orAbsent(usualWindows),
            \.inFlight,
            "messages that may wait for PUBACK or PUBCOMP"
        ),
        .init(
            "acknowledgement-timeout",
            .duration(),
            \.configuration.acknowledgementTimeout,
            "how long the broker may take to answer any packet but PINGREQ"
        ),
        .init(
            "unclaimed-wait",
            .duration(),
            \.configuration.unclaimedWait,
            "how long messages of an MQTTClient that match no filter wait for one"
        ),
        .init(
            "ping-timeout",
            .duration(),
            \.configuration.pingTimeout,
            "how long the broker may be silent after PINGREQ"
        ),
        .init("handshake-timeout", .duration(), \.configuration.handshakeTimeout, "how long the handshake may take"),
        .maximumMessageSize(\.configuration.maximumMessageSize, atMost: largestMessage),
    ]

    /// The largest value of `max-message`.
    fileprivate static let largestMessage = 268_369_896

    private static let usualWindows = {
        let usual = MQTTConfiguration()
        return "\(usual.maximumInFlight); \(usual.maximumExactlyOnceInFlight) of them at QoS 2"
    }()

    /// Takes over what a context says, which the options of a URL replace.
    mutating func prepare(_ context: ConnectionContext) {
        handshake.contextHeaders = context.headers
        keepalive = context.keepalive
        guard let timeout = keepalive?.timeout, timeout != KeepaliveConfiguration().timeout else { return }
        configuration.pingTimeout = timeout
    }

    /// Returns the configuration of a client's core. The protocol sends its own keepalive, so it gets the supervisor's
    /// interval. With an adaptive interval, or none, it sends no keepalive.
    ///
    /// - Parameter rhythm: The interval of the transport, if neither the URL nor the supervisor sets one.
    func configuration(_ endpoint: Endpoint, rhythm: Duration?) throws(TransportError) -> MQTTConfiguration {
        var configuration = configuration
        configuration.will = will.will
        configuration.subscriptions = filters.map { MQTTSubscription($0, qos: configuration.qos) }
        var keepAlive = keepAlive
        if let keepalive, keepAlive == nil, configuration.keepaliveInterval == nil {
            switch keepalive.interval {
            case .off: keepAlive = 0
            case _ where keepalive.adaptive != nil: keepAlive = 0
            case .fixed(let interval): configuration.keepaliveInterval = interval
            case .automatic: break
            }
        }
        let interval = configuration.keepaliveInterval ?? rhythm
        configuration.keepAlive = keepAlive ?? interval.map(Self.keepAlive) ?? configuration.keepAlive
        if let inFlight {
            (configuration.maximumInFlight, configuration.maximumExactlyOnceInFlight) = (inFlight, inFlight)
        }
        configuration.user = endpoint.user
        configuration.password = endpoint.password.map { Array($0.utf8) }
        return configuration
    }

    /// Returns the keep-alive of CONNECT, in seconds. It is long enough that a PINGREQ after `interval` of silence
    /// arrives well before the broker ends the connection.
    private static func keepAlive(for interval: Duration) -> Int {
        let seconds = (interval.wholeNanoseconds / 3).multipliedReportingOverflow(by: 4)
        guard !seconds.overflow else { return 65_535 }
        return Int(min(max((seconds.partialValue + 999_999_999) / 1_000_000_000, 1), 65_535))
    }
}

/// The message that the broker publishes when the connection ends without DISCONNECT.
struct WillSettings: Sendable {
    var topic: String?
    // `nil` if the URL does not set it.
    var message: String?
    var qos: MQTTQoS?
    var isRetained: Bool?

    static let list = SettingList(
        WillSettings(),
        [
            .init(
                "will-topic",
                SettingFormat.text("a topic").orAbsent,
                \.topic,
                "the topic of the will, which the broker publishes if the client does not disconnect"
            ),
            .init("will-message", SettingFormat.text("a text").orAbsent("empty"), \.message, "the payload of the will"),
            .init("will-qos", SettingFormat.qos.orAbsent("0"), \.qos, "the QoS of the will"),
            .init(
                "will-retain",
                SettingFormat.flag.orAbsent("false"),
                \.isRetained,
                "whether the will is retained for later subscribers"
            ),
        ],
        check: { (settings, _) throws(TransportError) in
            let isEmpty = settings.message == nil && settings.qos == nil && settings.isRetained == nil
            guard settings.topic == nil, !isEmpty else { return }
            throw .configuration("will-topic", "is missing, but there are other options of a will")
        }
    )

    /// The will; `nil` without a topic.
    var will: MQTTWill? {
        topic.map {
            MQTTWill(
                topic: $0,
                payload: Array((message ?? "").utf8),
                qos: qos ?? .atMostOnce,
                retain: isRetained ?? false
            )
        }
    }
}

/// The settings of an MQTT server: of a point-to-point server or of a broker.
package struct MQTTServerSettings: Sendable {
    package var configuration = MQTTServerConfiguration()
    /// Used by a broker only.
    package var routing = BrokerCore.Limits()
    /// The WebSocket, if there is one.
    var webSocket = WebSocketConfiguration()

    /// The settings of a server over TCP.
    static let list = SettingList(
        MQTTServerSettings(),
        [
            .init("qos", .qos, \.configuration.qos, "the QoS of messages that are sent point to point"),
            .init(
                "handshake-timeout",
                .duration(),
                \.configuration.handshakeTimeout,
                "how long the handshake may take"
            ),
            .init(
                "max-subscriptions",
                .integer(1...1_000_000),
                \.routing.maximumSubscriptionsPerSession,
                "filters that a broker keeps for one client"
            ),
            .init(
                "max-filter-levels",
                .integer(BrokerCore.Limits.filterLevels),
                \.routing.maximumFilterLevels,
                "levels of a filter that a broker grants"
            ),
            .init(
                "max-unreleased",
                .integer(1...65_535),
                \.configuration.maximumUnreleased,
                "messages of QoS 2 that a client may send without PUBREL"
            ),
            .init(
                "max-client-id",
                .bytes(23...65_535),
                \.configuration.maximumClientID,
                "bytes of a client identifier that a server accepts"
            ),
            .init(
                "max-will",
                .bytes(1...131_070),
                \.configuration.maximumWill,
                "bytes of a will, topic and message, that a server accepts"
            ),
            .maximumMessageSize(\.configuration.maximumMessageSize, atMost: MQTTClientSettings.largestMessage),
        ]
    )

    /// The settings of a server over WebSocket.
    static let webSocketList = {
        var list = MQTTServerSettings.list
        list.append(WebSocketConfiguration.admission, at: \.webSocket)
        return list
    }()

    /// Returns the configuration of the WebSocket below MQTT.
    func webSocket(_ endpoint: Endpoint, _ limits: ConnectionLimits) throws(TransportError) -> WebSocketConfiguration {
        var webSocket = webSocket
        try webSocket.admit(endpoint)
        webSocket.handshakeTimeout = configuration.handshakeTimeout
        webSocket.closeTimeout = limits.closeTimeout
        return webSocket
    }
}

extension SettingFormat where Value == MQTTQoS {
    /// The format of a QoS: its number.
    fileprivate static var qos: Self {
        let levels: [MQTTQoS] = [.atMostOnce, .atLeastOnce, .exactlyOnce]
        return SettingFormat<String>.word(of: levels.map { "\($0.rawValue)" }).map(
            { text in levels.first { "\($0.rawValue)" == text } },
            back: { "\($0.rawValue)" }
        )
    }
}

extension SettingFormat where Value == String {
    /// The format of a topic filter.
    fileprivate static var filter: Self {
        var format = text("a topic filter")
        format.absent = "none"
        return format
    }
}
