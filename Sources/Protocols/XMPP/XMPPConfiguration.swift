import Primitives
import TransportAPI

/// How a client uses XMPP: its account, its partner, and its limits.
package struct XMPPConfiguration: Sendable, Hashable {
    /// The domain of the account, to which the stream is opened.
    package var domain: String
    /// The user of the account; `nil`, the default, to be anonymous.
    package var user: String?
    /// The password; `nil` by default.
    @Secret package var password: String? = nil
    /// The resource that the client asks for; `nil`, the default, lets the server choose one.
    package var resource: String?
    /// The address to which messages go, and from which they are taken. `nil`, the default, is the address that the server
    /// binds, so that a server returns each message to its sender.
    package var partner: String?
    /// Whether the client asks for acknowledgements (XEP-0198) if the server offers them; `true` by default. They serve as
    /// pings too.
    package var requestsManagement = true
    /// Whether the outcome of each message whose payload does not choose (``Payload/qos``) is that of its acknowledgement;
    /// `false` by default.
    package var awaitsAcknowledgements = false
    /// The largest message that is sent or accepted, in bytes: 1 to 268,435,456, by default 16 MiB.
    package var maximumMessageSize = 16 << 20
    /// How many messages may wait for their acknowledgement, 1 to 65,535; 256 by default.
    package var maximumInFlight = 256
    /// How long an acknowledgement may take; 30 s by default.
    package var acknowledgementTimeout = Duration.seconds(30)
    /// After how long without output the client sends white space, if no acknowledgements are agreed; 60 s by default.
    /// `nil` means never.
    package var keepalive: Duration? = .seconds(60)
    /// How long everything up to the last answer of the handshake may take; 10 s by default.
    package var handshakeTimeout = Duration.seconds(10)
    /// How long the end of the peer's stream may take after it last took bytes; 5 s by default.
    package var closeTimeout = Duration.seconds(5)

    /// Creates the defaults for this domain: an anonymous client that sends to itself.
    package init(domain: String) {
        self.domain = domain
    }

    /// Checks each value.
    ///
    /// - Throws: `.invalidConfiguration` for the first value that is not allowed. The error names the key and the
    ///   allowed values.
    package func validate() throws(TransportError) {
        try XMPPCheck.address(domain, "domain")
        if let user { try XMPPCheck.address(user, "user") }
        if user == nil, password != nil { throw .configuration("user", "is missing, but there is a password") }
        if let password, password.utf8.count > XMPPCheck.longestPart || password.utf8.contains(0) {
            throw .configuration("password", "must be at most \(XMPPCheck.longestPart) bytes without U+0000")
        }
        if let resource { try XMPPCheck.address(resource, "resource") }
        if let partner { try XMPPCheck.address(partner, "to") }
        try XMPPCheck.limits(maximumMessageSize, maximumInFlight)
        if let keepalive { try SettingCheck.positive("keepalive", keepalive) }
        try SettingCheck.positive("acknowledgementTimeout", acknowledgementTimeout)
        try SettingCheck.positive("handshakeTimeout", handshakeTimeout)
        try SettingCheck.positive("closeTimeout", closeTimeout)
    }
}

/// How a server uses XMPP, with one client.
package struct XMPPServerConfiguration: Sendable {
    /// Whether the server offers acknowledgements (XEP-0198); `true` by default.
    package var offersManagement = true
    /// The largest message that is sent or accepted, in bytes: 1 to 268,435,456, by default 16 MiB.
    package var maximumMessageSize = 16 << 20
    /// How many messages may wait for their acknowledgement, 1 to 65,535; 256 by default.
    package var maximumInFlight = 256
    /// How long an acknowledgement may take; 30 s by default.
    package var acknowledgementTimeout = Duration.seconds(30)
    /// How long everything up to the client's last request of the handshake may take; 10 s by default.
    package var handshakeTimeout = Duration.seconds(10)
    /// How long the end of the client's stream may take after it last took bytes; 5 s by default.
    package var closeTimeout = Duration.seconds(5)
    /// Decides about a client by its user and password, which are `nil` for an anonymous one. Returns whether it is accepted.
    /// `nil`, the default, accepts every client.
    package var authentication: (@Sendable (_ user: String?, _ password: String?) -> Bool)?

    /// Creates the defaults.
    package init() {}

    /// Checks each value.
    ///
    /// - Throws: `.invalidConfiguration` for the first value that is not allowed. The error names the key and the
    ///   allowed values.
    package func validate() throws(TransportError) {
        try XMPPCheck.limits(maximumMessageSize, maximumInFlight)
        try SettingCheck.positive("acknowledgementTimeout", acknowledgementTimeout)
        try SettingCheck.positive("handshakeTimeout", handshakeTimeout)
        try SettingCheck.positive("closeTimeout", closeTimeout)
    }
}

/// The checks of what a side writes.
enum XMPPCheck {
    /// The longest part of an address, in bytes (RFC 7622, section 3.1).
    static let longestPart = 1023
    /// The longest address: three parts and two separators.
    static let longestAddress = 3071
    /// The largest value of `maximumMessageSize`.
    static let largestMessage = 256 << 20

    /// Checks an address or a part of one. Its characters depend on the server, except those that XML and streams forbid.
    static func address(_ text: String, _ key: String) throws(TransportError) {
        let isPlain = text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
        guard isPlain, !text.isEmpty, text.utf8.count <= longestAddress, XMPPWriter.isText(Array(text.utf8)) else {
            throw .configuration(key, "must be 1 to \(longestAddress) bytes without control characters")
        }
    }

    static func limits(_ messageSize: Int, _ inFlight: Int) throws(TransportError) {
        try SettingCheck.number("maximumMessageSize", messageSize, 1...largestMessage)
        try SettingCheck.number("maximumInFlight", inFlight, 1...65_535)
    }
}
