import Protocols
import TransportAPI

extension TransportDescriptor {
    /// The descriptor of MQTT 3.1.1 without TLS: `mqtt://user:password@host/?publish=a/b&subscribe=c/%23`.
    public static let mqtt = mqtt(nil)

    /// The descriptor of MQTT 3.1.1 over TLS: `mqtts://user:password@host/?publish=a/b&subscribe=c/%23`. It needs OpenSSL
    /// 3 on the machine.
    public static let mqttTLS = mqtt(.openSSL)

    /// Returns the descriptor of MQTT 3.1.1.
    ///
    /// - Parameter security: How connections are encrypted; `nil` for the plain transport.
    static func mqtt(_ security: StreamSecurity?) -> TransportDescriptor {
        var descriptor = TransportDescriptor.stream(
            security == nil ? "mqtt" : "mqtts",
            defaultPort: security == nil ? 1883 : 8883,
            keepalive: .seconds(60),
            options: mqttOptions,
            security: security,
            client: { (endpoint, options) throws(TransportError) in
                // State that each connection of this transport passes to the next one.
                let core = try MQTTCore(client: clientConfiguration(endpoint, options), session: MQTTSession())
                return { core }
            },
            server: { (_, options, _) throws(TransportError) in
                let core = try MQTTCore(server: serverConfiguration(options))
                return { _ in core }
            }
        )
        descriptor.routeByTopic()
        let options = descriptor.options
        descriptor.broker = { (endpoint, change) throws(TransportError) in
            try brokerOptions(endpoint, allowed: options, isOverWebSocket: false, security, change)
        }
        descriptor.annotate = annotatePublish
        descriptor.hasPath = false
        descriptor.encryptedName = security == nil ? "mqtts" : nil
        return descriptor
    }

    /// The header of PUBLISH (MQTT 3.1.1, section 3.3).
    @Sendable
    static func annotatePublish(_ reader: inout WireFieldReader) {
        let qos = reader.peek() >> 1 & 3
        reader.take(1, "PUBLISH, QoS \(qos)\(reader.peek() & 1 == 1 ? ", retained" : "")")
        let (length, count) = reader.varint()
        reader.take(count, "remaining length \(length)")
        let topic = Int(reader.number(2))
        reader.take(2, "length of the topic: \(topic)")
        reader.take(topic, "topic '\(reader.text(topic))'")
        if qos > 0 { reader.take(2, "packet identifier \(reader.number(2))") }
    }

    /// Sets the properties that all transports to a broker have in common.
    mutating func routeByTopic() {
        // The protocol sends its own keepalive, so it gets the supervisor's interval. With an adaptive interval, or
        // none, the protocol sends no keepalive.
        pace = { endpoint, keepalive in
            let names = Set(endpoint.options.map(\.name))
            var paced = endpoint
            if !names.contains("keep-alive"), !names.contains("keepalive-interval") {
                if keepalive.adaptive != nil || keepalive.interval == .off {
                    paced.options.append(.init(name: "keep-alive", value: "0"))
                } else if case .fixed(let interval) = keepalive.interval {
                    paced.options.append(.init(name: "keepalive-interval", value: Self.milliseconds(interval)))
                }
            }
            if !names.contains("ping-timeout"), keepalive.timeout != KeepaliveConfiguration().timeout {
                paced.options.append(.init(name: "ping-timeout", value: Self.milliseconds(keepalive.timeout)))
            }
            return paced
        }

        // A broker sends a client its own messages if the client subscribes to their topic.
        loopback = { unique in
            let topic = "loopback/\(unique)"
            return [.init(name: "publish", value: topic), .init(name: "subscribe", value: topic)]
        }
    }

    private static func milliseconds(_ duration: Duration) -> String {
        "\(max(1, duration.wholeNanoseconds / 1_000_000))ms"
    }

