import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports

/// A small server inside this process, for tests, demonstrations and measurements. It supports every registered
/// transport, with the same cores as the clients.
public final class EmbeddedServer: Sendable {
    /// The behaviour of the server.
    public enum Service: String, Sendable, Hashable, CaseIterable {
        /// Each message is sent back to its sender.
        case echo
        /// Each message is sent to all clients, including its sender.
        case fanOut = "fan-out"
    }

    /// The endpoint for clients. It has the port that the system chose.
    public let endpoint: Endpoint
    private let listener: any Listener
    /// Returns the statistics of the broker on its loop; `nil` if this server is not a broker.
    private let statistics: (nonisolated(nonsending) @Sendable () async -> BrokerStatistics)?

    /// Starts a server.
    ///
    /// For a transport that routes by topic (MQTT, STOMP), this is a broker, whatever the service. A published message is sent
    /// to all clients that subscribe to its topic.
    ///
    /// - Parameters:
    ///   - url: where to listen. With port 0 or without a port, the system chooses one.
    ///   - service: the behaviour of the server; ``Service/echo`` by default.
    ///   - loop: the loop of the server; the shared one by default.
    ///   - registry: the transports for `url`; the standard ones by default.
    ///   - observer: is notified of each client that was rejected or whose connection has ended, and why. It is
    ///     called on the loop.
    ///   - decide: accepts or refuses the handshakes of a `ws://` server. All are accepted by default. It is called
    ///     on the loop and must neither block nor wait.
    /// - Throws: `.invalidConfiguration` for a wrong URL, `.unsupported` if `decide` is given for another transport,
    ///   or the error of the system.
    public nonisolated(nonsending) static func start(
        _ url: String,
        _ service: Service = .echo,
        on loop: EventLoop = .shared,
        registry: TransportRegistry = .standard,
        observer: ServerObserver? = nil,
        decide: (@Sendable (ClientRequest) -> ClientDecision)? = nil
    ) async throws(TransportError) -> EmbeddedServer {
        let endpoint = try Endpoint(url)
        if decide == nil, let broker = try registry.transport(named: endpoint.scheme).broker {
            return try await broker.start(at: endpoint, on: loop, observer: observer)
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

    /// Starts a broker of MQTT or STOMP.
    ///
    /// - Parameters:
    ///   - url: where to listen, with a scheme such as `mqtt`, `mqtts` or `stomp`. With port 0 or without a port, the
    ///     system chooses one.
    ///   - limits: the limits of the broker.
    ///   - loop: the loop of the broker; the shared one by default.
    ///   - registry: the transports for `url`; the standard ones by default.
    ///   - authenticate: decides about each client. All are accepted by default. It is called on the loop for each
    ///     CONNECT and must neither block nor wait.
    ///   - observer: is notified of each client that was rejected or whose connection has ended, and why. It is
    ///     called on the loop.
    /// - Throws: `.unsupported` for another transport, `.invalidConfiguration` for a wrong URL or wrong limits, or
    ///   the error of the system.
    public nonisolated(nonsending) static func startBroker(
        _ url: String,
        limits: BrokerLimits = BrokerLimits(),
        on loop: EventLoop = .shared,
        registry: TransportRegistry = .standard,
        authenticate: BrokerAuthentication? = nil,
        observer: ServerObserver? = nil
    ) async throws(TransportError) -> EmbeddedServer {
        let endpoint = try Endpoint(url)
        return try await recipe(endpoint, registry).start(
            at: endpoint,
            on: loop,
            limits: limits,
            authenticate: authenticate,
            observer: observer
        )
    }

    /// Starts a broker that calls `tap` on the loop with each received message.
    package nonisolated(nonsending) static func broker(
        _ endpoint: Endpoint,
        on loop: EventLoop = .shared,
        registry: TransportRegistry = .standard,
        tap: @escaping @Sendable (Payload) -> Void
    ) async throws(TransportError) -> EmbeddedServer {
        try await recipe(endpoint, registry).start(at: endpoint, on: loop, tap: tap)
    }

    private init(_ listener: any Listener) {
        self.listener = listener
        statistics = nil
        endpoint = listener.endpoint
    }

    /// Creates the server of a broker that has started.
    fileprivate init(
        _ listener: any Listener,
        statistics: nonisolated(nonsending) @escaping @Sendable () async -> BrokerStatistics
    ) {
        (self.listener, self.statistics) = (listener, statistics)
        endpoint = listener.endpoint
    }

    /// Returns the current statistics of the broker, or `nil` if this server is not a broker.
    public nonisolated(nonsending) func brokerStatistics() async -> BrokerStatistics? {
        await statistics?()
    }

    /// Stops listening and closes all connections.
    public nonisolated(nonsending) func stop() async {
        await listener.close()
    }

    /// The broker of the transport of `endpoint`. Throws `.unsupported` for transports without one.
    private static func recipe(
        _ endpoint: Endpoint,
        _ registry: TransportRegistry
    ) throws(TransportError) -> BrokerRecipe {
        let transports = registry.transports
        if let recipe = transports.first(where: { $0.name == endpoint.scheme })?.broker { return recipe }
        let names = transports.filter { $0.broker != nil }.map(\.name).joined(separator: " and ")
        let sentence = "a broker supports \(names), not '\(endpoint.scheme)'"
        throw TransportError(.unsupported, .configure, sentence)
    }
}

extension BrokerRecipe {
    /// Starts the broker at an endpoint.
    fileprivate nonisolated(nonsending) func start(
        at endpoint: Endpoint,
        on loop: EventLoop,
        limits: BrokerLimits = BrokerLimits(),
        tap: (@Sendable (Payload) -> Void)? = nil,
        authenticate: BrokerAuthentication? = nil,
        observer: ServerObserver? = nil
    ) async throws(TransportError) -> EmbeddedServer {
        switch self {
        case .mqtt(let read):
            let (listener, broker) = try await Broker.listen(
                at: endpoint,
                read,
                on: loop,
                limits: limits,
                tap: tap,
                authenticate: authenticate,
                observer: observer
            )
            return EmbeddedServer(listener) {
                await withTaskExecutorPreference(broker.loop) { broker.value.statistics }
            }
        case .stomp(let read):
            let (listener, broker) = try await STOMPBroker.listen(
                at: endpoint,
                read,
                on: loop,
                limits: limits,
                tap: tap,
                authenticate: authenticate,
                observer: observer
            )
            return EmbeddedServer(listener) {
                await withTaskExecutorPreference(broker.loop) { broker.value.statistics }
            }
        }
    }
}
