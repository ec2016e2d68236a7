// The configurations of the protocols are part of this module's interface, and so is the event loop.
@_exported import Protocols
import SocketIO
import TransportAPI

@_exported import class SocketIO.EventLoop
@_exported import enum SocketIO.Polling
@_exported import struct SocketIO.SystemError

/// The known transports. A new one is a core in Protocols, a folder with its descriptor, and one line here.
public struct TransportRegistry: Sendable {
    /// The transports, in the order of lists.
    public private(set) var transports: [TransportDescriptor]

    /// All transports of this package.
    public static let standard = TransportRegistry([
        .tcp,
        .webSocket,
        .mqtt,
        .mqttWebSocket,
        .stomp,
        .stompWebSocket,
        .xmpp,
        .http,
        .tls,
        .webSocketTLS,
        .mqttTLS,
        .mqttWebSocketTLS,
        .stompTLS,
        .stompWebSocketTLS,
        .xmppTLS,
        .httpTLS,
        .udp,
        .dtls,
        .memory,
    ])

    /// Other names for transports, with the scheme that this package uses.
    static let otherNames = [
        "websocket": "ws", "ssl": "tls", "tcps": "tls", "tcp+tls": "tls",
        "mqtt+tls": "mqtts",
        "mqtt+ssl": "mqtts", "stomps": "stomp+tls", "stomp+ssl": "stomp+tls", "stomp+https": "stomp+wss",
        "mqtt+https": "mqtt+wss", "xmpp+tls": "xmpps", "jabber": "xmpp", "udps": "dtls", "udp+dtls": "dtls",
    ]

    /// Returns all transports of this package, where the private keys of the option `key` may be encrypted.
    ///
    /// - Parameter keyPassword: Returns the password of the encrypted key in the file of this path, or `nil` if there is
    ///   none. For a key that is a text, it gets the words "a text in PEM format". It is called on a thread of its own,
    ///   and may wait.
    public static func standard(
        keyPassword: @escaping @Sendable (_ file: String) -> String?
    ) -> TransportRegistry {
        encrypted(by: TLSContexts(OpenSSL.shared, password: keyPassword))
    }

    /// Returns all transports of this package, where the encrypted ones use these contexts.
    package static func encrypted(by contexts: TLSContexts) -> TransportRegistry {
        let security = StreamSecurity(contexts: contexts)
        let securityForHTTP = StreamSecurity(contexts: contexts, protocols: StreamSecurity.openSSLForHTTP.protocols)
        var registry = standard
        let encrypted: [TransportDescriptor] = [
            .tcp(security), .webSocket(compressor: ZLib.shared, securityForHTTP), .mqtt(security),
            .mqttWebSocket(securityForHTTP), .stomp(security), .stompWebSocket(securityForHTTP),
            .xmpp(security), .http(securityForHTTP), .udp(security),
        ]
        for transport in encrypted { registry.register(transport) }
        return registry
    }

    /// Creates a registry of exactly these transports.
    public init(_ transports: [TransportDescriptor]) {
        self.transports = transports
    }

    /// Adds a transport, or replaces the transport of the same name.
    public mutating func register(_ transport: TransportDescriptor) {
        transports.removeAll { $0.name == transport.name }
        transports.append(transport)
    }

    /// Returns the transport of this name.
    ///
    /// - Throws: `.invalidConfiguration` with the known names.
    public func transport(named name: String) throws(TransportError) -> TransportDescriptor {
        if let found = transports.first(where: { $0.name == name }) { return found }
        try Self.checkName(name, known: transports.map(\.name))
        let known = SettingFormat.word(of: transports.map(\.name))
        let isMisspelt = spellingSuggestion(for: name, in: known.words) != nil
        let hint = isMisspelt ? "" : " (another transport must be in the registry of this call)"
        throw ConfigurationValue(name, key: "scheme").wrong(known.allowed + hint, words: known.words)
    }

