import Primitives
import TransportAPI

/// What a server knows about a client that asks to be served: the request of a handshake over HTTP, or the login of a session
/// over any transport. A server's decision about it is a ``ClientDecision``.
public struct ClientRequest: Sendable, Hashable {
    /// The path as it was received: percent-encoded, without the query. Empty for a session.
    public let path: String
    /// The query as it was received, without its question mark. Empty if there was none, and for a session. It is never
    /// printed, because it may contain a token.
    @Secret public private(set) var query: String
    /// The offered subprotocols, the preferred one first. None for a session.
    public let subprotocols: [String]
    /// All headers, in their order. None for a session.
    public let headers: [HTTPHeader]
    /// The verified certificate of the client; `nil` without TLS, if the client has sent none, and for a session, whose
    /// ``identity`` has its name.
    public let clientCertificate: TLSCertificate?
    /// The token with which the client logs in: that of the session's hello, or of the header `Authorization: Bearer` (RFC 6750,
    /// section 2.1). `nil` if the client has none. It is never printed.
    @Secret public private(set) var token: String?
    /// The identity of the client according to the handshake of the connection, by a certificate or by the listener's own
    /// decision. `nil` if there is none, and for a handshake.
    public let identity: Identity?

    package init(
        path: String,
        query: String,
        subprotocols: [String],
        headers: [HTTPHeader],
        clientCertificate: TLSCertificate? = nil
    ) {
        (self.path, self.query) = (path, query)
        (self.subprotocols, self.headers) = (subprotocols, headers)
        self.clientCertificate = clientCertificate
        token = headers.values("Authorization").first.flatMap(Self.bearer)
        identity = nil
    }

    /// The request of a client of a session.
    package init(token: String?, identity: Identity?) {
        (path, query, subprotocols, headers, clientCertificate) = ("", "", [], [], nil)
        (self.token, self.identity) = (token, identity)
    }

    /// Returns the token of a header's value; `nil` if it has another scheme.
    private static func bearer(_ value: String) -> String? {
        let parts = value.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, HTTPSyntax.equalIgnoringCase(parts[0], "Bearer") else { return nil }
        return String(parts[1])
    }

    /// Returns the value of the first header with a name.
    ///
    /// - Parameter name: the name. Its case is ignored.
    /// - Returns: the value, or `nil` if there is no such header.
    public func header(_ name: String) -> String? {
        headers.values(name).first
    }
}

/// The decision of a server about a ``ClientRequest``.
public enum ClientDecision: Sendable, Hashable {
    /// The server accepts the client. It has the identity in its certificate, if it has sent one.
    case accept
    /// The server accepts the client under this identity.
    case acceptAs(Identity)
    /// The server refuses the client with this HTTP status and these further headers: 401 with WWW-Authenticate, 503 with
    /// Retry-After. A status outside 300...599 becomes 500.
    ///
    /// A session has no headers. With 401 its client requests a fresh token and tries again, with 429 and 5xx it tries again
    /// later, and with any other status it does not come back.
    case refuse(status: Int, headers: [HTTPHeader] = [])

    /// Returns the status of a refusal: a status outside 300...599 becomes 500.
    package static func refusalStatus(_ status: Int) -> Int { (300...599).contains(status) ? status : 500 }

    /// The reason that the server reports locally when its decision refuses a request.
    package static let refusalReason = "the server's decision refuses the request"
}