    static let mqttOptions = [
        TransportOption("publish", "a topic", "the topic of messages without their own (none)"),
        TransportOption("subscribe", "a topic filter", "the messages to receive; may be repeated (nothing)"),
        TransportOption("qos", "0, 1 or 2", "of published messages without their own, and of subscriptions (0)"),
        TransportOption(
            "will-topic",
            "a topic",
            "the topic of the will, which the broker publishes if the client does not disconnect (none)"
        ),
        TransportOption("will-message", "a text", "the payload of the will (empty)"),
        TransportOption("will-qos", "0, 1 or 2", "the QoS of the will (0)"),
        TransportOption("will-retain", "on or off", "whether the will is retained for later subscribers (off)"),
        TransportOption("client-id", "up to 65535 bytes", "the client identifier (random)"),
        TransportOption("clean-session", "on or off", "whether the session ends with the connection (on)"),
        TransportOption(
            "early-publish",
            "on or off",
            "whether messages leave before CONNACK; not with clean-session=off (off)"
        ),
        TransportOption(
            "keep-alive",
            "a number of seconds from 0 to 65535",
            "the silence after which the broker ends the connection (4/3 of keepalive-interval; 0 for never)"
        ),
        TransportOption(
            "in-flight",
            "a number from 1 to 65535",
            "messages that may wait for PUBACK or PUBCOMP (64, of which 20 of QoS 2)"
        ),
        TransportOption(
            "acknowledgement-timeout",
            "a time such as 30s",
            "how long the broker may take to answer any packet but PINGREQ (30s)"
        ),
        TransportOption(
            "unclaimed-wait",
            "a time such as 30s",
            "how long messages of an MQTTClient that match no filter wait for one (30s)"
        ),
        TransportOption("ping-timeout", "a time such as 10s", "how long the broker may be silent after PINGREQ (10s)"),
        TransportOption("handshake-timeout", "a time such as 10s", "how long the handshake may take (10s)"),
        TransportOption(
            "max-subscriptions",
            "a number from 1 to 1000000",
            "filters that a broker keeps for one client (1000)",
            side: .server
        ),
        TransportOption(
            "max-filter-levels",
            "a number from 1 to 128",
            "levels of a filter that a broker grants (32)",
            side: .server
        ),
        TransportOption(
            "max-unreleased",
            "a number from 1 to 65535",
            "messages of QoS 2 that a client may send without PUBREL (4096)",
            side: .server
        ),
        TransportOption(
            "max-client-id",
            "a number from 23 to 65535",
            "bytes of a client identifier that a server accepts (1024)",
            side: .server
        ),
        TransportOption(
            "max-will",
            "a number from 1 to 131070",
            "bytes of a will, topic and message, that a server accepts (16384)",
            side: .server
        ),
    ]

    static func clientConfiguration(
        _ endpoint: Endpoint,
        _ options: OptionReader,
        rhythm: Duration = .seconds(60)
    ) throws(TransportError) -> MQTTConfiguration {
        var configuration = MQTTConfiguration()
        configuration.qos = try qos(options, "qos") ?? .atMostOnce
        configuration.will = try will(options)
        configuration.publishTopic = try options.string("publish")
        configuration.subscriptions = options.strings("subscribe").map {
            MQTTSubscription($0, qos: configuration.qos)
        }
        configuration.clientID = try options.string("client-id")
        configuration.cleanSession = try options.flag("clean-session") ?? true
        configuration.publishesEarly = try options.flag("early-publish") ?? false
        configuration.keepaliveInterval = try options.duration("keepalive-interval")
        configuration.keepAlive =
            try options.integer("keep-alive", in: 0...65_535)
            ?? keepAlive(for: configuration.keepaliveInterval ?? rhythm)
        if let window = try options.integer("in-flight", in: 1...65_535) {
            (configuration.maximumInFlight, configuration.maximumExactlyOnceInFlight) = (window, window)
        }
        configuration.pingTimeout = try options.duration("ping-timeout") ?? configuration.pingTimeout
        configuration.acknowledgementTimeout =
            try options.duration("acknowledgement-timeout") ?? configuration.acknowledgementTimeout
        configuration.unclaimedWait = try options.duration("unclaimed-wait") ?? configuration.unclaimedWait
        configuration.maximumMessageSize = try maximumSize(options)
        configuration.handshakeTimeout = try options.duration("handshake-timeout") ?? configuration.handshakeTimeout
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

    static func serverConfiguration(_ options: OptionReader) throws(TransportError) -> MQTTServerConfiguration {
        var configuration = MQTTServerConfiguration()
        configuration.qos = try qos(options, "qos") ?? .atMostOnce
        configuration.maximumMessageSize = try maximumSize(options)
        configuration.handshakeTimeout = try options.duration("handshake-timeout") ?? configuration.handshakeTimeout
        configuration.maximumUnreleased =
            try options.integer("max-unreleased", in: 1...65_535) ?? configuration.maximumUnreleased
        configuration.maximumClientID =
            try options.bytes("max-client-id", in: 23...65_535) ?? configuration.maximumClientID
        configuration.maximumWill = try options.bytes("max-will", in: 1...131_070) ?? configuration.maximumWill
        return configuration
    }

    private static func maximumSize(_ options: OptionReader) throws(TransportError) -> Int {
        try options.maximumMessageSize(default: 16 << 20, atMost: 268_369_896)
    }

    private static func qos(_ options: OptionReader, _ name: String) throws(TransportError) -> MQTTQoS? {
        switch try options.choice(name, ["0", "1", "2"]) {
        case "0": .atMostOnce
        case "1": .atLeastOnce
        case "2": .exactlyOnce
        default: nil
        }
    }

    private static func will(_ options: OptionReader) throws(TransportError) -> MQTTWill? {
        let message = try options.string("will-message")
        let qos = try qos(options, "will-qos")
        let retain = try options.flag("will-retain")
        guard let topic = try options.string("will-topic") else {
            guard message == nil, qos == nil, retain == nil else {
                throw .configuration("will-topic", "is missing, but there are other options of a will")
            }
            return nil
        }
        let payload = Array((message ?? "").utf8)
        return MQTTWill(topic: topic, payload: payload, qos: qos ?? .atMostOnce, retain: retain ?? false)
    }
}
