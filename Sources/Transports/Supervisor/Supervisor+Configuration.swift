import OutboxStores
import Protocols
import SocketIO
import TransportAPI

extension Supervisor {
    /// Creates a supervisor from a configuration, without starting it.
    ///
    /// - Parameters:
    ///   - configuration: The configuration, from code or from a file.
    ///   - registry: The known transports.
    ///   - loop: The event loop of the supervisor and its connections. Default: the shared loop.
    ///   - adjust: Sets the properties that no file can contain, such as the source of credentials, the path monitor
    ///     and the observer. A greeting that it sets replaces the texts of the configuration.
    /// - Throws: `.invalidConfiguration` if there is no endpoint, if one or a setting is invalid, if the endpoints of a
    ///   session are servers and brokers, if one of them is a broker at QoS 0, or if a session has a greeting.
    public convenience init(
        _ configuration: TransportConfiguration,
        registry: TransportRegistry = .standard,
        on loop: EventLoop = .shared,
        adjust: (inout Setup) -> Void = { _ in }
    ) throws(TransportError) {
        // A wrong endpoint is reported now, and not at the first attempt.
        _ = try configuration.transports(from: registry, on: loop)
        // The app may adjust the settings after the factory is made.
        let settings = Locked((supervisor: configuration.supervisor, hasToken: configuration.token != nil))
        var setup = Setup(endpoints: configuration.endpoints) { (endpoint) throws(TransportError) in
            let settings = settings.withLock { $0 }
            let context = ConnectionContext(
                on: loop,
                headers: configuration.headers,
                keepalive: settings.supervisor.keepalive,
                continuesSessions: settings.supervisor.delivery.mode == .session,
                sendsCredentials: settings.hasToken
            )
            return try registry.transport(for: endpoint, in: context)
        }
        setup.configuration = configuration.supervisor
        setup.format = configuration.codec.name
        if let token = configuration.token { setup.token = { _ in token } }
        setup.warn = writeToStandardError
        setup.fitting = { configuration.fitting($0, registry) }
        if !configuration.greeting.isEmpty { setup.greeting = Self.greeting(configuration.greeting) }
        adjust(&setup)
        let adjusted = setup.configuration
        let hasToken = setup.token != nil
        settings.withLock { $0 = (adjusted, hasToken) }
        if hasToken {
            // An endpoint over which the token must not be sent is reported now, too.
            for endpoint in configuration.endpoints { _ = try setup.factory(setup.fitting(endpoint).0) }
        }
        if setup.store == nil { setup.store = adjusted.outbox.store.map(Self.store) }
        try self.init(setup, on: loop)
    }

    private static func store(_ location: StoreLocation) -> any OutboxStore {
        switch location.kind {
        case .file: FileOutboxStore(path: location.path, sync: location.sync)
        case .sqlite: SQLiteOutboxStore(path: location.path, sync: location.sync)
        }
    }

    /// Returns a greeting that sends these texts, and waits for no answer.
    private static func greeting(_ texts: [String]) -> ConnectionGreeting {
        { connection, _ in
            for text in texts {
                switch await connection.send(Payload(text: text)) {
                case .acknowledged, .written: continue
                case .rejected(let error), .unknown(let error): throw error
                case .expired: throw TransportError(.timedOut, .handshake, "the greeting was too old to be sent")
                }
            }
        }
    }

    /// Creates a supervisor for one URL, without starting it.
    ///
    /// - Parameters:
    ///   - url: The URL of the endpoint.
    ///   - configuration: The settings of the supervisor.
    ///   - registry: The known transports.
    ///   - loop: The event loop of the supervisor and its connections. Default: the shared loop.
    /// - Throws: `.invalidConfiguration` if the URL, one of its options or a setting is invalid.
    public convenience init(
        _ url: String,
        _ configuration: SupervisorConfiguration = SupervisorConfiguration(),
        registry: TransportRegistry = .standard,
        on loop: EventLoop = .shared
    ) throws(TransportError) {
        try self.init(Endpoint(url), configuration, registry: registry, on: loop)
    }

    /// Creates a supervisor for one endpoint without starting it.
    ///
    /// - Parameters:
    ///   - endpoint: The endpoint to connect to.
    ///   - configuration: The settings; the defaults by default.
    ///   - registry: The known transports; those of this package by default.
    ///   - loop: The event loop of the supervisor and its connections; the shared loop by default.
    /// - Throws: `.invalidConfiguration` if the endpoint or a setting is wrong.
    public convenience init(
        _ endpoint: Endpoint,
        _ configuration: SupervisorConfiguration = SupervisorConfiguration(),
        registry: TransportRegistry = .standard,
        on loop: EventLoop = .shared
    ) throws(TransportError) {
        let whole = TransportConfiguration(endpoints: [endpoint], supervisor: configuration)
        try self.init(whole, registry: registry, on: loop)
    }
}
