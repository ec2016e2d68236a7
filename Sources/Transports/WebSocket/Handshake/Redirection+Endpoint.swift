import TransportAPI

// Following a redirect (RFC 9110, section 15.4; RFC 6455, section 4.1 allows it).
extension Redirection {
    /// The endpoint to try after `endpoint` has answered with this: the same options, one redirect fewer, and at another origin
    /// (scheme, host, port) without user, password, and configured headers, any of which may be a secret.
    ///
    /// - Parameter schemes: what the transport can speak; `http` and `https` stand for `ws` and `wss`.
    /// - Throws: `.handshakeFailed` if the reference is none, leads from wss to ws, or to what the transport does not speak.
    func target(from endpoint: Endpoint, speaking schemes: [String]) throws(TransportError) -> Endpoint {
        let query = endpoint.options.first { $0.name == "query" }?.value
        let base = URIReference(
            scheme: endpoint.scheme,
            authority: WebSocketConfiguration.hostHeader(host: endpoint.host, port: endpoint.port),
            path: endpoint.path.isEmpty ? "/" : endpoint.path,
            query: query
        )
        guard let reference = URIReference(location)?.resolved(against: base), let named = reference.scheme else {
            throw failed("its Location is no URI")
        }
        let scheme = ["http": "ws", "https": "wss"][named] ?? named
        guard endpoint.scheme != "wss" || scheme == "wss" else { throw failed("it leads from wss to \(scheme)") }
        guard schemes.contains(scheme) else { throw failed("it leads to \(scheme), which is not spoken here") }
        guard let authority = reference.authority, !authority.contains("@") else {
            throw failed("its Location names no host, or a user")
        }
        var target: Endpoint
        do throws(TransportError) {
            target = try Endpoint("\(scheme)://\(authority)\(reference.path)")
        } catch {
            throw failed("its Location can't be read: \(error.reason)")
        }
        // A relative reference keeps what the Host header leaves out of an address: its zone.
        if authority == base.authority { (target.host, target.port) = (endpoint.host, endpoint.port) }
        let isSameOrigin = target.origin == endpoint.origin
        if isSameOrigin { (target.user, target.password) = (endpoint.user, endpoint.password) }
        target.options = endpoint.options.filter { option in
            switch option.name {
            case "query", "redirects": false
            case "header": isSameOrigin
            default: true
            }
        }
        let left = endpoint.options.first { $0.name == "redirects" }.flatMap { Int($0.value) } ?? 0
        target.options.append(.init(name: "redirects", value: String(max(left - 1, 0))))
        if let query = reference.query { target.options.append(.init(name: "query", value: query)) }
        return target
    }

    private func failed(_ reason: String) -> TransportError {
        TransportError(.handshakeFailed, .handshake, "the server redirects, but \(reason)", detail: status)
    }
}

extension Endpoint {
    /// Who is asked (RFC 6454, section 4).
    fileprivate var origin: String {
        let port = port ?? (scheme == "wss" ? 443 : 80)
        return "\(scheme)://\(host.lowercased()):\(port)"
    }
}
