/// The client that a server has authenticated in its handshake.
///
/// A server returns it from its decision about the handshake. It is then the ``Connection/identity`` of the connection
/// and the ``Session/identity`` of the session that the connection begins.
public struct Identity: Sendable, Hashable, Codable {
    /// The name of the user, account or device. A session can be resumed only by a connection with the same name. Names and
    /// claims are compared byte by byte, unlike Strings, which are also equal if they only look the same: é in one character
    /// and in two are two names.
    public var name: String
    /// Further facts that the server has verified, such as roles. Empty by default.
    public var claims: [String: String]

    /// Creates the identity of an authenticated client.
    public init(_ name: String, claims: [String: String] = [:]) {
        self.name = name
        self.claims = claims
    }
}

extension Identity {
    /// Whether all bytes of the names and of the claims are equal.
    public static func == (left: Identity, right: Identity) -> Bool {
        left.name.utf8.elementsEqual(right.name.utf8) && left.claims.count == right.claims.count
            && left.claims.allSatisfy { key, value in
                guard let index = right.claims.index(forKey: key) else { return false }
                let other = right.claims[index]
                return other.key.utf8.elementsEqual(key.utf8) && other.value.utf8.elementsEqual(value.utf8)
            }
    }

    /// Hashes the bytes of the name, and how many claims there are.
    public func hash(into hasher: inout Hasher) {
        for byte in name.utf8 { hasher.combine(byte) }
        hasher.combine(claims.count)
    }
}
