import TransportAPI

/// What can be set about WebSockets (RFC 6455). A core checks it when it is made, and says which key is wrong.
package struct WebSocketConfiguration: Sendable {
    // MARK: Both roles

    /// The largest message accepted and sent, in bytes of payload; 16 MiB, and no more than 2 GiB - 1 whatever is said here. A
    /// larger one that arrives ends the connection with close code 1009 before any of it is buffered; sending one throws
    /// `.messageTooLarge`.
    package var maximumMessageSize = 16 << 20
    /// The largest that can be asked for.
    package static let largestMessage = Int(Int32.max)
    /// The most frames of a message that arrives; 100,000. Beyond it the connection ends with close code 1008. Empty
    /// frames within a message count among the frames that ``ConnectionLimits/controlRate`` bounds, too.
    package var maximumFragments = 100_000
    /// How much the peer may send in the handshake, in bytes; 16 KiB. A client ends with `.handshakeFailed` beyond it, a
    /// server with status 431; interim responses count.
    package var maximumHeaderBytes = 16 << 10
    /// The most headers accepted in the handshake; 100. Beyond it as above.
    package var maximumHeaderCount = 100
    /// The most payload bytes of a frame sent; a larger message goes out in fragments (section 5.4). `nil`, the default:
    /// each message is one frame.
    package var fragmentSize: Int?
    /// How long the handshake may take, from the first byte that a client writes or the connection that a server accepts;
    /// 10 s. Then the connection ends with `.timedOut`.
    package var handshakeTimeout: Duration = .seconds(10)
    /// How long the closing handshake may take since the peer last took bytes, a client's wait for the server to end the
    /// connection included; 5 s. Then the connection ends without it.
    package var closeTimeout: Duration = .seconds(5)
    /// A client offers these subprotocols, the first preferred; a server chooses the first of its own that was offered, if
    /// any (section 1.9).
    package var subprotocols: [String] = []
    /// How messages are compressed (RFC 7692), if the peer can too; `nil`, the default: they are not.
    package var compression: WebSocketCompression?

    /// The most headers that a client can be given.
    static let maximumOwnHeaders = 90

    // MARK: Client

    /// The value of the Host header; see ``hostHeader(host:port:defaultPort:)``.
    package var hostHeader = "localhost"
    /// The path, with the query if there is one, as it goes over the wire: percent-encoded, with its leading slash.
    package var path = "/"
    /// Further headers, such as Authorization. The handshake's own cannot be set here.
    package var headers: [HTTPHeader] = []
    /// The Origin header (RFC 6454), which browsers send and other clients need not; none by default.
    package var origin: String?
    /// How many redirects in a row a client follows; 0, as in browsers: without TLS it is whoever sits on the path that says
    /// where to go. Beyond it the connection ends with `.handshakeFailed`. The core itself only reports
    /// ``WebSocketCore/redirection``; it is the transport that connects anew.
    package var redirects = 0

    // MARK: Server

    /// The paths, without query, that are served; others get 404. `nil`, the default: all.
    package var allowedPaths: [String]?
    /// The origins of web pages that are admitted; requests from others get 403 (section 10.2). Requests without an Origin
    /// header do not come from browsers and are admitted. Each is an origin such as `https://chat.example` or one of three
    /// words:
    ///
    /// - `same`: the origin's host and port equal those of the Host header. A port that is not written is the default one of
    ///   the origin's scheme, 80 for http and ws, 443 for https and wss.
    /// - `null`: the origin of pages from disk, of sandboxed frames and of some redirects. Any page can get it, so it admits
    ///   about as much as `any`.
    /// - `any`: every origin.
    ///
    /// Default: `same` alone. With an empty list no request that has an Origin header is admitted.
    package var allowedOrigins = ["same"]
    /// The hosts that a Host header, or a whole URI as the target, may name; requests for others get 403. This stops pages
    /// whose name is given the address of this server once they are loaded (DNS rebinding). Each is a host such as
    /// `chat.example`, for any port, or one with its port, or one of two words:
    ///
    /// - `loopback`: localhost, names below it, and loopback addresses (RFC 6761, section 6.3).
    /// - `any`: every host.
    ///
    /// `nil`, the default: `loopback` for clients on this machine (``WebSocketCore/isPeerOnLoopback``), `any` for others. A
    /// proxy on this machine that passes on the Host header needs its public name here.
    package var allowedHosts: [String]?
    /// Decides about a request that is well-formed and passed the lists above, by its credentials for example. `nil`, the
    /// default: all are accepted.
    package var decide: Decide?

    /// Decides about a request; called on the server's loop, must neither block nor wait.
    package typealias Decide = @Sendable (WebSocketRequest) -> WebSocketDecision

    /// All at its default.
    package init() {}

    /// For a client of the server at `host` and `port`.
    package init(host: String, port: UInt16? = nil, path: String = "/") {
        hostHeader = Self.hostHeader(host: host, port: port)
        self.path = path
    }

    /// The value of the Host header for a server (RFC 9110, section 7.2): IPv6 addresses in brackets and without a zone, the
    /// port only if it is not the scheme's default one.
    package static func hostHeader(host: String, port: UInt16?, defaultPort: UInt16 = 80) -> String {
        HTTPSyntax.authority(host: host, port: port == defaultPort ? nil : port)
    }
}

