import Protocols
import SocketIO
import TransportAPI

/// The kinds of brokers that a transport can have as its usual server, each with how its settings are read.
package enum BrokerRecipe: Sendable {
    case mqtt(BrokerSettings<MQTTServerSettings>.Read)
    case stomp(BrokerSettings<STOMPServerSettings>.Read)
}

/// The settings of a broker from the endpoint at which it listens.
package struct BrokerSettings<Own: Sendable> {
    /// Reads the options of an endpoint. The second argument sets everything that no option sets.
    package typealias Read =
        @Sendable (Endpoint, (inout StreamServerSettings<Own>) -> Void) throws(TransportError) -> BrokerSettings
    /// Returns what makes the broker's side of each connection.
    typealias MakeCore =
        @Sendable (Endpoint, StreamServerSettings<Own>) throws(TransportError) ->
        @Sendable (AcceptedClient) -> any PackageCore

    /// The settings of the protocol, of the connections and of the server.
    package let settings: StreamServerSettings<Own>
    /// Makes the broker's side of each connection, given the client's address if it is known.
    package let makeCore: @Sendable (AcceptedClient) -> any PackageCore
    private let security: StreamSecurity?

    /// Returns the function that reads the settings of a broker.
    ///
    /// - Parameters:
    ///   - descriptor: The transport.
    ///   - list: The settings of its servers.
    ///   - prepare: Sets that the core reports everything to a broker.
    static func reader(
        _ descriptor: TransportDescriptor,
        _ list: SettingList<Own>,
        _ security: StreamSecurity?,
        prepare: @escaping @Sendable (inout Own) -> Void,
        makeCore: @escaping MakeCore
    ) -> Read {
        let all = StreamServerSettings.settings(list, keepalive: descriptor.keepaliveInterval, security)
        let ignored = descriptor.ignoredByServers
        return { (endpoint, change) throws(TransportError) in
            let settings = try all.read(endpoint, ignoring: ignored) { settings in
                prepare(&settings.own)
                change(&settings)
            }
            return BrokerSettings(settings: settings, makeCore: try makeCore(endpoint, settings), security: security)
        }
    }

    /// Loads the certificate of the broker; `nil` if its connections are not encrypted.
    package nonisolated(nonsending) func loadTLS(
        on loop: EventLoop
    ) async throws(TransportError) -> LoopBound<ServerTLS>? {
        try await ServerTLS.load(security, settings.tls, on: loop)
    }
}

extension TransportDescriptor {
    /// Sets the properties that all transports to a broker have in common.
    ///
    /// - Parameter prefix: The beginning of a topic at which the broker returns the client's own messages.
    mutating func routeByTopic(_ prefix: String = "loopback/") {
        // A broker sends a client its own messages if the client subscribes to their topic.
        loopback = { unique in
            let topic = prefix + unique
            return [.init(name: "publish", value: topic), .init(name: "subscribe", value: topic)]
        }
    }
}
