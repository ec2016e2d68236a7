/// Decides about the login of a session's client: the token of its hello, which is `nil` if it has none, over this connection.
package typealias SessionLogin = @Sendable (_ token: String?, any Connection) async -> SessionAdmission

/// A decision about the login of a session's client.
package enum SessionAdmission: Sendable {
    /// The client is served. Its identity is that of the connection, unless there is another one here.
    case admitted(Identity?)
    /// The client is not served.
    case refused(SessionFrame.Refusal)
}
