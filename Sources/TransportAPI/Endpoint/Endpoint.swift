import Primitives

/// The address and options of a connection, as in a URL (RFC 3986): `scheme://user:password@host:port/path?name=value`.
///
/// ```swift
/// let endpoint = try Endpoint("mqtt://ann:secret@[::1]:1883/?subscribe=chat/in&publish=chat/out")
/// ```
public struct Endpoint: Sendable, Hashable {
    /// One option of the query, decoded. A name may occur several times.
    public struct Option: Sendable, Hashable {
        /// The option's name.
        public var name: String
        /// Its value; empty for `?flag` and `?flag=` alike. It may be a secret, and only ``description`` knows which part of it
        /// is none.
        @Secret public var value: String

        /// Creates an option of this name and value.
        public init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    /// The scheme in lower case, which selects the transport: `ws`, `tcp`, `mqtt`, `udp`, `memory`.
    public var scheme: String
    /// The host: a name, an IPv4 address, or an IPv6 address without its brackets (a zone is written `%25eth0` in the
    /// URL).
    public var host: String
    /// The port, or `nil` for the transport's own default.
    public var port: UInt16?
    /// The path with its leading slash, as it is sent (percent-encoding is kept). Empty if the URL has none.
    public var path: String
    /// The options of the query, decoded, in their order.
    public var options: [Option]
    /// The user name, decoded. It is never printed, because it may be a token.
    @Secret public var user: String?
    /// The password, decoded. It is never printed.
    @Secret public var password: String?

    /// Creates an endpoint from its parts.
    public init(
        scheme: String,
        host: String,
        port: UInt16? = nil,
        path: String = "",
        options: [Option] = [],
        user: String? = nil,
        password: String? = nil
    ) {
        self.scheme = scheme
        self.host = host
        self.port = port
        self.path = path
        self.options = options
        self.user = user
        self.password = password
    }
}

extension Endpoint: CustomStringConvertible {
    /// The URL without user name and password, without those of a proxy, without the values of headers and of the query for the
    /// server, and without keys and certificates.
    public var description: String {
        let literal =
            host.utf8.contains(UInt8(ascii: ":"))
            ? "[\(PercentEncoding.encode(host, keeping: ":"))]" : PercentEncoding.encode(host)
        let suffix = port.map { ":\($0)" } ?? ""
        let query = options.map { option in
            let name = PercentEncoding.encode(option.name, keeping: "/:")
            let value = option.valueWithoutSecrets
            // If both are empty, only the equals sign shows that there is an option.
            guard !value.isEmpty || name.isEmpty else { return name }
            return "\(name)=\(PercentEncoding.encode(value, keeping: "/:,+"))"
        }
        return "\(scheme)://\(literal)\(suffix)\(path)" + (query.isEmpty ? "" : "?" + query.joined(separator: "&"))
    }
}

extension Endpoint.Option: CustomStringConvertible {
    /// The name and the value, without secrets as in the description of ``Endpoint``.
    public var description: String { "\(name)=\(valueWithoutSecrets)" }

    fileprivate var valueWithoutSecrets: String {
        switch name {
        case "header":
            // Without a colon, it can be a value alone.
            guard let colon = value.utf8.firstIndex(of: UInt8(ascii: ":")) else { return "" }
            return String(value[..<colon])
        case "query":
            // A server's query often has a token. Its names are enough to recognize it.
            let pairs = value.split(separator: "&").map { pair in
                pair.utf8.firstIndex(of: UInt8(ascii: "=")).map { pair[...$0] } ?? ""
            }
            return pairs.filter { !$0.isEmpty }.joined(separator: "&")
        case "ca", "certificate", "key", "crl", "proxy-ca":
            // A private key can be the value itself.
            return PEM.canBeSecret(value) ? "PEM" : value
        case "proxy":
            guard let at = value.utf8.lastIndex(of: UInt8(ascii: "@")) else { return value }
            // Other text before "://" can be a part of a password.
            let scheme =
                ["http://", "https://", "socks5://"].first { value.lowercased().utf8.starts(with: $0.utf8) } ?? ""
            return scheme + value[value.utf8.index(after: at)...]
        default:
            return value
        }
    }
}

extension Endpoint {
    /// The longest URL that is read, in bytes.
    public static let maximumLength = 8192

