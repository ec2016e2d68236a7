import Protocols
import TransportAPI

/// The settings of a client's request in a handshake of HTTP.
package struct HandshakeSettings: Sendable {
    /// The Origin header; `nil` for none.
    package var origin: String?
    package var headers: [HTTPHeader] = []
    /// Further headers, which are not from the URL.
    package var contextHeaders: [HTTPHeader] = []
    /// The query, which may contain a token; `nil` for none.
    @Secret package var query: String? = nil
    /// Whether cookies that a handshake sets are sent in the next one.
    package var keepsCookies = true

    /// Settings that add nothing to a request.
    package init() {}

    /// The settings of a request over the network.
    package static let list = {
        let list = SettingList(
            HandshakeSettings(),
            [.init("origin", SettingFormat.text("an origin").orAbsent, \.origin, "the Origin header of a client")]
        )
        return list.adding(requestList.settings).adding([
            .init(
                "cookies",
                .flag,
                \.keepsCookies,
                "whether cookies that the handshake sets are sent in the next one"
            )
        ])
    }()

    /// The settings of every request.
    static let requestList = SettingList(
        HandshakeSettings(),
        [
            .init("header", each: .header, \.headers, "a header that is sent with the handshake; may be repeated"),
            .init(
                "query",
                SettingFormat.text("a=b&c=d, percent-encoded").orAbsent,
                \.query,
                "the query in the request of the handshake"
            ),
        ]
    )

    /// Returns the path and query of the request.
    package func path(for endpoint: Endpoint) -> String {
        let path = endpoint.path.isEmpty ? "/" : endpoint.path
        return query.map { "\(path)?\($0)" } ?? path
    }

    /// Returns the configuration of a client's WebSocket below another protocol, which has the credentials of the URL.
    func webSocket(_ endpoint: Endpoint, defaultPort: UInt16, _ limits: ConnectionLimits) -> WebSocketConfiguration {
        var webSocket = WebSocketConfiguration()
        webSocket.path = path(for: endpoint)
        webSocket.hostHeader = WebSocketConfiguration.hostHeader(
            host: endpoint.host,
            port: endpoint.port,
            defaultPort: defaultPort
        )
        webSocket.origin = origin
        webSocket.headers = allHeaders
        webSocket.closeTimeout = limits.closeTimeout
        return webSocket
    }

    /// Takes over the query of a redirect's target. Another origin does not get the headers, which may be secrets.
    package mutating func follow(_ target: RedirectTarget) {
        query = target.query
        if !target.isSameOrigin { (headers, contextHeaders) = ([], []) }
    }

    /// All headers, without credentials of a user.
    var allHeaders: [HTTPHeader] { headers + contextHeaders }

    /// Returns the headers, with user and password as Basic credentials (RFC 7617).
    package func headers(for endpoint: Endpoint) throws(TransportError) -> [HTTPHeader] {
        guard let user = endpoint.user else { return allHeaders }
        let credentials = try HTTPHeader.basic(user: user, password: endpoint.password ?? "")
        return allHeaders + [try HTTPHeader("Authorization", credentials)]
    }
}

extension SettingFormat where Value == HTTPHeader {
    /// The format of a header, `Name:value`. Errors do not quote it, because it may be a secret.
    fileprivate static var header: Self {
        SettingFormat(allowed: "Name:value", isSecret: true, isString: true, absent: "none") {
            (value) throws(TransportError) in
            guard let line = value.string, let colon = line.firstIndex(of: ":") else {
                throw value.failure("has a value without a colon; write it as Name:value")
            }
            let content = line[line.index(after: colon)...].drop { $0 == " " }
            return try HTTPHeader(String(line[..<colon]), String(content))
        }
    }
}

extension WebSocketConfiguration {
    /// The settings that determine which requests a server admits.
    static let admission = SettingList(
        WebSocketConfiguration(),
        [
            .init(
                "origins",
                each: .rules(
                    "same, null, any, or origins such as https://chat.example, separated by commas",
                    where: RequestAdmission.isOriginRule
                ),
                \.originLists,
                "which web pages a server admits; same: host and port are those of the Host header"
            ),
            .init(
                "hosts",
                each: .rules(
                    "loopback, address, any, or hosts such as chat.example, separated by commas",
                    absent: "loopback,address for clients on its machine, any for others",
                    where: RequestAdmission.isHostRule
                ),
                \.hostLists,
                "which Host headers a server admits"
            ),
        ]
    )

    /// The allowed origins, as the lists of a setting that may be repeated.
    private var originLists: [[String]] {
        get { [allowedOrigins] }
        set { allowedOrigins = newValue.flatMap(\.self) }
    }

    /// The allowed hosts, likewise.
    private var hostLists: [[String]] {
        get { allowedHosts.map { [$0] } ?? [] }
        set { allowedHosts = newValue.flatMap(\.self) }
    }

    /// Admits only the requests for the path of a server's URL.
    mutating func admit(_ endpoint: Endpoint) throws(TransportError) {
        if !endpoint.path.isEmpty, endpoint.path != "/" { allowedPaths = [endpoint.path] }
        guard !endpoint.options.contains(where: { $0.name == "origin" }) else {
            throw .configuration("origin", "is an option of clients; a server has the option origins")
        }
    }
}

extension SettingFormat where Value == [String] {
    /// Returns the format of a list of rules, separated by commas.
    ///
    /// - Parameters:
    ///   - allowed: The allowed rules.
    ///   - absent: What applies without a list.
    ///   - isAllowed: Checks a rule.
    fileprivate static func rules(
        _ allowed: String,
        absent: String = "none",
        where isAllowed: @escaping @Sendable (String) -> Bool
    ) -> Self {
        SettingFormat(allowed: allowed, isString: true, absent: absent) { (value) throws(TransportError) in
            let parts = (value.string ?? "").utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
            let rules = parts.map { String(decoding: HTTPSyntax.trim($0), as: UTF8.self) }
            if let wrong = rules.first(where: { !isAllowed($0) }) {
                throw value.failure("has '\(wrong)'; allowed are \(allowed)")
            }
            return rules
        } text: {
            $0.joined(separator: ",")
        }
    }
}
