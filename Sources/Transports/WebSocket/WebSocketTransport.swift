import Protocols
import SocketIO
import TransportAPI

extension TransportDescriptor {
    /// The descriptor of WebSocket without TLS: `ws://host/path`. Messages are compressed with zlib if the URL requests
    /// it and the system has zlib.
    public static let webSocket = webSocket(compressor: ZLib.shared)

    /// The descriptor of WebSocket over TLS: `wss://host/path`. It needs OpenSSL 3 on the machine.
    public static let webSocketTLS = webSocket(compressor: ZLib.shared, .openSSLForHTTP)

    /// Returns the descriptor of WebSocket with another compressor or TLS library.
    ///
    /// - Parameters:
    ///   - compressor: The compressor of `deflate=on` and `deflate=small`, created at the first use. With `nil`,
    ///     compression is neither offered nor accepted.
    ///   - security: How connections are encrypted; `nil` for the plain transport.
    static func webSocket(
        compressor: @autoclosure @escaping @Sendable () -> (any MessageCompressor)?,
        _ security: StreamSecurity? = nil
    ) -> TransportDescriptor {
        let defaultPort: UInt16 = security == nil ? 80 : 443
        var descriptor = TransportDescriptor.stream(
            security == nil ? "ws" : "wss",
            defaultPort: defaultPort,
            // Load balancers and reverse proxies close a WebSocket that has been silent for 60 s.
            keepalive: .seconds(30),
            security: security,
            // Servers redirect from plain to encrypted addresses.
            encrypted: security == nil ? ["wss": .init(defaultPort: 443, security: .openSSLForHTTP)] : [:],
            clientSettings: WebSocketClientSettings.list,
            serverSettings: WebSocketServerSettings.list,
            client: { (endpoint, settings) throws(TransportError) in
                let handshake = settings.own.handshake
                var configuration = settings.own.shared.configuration(settings.limits, compressor)
                configuration.hostHeader = WebSocketConfiguration.hostHeader(
                    host: endpoint.host,
                    port: endpoint.port,
                    defaultPort: endpoint.scheme == "wss" ? 443 : 80
                )
                configuration.path = handshake.path(for: endpoint)
                configuration.origin = handshake.origin
                configuration.headers = try handshake.headers(for: endpoint)
                let core = try WebSocketCore(.client, configuration)
                return { core }
            },
            server: { (endpoint, settings, serving) throws(TransportError) in
                let configuration = try settings.own.configuration(endpoint, settings.limits, serving, compressor)
                let core = try WebSocketCore(.server, configuration)
                return { client in
                    var core = core
                    core.isPeerLocal = client.isLocal
                    return core
                }
            },
            prepare: { $0.handshake.contextHeaders = $1.headers },
            keepsCookies: { $0.handshake.keepsCookies },
            redirect: { (redirection, endpoint, settings) throws(TransportError) in
                let query = settings.handshake.query
                let target = try redirection.target(from: endpoint, query: query, speaking: .webSocket)
                settings.handshake.follow(target)
                settings.shared.configuration.redirects -= 1
                return target
            },
            accept: { (endpoint, settings, serving, makeCore) throws(TransportError) in
                guard settings.own.offersSessions else {
                    return try StreamOpening.connections(endpoint, settings, serving, makeCore)
                }
                let configuration = try settings.own.configuration(endpoint, settings.limits, serving, compressor)
                let service = try HTTPService(
                    settings.own.sessions,
                    settings.limits,
                    settings.bounds,
                    request: configuration,
                    maximumMessageSize: configuration.maximumMessageSize,
                    webSocket: try WebSocketCore(.server, configuration)
                )
                return { (opening) throws(SystemError) in
                    try service.accept(at: opening.address, opening.queue, on: opening.loop, serving, opening.tls)
                }
            }
        )
        descriptor.decidesHandshakes = true
        descriptor.servesPages = true
        descriptor.encryptedName = security == nil ? "wss" : nil
        descriptor.annotate = annotateWebSocketFrame
        return descriptor.falling(backTo: .http(security))
    }

    /// The header of a frame (RFC 6455, section 5.2).
    @Sendable
    static func annotateWebSocketFrame(_ reader: inout WireFieldReader) {
        let opcodes: [UInt8: String] = [0: "continuation", 1: "text", 2: "binary", 8: "close", 9: "ping", 10: "pong"]
        let first = reader.peek()
        reader.take(1, "\(first & 0x80 != 0 ? "FIN, " : "")opcode \(first & 15): \(opcodes[first & 15] ?? "reserved")")
        let second = reader.peek()
        let mask = second & 0x80 != 0 ? "MASK, " : ""
        switch second & 0x7f {
        case 126: reader.take(3, "\(mask)length in the next 2 bytes: \(reader.number(3) & 0xffff)")
        case 127: reader.take(9, "\(mask)length in the next 8 bytes: \(reader.number(9) & 0xff_ffff_ffff)")
        case let length: reader.take(1, "\(mask)length \(length)")
        }
        guard second & 0x80 != 0 else { return }
        let key = (0..<4).map { reader.peek($0) }
        reader.take(4, "masking key, new for each frame; on the wire all that follows is XORed with it")
        reader.unmask(key)
    }
}