    /// Reads a URL.
    ///
    /// No error quotes the text that could not be read, because a password that was written without escapes can be in
    /// any part. Delimiters are searched among bytes, because a combining mark behind a delimiter would hide it among
    /// characters.
    ///
    /// - Throws: `.invalidConfiguration` with a sentence that names the wrong part and its allowed values.
    public init(_ url: String) throws(TransportError) {
        try Self.checkCharacters(of: url)
        var rest = Substring(url)
        guard let colon = rest.utf8.firstRange(of: "://".utf8), colon.lowerBound != rest.startIndex else {
            throw .configuration("url", "has no scheme; write it as scheme://host:port")
        }
        scheme = rest[..<colon.lowerBound].lowercased()
        guard scheme.utf8.first.map({ $0 >= 0x61 && $0 <= 0x7a }) == true,
            scheme.utf8.allSatisfy({
                ($0 >= 0x61 && $0 <= 0x7a) || ($0 >= 0x30 && $0 <= 0x39) || "+-.".utf8.contains($0)
            })
        else { throw .configuration("scheme", "may contain only letters, digits and + - . and begins with a letter") }
        rest = rest[colon.upperBound...]

        if let question = rest.utf8.firstIndex(of: UInt8(ascii: "?")) {
            options = try Self.options(rest[rest.utf8.index(after: question)...])
            rest = rest[..<question]
        } else {
            options = []
        }
        let slash = rest.utf8.firstIndex(of: UInt8(ascii: "/")) ?? rest.endIndex
        path = String(rest[slash...])
        var authority = rest[..<slash]
        try Self.checkPath(path, behind: authority)

        if let at = authority.utf8.lastIndex(of: UInt8(ascii: "@")) {
            let (name, secret) = Self.split(authority[..<at], at: ":")
            user = try PercentEncoding.decode(name, key: "user")
            password = if let secret { try PercentEncoding.decode(secret, key: "password") } else { nil }
            authority = authority[authority.utf8.index(after: at)...]
        } else {
            user = nil
            password = nil
        }
        (host, port) = try Self.hostAndPort(authority)
    }

    /// Reads the URL of a server as it is written for other programs. Its query is sent to the server unchanged, as the
    /// option `query`, and contains no options of this package.
    ///
    /// ```swift
    /// let endpoint = try Endpoint(
    ///     server: "wss://chat.example/socket?token=abc",
    ///     options: [.init(name: "deflate", value: "on")]
    /// )
    /// ```
    ///
    /// - Parameters:
    ///   - url: The server's URL, of at most ``maximumLength`` bytes. Only transports with a handshake of HTTP have a query.
    ///   - options: The options of this package. None by default.
    /// - Throws: `.invalidConfiguration` with a sentence that names the wrong part and its allowed values.
    public init(server url: String, options: [Option] = []) throws(TransportError) {
        // Delimiters are searched among bytes, as in `init(_:)`.
        guard let question = url.utf8.firstIndex(of: UInt8(ascii: "?")) else {
            try self.init(url)
            self.options = options
            return
        }
        try Self.checkCharacters(of: url)
        let query = url[url.utf8.index(after: question)...]
        var whole = try Endpoint(String(url[..<question]))
        whole.options = query.isEmpty ? options : [Option(name: "query", value: String(query))] + options
        self = whole
    }

    /// Checks the length of a URL, and that it has no characters that would end it or begin a fragment.
    private static func checkCharacters(of url: String) throws(TransportError) {
        guard url.utf8.count <= maximumLength else {
            throw .configuration("url", "is longer than \(maximumLength) bytes")
        }
        guard !url.utf8.contains(where: { $0 <= 0x20 || $0 == 0x7f }) else {
            throw .configuration("url", "contains a space or a control character; write it percent-encoded")
        }
        // A '#' would begin a fragment (RFC 3986, section 3.5). No connection has a fragment (RFC 6455, section 3). The
        // '#' is probably a part of a password or of a topic filter, which must not get lost.
        guard !url.utf8.contains(UInt8(ascii: "#")) else {
            throw .configuration(
                "url",
                "contains a '#'; no URL has a fragment here, and as part of anything else it is %23"
            )
        }
    }

