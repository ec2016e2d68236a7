import TransportAPI

/// Decides by the headers Origin and Host whether a server admits a request (RFC 6455, section 10.2).
///
/// A browser lets any page connect to any server on the internet, and many browsers also to those of a private network
/// and of the user's machine. It names the page in the Origin header, which no page can change, and the server must
/// check that header. Origin alone does not stop DNS rebinding: an attacker can give the name of a page the address of
/// the server, and then the page's origin equals Host. Such a page can reach all addresses of its user's machine, so
/// for clients there the name in Host is checked too. An IP address in Host is no name, so that it cannot be given
/// another address.
package enum RequestAdmission {
    /// The words of ``WebSocketConfiguration/allowedOrigins`` and ``WebSocketConfiguration/allowedHosts``.
    static let (same, null, everything, loopback, address) = ("same", "null", "any", "loopback", "address")

    /// Throws a refusal with status 403 if the origin or the host of a request is not allowed.
    ///
    /// - Parameters:
    ///   - host: the value of Host, or the authority of an absolute target.
    ///   - isPeerLocal: whether the client is on this machine.
    static func check(
        host: String,
        origin: String?,
        isPeerLocal: Bool,
        _ configuration: WebSocketConfiguration
    ) throws(ServerHandshake.Refusal) {
        if let origin, !configuration.allowedOrigins.contains(where: { admits($0, origin: origin, host: host) }) {
            let allowed = configuration.allowedOrigins.map {
                $0 == same ? "same (the host and port of the Host header, '\(excerpt(host))')" : $0
            }
            throw refusal("Origin", origin, allowed, "origins")
        }
        let hosts = configuration.allowedHosts ?? (isPeerLocal ? [loopback, address] : [everything])
        if !hosts.contains(where: { admits($0, host: host) }) {
            let words = [loopback: "loopback (localhost and loopback addresses)", address: "address (IP addresses)"]
            let allowed = hosts.map { words[$0] ?? $0 }
            throw refusal("Host", host, allowed, "hosts")
        }
    }

    private static func refusal(
        _ header: String,
        _ value: String,
        _ allowed: [String],
        _ setting: String
    ) -> ServerHandshake.Refusal {
        let list = allowed.isEmpty ? "none" : allowed.joined(separator: ", ")
        let sentence =
            "the \(header) header is '\(excerpt(value))'; allowed: \(list); the server's setting '\(setting)' changes this"
        return ServerHandshake.Refusal(status: 403, reason: sentence, body: sentence + "\n")
    }

    /// Returns the part of a header's value that can be shown safely.
    private static func excerpt(_ text: String) -> String {
        String(excerptOf: text.utf8, limit: 200)
    }

    // MARK: Rules

    private static func admits(_ rule: String, origin: String, host: String) -> Bool {
        switch rule {
        case everything: return true
        case null: return origin == null
        case same:
            guard let origin = WebOrigin(origin), let asked = Authority(host) else { return false }
            return origin.isServed(by: asked)
        default: return WebOrigin(rule).map { $0 == WebOrigin(origin) } ?? false
        }
    }

    private static func admits(_ rule: String, host: String) -> Bool {
        if rule == everything { return true }
        guard let asked = Authority(host) else { return false }
        if rule == loopback { return asked.isLoopback }
        if rule == address { return asked.isAddress }
        guard let allowed = Authority(rule) else { return false }
        return allowed.host == asked.host && (allowed.port == nil || allowed.port == asked.port)
    }

    /// Returns whether `text` can be an entry of ``WebSocketConfiguration/allowedOrigins``.
    package static func isOriginRule(_ text: String) -> Bool {
        [same, null, everything].contains(text) || WebOrigin(text) != nil
    }

    /// Returns whether `text` can be an entry of ``WebSocketConfiguration/allowedHosts``.
    package static func isHostRule(_ text: String) -> Bool {
        [loopback, address, everything].contains(text) || Authority(text) != nil
    }
}

