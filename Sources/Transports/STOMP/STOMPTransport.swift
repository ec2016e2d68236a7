import Protocols
import SocketIO
import TransportAPI

extension TransportDescriptor {
    /// The descriptor of STOMP 1.2 without TLS: `stomp://user:password@host/?publish=/topic/a&subscribe=/topic/a`.
    public static let stomp = stomp(nil)

    /// The descriptor of STOMP 1.2 over TLS: `stomp+tls://user:password@host/?publish=/topic/a&subscribe=/topic/a`. It
    /// needs OpenSSL 3 on the machine.
    public static let stompTLS = stomp(.openSSL)

    /// The descriptor of STOMP 1.2 over WebSocket without TLS:
    /// `stomp+ws://user:password@host/path?publish=/topic/a&subscribe=/topic/a`. User and password belong to STOMP, not to
    /// the WebSocket handshake.
    public static let stompWebSocket = stompWebSocket(nil)

    /// The descriptor of STOMP 1.2 over WebSocket over TLS: `stomp+wss://user:password@host/path`. It needs OpenSSL 3 on
    /// the machine.
    public static let stompWebSocketTLS = stompWebSocket(.openSSLForHTTP)

    /// The beginning of the destination at which a client gets its own messages. Brokers have topics under this name.
    private static let loopbackPrefix = "/topic/loopback."

    /// Returns the descriptor of STOMP 1.2.
    ///
    /// - Parameter security: How connections are encrypted; `nil` for the plain transport.
    static func stomp(_ security: StreamSecurity?) -> TransportDescriptor {
        // RabbitMQ and ActiveMQ use these ports.
        let port: UInt16 = security == nil ? 61613 : 61614
        let makeServer: BrokerSettings<STOMPServerSettings>.MakeCore = { (_, settings) throws(TransportError) in
            let core = try STOMPServerCore(settings.own.configuration)
            return { client in
                var core = core
                core.peer = client.address?.description
                return core
            }
        }
        var descriptor = TransportDescriptor.stream(
            security == nil ? "stomp" : "stomp+tls",
            defaultPort: port,
            keepalive: .seconds(60),
            security: security,
            clientSettings: STOMPClientSettings.list,
            serverSettings: STOMPServerSettings.list,
            client: { (endpoint, settings) throws(TransportError) in
                let core = try STOMPClientCore(
                    settings.own.configuration(endpoint, settings.limits, rhythm: settings.limits.keepaliveInterval)
                )
                return { core }
            },
            server: { (endpoint, settings, _) throws(TransportError) in try makeServer(endpoint, settings) },
            prepare: { $0.prepare($1) }
        )
        descriptor.routeByTopic(loopbackPrefix)
        descriptor.broker = .stomp(
            BrokerSettings.reader(
                descriptor,
                STOMPServerSettings.list,
                security,
                prepare: { $0.configuration.routesSignals = true },
                makeCore: makeServer
            )
        )
        descriptor.annotate = annotateSend
        descriptor.hasPath = false
        descriptor.isOnRequest = true
        descriptor.encryptedName = security == nil ? "stomp+tls" : nil
        return descriptor
    }

    /// Returns the descriptor of STOMP 1.2 over WebSocket.
    ///
    /// - Parameter security: How connections are encrypted; `nil` for the plain transport.
    static func stompWebSocket(_ security: StreamSecurity?) -> TransportDescriptor {
        let defaultPort: UInt16 = security == nil ? 80 : 443
        let makeServer: BrokerSettings<STOMPServerSettings>.MakeCore = { (endpoint, settings) throws(TransportError) in
            let inner = try STOMPServerCore(settings.own.configuration)
            let core = try WebSocketCarrier(inner, over: settings.own.webSocket(endpoint, settings.limits))
            return { client in
                var core = core
                core.inner.peer = client.address?.description
                core.isPeerLocal = client.isLocal
                return core
            }
        }
        var descriptor = TransportDescriptor.stream(
            security == nil ? "stomp+ws" : "stomp+wss",
            defaultPort: defaultPort,
            keepalive: webSocket.keepaliveInterval,
            security: security,
            clientSettings: STOMPClientSettings.webSocketList,
            serverSettings: STOMPServerSettings.webSocketList,
            client: { (endpoint, settings) throws(TransportError) in
                let inner = try STOMPClientCore(
                    settings.own.configuration(endpoint, settings.limits, rhythm: settings.limits.keepaliveInterval)
                )
                var outer = settings.own.handshake.webSocket(endpoint, defaultPort: defaultPort, settings.limits)
                outer.handshakeTimeout = settings.own.shared.handshakeTimeout
                let core = try WebSocketCarrier(inner, over: outer)
                return { core }
            },
            server: { (endpoint, settings, _) throws(TransportError) in try makeServer(endpoint, settings) },
            prepare: { $0.prepare($1) },
            keepsCookies: { $0.handshake.keepsCookies }
        )
        descriptor.isComposed = true
        descriptor.isOnRequest = true
        descriptor.encryptedName = security == nil ? "stomp+wss" : nil
        descriptor.routeByTopic(loopbackPrefix)
        descriptor.broker = .stomp(
            BrokerSettings.reader(
                descriptor,
                STOMPServerSettings.webSocketList,
                security,
                prepare: { $0.configuration.routesSignals = true },
                makeCore: makeServer
            )
        )
        descriptor.annotate = { reader in
            annotateWebSocketFrame(&reader)
            annotateSend(&reader)
        }
        return descriptor
    }

    /// The lines of SEND, up to its body. The NUL after the body is not annotated.
    @Sendable
    static func annotateSend(_ reader: inout WireFieldReader) {
        while true {
            var length = 0
            // A line of a head that a client writes has at most as many bytes.
            while reader.peek(length) != UInt8(ascii: "\n"), length < 1 << 16 { length += 1 }
            let line = reader.text(length)
            reader.take(length + 1, length == 0 ? "the end of the head" : line == "SEND" ? "the command" : "'\(line)'")
            guard length > 0 else { return }
        }
    }
}
