extension Endpoint {
    /// The longest URL that is read, in bytes.
    public static let maximumLength = 8192

    /// Reads a URL.
    ///
    /// - Throws: `.invalidConfiguration` with a sentence that names the part that is wrong and what it may be.
    public init(_ url: String) throws(TransportError) {
        guard url.utf8.count <= Self.maximumLength else {
            throw .configuration("url", "is longer than \(Self.maximumLength) bytes")
        }
        guard !url.utf8.contains(where: { $0 <= 0x20 || $0 == 0x7f }) else {
            throw .configuration("url", "contains a space or a control character; write it percent-encoded")
        }
        var rest = Substring(url)
        if let hash = rest.firstIndex(of: "#") { rest = rest[..<hash] }
        guard let colon = rest.firstRange(of: "://"), colon.lowerBound != rest.startIndex else {
            throw .configuration("url", "'\(url)' has no scheme; write it as scheme://host:port")
        }
        scheme = rest[..<colon.lowerBound].lowercased()
        guard scheme.utf8.first.map({ $0 >= 0x61 && $0 <= 0x7a }) == true,
            scheme.utf8.allSatisfy({
                ($0 >= 0x61 && $0 <= 0x7a) || ($0 >= 0x30 && $0 <= 0x39) || "+-.".utf8.contains($0)
            })
        else { throw .configuration("scheme", "'\(scheme)' may hold only letters, digits and + - .") }
        rest = rest[colon.upperBound...]

        if let question = rest.firstIndex(of: "?") {
            options = try Self.options(rest[rest.index(after: question)...])
            rest = rest[..<question]
        } else {
            options = []
        }
        let slash = rest.firstIndex(of: "/") ?? rest.endIndex
        path = String(rest[slash...])
        var authority = rest[..<slash]

        if let at = authority.lastIndex(of: "@") {
            let parts = authority[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            user = try PercentEncoding.decode(parts[0], key: "user")
            password = parts.count == 2 ? try PercentEncoding.decode(parts[1], key: "password") : nil
            authority = authority[authority.index(after: at)...]
        } else {
            user = nil
            password = nil
        }
        (host, port) = try Self.hostAndPort(authority)
    }

    private static func hostAndPort(_ authority: Substring) throws(TransportError) -> (String, UInt16?) {
        let host: String
        var tail: Substring
        if authority.first == "[" {
            guard let bracket = authority.firstIndex(of: "]") else {
                throw .configuration("host", "'\(authority)' lacks the closing bracket of its IPv6 address")
            }
            host = try PercentEncoding.decode(
                authority[authority.index(after: authority.startIndex)..<bracket],
                key: "host"
            )
            guard host.utf8.contains(UInt8(ascii: ":")) else {
                throw .configuration("host", "'[\(host)]' is not an IPv6 address; only those stand in brackets")
            }
            tail = authority[authority.index(after: bracket)...]
        } else {
            let colon = authority.firstIndex(of: ":") ?? authority.endIndex
            host = try PercentEncoding.decode(authority[..<colon], key: "host")
            tail = authority[colon...]
            guard !tail.dropFirst().contains(":") else {
                throw .configuration("host", "'\(authority)': an IPv6 address stands in brackets, as in [::1]:8080")
            }
        }
        guard !host.isEmpty else { throw .configuration("host", "is missing") }
        guard !host.utf8.contains(where: { $0 <= 0x20 || $0 == 0x7f }) else {
            throw .configuration("host", "contains a space or a control character")
        }
        guard !tail.isEmpty else { return (host, nil) }
        guard tail.first == ":" else { throw .configuration("port", "'\(tail)' must begin with a colon") }
        tail = tail.dropFirst()
        guard !tail.isEmpty else { return (host, nil) }
        guard tail.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let port = UInt16(tail) else {
            throw .configuration("port", "'\(tail)' is not a number from 0 to 65535")
        }
        return (host, port)
    }

    private static func options(_ query: Substring) throws(TransportError) -> [Option] {
        var options: [Option] = []
        for pair in query.split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = try PercentEncoding.decode(parts[0], key: "query")
            let value = parts.count == 2 ? try PercentEncoding.decode(parts[1], key: name) : ""
            options.append(Option(name: name, value: value))
        }
        return options
    }
}

extension TransportError {
    /// A mistake in the configuration: which key, and what is wrong with it or allowed.
    public static func configuration(_ key: String, _ problem: String) -> TransportError {
        TransportError(.invalidConfiguration, .configure, "\(key) \(problem)")
    }
}
