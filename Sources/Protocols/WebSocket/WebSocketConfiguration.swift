import Primitives
import TransportAPI

/// The settings of a WebSocket connection (RFC 6455). A core checks them when it is created, and throws an error that
/// names the wrong key.
package struct WebSocketConfiguration: Sendable {
    // MARK: Both roles

    /// The largest message that is accepted and sent, in bytes of payload; 16 MiB by default, and never more than 2 GiB
    /// - 1. A larger message from the peer ends the connection with close code 1009 before any of it is buffered.
    /// Sending one throws `.messageTooLarge`.
    package var maximumMessageSize = 16 << 20
    /// The upper bound of ``maximumMessageSize``.
    package static let largestMessage = Int(Int32.max)
    /// The largest number of frames in a received message; 100,000 by default. Beyond it, the connection ends with
    /// close code 1008. Empty frames within a message also count towards ``ConnectionLimits/controlRate``.
    package var maximumFragments = 100_000
    /// How many bytes the peer may send in the handshake; 16 KiB by default. Interim responses count. Beyond it, a
    /// client ends with `.handshakeFailed`, and a server answers with status 431.
    package var maximumHeaderBytes = 16 << 10
    /// The largest number of headers in the handshake; 100 by default. Beyond it, the same happens as with
    /// ``maximumHeaderBytes``.
    package var maximumHeaderCount = 100
    /// The most payload bytes in a frame that is sent. A larger message is sent in fragments (section 5.4). `nil`, the
    /// default: each message is one frame.
    package var fragmentSize: Int?
    /// How long the handshake may take; 10 s by default. The time starts when a client writes its first byte or when a
    /// server accepts the connection. Afterwards, the connection ends with `.timedOut`.
    package var handshakeTimeout: Duration = .seconds(10)
    /// How long the closing handshake may take since the peer last took bytes; 5 s by default. For a client, this
    /// includes the wait for the server to end the connection. Afterwards, the connection ends without it.
    package var closeTimeout: Duration = .seconds(5)
    /// The subprotocols, the preferred one first; none by default. A client offers them. A server chooses the first of
    /// them that the client has offered, if there is one (section 1.9).
    package var subprotocols: [String] = []
    /// How messages are compressed (RFC 7692), if the peer supports it. `nil`, the default: without compression.
    package var compression: WebSocketCompression?

    /// The largest number of headers in ``headers``.
    static let maximumOwnHeaders = 90

    // MARK: Client

    /// The value of the Host header. ``hostHeader(host:port:defaultPort:)`` computes it.
    package var hostHeader = "localhost"
    /// The path, with the query if there is one, as it is sent: percent-encoded, with its leading slash.
    @Secret package var path = "/"
    /// Further headers, such as Authorization. The handshake's own headers cannot be set here.
    package var headers: [HTTPHeader] = []
    /// The Origin header (RFC 6454). Browsers send it, other clients need not. `nil` by default: no such header.
    package var origin: String?
    /// How many redirects in a row a client follows. The default is 0, as in browsers, because without TLS any host on
    /// the path can choose the target. Beyond it, the connection ends with `.handshakeFailed`. The core only reports
    /// ``WebSocketCore/redirection``; the transport makes the new connection.
    package var redirects = 0

    // MARK: Server

    /// The paths, without query, that are served. Requests for others get 404. `nil`, the default: all paths.
    package var allowedPaths: [String]?
    /// The origins of web pages that are admitted. Requests from others get 403 (section 10.2). Requests without an
    /// Origin header do not come from browsers and are admitted. Each entry is an origin such as `https://chat.example`
    /// or one of three words:
    ///
    /// - `same`: the origin's host and port equal those of the Host header. A missing port means the default one of
    ///   the origin's scheme: 80 for http and ws, 443 for https and wss.
    /// - `null`: the origin of pages from disk, of sandboxed frames and of some redirects. Any page can obtain this
    ///   origin, so this word admits almost as much as `any`.
    /// - `any`: every origin.
    ///
    /// The default is `same` alone. An empty list admits no request that has an Origin header.
    package var allowedOrigins = ["same"]
    /// The hosts that a Host header, or an absolute URI as the target, may name. Requests for others get 403. This
    /// stops DNS rebinding, where the name of a loaded page is changed to the address of this server. Each entry is a
    /// host such as `chat.example`, for any port, or a host with a port, or one of three words:
    ///
    /// - `loopback`: localhost, names below it, and loopback addresses (RFC 6761, section 6.3).
    /// - `address`: every IP address. It is no name that could be given the address of this server.
    /// - `any`: every host.
    ///
    /// `nil`, the default: `loopback` and `address` for clients on this machine
    /// (``WebSocketCore/isPeerLocal``), `any` for others. If a proxy on this machine forwards the Host header, list the proxy's public name here.
    package var allowedHosts: [String]?
    /// Decides about a request that is well-formed and that the lists above admit, for example by its credentials.
    /// `nil`, the default: all are accepted.
    package var decide: Decide?
    /// The documents that are sent as answers to requests that do not ask for WebSocket; none by default. Their paths
    /// differ, and ``allowedPaths`` does not apply to them.
    package var pages: [WebPage] = []

    /// Decides about a request. The server calls it on its event loop, so it must neither block nor wait.
    package typealias Decide = @Sendable (ClientRequest) -> ClientDecision

    /// Creates a configuration with all defaults.
    package init() {}

    /// Creates the configuration of a client for the server at `host` and `port`.
    package init(host: String, port: UInt16? = nil, path: String = "/") {
        hostHeader = Self.hostHeader(host: host, port: port)
        self.path = path
    }

    /// Returns the value of the Host header for a server (RFC 9110, section 7.2). An IPv6 address is put in brackets,
    /// without its zone.
    ///
    /// - Parameters:
    ///   - host: a name or an address.
    ///   - port: the port. It is left out if it is `nil` or the default one.
    ///   - defaultPort: the default port of the scheme; 80 by default.
    package static func hostHeader(host: String, port: UInt16?, defaultPort: UInt16 = 80) -> String {
        HTTPSyntax.authority(host: host, port: port == defaultPort ? nil : port)
    }
}

