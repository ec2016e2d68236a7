import Protocols
import SocketIO
import TransportAPI

extension SessionServer {
    /// A server without listeners, on an event loop; the shared one by default. Its listeners should be on the same.
    ///
    /// - Parameter onSession: called on the loop with each new session; it must not block.
    public convenience init(
        _ configuration: Configuration = Configuration(),
        on loop: EventLoop = .shared,
        onSession: @escaping @Sendable (Session) -> Void
    ) {
        self.init(configuration, onRuntime: loop, onSession: onSession)
    }
}
