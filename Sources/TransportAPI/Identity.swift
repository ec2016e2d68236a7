/// The client that a server has authenticated in its handshake.
///
/// A server returns it from its decision about the handshake. It is then the ``Connection/identity`` of the connection
/// and the ``Session/identity`` of the session that the connection begins.
public struct Identity: Sendable, Hashable, Codable {
    /// The name of the user, account or device. A session can be resumed only by a connection with the same name.
    public var name: String
    /// Further facts that the server has verified, such as roles. Empty by default.
    public var claims: [String: String]

    /// Creates the identity of an authenticated client.
    public init(_ name: String, claims: [String: String] = [:]) {
        self.name = name
        self.claims = claims
    }
}
