import Protocols
import TransportAPI

/// The settings of a STOMP client.
struct STOMPClientSettings: Sendable {
    /// The largest value of `max-message`.
    fileprivate static let largestMessage = 256 << 20

    var shared = STOMPConfiguration(host: "localhost")
    /// The virtual host; `nil` for the host of the URL.
    var host: String?
    /// `nil` if the URL does not set it.
    private var interval: Duration?
    /// The keepalive of the supervisor, if there is one.
    private var keepalive: KeepaliveConfiguration?
    /// The request of the WebSocket, if there is one.
    var handshake = HandshakeSettings()

    /// The settings of a client over TCP.
    static let list = SettingList(
        STOMPClientSettings(),
        [
            .init(
                "publish",
                SettingFormat.text("a destination").orAbsent,
                \.shared.destination,
                "the destination of messages without their own"
            ),
            .init("subscribe", each: .destination, \.shared.subscriptions, "the messages to receive; may be repeated"),
            .init("ack", .word, \.shared.ack, "how received messages are acknowledged to the broker"),
            .init("receipt", .flag, \.shared.requestsReceipts, "whether the broker confirms each message"),
            .init(
                "subscribe-receipt",
                .word,
                \.shared.subscriptionReceipts,
                "whether the broker confirms each subscription; auto: if CONNECTED names the broker"
            ),
            .init(
                "host",
                SettingFormat.text("a virtual host").orAbsent("the host of the URL"),
                \.host,
                "the virtual host at the broker"
            ),
            .init(
                "content-type",
                SettingFormat.text("a MIME type").orAbsent("that of a text or of bytes"),
                \.shared.contentType,
                "the content-type of every message"
            ),
            .init(
                "connect-header",
                each: .stompHeader,
                \.shared.connectHeaders,
                "a header of CONNECT; may be repeated"
            ),
            .init("send-header", each: .stompHeader, \.shared.sendHeaders, "a header of each SEND; may be repeated"),
            .init(
                "subscribe-header",
                each: .stompHeader,
                \.shared.subscribeHeaders,
                "a header of each SUBSCRIBE; may be repeated"
            ),
            .init(
                "keepalive-interval",
                SettingFormat.duration().orAbsent("the transport's, or the supervisor's"),
                \.interval,
                "the interval of heart-beats that the client offers and asks for"
            ),
            .init(
                "heart-beat-margin",
                .duration(),
                \.shared.heartBeatMargin,
                "how much longer than twice the agreed interval the broker may be silent, at most one interval more"
            ),
            .init(
                "in-flight",
                SettingFormat.integer(1...65_535),
                \.shared.maximumInFlight,
                "messages that may wait for their receipt"
            ),
            .init("receipt-timeout", .duration(), \.shared.receiptTimeout, "how long the broker may take to confirm"),
            .init(
                "unclaimed-wait",
                .duration(),
                \.shared.unclaimedWait,
                "how long messages of a STOMPClient without a listener wait for one"
            ),
            .init("handshake-timeout", .duration(), \.shared.handshakeTimeout, "how long the handshake may take"),
            .maximumMessageSize(\.shared.limits.body, atMost: largestMessage),
        ]
    )

    /// The settings of a client over WebSocket.
    static let webSocketList = {
        var list = STOMPClientSettings.list
        list.append(HandshakeSettings.list, at: \.handshake)
        return list
    }()

    /// Takes over what a context says, which the options of a URL replace.
    mutating func prepare(_ context: ConnectionContext) {
        handshake.contextHeaders = context.headers
        keepalive = context.keepalive
    }

    /// Returns the configuration of a client's core. The protocol has its own heart-beats, so it gets the supervisor's
    /// interval; without one, there are no heart-beats. An adaptive interval needs a ping, which STOMP does not have, so it
    /// changes nothing.
    ///
    /// - Parameter rhythm: The interval of the transport, if neither the URL nor the supervisor sets one.
    func configuration(
        _ endpoint: Endpoint,
        _ limits: ConnectionLimits,
        rhythm: Duration?
    ) throws(TransportError) -> STOMPConfiguration {
        var configuration = shared
        configuration.host = host ?? endpoint.host
        configuration.login = endpoint.user
        configuration.passcode = endpoint.password
        configuration.closeTimeout = limits.closeTimeout
        var beat = interval ?? rhythm
        if interval == nil, let keepalive {
            switch keepalive.interval {
            case .off: beat = nil
            case .fixed(let interval): beat = interval
            case .automatic: break
            }
        }
        (configuration.outgoingHeartBeat, configuration.incomingHeartBeat) = (beat, beat)
        return configuration
    }
}

/// The settings of a STOMP server: of a point-to-point server or of a broker.
package struct STOMPServerSettings: Sendable {
    package var configuration = STOMPServerConfiguration()
    /// The WebSocket, if there is one.
    var webSocket = WebSocketConfiguration()

    /// The settings of a server over TCP.
    static let list = SettingList(
        STOMPServerSettings(),
        [
            .init(
                "handshake-timeout",
                .duration(),
                \.configuration.handshakeTimeout,
                "how long the handshake may take"
            ),
            .init(
                "max-subscriptions",
                .integer(1...1_000_000),
                \.configuration.maximumSubscriptions,
                "subscriptions that one client may have"
            ),
            .init(
                "in-flight",
                SettingFormat.integer(1...65_535),
                \.configuration.maximumInFlight,
                "messages that one client may leave without ACK before it gets no more"
            ),
            .init(
                "min-heart-beat",
                .duration(),
                \.configuration.shortestHeartBeat,
                "the shortest interval of heart-beats that a client can choose"
            ),
            .init(
                "heart-beat-margin",
                .duration(),
                \.configuration.heartBeatMargin,
                "how much longer than twice the agreed interval the client may be silent, at most one interval more"
            ),
            .maximumMessageSize(\.configuration.limits.body, atMost: STOMPClientSettings.largestMessage),
        ]
    )

    /// The settings of a server over WebSocket.
    static let webSocketList = {
        var list = STOMPServerSettings.list
        list.append(WebSocketConfiguration.admission, at: \.webSocket)
        return list
    }()

    /// Returns the configuration of the WebSocket below STOMP.
    func webSocket(_ endpoint: Endpoint, _ limits: ConnectionLimits) throws(TransportError) -> WebSocketConfiguration {
        var webSocket = webSocket
        try webSocket.admit(endpoint)
        webSocket.handshakeTimeout = configuration.handshakeTimeout
        webSocket.closeTimeout = limits.closeTimeout
        return webSocket
    }
}

extension SettingFormat where Value == String {
    /// The format of a destination.
    fileprivate static var destination: Self {
        var format = text("a destination")
        format.absent = "none"
        return format
    }
}

extension SettingFormat where Value == STOMPHeader {
    /// The format of a header of a frame: its name, a colon, and its value as it is.
    fileprivate static var stompHeader: Self {
        var format = SettingFormat<String>.text("name:value").map(
            { (text: String) -> STOMPHeader? in
                guard let colon = text.firstIndex(of: ":"), colon != text.startIndex else { return nil }
                return STOMPHeader(String(text[..<colon]), String(text[text.index(after: colon)...]))
            },
            back: { (header: STOMPHeader) in "\(header.name):\(header.value)" }
        )
        format.absent = "none"
        return format
    }
}
