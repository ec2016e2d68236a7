import Protocols
import SocketIO
import TransportAPI

extension TransportDescriptor {
    /// The descriptor of a transport that is a protocol core over TCP.
    ///
    /// - Parameters:
    ///   - keepalive: Its ``keepaliveInterval``.
    ///   - security: How its connections are encrypted; `nil` for a plain transport.
    ///   - encrypted: The encrypted transports to which a server may redirect, by their schemes. None by default.
    ///   - client: Reads an endpoint and returns a function that makes a client's core for each attempt.
    ///   - server: Does the same for the core of each accepted connection, given the client.
    ///   - redirect: Returns the endpoint to try next when the server redirects. By default redirects are not followed.
    static func stream(
        _ name: String,
        defaultPort: UInt16,
        keepalive: Duration,
        options: [TransportOption],
        security: StreamSecurity? = nil,
        encrypted: [String: StreamRecipes.Variant] = [:],
        client: @escaping @Sendable (Endpoint, OptionReader) throws(TransportError) -> @Sendable () -> any ProtocolCore,
        server:
            @escaping @Sendable (Endpoint, OptionReader, Serving) throws(TransportError) ->
            @Sendable (AcceptedClient) -> any ProtocolCore,
        redirect: @escaping StreamRecipes.Redirect = StreamRecipes.nowhere
    ) -> TransportDescriptor {
        let options = options + TransportOption.streamServer + (security == nil ? [] : TransportOption.tls)
        let recipes = StreamRecipes(
            usual: .init(defaultPort: defaultPort, security: security),
            encrypted: encrypted,
            keepalive: keepalive,
            options: options + TransportOption.proxy,
            client: client,
            redirect: redirect
        )
        var descriptor = TransportDescriptor(
            name: name,
            defaultPort: defaultPort,
            keepaliveInterval: keepalive,
            options: recipes.options,
            make: { (endpoint, loop) throws(TransportError) in try recipes.make(endpoint, loop) },
            serve: { (endpoint, loop, serving) async throws(TransportError) in
                let reader = try OptionReader(endpoint, allowed: options, for: .server)
                let limits = try reader.limits(keepaliveInterval: keepalive)
                let bounds = try reader.serverLimits()
                let makeCore = try server(endpoint, reader, serving)
                let tls = try await ServerTLS.load(security, reader, on: loop)
                return try await CoreListener.listen(at: endpoint, on: loop, serving: serving) {
                    (address, queue) throws(SystemError) in
                    try StreamAcceptor(
                        address,
                        queue,
                        on: loop,
                        limits: limits,
                        bounds: bounds,
                        tls: tls?.value,
                        handler: serving.handler(queue),
                        makeCore: makeCore
                    )
                }
            }
        )
        descriptor.answersClients = true
        descriptor.isEncrypted = security != nil
        descriptor.cores = { (endpoint) throws(TransportError) in
            let makeClient = try client(endpoint, OptionReader(endpoint, allowed: recipes.options))
            var served = endpoint
            (served.path, served.options) = ("", [])
            let makeServer = try server(served, OptionReader(served, allowed: options), Serving())
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
    ///   - options: The options of its URLs that only this transport has. Default none.
    ///   - core: Makes the core of one side from an endpoint and its options. It is called once for a transport or a
    ///     listener, and each connection starts with a copy. Therefore the core must be a value and not a class. Throws
    ///     `.invalidConfiguration` that names the option.
    public static func stream(
        _ name: String,
        defaultPort: UInt16,
        keepaliveInterval: Duration = .seconds(60),
        options: [TransportOption] = [],
        core: @escaping @Sendable (CoreRole, Endpoint, OptionReader) throws(TransportError) -> any ProtocolCore
    ) -> TransportDescriptor {
        stream(
            name,
            defaultPort: defaultPort,
            keepalive: keepaliveInterval,
            options: options,
            client: { (endpoint, options) throws(TransportError) in
                let core = try core(.client, endpoint, options)
                return { core }
            },
            server: { (endpoint, options, _) throws(TransportError) in
                let core = try core(.server, endpoint, options)
                return { _ in core }
            }
        )
    }
}

/// Makes the recipes of one transport's connections.
struct StreamRecipes: Sendable {
    /// The differences between the schemes of one protocol.
    struct Variant: Sendable {
        /// The port of a URL without a port.
        var defaultPort: UInt16
        /// How its connections are encrypted; `nil` for a plain scheme.
        var security: StreamSecurity?
    }

    typealias Redirect = @Sendable (Redirection, Endpoint) throws(TransportError) -> Endpoint

    /// Follows no redirect.
    static let nowhere: Redirect = { (redirection, _) throws(TransportError) in
        throw .httpStatus(redirection.status)
    }

    let usual: Variant
    /// The schemes to which a redirect can lead.
    let encrypted: [String: Variant]
    let keepalive: Duration
    let options: [TransportOption]
    let client: @Sendable (Endpoint, OptionReader) throws(TransportError) -> @Sendable () -> any ProtocolCore
    let redirect: Redirect
    /// The variables that `proxy=environment` reads.
    var environment = ProxyEnvironment.process

    /// - Parameter cookies: The cookies of the endpoint that redirects to this one; `nil` for a new jar.
    func make(
        _ endpoint: Endpoint,
        _ loop: EventLoop,
        cookies: CookieStore? = nil
    ) throws(TransportError) -> StreamTransport {
        // An endpoint that was not read from a URL can contain any bytes, and the resolver would stop at a NUL.
        guard endpoint.host.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7f }) else {
            throw .configuration("host", "contains a space or a control character")
        }
        let variant = encrypted[endpoint.scheme] ?? usual
        let reader = try OptionReader(endpoint, allowed: options, for: .client)
        let port = endpoint.port ?? variant.defaultPort
        let keepsCookies = try reader.flag(TransportOption.cookies.name) ?? options.contains(.cookies)
        let cookies = keepsCookies ? cookies ?? CookieStore() : nil
        return StreamTransport(
            endpoint,
            port: port,
            on: loop,
            limits: try reader.limits(keepaliveInterval: keepalive),
            proxy: try .read(reader, to: endpoint.host, port: port, security: variant.security, environment),
            tls: try variant.security.map { (security) throws(TransportError) in
                try ClientTLS(security, reader, host: endpoint.host, port: port)
            },
            cookies: cookies,
            makeCore: try client(endpoint, reader),
            follow: { (redirection) throws(TransportError) in try follow(redirection, from: endpoint, loop, cookies) }
        )
    }

    private func follow(
        _ redirection: Redirection,
        from endpoint: Endpoint,
        _ loop: EventLoop,
        _ cookies: CookieStore?
    ) throws(TransportError) -> StreamTransport {
        let target = try redirect(redirection, endpoint)
        do throws(TransportError) {
            return try make(target, loop, cookies: cookies)
        } catch {
            // The peer chose this endpoint.
            let reason = "the server redirects to an address that can't be used: \(error.reason)"
            throw TransportError(.handshakeFailed, .handshake, reason, detail: redirection.status)
        }
    }
}
