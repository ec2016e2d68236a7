import Protocols
import SocketIO
import TransportAPI

/// The settings of a client over a byte stream: those of its protocol, and those that all have.
struct StreamClientSettings<Own: Sendable>: Sendable {
    /// The settings of the protocol.
    var own: Own
    var limits = ConnectionLimits()
    var proxy = ProxySettings()
    /// Used by encrypted transports only.
    var tls = TLSClientSettings(tls: TLSSettings(.client))

    /// Returns all settings of a client.
    static func settings(
        _ own: SettingList<Own>,
        keepalive: Duration,
        _ security: StreamSecurity?
    ) -> SettingList<Self> {
        var list = SettingList(Self(own: own.initial))
        list.append(own, at: \.own)
        list.append(ConnectionLimits.settings(keepalive: keepalive), at: \.limits)
        list.append(ProxySettings.settings, at: \.proxy)
        if let security { list.append(TLSClientSettings.settings(security), at: \.tls) }
        return list
    }
}

extension StreamClientSettings {
    /// Returns the way to the server of an endpoint.
    ///
    /// - Parameters:
    ///   - variant: The scheme of the endpoint.
    ///   - hasTLS: Whether the settings of TLS were read. If not, those by default apply.
    ///   - environment: The variables that `proxy=environment` reads.
    func dialer(
        to endpoint: Endpoint,
        _ variant: StreamVariant,
        hasTLS: Bool,
        _ environment: ProxyEnvironment,
        on loop: EventLoop
    ) throws(TransportError) -> StreamDialer {
        // An endpoint that was not read from a URL can contain any bytes, and the resolver would stop at a NUL.
        guard endpoint.host.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7f }) else {
            throw .configuration("host", "contains a space or a control character")
        }
        let port = endpoint.port ?? variant.defaultPort
        return StreamDialer(
            host: endpoint.host,
            port: port,
            loop: loop,
            proxy: try .to(endpoint.host, port: port, proxy, security: variant.security, environment),
            tls: try variant.security.map { (security) throws(TransportError) in
                let tls = hasTLS ? tls : TLSClientSettings.settings(security).initial
                return try ClientTLS(security, tls, host: endpoint.host, port: port)
            }
        )
    }
}

/// The settings of a server over byte streams: those of its protocol, and those that all have.
package struct StreamServerSettings<Own: Sendable>: Sendable {
    /// The settings of the protocol.
    package var own: Own
    package var limits = ConnectionLimits()
    package var bounds = ServerLimits()
    /// Used by encrypted transports only.
    var tls = TLSSettings(.server)

    /// Returns all settings of a server.
    static func settings(
        _ own: SettingList<Own>,
        keepalive: Duration,
        _ security: StreamSecurity?
    ) -> SettingList<Self> {
        var list = SettingList(Self(own: own.initial))
        list.append(own, at: \.own)
        list.append(ConnectionLimits.settings(keepalive: keepalive), at: \.limits)
        list.append(ServerLimits.settings, at: \.bounds)
        guard let security else { return list }
        list.append(TLSSettings.serverSettings(security), at: \.tls)
        return list.adding([.secureTimeout(\.limits.secureTimeout)])
    }
}

extension Setting {
    /// The setting `tls-timeout` of a server.
    static func secureTimeout(_ property: WritableKeyPath<Target, Duration> & Sendable) -> Setting {
        Setting("tls-timeout", .duration(), property, "how long the TLS handshake may take at a server")
    }
}

extension TransportDescriptor {
    /// The options of a client's URL that a server ignores.
    var ignoredByServers: [SettingRow] { clientSettings.ignoredByServers }
}

extension [SettingRow] {
    /// The rows without those of proxies. A server makes no connections, so a proxy in its URL is a mistake.
    var ignoredByServers: [SettingRow] {
        let proxy = ProxySettings.settings.rows
        return filter { !proxy.contains($0) }
    }
}

