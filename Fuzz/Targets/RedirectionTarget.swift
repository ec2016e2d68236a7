import TransportAPI

@testable import Protocols
@testable import Transports

/// Follows the redirects of a server.
func fuzzRedirection(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var endpoint = try Endpoint(
        input.choice(of: [
            "ws://ann:secret@a.example:81/b/c?query=q%3D1&header=X-Key:k", "wss://ann@a/?header=Cookie:y",
            "ws://[fe80::1%25eth0]:81/x",
        ])
    )
    var handshake = try HandshakeSettings.list.read(endpoint)
    handshake.contextHeaders = [try HTTPHeader("Authorization", "Bearer t")]
    endpoint.options = []
    let location = String(decoding: input.rest, as: UTF8.self)
    if let reference = URIReference(location) { try check(reference, location) }
    for _ in 0..<3 {
        let target: RedirectTarget
        do throws(TransportError) {
            target = try Redirection(status: 307, location: location)
                .target(from: endpoint, query: handshake.query, speaking: .webSocket)
        } catch {
            return try ensure(error.code == .handshakeFailed && error.detail == 307, "\(error)")
        }
        let former = handshake
        handshake.follow(target)
        try check(target.endpoint, handshake.allHeaders, after: endpoint, former.allHeaders)
        try ensure(target.endpoint.options.isEmpty && handshake.query == target.query, "\(target)")
        endpoint = target.endpoint
    }
}

/// Checks that no secret leaves its origin, and that no redirect leads from wss to ws.
private func check(
    _ target: Endpoint,
    _ headers: [HTTPHeader],
    after former: Endpoint,
    _ formerHeaders: [HTTPHeader]
) throws {
    try ensure(["ws", "wss"].contains(target.scheme) && !target.host.isEmpty, "\(target)")
    try ensure(former.scheme == "ws" || target.scheme == "wss", "from wss to ws")
    let isSame =
        target.scheme == former.scheme && target.host.lowercased() == former.host.lowercased()
        && (target.port ?? target.standardPort) == (former.port ?? former.standardPort)
    guard isSame else {
        let hasSecrets = target.user != nil || target.password != nil || !headers.isEmpty
        return try ensure(!hasSecrets, "\(target) has secrets of another origin")
    }
    try ensure(target.user == former.user && headers == formerHeaders, "\(target)")
}

/// Checks that the parts of a reference are those of its text, and that a resolved reference is absolute.
private func check(_ reference: URIReference, _ text: String) throws {
    let whole = text.prefix { $0 != "#" }
    try ensure(reference.text.lowercased() == whole.lowercased(), "\(reference) for \(text)")
    let base = URIReference(scheme: "ws", authority: "a", path: "/b/c", query: "q")
    let resolved = reference.resolved(against: base)
    try ensure(resolved.scheme != nil, "\(resolved) has no scheme")
    let segments = resolved.path.split(separator: "/", omittingEmptySubsequences: false)
    try ensure(!segments.contains(".") && !segments.contains(".."), "\(resolved) is relative")
    try ensure(resolved.resolved(against: base) == resolved, "\(resolved) changes when it is resolved again")
}

extension Endpoint {
    fileprivate var standardPort: UInt16 { scheme == "wss" ? 443 : 80 }
}

extension URIReference {
    /// The reference recomposed from its parts (RFC 3986, section 5.3).
    fileprivate var text: String {
        (scheme.map { $0 + ":" } ?? "") + (authority.map { "//" + $0 } ?? "") + path + (query.map { "?" + $0 } ?? "")
    }
}
