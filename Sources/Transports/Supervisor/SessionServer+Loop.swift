import Protocols
import SocketIO
import TransportAPI

extension SessionServer {
    /// Creates a server without listeners, on an event loop. Its listeners should be on the same loop.
    ///
    /// - Parameters:
    ///   - configuration: The settings of the server. By default sessions have the session style.
    ///   - loop: The event loop of the server. Default: the shared loop.
    ///   - onSession: Called on the loop with each new session. It must not block.
    public convenience init(
        _ configuration: Configuration = Configuration(),
        on loop: EventLoop = .shared,
        onSession: @escaping @Sendable (Session) -> Void
    ) {
        self.init(configuration, onRuntime: loop, onSession: onSession)
    }
}
