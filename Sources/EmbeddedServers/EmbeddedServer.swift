import SocketIO
import TransportAPI
import Transports

/// A small server inside this process, for tests, demonstrations and measurements. It speaks every registered transport with
/// the same cores as the clients.
public final class EmbeddedServer: Sendable {
    /// What the server does with messages.
    public enum Behaviour: String, Sendable, Hashable, CaseIterable {
        /// Each message goes back to its sender.
        case echo
        /// Each message goes to all clients, its sender included.
        case fanOut = "fan-out"
    }

    /// Where clients reach it, with the port that the system chose.
    public let endpoint: Endpoint
    private let listener: any Listener

    /// Starts a server at `url`; port 0, or none, lets the system choose one.
    ///
    /// A transport that routes by topic (MQTT) gets a broker, whatever the behaviour: what a client publishes comes back to
    /// whoever subscribes to it.
    ///
    /// - Parameter observer: hears of each client whose link has ended or that was turned away, and why; called on the loop.
    public nonisolated(nonsending) static func start(
        _ url: String,
        _ behaviour: Behaviour = .echo,
        on loop: EventLoop = .shared,
        registry: TransportRegistry = .standard,
        observer: ServerObserver? = nil
    ) async throws(TransportError) -> EmbeddedServer {
        let endpoint = try Endpoint(url)
        if let start = specialised[endpoint.scheme] { return EmbeddedServer(try await start(endpoint, loop, observer)) }
        var mode = ServerMode.behave {
            switch behaviour {
            case .echo: Echo()
            case .fanOut: FanOut()
            }
        }
        mode.observer = observer
        return EmbeddedServer(try await registry.listen(at: endpoint, on: loop, mode: mode))
    }

    /// Starts a broker with these bounds that lets in whom `authentication` accepts (everybody by default), and shows `tap`
    /// each message that it takes, both on the loop.
    package nonisolated(nonsending) static func broker(
        _ endpoint: Endpoint,
        on loop: EventLoop = .shared,
        limits: BrokerLimits = BrokerLimits(),
        tap: (@Sendable (Payload) -> Void)? = nil,
        authentication: (@Sendable (MQTTConnect) -> MQTTConnackCode)? = nil
    ) async throws(TransportError) -> EmbeddedServer {
        let broker = try await Broker.listen(
            at: endpoint,
            on: loop,
            limits: limits,
            tap: tap,
            authentication: authentication
        )
        return EmbeddedServer(broker)
    }

    private init(_ listener: any Listener) {
        self.listener = listener
        endpoint = listener.endpoint
    }

    /// Stops listening and says goodbye to all clients.
    public nonisolated(nonsending) func stop() async {
        await listener.close()
    }

    private typealias Start =
        @Sendable (Endpoint, EventLoop, ServerObserver?) async throws(TransportError) -> any Listener

    /// Transports whose usual server is more than an echo.
    private static let specialised: [String: Start] = {
        let broker: Start = { (endpoint, loop, observer) async throws(TransportError) in
            try await Broker.listen(at: endpoint, on: loop, observer: observer)
        }
        return [TransportDescriptor.mqtt.name: broker, TransportDescriptor.mqttWebSocket.name: broker]
    }()
}
