import TransportAPI

extension TransportDescriptor {
    /// WebSocket without TLS: `ws://host/path`.
    public static let webSocket = TransportDescriptor.stream(
        "ws",
        defaultPort: 80,
        options: [
            TransportOption("subprotocol", "a token", "offered to the server; may be repeated (none)"),
            TransportOption("origin", "an origin", "sent as browsers do (none)"),
            TransportOption("header", "Name:value", "sent with the handshake; may be repeated (none)"),
            TransportOption("query", "a=b&c=d, percent-encoded", "the query of the path that the server sees (none)"),
            TransportOption("fragment", "bytes", "the largest payload of one frame sent (unlimited)"),
            TransportOption("deflate", "on, off or small", "compresses, in 300 KiB a link or, small, in 22 (off)"),
        ],
        client: { (endpoint, options) throws(TransportError) in
            var configuration = try common(options)
            configuration.hostHeader = WebSocketConfiguration.hostHeader(host: endpoint.host, port: endpoint.port)
            configuration.path = try path(endpoint, options)
            configuration.origin = try options.string("origin")
            configuration.headers = try headers(endpoint, options)
            let core = try WebSocketCore(.client, configuration)
            return { core }
        },
        server: { (endpoint, options) throws(TransportError) in
            var configuration = try common(options)
            if !endpoint.path.isEmpty, endpoint.path != "/" { configuration.allowedPaths = [endpoint.path] }
            if let origin = try options.string("origin") { configuration.allowedOrigins = [origin] }
            let core = try WebSocketCore(.server, configuration)
            return { core }
        }
    )

    private static func common(_ options: OptionReader) throws(TransportError) -> WebSocketConfiguration {
        var configuration = WebSocketConfiguration()
        configuration.maximumMessageSize = try options.maximumMessageSize(
            default: configuration.maximumMessageSize,
            atMost: Int(Int32.max)
        )
        configuration.fragmentSize = try options.integer("fragment", in: 1...Int(Int32.max))
        configuration.subprotocols = options.strings("subprotocol")
        // Without zlib nothing is offered or accepted, and messages go as they are.
        if let choice = try options.choice("deflate", ["on", "off", "small"]), choice != "off", let zlib = ZLib.shared {
            configuration.compression = choice == "small" ? .small(zlib) : WebSocketCompression(zlib)
        }
        return configuration
    }

    static func path(_ endpoint: Endpoint, _ options: OptionReader) throws(TransportError) -> String {
        let path = endpoint.path.isEmpty ? "/" : endpoint.path
        return try options.string("query").map { "\(path)?\($0)" } ?? path
    }

    /// The configured headers, and user and password as Basic credentials (RFC 7617).
    static func headers(_ endpoint: Endpoint, _ options: OptionReader) throws(TransportError) -> [HTTPHeader] {
        var headers: [HTTPHeader] = []
        for line in options.strings("header") {
            guard let colon = line.firstIndex(of: ":") else {
                throw .configuration("header", "'\(line)' has no colon; write it as Name:value")
            }
            let value = line[line.index(after: colon)...].drop { $0 == " " }
            headers.append(try HTTPHeader(String(line[..<colon]), String(value)))
        }
        if let user = endpoint.user {
            let credentials = Base64.encode(Array("\(user):\(endpoint.password ?? "")".utf8))
            headers.append(try HTTPHeader("Authorization", "Basic \(credentials)"))
        }
        return headers
    }
}
