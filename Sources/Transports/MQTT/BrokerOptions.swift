import Protocols
import SocketIO
import TransportAPI

/// The settings of a broker from the endpoint at which it listens.
package struct BrokerOptions {
    /// Reads the options of an endpoint. The second argument sets everything that no option sets.
    package typealias Read =
        @Sendable (Endpoint, (inout MQTTServerConfiguration) -> Void) throws(TransportError) -> BrokerOptions

    /// Makes the broker's side of each connection, given the client's address if it is known.
    package var makeCore: @Sendable (AcceptedClient) -> any ProtocolCore
    package var connections: ConnectionLimits
    package var bounds: ServerLimits
    package var routing = BrokerCore.Limits()
    /// The maximum number of levels of a filter, if the endpoint sets one.
    package var filterLevels: Int?
    private let security: StreamSecurity?
    private let reader: OptionReader

    fileprivate init(
        makeCore: @escaping @Sendable (AcceptedClient) -> any ProtocolCore,
        _ security: StreamSecurity?,
        _ reader: OptionReader
    ) throws(TransportError) {
        self.makeCore = makeCore
        self.security = security
        self.reader = reader
        connections = try reader.limits()
        bounds = try reader.serverLimits()
    }

    /// Loads the certificate of the broker; `nil` if its connections are not encrypted.
    package nonisolated(nonsending) func loadTLS(
        on loop: EventLoop
    ) async throws(TransportError) -> LoopBound<ServerTLS>? {
        try await ServerTLS.load(security, reader, on: loop)
    }
}

extension TransportDescriptor {
    /// Reads the options of the endpoint at which a broker listens. `change` sets everything that no option sets.
    static func brokerOptions(
        _ endpoint: Endpoint,
        allowed: [TransportOption],
        isOverWebSocket: Bool,
        _ security: StreamSecurity?,
        _ change: (inout MQTTServerConfiguration) -> Void
    ) throws(TransportError) -> BrokerOptions {
        let reader = try OptionReader(endpoint, allowed: allowed, for: .server)
        var configuration = try serverConfiguration(reader)
        configuration.routesSignals = true
        change(&configuration)
        var options = try BrokerOptions(
            makeCore: brokerCore(configuration, endpoint, isOverWebSocket ? reader : nil),
            security,
            reader
        )
        let most = try reader.integer("max-subscriptions", in: 1...1_000_000)
        options.routing.maximumSubscriptionsPerSession = most ?? options.routing.maximumSubscriptionsPerSession
        options.filterLevels = try reader.integer("max-filter-levels", in: BrokerCore.Limits.filterLevels)
        return options
    }

    /// Returns the function that makes the core of each connection.
    ///
    /// - Parameter options: The options of the WebSocket, if there is one.
    private static func brokerCore(
        _ configuration: MQTTServerConfiguration,
        _ endpoint: Endpoint,
        _ options: OptionReader?
    ) throws(TransportError) -> @Sendable (AcceptedClient) -> any ProtocolCore {
        let inner = try MQTTCore(server: configuration)
        guard let options else {
            return { client in
                var core = inner
                core.peer = client.address?.description
                return core
            }
        }
        let outer = try MQTTWebSocketCore(inner, over: webSocketServer(endpoint, options))
        return { client in
            var core = outer
            core.inner.peer = client.address?.description
            core.isPeerLocal = client.isLocal
            return core
        }
    }
}
