/// The first line of a request (RFC 9112, section 3).
struct HTTPRequestLine: Sendable, Hashable {
    /// The target of a request.
    struct Target: Sendable, Hashable {
        /// The host and the port, if the target contains them.
        var authority: String?
        var path = "/"
        var query = ""
    }

    /// The method, which is a token.
    let method: String
    /// Whether the version is HTTP/1.0. A higher minor version than 1 is served as 1.1 (RFC 9110, section 6.2).
    let isOld: Bool
    private let target: Substring

    /// Parses the line, without its target.
    ///
    /// - Throws: the refusal with status 400, or 505 for another major version.
    init(_ line: String) throws(ServerHandshake.Refusal) {
        guard line.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7f }) else {
            throw ServerHandshake.bad("the request line is not in ASCII")
        }
        let parts = line.utf8.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard parts.count == 3, HTTPSyntax.isToken(parts[0]), !parts[1].isEmpty,
            let version = HTTPSyntax.version(parts[2])
        else { throw ServerHandshake.bad("the request line is malformed") }
        guard version.major == 1 else {
            throw ServerHandshake.Refusal(status: 505, reason: "the request is not HTTP/1.1")
        }
        method = String(decoding: parts[0], as: UTF8.self)
        isOld = version.minor == 0
        target = Substring(parts[1])
    }

    /// Parses the target (section 3.2). It is a path with its query, or an absolute URI. The path of a URI may be empty, but
    /// not its host (RFC 9110, section 4.2.1).
    func parsedTarget() throws(ServerHandshake.Refusal) -> Target {
        var result = Target()
        var rest = target.utf8
        let (slash, mark, hash) = (UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "#"))
        for scheme in ["http://".utf8, "https://".utf8]
        where HTTPSyntax.equalIgnoringCase(bytes: rest.prefix(scheme.count), scheme) {
            rest = rest.dropFirst(scheme.count)
            let authority = rest.prefix { $0 != slash && $0 != mark && $0 != hash }
            result.authority = String(decoding: authority, as: UTF8.self)
            rest = rest.dropFirst(authority.count)
            break
        }
        guard result.authority.map({ HTTPSyntax.isHost($0) && !$0.hasPrefix(":") }) ?? (rest.first == slash),
            !rest.contains(hash)
        else { throw ServerHandshake.bad("the request's target is malformed") }
        let pieces = rest.split(separator: mark, maxSplits: 1, omittingEmptySubsequences: false)
        if let path = pieces.first, !path.isEmpty { result.path = String(decoding: path, as: UTF8.self) }
        if pieces.count > 1 { result.query = String(decoding: pieces[1], as: UTF8.self) }
        return result
    }
}
