import Protocols
import SocketIO
import TransportAPI

extension TransportDescriptor {
    /// The descriptor of MQTT 3.1.1 over WebSocket without TLS:
    /// `mqtt+ws://user:password@host/path?publish=a/b&subscribe=c/%23`. User and password belong to MQTT, not to the
    /// WebSocket handshake.
    public static let mqttWebSocket = mqttWebSocket(nil)

    /// The descriptor of MQTT 3.1.1 over WebSocket over TLS: `mqtt+wss://user:password@host/path`. It needs OpenSSL 3 on
    /// the machine.
    public static let mqttWebSocketTLS = mqttWebSocket(.openSSLForHTTP)

    /// Returns the descriptor of MQTT 3.1.1 over WebSocket.
    ///
    /// - Parameter security: How connections are encrypted; `nil` for the plain transport.
    static func mqttWebSocket(_ security: StreamSecurity?) -> TransportDescriptor {
        var descriptor = TransportDescriptor.stream(
            security == nil ? "mqtt+ws" : "mqtt+wss",
            defaultPort: security == nil ? 80 : 443,
            keepalive: webSocket.keepaliveInterval,
            options: mqttOptions + handshakeOptions,
            security: security,
            client: { (endpoint, options) throws(TransportError) in
                let inner = try MQTTCore(
                    client: clientConfiguration(endpoint, options, rhythm: webSocket.keepaliveInterval),
                    session: MQTTSession()
                )
                let core = try MQTTWebSocketCore(inner, over: webSocketClient(endpoint, options))
                return { core }
            },
            server: { (endpoint, options, _) throws(TransportError) in
                let inner = try MQTTCore(server: serverConfiguration(options))
                let core = try MQTTWebSocketCore(inner, over: webSocketServer(endpoint, options))
                return { client in
                    var core = core
                    core.isPeerLocal = client.isLocal
                    return core
                }
            }
        )
        descriptor.isComposed = true
        descriptor.encryptedName = security == nil ? "mqtt+wss" : nil
        descriptor.routeByTopic()
        let options = descriptor.options
        descriptor.broker = { (endpoint, change) throws(TransportError) in
            try brokerOptions(endpoint, allowed: options, isOverWebSocket: true, security, change)
        }
        descriptor.annotate = { reader in
            annotateWebSocketFrame(&reader)
            annotatePublish(&reader)
        }
        return descriptor
    }

    private static let handshakeOptions =
        [
            TransportOption("origin", "an origin", "the Origin header of a client (none)"),
            .header, .query, .cookies,
        ] + TransportOption.admission

    private static func webSocketClient(
        _ endpoint: Endpoint,
        _ options: OptionReader
    ) throws(TransportError) -> WebSocketConfiguration {
        var anonymous = endpoint
        anonymous.user = nil
        var configuration = WebSocketConfiguration()
        configuration.path = try path(endpoint, options)
        let defaultPort: UInt16 = endpoint.scheme == "mqtt+wss" ? 443 : 80
        configuration.hostHeader = WebSocketConfiguration.hostHeader(
            host: endpoint.host,
            port: endpoint.port,
            defaultPort: defaultPort
        )
        configuration.origin = try options.string("origin")
        configuration.headers = try headers(anonymous, options)
        configuration.handshakeTimeout = try options.duration("handshake-timeout") ?? configuration.handshakeTimeout
        configuration.closeTimeout = try options.duration("close-timeout") ?? configuration.closeTimeout
        return configuration
    }

    static func webSocketServer(
        _ endpoint: Endpoint,
        _ options: OptionReader
    ) throws(TransportError) -> WebSocketConfiguration {
        var configuration = WebSocketConfiguration()
        try configuration.admit(endpoint, options)
        configuration.handshakeTimeout = try options.duration("handshake-timeout") ?? configuration.handshakeTimeout
        configuration.closeTimeout = try options.duration("close-timeout") ?? configuration.closeTimeout
        return configuration
    }
}
