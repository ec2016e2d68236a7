import TransportAPI

/// The parts of a URI or of a relative reference (RFC 3986, section 3). The fragment is left out, because it is never
/// sent.
struct URIReference: Sendable, Hashable {
    /// The scheme in lower case.
    var scheme: String?
    var authority: String?
    var path: String
    /// The query without its question mark.
    var query: String?
}

extension URIReference {
    /// Parses `text`. Returns `nil` if it is not a URI reference.
    init?(_ text: String) {
        guard HTTPSyntax.isVisible(text, except: "\"<>\\^`{|}"), Self.hasWholeEscapes(text) else { return nil }
        // All characters are ASCII from here on, so each is one byte.
        var rest = text.prefix { $0 != "#" }
        scheme = nil
        if let colon = rest.firstIndex(of: ":"), !rest[..<colon].contains(where: { "/?".contains($0) }) {
            guard Self.isScheme(rest[..<colon]) else { return nil }
            scheme = rest[..<colon].lowercased()
            rest = rest[rest.index(after: colon)...]
        }
        query = nil
        if let question = rest.firstIndex(of: "?") {
            query = String(rest[rest.index(after: question)...])
            rest = rest[..<question]
        }
        authority = nil
        if rest.hasPrefix("//") {
            rest = rest.dropFirst(2)
            let slash = rest.firstIndex(of: "/") ?? rest.endIndex
            authority = String(rest[..<slash])
            rest = rest[slash...]
        }
        path = String(rest)
    }

    private static func isScheme(_ text: Substring) -> Bool {
        text.first?.isLetter == true && text.allSatisfy { $0.isLetter || $0.isNumber || "+-.".contains($0) }
    }

    private static func hasWholeEscapes(_ text: String) -> Bool {
        text.split(separator: "%", omittingEmptySubsequences: false).dropFirst().allSatisfy {
            $0.count >= 2 && $0.prefix(2).allSatisfy(\.isHexDigit)
        }
    }

    /// Returns the URI for this reference, where `base` is the current URI (RFC 3986, section 5.2.2).
    func resolved(against base: URIReference) -> URIReference {
        var target = self
        if scheme == nil {
            target.scheme = base.scheme
            if authority == nil {
                target.authority = base.authority
                if path.isEmpty {
                    target.path = base.path
                    if query == nil { target.query = base.query }
                    return target
                }
                if !path.hasPrefix("/") { target.path = base.merged(with: path) }
            }
        }
        target.path = Self.withoutDots(target.path)
        return target
    }

    /// Replaces everything after the last slash of this path by a relative path (section 5.2.3).
    private func merged(with relative: String) -> String {
        if authority != nil, path.isEmpty { return "/" + relative }
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
        return folder + relative
    }

    /// Resolves the "." and ".." segments of a path (section 5.2.4).
    private static func withoutDots(_ path: String) -> String {
        var input = path[...]
        var output: [Substring] = []
        while !input.isEmpty {
            if input.hasPrefix("../") {
                input = input.dropFirst(3)
            } else if input.hasPrefix("./") || input.hasPrefix("/./") {
                input = input.dropFirst(2)
            } else if input == "/." {
                input = "/"
            } else if input.hasPrefix("/../") {
                input = input.dropFirst(3)
                _ = output.popLast()
            } else if input == "/.." {
                input = "/"
                _ = output.popLast()
            } else if input == "." || input == ".." {
                input = ""
            } else {
                let end = input.dropFirst().firstIndex(of: "/") ?? input.endIndex
                output.append(input[..<end])
                input = input[end...]
            }
        }
        return output.joined()
    }
}

/// The schemes of a transport whose servers redirect.
package struct RedirectSchemes: Sendable, Hashable {
    /// The scheme without encryption.
    package var plain: String
    /// The scheme over TLS.
    package var encrypted: String

    /// The schemes of WebSocket.
    package static let webSocket = RedirectSchemes(plain: "ws", encrypted: "wss")
    /// The schemes of messages over HTTP.
    package static let http = RedirectSchemes(plain: "http", encrypted: "https")

    /// Returns the port of a URL without a port.
    func defaultPort(_ scheme: String) -> UInt16 { scheme == encrypted ? 443 : 80 }
}

// Redirects (RFC 9110, section 15.4; RFC 6455, section 4.1 allows them).
extension Redirection {
    /// Returns where to try next after `endpoint` has answered with this redirection.
    ///
    /// - Parameters:
    ///   - endpoint: the endpoint that has answered.
    ///   - query: the query of the request to it; `nil` for none.
    ///   - schemes: the schemes of the transport, plain and encrypted. In a redirection, `http` and `https` mean them too.
    /// - Throws: `.handshakeFailed` if the Location is not a URI reference, or if it leads from the encrypted scheme to the
    ///   plain one or to an unsupported scheme.
    package func target(
        from endpoint: Endpoint,
        query: String?,
        speaking schemes: RedirectSchemes
    ) throws(TransportError) -> RedirectTarget {
        let base = URIReference(
            scheme: endpoint.scheme,
            authority: WebSocketConfiguration.hostHeader(
                host: endpoint.host,
                port: endpoint.port,
                defaultPort: schemes.defaultPort(endpoint.scheme)
            ),
            path: endpoint.path.isEmpty ? "/" : endpoint.path,
            query: query
        )
        guard let reference = URIReference(location)?.resolved(against: base), let named = reference.scheme else {
            throw failed("its Location is not a URI")
        }
        let scheme = ["http": schemes.plain, "https": schemes.encrypted][named] ?? named
        guard endpoint.scheme != schemes.encrypted || scheme == schemes.encrypted else {
            throw failed("it leads from \(endpoint.scheme) to \(scheme)")
        }
        guard scheme == schemes.plain || scheme == schemes.encrypted else {
            throw failed("it leads to \(scheme), which this transport does not support")
        }
        guard let authority = reference.authority, !authority.contains("@") else {
            throw failed("its Location has no host, or has a user")
        }
        var target: Endpoint
        do throws(TransportError) {
            target = try Endpoint("\(scheme)://\(authority)\(reference.path)")
        } catch {
            throw failed("its Location cannot be read: \(error.reason)")
        }
        // The zone of an address is not in the Host header, so a relative reference keeps the endpoint's host.
        if authority == base.authority { (target.host, target.port) = (endpoint.host, endpoint.port) }
        let isSameOrigin = target.origin(schemes) == endpoint.origin(schemes)
        if isSameOrigin { (target.user, target.password) = (endpoint.user, endpoint.password) }
        return RedirectTarget(endpoint: target, query: reference.query, isSameOrigin: isSameOrigin)
    }

    private func failed(_ reason: String) -> TransportError {
        TransportError(.handshakeFailed, .handshake, "the server redirects, but \(reason)", detail: status)
    }
}

extension Endpoint {
    /// The origin of the endpoint (RFC 6454, section 4).
    fileprivate func origin(_ schemes: RedirectSchemes) -> String {
        let port = port ?? schemes.defaultPort(scheme)
        return "\(scheme)://\(host.lowercased()):\(port)"
    }
}
