import Protocols
import SocketIO
import TransportAPI

extension Supervisor {
    /// A supervisor as a configuration describes it, from code or from a file. It has not been started.
    ///
    /// - Parameters:
    ///   - registry: the transports that there are.
    ///   - loop: where the supervisor and its connections live; the shared loop by default.
    ///   - adjust: sets what no file can say: where credentials come from, what watches the network, who is told.
    /// - Throws: `.invalidConfiguration` if there is no endpoint, one is wrong, or a session has servers and brokers
    ///   among them.
    public convenience init(
        _ configuration: TransportConfiguration,
        registry: TransportRegistry = .standard,
        on loop: EventLoop = .shared,
        adjust: (inout Setup) -> Void = { _ in }
    ) throws(TransportError) {
        // What is wrong with an endpoint shows now, and not at the first attempt.
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

    /// A supervisor for one URL, with the defaults. It has not been started.
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
    /// - Throws: `.invalidConfiguration` if the endpoint is wrong.
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