extension TransportDescriptor {
    /// The descriptor of a transport that is a protocol core over TCP.
    ///
    /// - Parameters:
    ///   - keepalive: Its ``keepaliveInterval``.
    ///   - security: How its connections are encrypted; `nil` for a plain transport.
    ///   - encrypted: The encrypted transports to which a server may redirect, by their schemes. None by default.
    ///   - clientSettings: The settings that only clients of this transport have.
    ///   - serverSettings: The settings that only servers of this transport have.
    ///   - client: Takes the settings of an endpoint and returns a function that makes a client's core for each attempt.
    ///   - server: Does the same for the core of each accepted connection, given the client.
    ///   - prepare: Sets what a context says before the options of a client's URL are read. By default, it sets nothing.
    ///   - keepsCookies: Whether a client keeps the cookies of its servers. By default, it does not.
    ///   - redirect: Returns where to try next when the server redirects, and changes the settings for it. By default,
    ///     redirects are not followed.
    ///   - accept: Makes what accepts the clients of a server. By default, each connection is a client.
    static func stream<Client, Server>(
        _ name: String,
        defaultPort: UInt16,
        keepalive: Duration,
        security: StreamSecurity? = nil,
        encrypted: [String: StreamVariant] = [:],
        clientSettings: SettingList<Client>,
        serverSettings: SettingList<Server>,
        client:
            @escaping @Sendable (Endpoint, StreamClientSettings<Client>) throws(TransportError) ->
            @Sendable () -> any PackageCore,
        server:
            @escaping @Sendable (Endpoint, StreamServerSettings<Server>, Serving) throws(TransportError) ->
            @Sendable (AcceptedClient) -> any PackageCore,
        prepare: @escaping @Sendable (inout Client, ConnectionContext) -> Void = { _, _ in },
        keepsCookies: @escaping @Sendable (Client) -> Bool = { _ in false },
        redirect: @escaping StreamRecipes<Client>.Redirect = StreamRecipes<Client>.nowhere,
        accept: @escaping StreamOpening<Server>.Accept = StreamOpening<Server>.connections
    ) -> TransportDescriptor {
        let listening = StreamServerSettings.settings(serverSettings, keepalive: keepalive, security)
        let recipes = StreamRecipes(
            usual: .init(defaultPort: defaultPort, security: security),
            encrypted: encrypted,
            settings: StreamClientSettings.settings(clientSettings, keepalive: keepalive, security),
            serverSettings: listening.rows,
            client: client,
            prepare: prepare,
            keepsCookies: keepsCookies,
            redirect: redirect
        )
        let ignored = recipes.settings.rows.ignoredByServers
        var descriptor = TransportDescriptor(
            name: name,
            defaultPort: defaultPort,
            keepaliveInterval: keepalive,
            clientSettings: recipes.settings.rows,
            serverSettings: listening.rows,
            make: { (endpoint, context) throws(TransportError) in try recipes.make(endpoint, context) },
            serve: { (endpoint, loop, serving) async throws(TransportError) in
                let settings = try listening.read(endpoint, ignoring: ignored)
                let makeCore = try server(endpoint, settings, serving)
                let tls = try await ServerTLS.load(security, settings.tls, on: loop)
                let accept = try accept(endpoint, settings, serving, makeCore)
                return try await CoreListener.listen(at: endpoint, on: loop, serving: serving) {
                    (address, queue) throws(SystemError) in
                    try accept(StreamOpening(address: address, queue: queue, loop: loop, tls: tls?.value))
                }
            }
        )
        descriptor.answersClients = true
        descriptor.isEncrypted = security != nil
        descriptor.cores = { (endpoint) throws(TransportError) in
            let makeClient = try client(endpoint, recipes.settings.read(endpoint, ignoring: listening.rows))
            var served = endpoint
            (served.path, served.options) = ("", [])
            let makeServer = try server(served, listening.initial, Serving())
            return { CorePairing(client: makeClient(), server: makeServer(AcceptedClient())) }
        }
        return descriptor
    }

    /// The descriptor of a transport whose protocol is a core over TCP. Clients and servers get the driver of this
    /// package's own transports: its limits, its keepalive, proxies for clients, and the options for all of these.
    ///
    /// - Parameters:
    ///   - name: The scheme of its URLs.
    ///   - defaultPort: The port of a URL without a port.
    ///   - keepaliveInterval: The silence after which a supervisor sends a keepalive. Default 60 s.
    ///   - settings: The options of its URLs that only this transport has, for both sides.
    ///   - core: Makes the core of one side from an endpoint and its settings. It is called once for a transport or a
    ///     listener, and each connection starts with a copy. Therefore the core must be a value and not a class. Throws
    ///     `.invalidConfiguration` that names the setting.
    public static func stream<Settings>(
        _ name: String,
        defaultPort: UInt16,
        keepaliveInterval: Duration = .seconds(60),
        settings: SettingList<Settings>,
        core: @escaping @Sendable (CoreRole, Endpoint, Settings) throws(TransportError) -> any ProtocolCore
    ) -> TransportDescriptor {
        stream(
            name,
            defaultPort: defaultPort,
            keepalive: keepaliveInterval,
            clientSettings: settings,
            serverSettings: settings,
            client: { (endpoint, settings) throws(TransportError) in
                let core = try core(.client, endpoint, settings.own).packaged
                return { core }
            },
            server: { (endpoint, settings, _) throws(TransportError) in
                let core = try core(.server, endpoint, settings.own).packaged
                return { _ in core }
            }
        )
    }
}