    /// Refuses a name that others use for a transport of this package.
    ///
    /// - Throws: `.invalidConfiguration` with the name here, if it is among `known`.
    static func checkName(_ name: String, known: [String]) throws(TransportError) {
        guard let own = otherNames[name], known.contains(own) else { return }
        throw .configuration("scheme", "is \"\(name)\"; here it is \(own)://")
    }

    /// Returns a transport to `endpoint`.
    ///
    /// - Parameters:
    ///   - endpoint: The endpoint, whose scheme names the transport.
    ///   - loop: The event loop of its connections; the shared loop by default.
    /// - Throws: `.invalidConfiguration` if the scheme is not known or an option is wrong.
    public func transport(
        for endpoint: Endpoint,
        on loop: EventLoop = .shared
    ) throws(TransportError) -> any Transport {
        try transport(for: endpoint, in: ConnectionContext(on: loop))
    }

    /// Returns a transport to `endpoint`, with connections in a context.
    ///
    /// - Throws: `.invalidConfiguration` if the scheme is not known, if an option is wrong, or if credentials would be sent
    ///   without encryption.
    public func transport(
        for endpoint: Endpoint,
        in context: ConnectionContext
    ) throws(TransportError) -> any Transport {
        let transport = try transport(named: endpoint.scheme)
        try transport.checkPath(of: endpoint)
        let made = try transport.make(endpoint, context)
        if context.sendsCredentials {
            try checkHello(endpoint, made.capabilities)
            try checkCredentials(endpoint, transport)
        }
        return made
    }

    /// Refuses a broker, which would never get the token of a login.
    private func checkHello(_ endpoint: Endpoint, _ capabilities: Capabilities) throws(TransportError) {
        var delivery = DeliveryConfiguration()
        delivery.mode = .session
        guard Delivery.style(delivery, capabilities) != .session else { return }
        let sentence = "a broker gets no hello; write user and password into its URL"
        throw .configuration("token", "cannot be sent over \(endpoint.scheme)://: \(sentence)")
    }

    /// Refuses an endpoint over which anybody on the path could read the token of a login.
    private func checkCredentials(_ endpoint: Endpoint, _ transport: TransportDescriptor) throws(TransportError) {
        let authority = HTTPSyntax.authority(host: endpoint.host, port: nil)
        guard !transport.isEncrypted, !transport.isInProcess, Authority(authority)?.isLoopback != true else { return }
        var limits = ConnectionLimits()
        let settings = ConnectionLimits.settings(keepalive: transport.keepaliveInterval)
        try settings.read(ConfigurationValue(endpoint.options), into: &limits, ignoresUnknown: true)
        guard !limits.allowsInsecureCredentials else { return }
        let encrypted = transport.encryptedName.map { "use \($0)://" } ?? "use an encrypted transport"
        let sentence = "\(encrypted), or write insecure-credentials=on if nobody else can read on the path"
        throw .configuration("token", "would be sent to \(endpoint) without encryption; \(sentence)")
    }

    /// Connects to a URL: `tcp://`, `ws://`, `mqtt://`, `mqtt+ws://`, `stomp://`, `stomp+ws://`,
    /// `xmpp://`, `http://`, `udp://`, `memory://`, or encrypted `tls://`, `wss://`, `mqtts://`, `mqtt+wss://`, `stomp+tls://`,
    /// `stomp+wss://`, `xmpps://`, `https://`, `dtls://`.
    ///
    /// - Parameters:
    ///   - url: The URL, with the options of the transport in its query.
    ///   - loop: The event loop of the connection. It is the shared loop by default.
    ///   - timeout: How long the whole attempt may take; 10 s by default.
    /// - Throws: The error of the attempt, or `.invalidConfiguration` if the URL is wrong.
    public nonisolated(nonsending) func connect(
        _ url: String,
        on loop: EventLoop = .shared,
        timeout: Duration = .seconds(10)
    ) async throws(TransportError) -> any Connection {
        try await connect(Endpoint(url), on: loop, timeout: timeout)
    }

