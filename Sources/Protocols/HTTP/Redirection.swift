import TransportAPI

/// The address to connect to instead, as the peer has sent it.
package struct Redirection: Sendable, Hashable {
    /// The HTTP status of the peer's answer.
    package var status: Int
    /// A URI reference, to be resolved against the URL of the request.
    package var location: String

    /// Creates a redirection from its parts.
    package init(status: Int, location: String) {
        self.status = status
        self.location = location
    }
}

/// The address to which a redirection leads.
package struct RedirectTarget: Sendable, Hashable {
    /// The scheme, host, port and path; also the user and the password, if the origin is the same. It has no options: those of
    /// the endpoint that redirects have been read into settings, which apply to the target too.
    package var endpoint: Endpoint
    /// The query of the request; `nil` for none.
    @Secret package var query: String?
    /// Whether scheme, host and port are those of the endpoint that redirects. Another origin must not receive any secret of
    /// the settings: headers, and the certificate of the client.
    package var isSameOrigin: Bool
}
