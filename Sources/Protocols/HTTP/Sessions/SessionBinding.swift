import TransportAPI

/// What the request that opened a session has proved about its client. All further requests must prove the same, so that
/// a token alone, which may be in a log of addresses, is no key.
package struct SessionBinding: Sendable {
    private let origin: String?
    @Secret private var authorization: [String]
    private let certificate: TLSCertificate?

    /// Takes the proof from the request that opens a session.
    package init(_ request: HTTPRequest) {
        origin = request.headers.values("Origin").first
        authorization = request.headers.values("Authorization")
        certificate = request.clientCertificate
    }

    /// Returns whether a request comes from the client that opened the session, as far as its headers show.
    ///
    /// A browser sends no Origin with a GET to the server of the page itself (WHATWG Fetch, section 3.2). No page of
    /// another origin can read the answer to a request without Origin.
    package func admits(_ request: HTTPRequest) -> Bool {
        let origin = request.headers.values("Origin").first
        guard origin == self.origin || origin == nil && request.method == "GET" else { return false }
        let authorization = request.headers.values("Authorization")
        guard authorization.count == self.authorization.count,
            zip(authorization, self.authorization).allSatisfy({ HandshakeKey.areEqual($0, $1) })
        else { return false }
        return request.clientCertificate == certificate
    }
}