/// What a client asked for in its handshake.
public struct WebSocketRequest: Sendable, Hashable {
    /// The path as it came, percent-encoded, without the query.
    public let path: String
    /// The query as it came, without its question mark; empty if there was none.
    public let query: String
    /// The subprotocols offered, the first preferred.
    public let subprotocols: [String]
    /// All headers, in their order.
    public let headers: [HTTPHeader]

    /// The value of the first header of this name, whatever the case of its letters.
    public func header(_ name: String) -> String? {
        headers.values(name).first
    }
}

/// A server's answer to a request.
public enum WebSocketDecision: Sendable, Hashable {
    /// The connection is opened.
    case accept
    /// The connection is opened, and its client has this identity.
    case acceptAs(Identity)
    /// The request is refused with this HTTP status and further headers: 401 with WWW-Authenticate, 503 with Retry-After. A
    /// status outside 300...599 becomes 500.
    case refuse(status: Int, headers: [HTTPHeader] = [])
}

extension WebSocketConfiguration {
    /// Checks everything, and throws `.invalidConfiguration` that names the key.
    package func validate() throws(TransportError) {
        try require(maximumMessageSize > 0, "maximumMessageSize", "must be positive")
        try require(maximumFragments > 0, "maximumFragments", "must be positive")
        try require(maximumHeaderBytes >= 256, "maximumHeaderBytes", "must be at least 256")
        try require(maximumHeaderCount >= 10, "maximumHeaderCount", "must be at least 10")
        try require(fragmentSize.map { $0 > 0 } ?? true, "fragmentSize", "must be positive")
        try require(redirects >= 0, "redirects", "must not be negative")
        try require(handshakeTimeout > .zero, "handshakeTimeout", "must be positive")
        try require(closeTimeout > .zero, "closeTimeout", "must be positive")
        try require(
            HTTPSyntax.isHost(hostHeader),
            "host",
            "'\(hostHeader.debugDescription)' must be a host in ASCII (internationalised names as Punycode)"
        )
        try require(
            path.utf8.first == UInt8(ascii: "/") && HTTPSyntax.isVisible(path, except: "#"),
            "path",
            "\(path.debugDescription) must begin with a slash and be percent-encoded, without a fragment"
        )
        if let origin {
            try require(!origin.isEmpty && HTTPSyntax.isVisible(origin), "origin", "must be visible ASCII")
        }
        if let rule = allowedOrigins.first(where: { !RequestAdmission.isOriginRule($0) }) {
            throw .configuration("allowedOrigins", "have '\(rule)'; allowed are same, null, any and origins")
        }
        if let rule = allowedHosts?.first(where: { !RequestAdmission.isHostRule($0) }) {
            throw .configuration("allowedHosts", "have '\(rule)'; allowed are loopback, any and hosts")
        }
        for (index, name) in subprotocols.enumerated() {
            try require(
                HTTPSyntax.isToken(name.utf8) && !subprotocols[..<index].contains(name),
                "subprotocols",
                "must be different HTTP tokens"
            )
        }
        if let compression {
            let windows = 9...15
            try require(
                windows.contains(compression.windowBits) && windows.contains(compression.peerWindowBits),
                "compression",
                "needs windows from 9 to 15"
            )
            try require(compression.maximumExpansion > 0, "compression", "must be let expand")
        }
        let own = Self.maximumOwnHeaders
        try require(headers.count <= own, "headers", "are more than \(own)")
        try require(headers.values("Authorization").count <= 1, "headers", "give Authorization more than once")
        for header in headers {
            try require(!isReserved(header.name), "headers", "may not set '\(header.name)', which the handshake sets")
        }
    }

    private func require(_ condition: Bool, _ key: String, _ problem: String) throws(TransportError) {
        guard condition else { throw .configuration(key, problem) }
    }

    private func isReserved(_ name: String) -> Bool {
        ["host", "upgrade", "connection", "origin", "content-length", "transfer-encoding", "te", "trailer", "expect"]
            .contains { HTTPSyntax.equalIgnoringCase($0, name) }
            || HTTPSyntax.equalIgnoringCase(name.prefix(14), "sec-websocket-")
    }
}
