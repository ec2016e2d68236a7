import Protocols
import SocketIO
import TransportAPI

/// The event loop of a transport's connections, and the settings that an app has made in code and not in the URL. A transport
/// uses those that its protocol has, and ignores the rest.
public struct ConnectionContext: Sendable {
    /// The event loop of the connections.
    public var loop: EventLoop
    /// Headers of each handshake of HTTP, after those of the URL. They may be secrets. None by default.
    public var headers: [HTTPHeader]
    /// The keepalive of the supervisor whose connections these are; `nil`, the default, without a supervisor. A protocol with
    /// its own keepalive sends it at this interval, unless the URL sets one.
    public var keepalive: KeepaliveConfiguration?
    /// Whether each connection continues the session of the one before, so that a connection can be replaced by a better one
    /// without losing or doubling a message. `false` by default.
    public var continuesSessions: Bool
    /// Whether the supervisor logs in over the connections. The registry then refuses endpoints that are not encrypted, except
    /// on this machine or with `insecure-credentials=on`. `false` by default.
    public var sendsCredentials: Bool

    /// Creates a context.
    ///
    /// - Parameters:
    ///   - loop: The event loop of the connections; the shared loop by default.
    ///   - headers: Headers of each handshake of HTTP. None by default.
    ///   - keepalive: The keepalive of the supervisor; none by default.
    ///   - continuesSessions: Whether each connection continues the session of the one before; `false` by default.
    ///   - sendsCredentials: Whether the supervisor logs in over the connections; `false` by default.
    public init(
        on loop: EventLoop = .shared,
        headers: [HTTPHeader] = [],
        keepalive: KeepaliveConfiguration? = nil,
        continuesSessions: Bool = false,
        sendsCredentials: Bool = false
    ) {
        (self.loop, self.headers, self.keepalive) = (loop, headers, keepalive)
        self.continuesSessions = continuesSessions
        self.sendsCredentials = sendsCredentials
    }
}
