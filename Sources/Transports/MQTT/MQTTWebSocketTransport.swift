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
            security: security,
            clientSettings: MQTTClientSettings.webSocketList,
            serverSettings: MQTTServerSettings.webSocketList,
            client: { (endpoint, settings) throws(TransportError) in
                let inner = try MQTTClientCore(
                    settings.own.configuration(endpoint, rhythm: settings.limits.keepaliveInterval),
                    session: MQTTSession()
                )
                let defaultPort: UInt16 = security == nil ? 80 : 443
                var outer = settings.own.handshake.webSocket(endpoint, defaultPort: defaultPort, settings.limits)
                outer.handshakeTimeout = settings.own.configuration.handshakeTimeout
                let core = try WebSocketCarrier(inner, over: outer)
                return { core }
            },
            server: { (endpoint, settings, _) throws(TransportError) in
                let inner = try MQTTServerCore(settings.own.configuration)
                let core = try WebSocketCarrier(inner, over: settings.own.webSocket(endpoint, settings.limits))
                return { client in
                    var core = core
                    core.isPeerLocal = client.isLocal
                    return core
                }
            },
            prepare: { $0.prepare($1) },
            keepsCookies: { $0.handshake.keepsCookies }
        )
        descriptor.isComposed = true
        descriptor.encryptedName = security == nil ? "mqtt+wss" : nil
        descriptor.routeByTopic()
        descriptor.broker = .mqtt(
            BrokerSettings.reader(
                descriptor,
                MQTTServerSettings.webSocketList,
                security,
                prepare: { $0.configuration.routesSignals = true },
                makeCore: { (endpoint, settings) throws(TransportError) in
                    let inner = try MQTTServerCore(settings.own.configuration)
                    let core = try WebSocketCarrier(inner, over: settings.own.webSocket(endpoint, settings.limits))
                    return { client in
                        var core = core
                        core.inner.peer = client.address?.description
                        core.isPeerLocal = client.isLocal
                        return core
                    }
                }
            )
        )
        descriptor.annotate = { reader in
            annotateWebSocketFrame(&reader)
            annotatePublish(&reader)
        }
        return descriptor
    }
}
