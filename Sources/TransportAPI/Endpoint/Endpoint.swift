/// Where a transport connects to, as a URL says it (RFC 3986): `scheme://user:password@host:port/path?name=value`.
///
/// ```swift
/// let endpoint = try Endpoint("mqtt://ann:secret@[::1]:1883/?subscribe=chat/in&publish=chat/out")
/// ```
public struct Endpoint: Sendable, Hashable {
    /// One option of the query, decoded. A name may occur several times.
    public struct Option: Sendable, Hashable {
        /// The option's name.
        public var name: String
        /// Its value; empty for `?flag` and `?flag=` alike.
        public var value: String

        /// An option of this name and value.
        public init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    /// Which transport: `ws`, `tcp`, `mqtt`, `udp`, `memory`; in lower case.
    public var scheme: String
    /// A name, an IPv4 address, or an IPv6 address without its brackets (a zone is written `%25eth0` in the URL).
    public var host: String
    /// The port, or `nil` for the transport's own default.
    public var port: UInt16?
    /// The path with its leading slash, as it goes over the wire (percent-encoding kept); empty if the URL has none.
    public var path: String
    /// The options of the query, decoded, in their order.
    public var options: [Option]
    /// The user name, decoded.
    public var user: String?
    /// The password, decoded. Never printed by ``description``.
    public var password: String?

    /// An endpoint from its parts.
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
    /// The URL without user name and password, those of a proxy, and the values of headers.
    public var description: String {
        let literal =
            host.utf8.contains(UInt8(ascii: ":"))
            ? "[\(PercentEncoding.encode(host, keeping: ":"))]" : PercentEncoding.encode(host)
        let suffix = port.map { ":\($0)" } ?? ""
        let query = options.map { option in
            let name = PercentEncoding.encode(option.name, keeping: "/:")
            let value = option.valueWithoutSecrets
            // Where both are empty, the sign says that there is an option.
            guard !value.isEmpty || name.isEmpty else { return name }
            return "\(name)=\(PercentEncoding.encode(value, keeping: "/:,+"))"
        }
        return "\(scheme)://\(literal)\(suffix)\(path)" + (query.isEmpty ? "" : "?" + query.joined(separator: "&"))
    }
}

extension Endpoint.Option {
    fileprivate var valueWithoutSecrets: String {
        switch name {
        case "header":
            return String(decoding: value.utf8.prefix { $0 != UInt8(ascii: ":") }, as: UTF8.self)
        case "proxy":
            guard let at = value.utf8.lastIndex(of: UInt8(ascii: "@")) else { return value }
            return "http://" + value[value.utf8.index(after: at)...]
        default:
            return value
        }
    }
}

extension Endpoint: CustomReflectable {
    /// What debuggers and failed tests show: the URL without user name and password.
    public var customMirror: Mirror {
        Mirror(self, children: ["url": description])
    }
}
