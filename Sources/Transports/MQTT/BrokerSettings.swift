import Protocols
import SocketIO
import TransportAPI

/// The settings of a broker from the endpoint at which it listens.
package struct BrokerSettings {
    /// Reads the options of an endpoint. The second argument sets everything that no option sets.
    package typealias Read =
        @Sendable (Endpoint, (inout StreamServerSettings<MQTTServerSettings>) -> Void) throws(TransportError) ->
        BrokerSettings

    /// The settings of the protocol, of the connections and of the server.
    package let settings: StreamServerSettings<MQTTServerSettings>
    /// Makes the broker's side of each connection, given the client's address if it is known.
    package let makeCore: @Sendable (AcceptedClient) -> any PackageCore
    private let security: StreamSecurity?

    /// Returns the function that reads the settings of a broker.
    ///
    /// - Parameters:
    ///   - descriptor: The transport.
    ///   - list: The settings of its servers.
    static func reader(
        _ descriptor: TransportDescriptor,
        _ list: SettingList<MQTTServerSettings>,
        isOverWebSocket: Bool,
        _ security: StreamSecurity?
    ) -> Read {
        let all = StreamServerSettings.settings(list, keepalive: descriptor.keepaliveInterval, security)
        let ignored = descriptor.ignoredByServers
        return { (endpoint, change) throws(TransportError) in
            let settings = try all.read(endpoint, ignoring: ignored) { settings in
                settings.own.configuration.routesSignals = true
                change(&settings)
            }
            let outer = isOverWebSocket ? try settings.own.webSocket(endpoint, settings.limits) : nil
            return BrokerSettings(
                settings: settings,
                makeCore: try makeCore(settings.own.configuration, outer),
                security: security
            )
        }
    }

    /// Loads the certificate of the broker; `nil` if its connections are not encrypted.
    package nonisolated(nonsending) func loadTLS(
        on loop: EventLoop
    ) async throws(TransportError) -> LoopBound<ServerTLS>? {
        try await ServerTLS.load(security, settings.tls, on: loop)
    }

    /// Returns the function that makes the core of each connection.
    ///
    /// - Parameter webSocket: The configuration of the WebSocket, if there is one.
    private static func makeCore(
        _ configuration: MQTTServerConfiguration,
        _ webSocket: WebSocketConfiguration?
    ) throws(TransportError) -> @Sendable (AcceptedClient) -> any PackageCore {
        let inner = try MQTTServerCore(configuration)
        guard let webSocket else {
            return { client in
                var core = inner
                core.peer = client.address?.description
                return core
            }
        }
        let outer = try MQTTWebSocketCore(inner, over: webSocket)
        return { client in
            var core = outer
            core.inner.peer = client.address?.description
            core.isPeerLocal = client.isLocal
            return core
        }
    }
}