    /// Connects to an endpoint, for example one that was read from a configuration.
    ///
    /// - Parameters:
    ///   - endpoint: The endpoint, whose scheme names the transport.
    ///   - loop: The event loop of the connection. It is the shared loop by default.
    ///   - timeout: How long the whole attempt may take; 10 s by default.
    /// - Throws: The error of the attempt, or `.invalidConfiguration` if the endpoint is wrong.
    public nonisolated(nonsending) func connect(
        _ endpoint: Endpoint,
        on loop: EventLoop = .shared,
        timeout: Duration = .seconds(10)
    ) async throws(TransportError) -> any Connection {
        try await transport(for: endpoint, on: loop).connect(timeout: timeout)
    }

    /// Listens at a URL. Without a port, or with port 0, the system chooses one, which is in the listener's endpoint.
    ///
    /// - Parameters:
    ///   - url: The URL, with the options of the server in its query.
    ///   - loop: The event loop of the listener and its connections; the shared loop by default.
    ///   - pages: The documents that a `ws://` or `wss://` server sends to browsers, as answers to plain GET requests of
    ///     their paths. None by default.
    ///   - observer: Receives an event for each client that was rejected or whose connection has ended, with the
    ///     reason. It is called on the loop.
    ///   - decide: Accepts or rejects the clients of a `ws://`, `wss://` or `memory://` server, for example by credentials. It is
    ///     called on the loop and must not block. By default all clients are accepted.
    /// - Throws: `.unsupported` if there is a `decide` and the transport has no
    ///   ``TransportDescriptor/decidesHandshakes``, or if there are pages and it has no
    ///   ``TransportDescriptor/servesPages``.
    public nonisolated(nonsending) func listen(
        _ url: String,
        on loop: EventLoop = .shared,
        pages: [WebPage] = [],
        observer: ServerObserver? = nil,
        decide: (@Sendable (ClientRequest) -> ClientDecision)? = nil
    ) async throws(TransportError) -> any Listener {
        try await listen(at: Endpoint(url), on: loop, Serving(pages: pages, observer: observer, decide: decide))
    }

    /// Listens at an endpoint, and answers clients if `serving` has a handler.
    package nonisolated(nonsending) func listen(
        at endpoint: Endpoint,
        on loop: EventLoop,
        _ serving: Serving
    ) async throws(TransportError) -> any Listener {
        let transport = try transport(named: endpoint.scheme)
        try transport.checkPath(of: endpoint)
        guard serving.decide == nil || transport.decidesHandshakes else {
            let others = transports.filter(\.decidesHandshakes).map { "\($0.name)://" }.joined(separator: ", ")
            let sentence = "\(endpoint.scheme):// has no handshakes to decide about; allowed with 'decide' is \(others)"
            throw TransportError(.unsupported, .configure, sentence)
        }
        guard serving.pages.isEmpty || transport.servesPages else {
            let others = transports.filter(\.servesPages).map { "\($0.name)://" }.joined(separator: ", ")
            let sentence = "\(endpoint.scheme):// serves no pages; allowed with 'pages' is \(others)"
            throw TransportError(.unsupported, .configure, sentence)
        }
        guard let makeHandler = serving.makeHandler, !transport.answersClients else {
            return try await serve(transport, endpoint, loop, serving)
        }
        var accepting = serving
        accepting.makeHandler = nil
        let listener = try await serve(transport, endpoint, loop, accepting)
        return await AnsweringListener.start(listener, makeHandler, on: loop)
    }

    /// Listens. An error of the system names the endpoint.
    private nonisolated(nonsending) func serve(
        _ transport: TransportDescriptor,
        _ endpoint: Endpoint,
        _ loop: EventLoop,
        _ serving: Serving
    ) async throws(TransportError) -> any Listener {
        do throws(TransportError) {
            return try await transport.serve(endpoint, loop, serving)
        } catch {
            guard error.phase == .connect, error.detail != nil else { throw error }
            var named = error
            named.phase = .listen
            named.reason = "cannot listen at \(endpoint): \(error.reason)"
            if error.code == .addressInUse {
                named.reason += ": another process uses the port; choose another one, or port 0"
            }
            throw named
        }
    }
}
