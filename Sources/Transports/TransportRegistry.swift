import SocketIO
import TransportAPI

/// Everything that the package knows about one transport: how to make it from an endpoint, and how to serve it.
public struct TransportDescriptor: Sendable {
    /// Its name, which is the scheme of its URLs.
    public var name: String
    /// The port of a URL that names none; `nil` if the transport needs no port.
    public var defaultPort: UInt16?
    /// Whether it is carried by UDP, where datagrams get lost and change places, and not by a stream.
    public var isDatagram = false
    /// How long its links may be silent before a supervisor asks for a sign of life, unless the URL (`keepalive-interval`) or
    /// the supervisor's configuration says otherwise. Default 60 s. Its links say it in
    /// ``Capabilities/keepaliveInterval``.
    public internal(set) var keepaliveInterval: Duration = .seconds(60)
    /// Whether it is one of the others carried over another of them: left out where transports are compared, unless it is
    /// asked for.
    package var isComposed = false
    /// The options that its URLs take, besides the common ones.
    public var options: [TransportOption]
    /// Makes the recipe for links to an endpoint, on a loop; throws `.invalidConfiguration` that names the key.
    public var make: @Sendable (Endpoint, EventLoop) throws(TransportError) -> any Transport
    /// Listens at an endpoint.
    package var listen: @Sendable (Endpoint, EventLoop, ServerMode) async throws(TransportError) -> any Listener
    /// Options that make what a client sends come back to it through a server that routes: nothing for most, topics for
    /// MQTT. The argument tells clients apart.
    package var loopback: @Sendable (String) -> [Endpoint.Option] = { _ in [] }
    /// The endpoint for links that a supervisor keeps alive in this way: the same for most. MQTT has a rhythm of its own, which is set
    /// to the supervisor's.
    package var pace: @Sendable (Endpoint, KeepaliveConfiguration) -> Endpoint = { endpoint, _ in endpoint }
}

/// The transports that there are. Another one is a folder with its core and descriptor, and one line here.
public struct TransportRegistry: Sendable {
    /// The transports, in the order in which they are listed.
    public private(set) var transports: [TransportDescriptor]

    /// All transports of this package.
    public static let standard = TransportRegistry([
        .tcp,
        .webSocket,
        .mqtt,
        .mqttWebSocket,
        .udp,
        .memory,
    ])

    /// A registry of exactly these transports.
    public init(_ transports: [TransportDescriptor]) {
        self.transports = transports
    }

    /// Adds a transport, in place of one of the same name.
    public mutating func register(_ transport: TransportDescriptor) {
        transports.removeAll { $0.name == transport.name }
        transports.append(transport)
    }

    /// The transport of this name.
    ///
    /// - Throws: `.invalidConfiguration` with the known names.
    public func transport(named name: String) throws(TransportError) -> TransportDescriptor {
        if let found = transports.first(where: { $0.name == name }) { return found }
        let known = SettingFormat.word(of: transports.map(\.name))
        throw ConfigurationValue(name, key: "scheme").wrong(known.allowed, words: known.words)
    }

    /// The recipe for links to `endpoint`.
    ///
    /// - Parameter loop: where its links live; the shared loop by default.
    public func transport(
        for endpoint: Endpoint,
        on loop: EventLoop = .shared
    ) throws(TransportError) -> any Transport {
        try transport(named: endpoint.scheme).make(endpoint, loop)
    }

    /// Connects to a URL: `tcp://`, `ws://`, `mqtt://`, `mqtt+ws://`, `udp://`, `memory://`.
    ///
    /// - Parameters:
    ///   - loop: where the link lives; the shared loop by default.
    ///   - timeout: how long the whole attempt may take; 10 s by default.
    public nonisolated(nonsending) func connect(
        _ url: String,
        on loop: EventLoop = .shared,
        timeout: Duration = .seconds(10)
    ) async throws(TransportError) -> any Link {
        try await transport(for: Endpoint(url), on: loop).connect(timeout: timeout)
    }

    /// Listens at a URL; port 0, or none, lets the system choose one, which the listener's endpoint tells.
    ///
    /// - Parameters:
    ///   - observer: hears of each client whose link has ended or that was turned away, and why; called on the loop.
    ///   - decide: decides about the handshakes of a `ws://` server, by credentials for example; all are accepted by default.
    ///     `.unsupported` is thrown for another transport. Called on the loop, must neither block nor wait.
    public nonisolated(nonsending) func listen(
        _ url: String,
        on loop: EventLoop = .shared,
        observer: ServerObserver? = nil,
        decide: WebSocketConfiguration.Decide? = nil
    ) async throws(TransportError) -> any Listener {
        var mode = ServerMode.accept
        mode.decide = decide
        mode.observer = observer
        return try await listen(at: Endpoint(url), on: loop, mode: mode)
    }

    /// Listens at an endpoint, in any mode.
    package nonisolated(nonsending) func listen(
        at endpoint: Endpoint,
        on loop: EventLoop,
        mode: ServerMode
    ) async throws(TransportError) -> any Listener {
        guard mode.decide == nil || endpoint.scheme == TransportDescriptor.webSocket.name else {
            throw TransportError(.unsupported, .configure, "only ws:// has handshakes to decide about")
        }
        return try await transport(named: endpoint.scheme).listen(endpoint, loop, mode)
    }
}
