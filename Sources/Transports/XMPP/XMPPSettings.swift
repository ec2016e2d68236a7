import Protocols
import TransportAPI

/// The settings of a client of XMPP.
struct XMPPClientSettings: Sendable {
    private var shared = XMPPConfiguration(domain: "localhost")
    /// The domain of the account; `nil` for the host of the URL.
    private var domain: String?
    /// The keepalive of the supervisor, if there is one.
    private var keepalive: KeepaliveConfiguration?

    static let list = SettingList(
        XMPPClientSettings(),
        [
            .init(
                "to",
                SettingFormat.text("an address").orAbsent("the client's own address"),
                \.shared.partner,
                "the address of the partner"
            ),
            .init(
                "domain",
                SettingFormat.text("a domain").orAbsent("the host of the URL"),
                \.domain,
                "the domain of the account"
            ),
            .init(
                "resource",
                SettingFormat.text("a resource").orAbsent("the server's choice"),
                \.shared.resource,
                "the resource that the client asks for"
            ),
            .init("acks", .flag, \.shared.awaitsAcknowledgements, "whether the server confirms each message"),
            .init("sm", .flag, \.shared.requestsManagement, "whether stream management is used, if the server has it"),
            .init(
                "in-flight",
                SettingFormat.integer(1...65_535),
                \.shared.maximumInFlight,
                "messages that may wait for their acknowledgement"
            ),
            .init(
                "ack-timeout",
                .duration(),
                \.shared.acknowledgementTimeout,
                "how long an acknowledgement may take"
            ),
            .init("handshake-timeout", .duration(), \.shared.handshakeTimeout, "how long the handshake may take"),
            .maximumMessageSize(\.shared.maximumMessageSize, atMost: 256 << 20),
        ]
    )

    /// Takes over what a context says, which the options of a URL replace.
    mutating func prepare(_ context: ConnectionContext) {
        keepalive = context.keepalive
    }

    /// Returns the configuration of a client's core.
    ///
    /// - Parameter isEncrypted: Whether the connection is encrypted from its first byte on.
    /// - Throws: `.invalidConfiguration` for a password that others could read on the way.
    func configuration(
        _ endpoint: Endpoint,
        _ limits: ConnectionLimits,
        isEncrypted: Bool
    ) throws(TransportError) -> XMPPConfiguration {
        guard endpoint.user == nil || isEncrypted || Self.isLoopback(endpoint.host) else {
            throw .configuration(
                "user",
                "would go over a plain connection with its password; write xmpps:// for xmpp://, which is allowed "
                    + "without an account, or to a loopback address"
            )
        }
        var configuration = shared
        configuration.domain = domain ?? endpoint.host
        configuration.user = endpoint.user
        configuration.password = endpoint.password
        configuration.closeTimeout = limits.closeTimeout
        configuration.keepalive =
            switch keepalive?.interval {
            case .off: nil
            case .fixed(let interval): interval
            case .automatic, nil: limits.keepaliveInterval
            }
        return configuration
    }

    /// Whether a host is this machine, whatever the resolver says: `localhost`, ::1, or an address of 127.0.0.0/8.
    private static func isLoopback(_ host: String) -> Bool {
        if host == "localhost" || host == "::1" { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
    }
}

/// The settings of a server of XMPP.
struct XMPPServerSettings: Sendable {
    fileprivate(set) var configuration = XMPPServerConfiguration()

    static let list = SettingList(
        XMPPServerSettings(),
        [
            .init("sm", .flag, \.configuration.offersManagement, "whether stream management is offered"),
            .init(
                "in-flight",
                SettingFormat.integer(1...65_535),
                \.configuration.maximumInFlight,
                "messages that may wait for their acknowledgement"
            ),
            .init(
                "ack-timeout",
                .duration(),
                \.configuration.acknowledgementTimeout,
                "how long an acknowledgement may take"
            ),
            .init(
                "handshake-timeout",
                .duration(),
                \.configuration.handshakeTimeout,
                "how long the handshake may take"
            ),
            .maximumMessageSize(\.configuration.maximumMessageSize, atMost: 256 << 20),
        ]
    )
}