    /// A password with an unescaped '/' would end in the path, which is printed, and the client would go to another host.
    private static func checkPath(_ path: String, behind authority: Substring) throws(TransportError) {
        guard path.utf8.contains(UInt8(ascii: "@")), authority.utf8.contains(where: { $0 == 0x3a || $0 == 0x40 }),
            authority.utf8.first != UInt8(ascii: "[")
        else { return }
        throw .configuration(
            "path",
            "contains an '@'; in a user name or a password, write / as %2F and @ as %40, and in a path, write @ as %40"
        )
    }

    private static func hostAndPort(_ authority: Substring) throws(TransportError) -> (String, UInt16?) {
        let host: String
        let digits: Substring?
        if authority.utf8.first == UInt8(ascii: "[") {
            guard let bracket = authority.utf8.firstIndex(of: UInt8(ascii: "]")) else {
                throw .configuration("host", "has no closing bracket after its IPv6 address")
            }
            host = try PercentEncoding.decode(
                authority[authority.utf8.index(after: authority.startIndex)..<bracket],
                key: "host"
            )
            guard host.utf8.contains(UInt8(ascii: ":")) else {
                throw .configuration("host", "is in brackets, but is not an IPv6 address")
            }
            let (between, port) = split(authority[authority.utf8.index(after: bracket)...], at: ":")
            guard between.isEmpty else {
                throw .configuration("port", "must follow the bracket of the host after a colon and nothing else")
            }
            digits = port
        } else {
            let (name, port) = split(authority, at: ":")
            host = try PercentEncoding.decode(name, key: "host")
            guard port?.utf8.contains(UInt8(ascii: ":")) != true, !host.utf8.contains(UInt8(ascii: ":")) else {
                throw .configuration("host", "contains a colon; write an IPv6 address in brackets, as in [::1]:8080")
            }
            digits = port
        }
        guard !host.isEmpty else { throw .configuration("host", "is missing") }
        guard !host.utf8.contains(0x20) else { throw .configuration("host", "contains a space") }
        // The system would take it for an IPv4 address in an old form.
        guard !host.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else {
            throw .configuration(
                "host",
                "is a number; if that is the port, write it after a host, as in 127.0.0.1:8080"
            )
        }
        guard let digits, !digits.isEmpty else { return (host, nil) }
        guard digits.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let port = UInt16(digits) else {
            throw .configuration("port", "is not a number from 0 to 65535")
        }
        return (host, port)
    }

    private static func options(_ query: Substring) throws(TransportError) -> [Option] {
        var options: [Option] = []
        var rest: Substring? = query
        while let pairs = rest {
            let pair: Substring
            (pair, rest) = split(pairs, at: "&")
            guard !pair.isEmpty else { continue }
            let (key, text) = split(pair, at: "=")
            // Otherwise the rest of a password could become an option, whose name is printed.
            guard !key.utf8.contains(UInt8(ascii: "@")) else {
                throw .configuration(
                    "query",
                    "contains an option with an '@' in its name; in a user name or a password, write & as %26 and @ as %40"
                )
            }
            let name = try PercentEncoding.decode(key, key: "query")
            let value = if let text { try PercentEncoding.decode(text, key: name) } else { "" }
            options.append(Option(name: name, value: value))
        }
        return options
    }

    /// Returns the text before and after the first `delimiter`, or all of it and `nil` if there is none.
    private static func split(_ text: Substring, at delimiter: Unicode.Scalar) -> (Substring, Substring?) {
        guard let index = text.unicodeScalars.firstIndex(of: delimiter) else { return (text, nil) }
        return (text[..<index], text[text.unicodeScalars.index(after: index)...])
    }
}

extension TransportError {
    /// Creates the error of a mistake in the configuration, from the key and a phrase that says what is wrong or
    /// allowed.
    public static func configuration(_ key: String, _ problem: String) -> TransportError {
        TransportError(.invalidConfiguration, .configure, "\(key) \(problem)")
    }
}