/// What the acceptor of a server over byte streams needs. Lives on its loop.
struct StreamOpening<Own: Sendable> {
    /// Makes the acceptor of a server, given how it opens.
    typealias Make = @Sendable (Self) throws(SystemError) -> any Acceptor
    /// Takes the endpoint of a server, its settings, and what makes the core of a connection. Returns what makes its acceptor.
    typealias Accept =
        @Sendable (
            Endpoint, StreamServerSettings<Own>, Serving, @escaping @Sendable (AcceptedClient) -> any PackageCore
        ) throws(TransportError) -> Make

    let address: SocketAddress
    let queue: AcceptQueue
    let loop: EventLoop
    /// The encryption; `nil` for a plain transport.
    let tls: ServerTLS?

    /// Accepts each connection as a client.
    static var connections: Accept {
        { (_, settings, serving, makeCore) in
            { (opening) throws(SystemError) in
                try StreamAcceptor(
                    opening.address,
                    opening.queue,
                    on: opening.loop,
                    limits: settings.limits,
                    bounds: settings.bounds,
                    tls: opening.tls,
                    handler: serving.handler(opening.queue),
                    makeCore: makeCore
                )
            }
        }
    }
}

/// The differences between the schemes of one protocol.
struct StreamVariant: Sendable {
    /// The port of a URL without a port.
    var defaultPort: UInt16
    /// How its connections are encrypted; `nil` for a plain scheme.
    var security: StreamSecurity?
}

/// Makes the recipes of one transport's connections.
struct StreamRecipes<Own: Sendable>: Sendable {
    /// Returns where a server redirects to, and changes the settings for it.
    typealias Redirect = @Sendable (Redirection, Endpoint, inout Own) throws(TransportError) -> RedirectTarget

    /// Follows no redirect.
    static var nowhere: Redirect {
        { (redirection, _, _) throws(TransportError) in throw .httpStatus(redirection.status) }
    }

    let usual: StreamVariant
    /// The schemes to which a redirect can lead.
    let encrypted: [String: StreamVariant]
    /// The settings of a client.
    let settings: SettingList<StreamClientSettings<Own>>
    /// Those of a server, which a client ignores.
    let serverSettings: [SettingRow]
    let client:
        @Sendable (Endpoint, StreamClientSettings<Own>) throws(TransportError) -> @Sendable () -> any PackageCore
    let prepare: @Sendable (inout Own, ConnectionContext) -> Void
    let keepsCookies: @Sendable (Own) -> Bool
    let redirect: Redirect
    /// The variables that `proxy=environment` reads.
    var environment = ProxyEnvironment.process

    /// Returns the transport to an endpoint. All strings of its URL are read here, once: a redirect changes the settings.
    func make(_ endpoint: Endpoint, _ context: ConnectionContext) throws(TransportError) -> StreamTransport {
        let settings = try settings.read(endpoint, ignoring: serverSettings) { prepare(&$0.own, context) }
        let cookies = keepsCookies(settings.own) ? CookieStore() : nil
        return try transport(to: endpoint, settings, cookies, on: context.loop)
    }

    private func transport(
        to endpoint: Endpoint,
        _ settings: StreamClientSettings<Own>,
        _ cookies: CookieStore?,
        on loop: EventLoop
    ) throws(TransportError) -> StreamTransport {
        let variant = encrypted[endpoint.scheme] ?? usual
        return StreamTransport(
            endpoint,
            // The URL of a plain transport has no settings of TLS.
            try settings.dialer(to: endpoint, variant, hasTLS: usual.security != nil, environment, on: loop),
            limits: settings.limits,
            cookies: cookies,
            makeCore: try client(endpoint, settings),
            follow: { (redirection) throws(TransportError) in
                try follow(redirection, from: endpoint, settings, cookies, on: loop)
            }
        )
    }

    private func follow(
        _ redirection: Redirection,
        from endpoint: Endpoint,
        _ settings: StreamClientSettings<Own>,
        _ cookies: CookieStore?,
        on loop: EventLoop
    ) throws(TransportError) -> StreamTransport {
        var settings = settings
        let target = try redirect(redirection, endpoint, &settings.own)
        if !target.isSameOrigin { settings.tls = settings.tls.forOtherServer }
        do throws(TransportError) {
            return try transport(to: target.endpoint, settings, cookies, on: loop)
        } catch {
            // The peer chose this endpoint.
            let reason = "the server redirects to an address that can't be used: \(error.reason)"
            throw TransportError(.handshakeFailed, .handshake, reason, detail: redirection.status)
        }
    }
}