/// A host and a port (RFC 3986, section 3.2), normalised for comparing: without user, in lower case.
package struct Authority: Sendable, Hashable {
    /// A name, an IPv4 address, or an IPv6 address in brackets.
    let host: String
    /// The port, or `nil` for the default port of the scheme.
    let port: UInt16?

    /// Parses "host", "host:port" or "[::1]:port". Returns `nil` for anything else.
    package init?(_ text: some StringProtocol) {
        let bytes = text.utf8
        guard let first = bytes.first, HTTPSyntax.isVisible(text, except: "/?#@\\,\"") else { return nil }
        let isLiteral = first == UInt8(ascii: "[")
        let end =
            isLiteral
            ? bytes.firstIndex(of: UInt8(ascii: "]")).map { bytes.index(after: $0) }
            : bytes.firstIndex(of: UInt8(ascii: ":")) ?? bytes.endIndex
        guard let end, end > bytes.startIndex else { return nil }
        let rest = bytes[end...]
        // A port may be empty, which means the default one (RFC 3986, section 3.2.3).
        guard rest.isEmpty || rest.first == UInt8(ascii: ":") else { return nil }
        let digits = rest.dropFirst()
        guard digits.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
        if digits.isEmpty {
            port = nil
        } else {
            guard let number = UInt16(String(decoding: digits, as: UTF8.self)) else { return nil }
            port = number
        }
        host = HTTPSyntax.lowercased(bytes[..<end])
    }

    /// Whether the host is an IPv4 address of four decimal numbers, as browsers write it, or an IPv6 address.
    var isAddress: Bool { host.hasPrefix("[") ? host.contains(":") : Self.ipv4(host) != nil }

    /// Whether the host is a loopback name (RFC 6761, section 6.3) or a loopback address.
    package var isLoopback: Bool {
        let name = host.hasSuffix(".") ? String(host.dropLast()) : host
        if name == "localhost" || name.hasSuffix(".localhost") { return true }
        guard host.hasPrefix("[") else { return Self.isLoopback(ipv4: host) }
        let address = host.dropFirst().dropLast()
        if address.hasPrefix("::ffff:") {
            let mapped = address.dropFirst(7)
            return Self.isLoopback(ipv4: mapped)
                || mapped.hasPrefix("7f") && mapped.utf8.dropFirst(4).first == UInt8(ascii: ":")
        }
        // The address ::1, with any number of zeros written out.
        return address.contains(":") && address.last == "1" && address.dropLast().allSatisfy { $0 == "0" || $0 == ":" }
    }

    private static func isLoopback(ipv4 text: some StringProtocol) -> Bool { ipv4(text)?.first == 127 }

    /// The numbers of an IPv4 address, each without leading zeros; `nil` for any other text.
    private static func ipv4(_ text: some StringProtocol) -> [UInt8]? {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        let numbers = parts.compactMap { part in
            let digits = String(decoding: part, as: UTF8.self)
            return UInt8(digits).flatMap { "\($0)" == digits ? $0 : nil }
        }
        return parts.count == 4 && numbers.count == 4 ? numbers : nil
    }
}

/// The origin of a page in its text form (RFC 6454, section 6.2): scheme, host and port.
struct WebOrigin: Sendable, Hashable {
    private let scheme: String
    private let host: String
    /// The port, or `nil` if none is written and the scheme has no known default.
    private let port: UInt16?

    /// Parses "scheme://host" or "scheme://host:port". Returns `nil` for anything else, such as "null".
    init?(_ text: String) {
        guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")), text.utf8[colon...].starts(with: "://".utf8),
            HTTPSyntax.isToken(text.utf8[..<colon]),
            let authority = Authority(text[text.utf8.index(colon, offsetBy: 3)...])
        else { return nil }
        scheme = HTTPSyntax.lowercased(text.utf8[..<colon])
        host = authority.host
        port = authority.port ?? Self.defaultPort(scheme)
    }

    /// Returns whether a page of this origin was served by the authority of a request. A Host header without a port
    /// means the default port of the origin's scheme, because a proxy in front of this server may use TLS.
    func isServed(by asked: Authority) -> Bool {
        guard let standard = Self.defaultPort(scheme) else { return false }
        return host == asked.host && port == asked.port ?? standard
    }

    private static func defaultPort(_ scheme: String) -> UInt16? {
        switch scheme {
        case "http", "ws": 80
        case "https", "wss": 443
        default: nil
        }
    }
}
