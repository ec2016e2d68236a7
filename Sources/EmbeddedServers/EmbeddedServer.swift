import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports

/// A small server inside this process, for tests, demonstrations and measurements. It speaks every registered transport with
/// the same cores as the clients.
public final class EmbeddedServer: Sendable {
    /// What the server does with messages.
    public enum Service: String, Sendable, Hashable, CaseIterable {
        /// Each message goes back to its sender.
        case echo
        /// Each message goes to all clients, its sender included.
        case fanOut = "fan-out"
    }

    /// Where clients reach it, with the port that the system chose.
    public let endpoint: Endpoint
    private let listener: any Listener
    private let broker: LoopBound<Broker>?

    /// Starts a server at `url`; port 0, or none, lets the system choose one.
    ///
    /// A transport that routes by topic (MQTT) gets a broker, whatever the service: what a client publishes comes back to
    /// whoever subscribes to it.
    ///
    /// - Parameters:
    ///   - observer: hears of each client whose connection has ended or that was turned away, and why; called on the loop.
    ///   - decide: decides about the handshakes of a `ws://` server, as of ``TransportRegistry/listen(_:on:observer:decide:)``.
    public nonisolated(nonsending) static func start(
        _ url: String,
        _ service: Service = .echo,
        on loop: EventLoop = .shared,
        registry: TransportRegistry = .standard,
        observer: ServerObserver? = nil,
        decide: (@Sendable (WebSocketRequest) -> WebSocketDecision)? = nil
    ) async throws(TransportError) -> EmbeddedServer {
        let endpoint = try Endpoint(url)
        if decide == nil, let broker = try registry.transport(named: endpoint.scheme).broker {
            return EmbeddedServer(try await Broker.listen(at: endpoint, broker, on: loop, observer: observer))
        }
        var serving = Serving.handle {
            switch service {
            case .echo: Echo()
            case .fanOut: FanOut()
            }
        }
        serving.decide = decide
        serving.observer = observer
        return EmbeddedServer(try await registry.listen(at: endpoint, on: loop, serving))
    }

    /// Starts an MQTT broker at `url`, `mqtt://` or `mqtt+ws://`, with these bounds.
    ///
    /// - Parameters:
    ///   - authenticate: judges who may come in; everybody may by default. Called on the loop for each CONNECT, must neither
    ///     block nor wait.
    ///   - observer: as of ``start(_:_:on:registry:observer:decide:)``.
    /// - Throws: `.unsupported` for another transport; what is wrong with the URL, or what the system refused.
    public nonisolated(nonsending) static func startBroker(
        _ url: String,
        limits: BrokerLimits = BrokerLimits(),
        on loop: EventLoop = .shared,
        authenticate: BrokerAuthentication? = nil,
        observer: ServerObserver? = nil
    ) async throws(TransportError) -> EmbeddedServer {
        let endpoint = try Endpoint(url)
        return EmbeddedServer(
            try await Broker.listen(
                at: endpoint,
                brokerOptions(endpoint),
                on: loop,
                limits: limits,
                authenticate: authenticate,
                observer: observer
            )
        )
    }

    /// Starts a broker that shows `tap` each message that it takes, on the loop.
    package nonisolated(nonsending) static func broker(
        _ endpoint: Endpoint,
        on loop: EventLoop = .shared,
        tap: @escaping @Sendable (Payload) -> Void
    ) async throws(TransportError) -> EmbeddedServer {
        EmbeddedServer(try await Broker.listen(at: endpoint, brokerOptions(endpoint), on: loop, tap: tap))
    }

    private init(_ listener: any Listener) {
        self.listener = listener
        broker = nil
        endpoint = listener.endpoint
    }

    private init(_ started: (listener: any Listener, broker: LoopBound<Broker>)) {
        (listener, broker) = started
        endpoint = started.listener.endpoint
    }

    /// What the broker has to do with at this moment; `nil` if this server is none.
    public nonisolated(nonsending) func brokerStatistics() async -> BrokerStatistics? {
        guard let broker else { return nil }
        return await withTaskExecutorPreference(broker.loop) { broker.value.statistics }
    }

    /// Stops listening and says goodbye to all clients.
    public nonisolated(nonsending) func stop() async {
        await listener.close()
    }

    /// The function that reads the options of a broker at `endpoint`. Throws `.unsupported` for transports without one.
    private static func brokerOptions(_ endpoint: Endpoint) throws(TransportError) -> BrokerOptions.Read {
        let transports = TransportRegistry.standard.transports
        if let read = transports.first(where: { $0.name == endpoint.scheme })?.broker { return read }
        let names = transports.filter { $0.broker != nil }.map(\.name).joined(separator: " and ")
        let sentence = "there is no broker over '\(endpoint.scheme)', but over \(names)"
        throw TransportError(.unsupported, .configure, sentence)
    }
}
