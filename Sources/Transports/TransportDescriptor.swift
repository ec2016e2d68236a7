import Protocols
import SocketIO
import TransportAPI

/// A transport: how to create it from an endpoint, and how to serve it.
///
/// An app adds a transport by registering a descriptor with a ``TransportRegistry``. Supervisor, configuration and
/// servers then accept its URLs. ``stream(_:defaultPort:keepaliveInterval:settings:core:)`` makes the descriptor of a
/// protocol over TCP from a ``/Protocols/ProtocolCore``. The library TransportContract tests what a transport promises.
public struct TransportDescriptor: Sendable {
    /// Creates a transport to an endpoint, with connections in a context. Throws `.invalidConfiguration` that names the
    /// key.
    public typealias Make = @Sendable (Endpoint, ConnectionContext) throws(TransportError) -> any Transport
    /// Listens at an endpoint. If its port is 0 or missing, the system chooses one, which is in the listener's
    /// endpoint.
    public typealias Serve = @Sendable (Endpoint, EventLoop, Serving) async throws(TransportError) -> any Listener

    /// Its name, which is the scheme of its URLs.
    public var name: String
    /// The port of a URL without a port; `nil` if the transport needs no port.
    public var defaultPort: UInt16?
    /// Whether it uses UDP, where datagrams may be lost or reordered, and not a stream.
    public var isDatagram = false
    /// The silence after which a supervisor sends a keepalive, unless the URL (`keepalive-interval`) or the
    /// supervisor's configuration sets another one. The default is 60 s. Connections report it in
    /// ``/TransportAPI/Capabilities/keepaliveInterval``.
    public var keepaliveInterval: Duration = .seconds(60)
    /// Whether a URL of it can have a path. The registry refuses a path that would have no effect. Default `true`.
    public var hasPath = true
    /// Whether its connections are encrypted.
    package var isEncrypted = false
    /// Whether its connections do not leave the process.
    package var isInProcess = false
    /// The name of the same transport over TLS; `nil` if there is none.
    package var encryptedName: String?
    /// Whether it is one transport over another. Comparisons leave it out unless it is requested.
    package var isComposed = false
    /// Whether comparisons and advice leave it out unless it is requested, because an existing server is the reason to
    /// use it.
    package var isOnRequest = false
    /// The options of a client's URL. A server ignores those that only clients have, so that one URL can serve both.
    public var clientSettings: [SettingRow]
    /// The options of a server's URL. A client ignores those that only servers have.
    public var serverSettings: [SettingRow]
    /// Creates a transport to an endpoint, with connections in a context. Throws `.invalidConfiguration` that names the
    /// key.
    public var make: Make
    /// Listens at an endpoint.
    public var serve: Serve
    /// Whether ``serve`` calls ``Serving/decide`` for each handshake. Default `false`.
    public var decidesHandshakes = false
    /// Whether ``serve`` answers plain HTTP requests with ``Serving/pages``. Default `false`.
    public var servesPages = false
    /// Whether ``serve`` answers clients with the handler in ``Serving``. Otherwise the registry accepts connections
    /// and runs the handler over them.
    package var answersClients = false
    /// Options with which a server that routes messages returns a client's own: topics for MQTT, none for most. The
    /// argument identifies the client.
    public var loopback: @Sendable (String) -> [Endpoint.Option] = { _ in [] }
    /// The broker that is the transport's usual server, with how its settings are read; `nil` if that is no broker.
    package var broker: BrokerRecipe?
    /// Makes the two cores of a connection to an endpoint, to join them in memory; `nil` if that is not possible.
    package var cores: CorePairing.Make?
    /// Splits the framing before the payload of a message into fields; `nil` if it cannot.
    package var annotate: (@Sendable (inout WireFieldReader) -> Void)?

    /// Creates a transport from its parts.
    ///
    /// - Parameters:
    ///   - name: The scheme of its URLs: lower-case letters, digits, `+`, `-` and `.`, beginning with a letter.
    ///   - defaultPort: The port of a URL without a port. `nil`, the default, if the transport has no ports.
    ///   - isDatagram: Whether messages may be lost or reordered. Default `false`.
    ///   - keepaliveInterval: The silence after which a supervisor sends a keepalive. Default 60 s.
    ///   - clientSettings: The options of a client's URL: the rows of the ``SettingList`` with which `make` reads it. None
    ///     by default.
    ///   - serverSettings: The options of a server's URL: the rows of the list with which `serve` reads it. None by default.
    ///   - make: Creates the transport to an endpoint. ``SettingList/read(_:ignoring:)`` reads the options.
    ///   - serve: Listens at an endpoint. By default it throws `.unsupported`, for a transport without a server.
    ///   - loopback: Options with which a server that routes messages by topic returns a client's own. None by default.
    public init(
        name: String,
        defaultPort: UInt16? = nil,
        isDatagram: Bool = false,
        keepaliveInterval: Duration = .seconds(60),
        clientSettings: [SettingRow] = [],
        serverSettings: [SettingRow] = [],
        make: @escaping Make,
        serve: Serve? = nil,
        loopback: @escaping @Sendable (String) -> [Endpoint.Option] = { _ in [] }
    ) {
        self.name = name
        self.defaultPort = defaultPort
        self.isDatagram = isDatagram
        self.keepaliveInterval = keepaliveInterval
        self.clientSettings = clientSettings
        self.serverSettings = serverSettings
        self.make = make
        self.serve = serve ?? Self.withoutServer
        self.loopback = loopback
    }

    /// Returns whether the URL of a client or a server can have this option.
    package func hasSetting(_ name: String) -> Bool {
        clientSettings.contains { $0.name == name } || serverSettings.contains { $0.name == name }
    }

    func checkPath(of endpoint: Endpoint) throws(TransportError) {
        guard !hasPath, !["", "/"].contains(endpoint.path) else { return }
        let advice =
            hasSetting("publish") ? "; to publish to a topic, write publish=TOPIC after a '?'" : ""
        throw .configuration("path", "has no meaning for \(endpoint.scheme)://\(advice)")
    }

    private static let withoutServer: Serve = {
        (endpoint: Endpoint, loop: EventLoop, serving: Serving) async throws(TransportError) -> any Listener in
        throw TransportError(.unsupported, .configure, "\(endpoint.scheme):// has no server")
    }
}
