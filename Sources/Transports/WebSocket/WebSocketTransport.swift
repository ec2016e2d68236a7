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
            options: [
                TransportOption("subprotocol", "a token", "offered to the server; may be repeated (none)"),
                TransportOption("origin", "an origin", "the Origin header of a client (none)"),
                .header, .query, .cookies,
                TransportOption("fragment", "bytes, as in 64KiB", "the largest payload of one frame sent (unlimited)"),
                TransportOption("max-head", "256 to 1048576 bytes", "the largest handshake accepted (16384)"),
                TransportOption(
                    "max-headers",
                    "a number from 10 to 10000",
                    "the most headers accepted in the handshake (100)"
                ),
                TransportOption(
                    "redirects",
                    "a number from 0 to 20",
                    "the most redirects in a row that are followed (0)"
                ),
                TransportOption(
                    "max-fragments",
                    "a number from 1 to 2147483647",
                    "the most frames accepted in one message (100000)"
                ),
                TransportOption("handshake-timeout", "a time such as 10s", "how long the handshake may take (10s)"),
            ] + TransportOption.admission + TransportOption.deflate,
            security: security,
            // Servers redirect from plain to encrypted addresses.
            encrypted: security == nil ? ["wss": .init(defaultPort: 443, security: .openSSLForHTTP)] : [:],
            client: { (endpoint, options) throws(TransportError) in
                var configuration = try webSocketConfiguration(options, compressor)
                configuration.hostHeader = WebSocketConfiguration.hostHeader(
                    host: endpoint.host,
                    port: endpoint.port,
                    defaultPort: endpoint.scheme == "wss" ? 443 : 80
                )
                configuration.path = try path(endpoint, options)
                configuration.origin = try options.string("origin")
                configuration.headers = try headers(endpoint, options)
                configuration.redirects = try options.integer("redirects", in: 0...20) ?? configuration.redirects
                let core = try WebSocketCore(.client, configuration)
                return { core }
            },
            server: { (endpoint, options, serving) throws(TransportError) in
                var configuration = try webSocketConfiguration(options, compressor)
                configuration.decide = serving.decide
                configuration.pages = serving.pages
                try configuration.admit(endpoint, options)
                let core = try WebSocketCore(.server, configuration)
                return { client in
                    var core = core
                    core.isPeerLocal = client.isLocal
                    return core
                }
            },
            redirect: { (redirection, endpoint) throws(TransportError) in
                try redirection.target(from: endpoint, speaking: ["ws", "wss"])
            }
        )
        descriptor.decidesHandshakes = true
        descriptor.servesPages = true
        descriptor.encryptedName = security == nil ? "wss" : nil
        descriptor.annotate = annotateWebSocketFrame
        return descriptor
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

    static func webSocketConfiguration(
        _ options: OptionReader,
        _ compressor: () -> (any MessageCompressor)?
    ) throws(TransportError) -> WebSocketConfiguration {
        var configuration = WebSocketConfiguration()
        configuration.maximumMessageSize = try options.maximumMessageSize(
            default: configuration.maximumMessageSize,
            atMost: WebSocketConfiguration.largestMessage
        )
        configuration.fragmentSize = try options.bytes("fragment", in: 1...Int(Int32.max))
        if let bytes = try options.bytes("max-head", in: 256...1 << 20) { configuration.maximumHeaderBytes = bytes }
        if let count = try options.integer("max-headers", in: 10...10_000) { configuration.maximumHeaderCount = count }
        configuration.maximumFragments =
            try options.integer("max-fragments", in: 1...Int(Int32.max)) ?? configuration.maximumFragments
        configuration.handshakeTimeout = try options.duration("handshake-timeout") ?? configuration.handshakeTimeout
        configuration.closeTimeout = try options.duration("close-timeout") ?? configuration.closeTimeout
        configuration.subprotocols = options.strings("subprotocol")
        configuration.compression = try WebSocketCompression.read(options, compressor)
        return configuration
    }

    static func path(_ endpoint: Endpoint, _ options: OptionReader) throws(TransportError) -> String {
        let path = endpoint.path.isEmpty ? "/" : endpoint.path
        return try options.string("query").map { "\(path)?\($0)" } ?? path
    }

    /// Returns the configured headers, with user and password as Basic credentials (RFC 7617).
    static func headers(_ endpoint: Endpoint, _ options: OptionReader) throws(TransportError) -> [HTTPHeader] {
        var headers: [HTTPHeader] = []
        for line in options.strings("header") {
            guard let colon = line.firstIndex(of: ":") else {
                throw .configuration("header", "has a value without a colon; write it as Name:value")
            }
            let value = line[line.index(after: colon)...].drop { $0 == " " }
            headers.append(try HTTPHeader(String(line[..<colon]), String(value)))
        }
        if let user = endpoint.user {
            let credentials = try HTTPHeader.basic(user: user, password: endpoint.password ?? "")
            headers.append(try HTTPHeader("Authorization", credentials))
        }
        return headers
    }
}
