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
    ///     and the observer.
    /// - Throws: `.invalidConfiguration` if there is no endpoint, if one is invalid, or if the endpoints of a session
    ///   are servers and brokers.
    public convenience init(
        _ configuration: TransportConfiguration,
        registry: TransportRegistry = .standard,
        on loop: EventLoop = .shared,
        adjust: (inout Setup) -> Void = { _ in }
    ) throws(TransportError) {
        // A wrong endpoint is reported now, and not at the first attempt.
        _ = try configuration.transports(from: registry, on: loop)
        var setup = Setup(endpoints: configuration.endpoints) { (endpoint) throws(TransportError) in
            try registry.transport(for: configuration.withHeaders(endpoint, registry), on: loop)
        }
        setup.configuration = configuration.supervisor
        setup.format = configuration.codec.name
        adjust(&setup)
        let (factory, keepalive) = (setup.factory, setup.configuration.keepalive)
        setup.factory = { (endpoint) throws(TransportError) in
            let descriptor = registry.transports.first { $0.name == endpoint.scheme }
            return try factory(descriptor?.pace(endpoint, keepalive) ?? endpoint)
        }
        try self.init(setup, on: loop)
    }

    /// Creates a supervisor for one URL, without starting it.
    ///
    /// - Parameters:
    ///   - url: The URL of the endpoint.
    ///   - configuration: The settings of the supervisor.
    ///   - registry: The known transports.
    ///   - loop: The event loop of the supervisor and its connections. Default: the shared loop.
    /// - Throws: `.invalidConfiguration` if the URL or one of its options is invalid.
    public convenience init(
        _ url: String,
        _ configuration: SupervisorConfiguration = SupervisorConfiguration(),
        registry: TransportRegistry = .standard,
        on loop: EventLoop = .shared
    ) throws(TransportError) {
        let whole = TransportConfiguration(endpoints: [try Endpoint(url)], supervisor: configuration)
        try self.init(whole, registry: registry, on: loop)
    }
}