extension TransportError {
    /// The error that a server reports locally when it refuses a request with an HTTP status.
    package static func refused(status: Int, _ reason: String) -> TransportError {
        let code: Code = status == 408 ? .timedOut : .handshakeFailed
        return TransportError(code, .handshake, "refused with HTTP \(status): \(reason)", detail: status)
    }
}

extension WebSocketConfiguration {
    /// Checks a message that is to be sent.
    ///
    /// - Throws: the reason why no WebSocket can carry it, or why the limit of this side does not allow it.
    package static func admit(_ payload: Payload, atMost limit: Int) throws(TransportError) {
        guard payload.topic == nil, !payload.isRetained else {
            throw TransportError(.unsupported, .open, "WebSocket messages have no topic and are not retained")
        }
        guard payload.bytes.count <= limit else {
            throw TransportError(
                .messageTooLarge,
                .open,
                "a message of \(payload.bytes.count) bytes is larger than the limit of \(limit): "
                    + "raise max-message on both sides"
            )
        }
        guard payload.kind == .binary || payload.bytes.withUnsafeBytes({ UTF8Validator.isValid($0) }) else {
            throw TransportError(.invalidText, .open, "the text to send is not UTF-8")
        }
    }

    /// Checks all settings.
    ///
    /// - Throws: `.invalidConfiguration` that names the key.
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
            "\(pathWithoutQuery.debugDescription) must begin with a slash and, like the query after it, be percent-encoded, "
                + "without a fragment"
        )
        if let origin {
            try require(!origin.isEmpty && HTTPSyntax.isVisible(origin), "origin", "must be visible ASCII")
        }
        if let rule = allowedOrigins.first(where: { !RequestAdmission.isOriginRule($0) }) {
            throw .configuration("allowedOrigins", "have '\(rule)'; allowed are same, null, any and origins")
        }
        if let rule = allowedHosts?.first(where: { !RequestAdmission.isHostRule($0) }) {
            throw .configuration("allowedHosts", "have '\(rule)'; allowed are loopback, address, any and hosts")
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
            try require(compression.expansion.factor > 0, "compression", "must have a positive expansion factor")
        }
        let most = WebPage.largestCount
        try require(pages.count <= most, "pages", "are \(pages.count); allowed are \(most)")
        for (index, page) in pages.enumerated() {
            let isNew = !pages[..<index].contains { $0.path == page.path }
            try require(isNew, "pages", "have the path '\(page.path)' more than once")
        }
        let own = Self.maximumOwnHeaders
        try require(headers.count <= own, "headers", "are more than \(own)")
        try require(
            headers.values("Authorization").count <= 1,
            "headers",
            "give Authorization more than once; the configuration, the preparation and the URL can each add it"
        )
        for header in headers {
            try require(!isReserved(header.name), "headers", "may not set '\(header.name)', which the handshake sets")
        }
    }

    /// The path for errors. The query may contain a token.
    private var pathWithoutQuery: String {
        guard let question = path.utf8.firstIndex(of: UInt8(ascii: "?")) else { return path }
        return String(path[..<question])
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
