import Protocols
import SocketIO
import TransportAPI

extension SessionServer {
    /// Creates a server without listeners, on an event loop. Its listeners should be on the same loop.
    ///
    /// - Parameters:
    ///   - configuration: The settings of the server. By default sessions have the session style.
    ///   - loop: The event loop of the server. Default: the shared loop.
    ///   - decide: Accepts or refuses the client of each connection, by the token of its session's hello. It gets the same
    ///     ``/Protocols/ClientRequest`` as the decision of a listener, whatever the transport is, and may wait, within
    ///     ``/TransportAPI/SessionServer/Configuration/helloTimeout``. By default all clients are accepted. Clients without
    ///     sessions have no hello, so only the listener decides about them.
    ///   - onSession: Called on the loop with each new session. It must not block.
    public convenience init(
        _ configuration: Configuration = Configuration(),
        on loop: EventLoop = .shared,
        decide: (@Sendable (ClientRequest) async -> ClientDecision)? = nil,
        onSession: @escaping @Sendable (Session) -> Void
    ) {
        self.init(configuration, onRuntime: loop, login: decide.map(Self.login), onSession: onSession)
    }

    private static func login(_ decide: @escaping @Sendable (ClientRequest) async -> ClientDecision) -> SessionLogin {
        { token, connection in
            switch await decide(ClientRequest(token: token, identity: connection.identity)) {
            case .accept: .admitted(nil)
            case .acceptAs(let identity): .admitted(identity)
            case .refuse(401, _): .refused(.notAuthenticated)
            case .refuse(let status, _):
                .refused(status == 429 || ClientDecision.refusalStatus(status) >= 500 ? .unavailable : .forbidden)
            }
        }
    }
}
