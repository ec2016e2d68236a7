import Primitives
import Protocols
import SocketIO
import TransportAPI

/// A transport of which only the endpoint is printed. Its other fields can contain the password of a proxy, or a key.
protocol DiscreetlyPrinted: Transport, CustomStringConvertible, CustomReflectable {}

extension DiscreetlyPrinted {
    /// The endpoint, without secrets.
    var description: String { "transport to \(endpoint)" }

    /// Debuggers and failed tests show the endpoint only.
    var customMirror: Mirror { Mirror(self, children: ["endpoint": endpoint]) }
}

/// The transport of every protocol core over TCP.
struct StreamTransport: DiscreetlyPrinted {
    let endpoint: Endpoint
    let port: UInt16
    let loop: EventLoop
    let limits: ConnectionLimits
    let capabilities: Capabilities
    /// The way through a proxy; `nil` to connect directly.
    let proxy: ProxyRoute?
    /// TLS to the server; `nil` for a plain transport.
    let tls: ClientTLS?
    /// The cookies of the servers; `nil` if none are kept.
    let cookies: CookieStore?
    /// Makes a new core for each attempt.
    let makeCore: @Sendable () -> any ProtocolCore
    /// Makes the transport for the target of a redirect.
    let follow: @Sendable (Redirection) throws(TransportError) -> StreamTransport

    init(
        _ endpoint: Endpoint,
        port: UInt16,
        on loop: EventLoop,
        limits: ConnectionLimits = ConnectionLimits(),
        proxy: ProxyRoute? = nil,
        tls: ClientTLS? = nil,
        cookies: CookieStore? = nil,
        makeCore: @escaping @Sendable () -> any ProtocolCore,
        follow: @escaping @Sendable (Redirection) throws(TransportError) -> StreamTransport
    ) {
        self.endpoint = endpoint
        self.port = port
        self.loop = loop
        self.limits = limits
        self.proxy = proxy
        self.tls = tls
        self.cookies = cookies
        self.makeCore = makeCore
        self.follow = follow
        capabilities = limits.describe(makeCore().capabilities)
    }

    /// The result of one attempt.
    private enum Answer: Sendable {
        case connection(CoreConnection)
        /// The server redirects. The error is that of a client that does not follow.
        case elsewhere(Redirection, TransportError)
    }

    nonisolated(nonsending) func connect(timeout: Duration) async throws(TransportError) -> any Connection {
        let started = MonotonicClock.now()
        let deadline = Instant(nanoseconds: started).advanced(by: max(.zero, timeout)).nanoseconds
        // This loop ends, because each core allows one redirect fewer than the core before.
        var recipe = self
        while true {
            switch try await recipe.open(started: started, deadline: deadline) {
            case .connection(let connection): return connection
            case .elsewhere(let redirection, let answer):
                do throws(TransportError) {
                    recipe = try recipe.follow(redirection)
                } catch {
                    var error = error
                    error.origin = answer.origin
                    throw error
                }
            }
        }
    }

    private nonisolated(nonsending) func open(
        started: Int64,
        deadline: Int64
    ) async throws(TransportError) -> Answer {
        try await running(on: loop) { () async throws(TransportError) in
            let channel = try await openChannel(deadline: deadline)
            let origin = CookieOrigin(host: endpoint.host, path: endpoint.path, isSecure: tls != nil)
            let core = cookies?.adding(to: makeCore(), for: origin, on: loop) ?? makeCore()
            let driver = ConnectionDriver(core, over: channel, on: loop, limits: limits, started: started)
            do throws(TransportError) {
                let connection = try await driver.openConnection(deadline: deadline)
                cookies?.keep(driver.core, from: origin, on: loop)
                return .connection(connection)
            } catch {
                cookies?.keep(driver.core, from: origin, on: loop, refusal: error)
                guard let redirection = (driver.core as? any RedirectingCore)?.redirection else { throw error }
                return .elsewhere(redirection, error)
            }
        }
    }

    /// Connects, through the proxy if there is one. If the transport is encrypted, the TLS handshake follows when the
    /// channel is used. Call this on the loop.
    nonisolated(nonsending) func openChannel(deadline: Int64) async throws(TransportError) -> any StreamChannel {
        let stream = try await openStream(deadline: deadline)
        guard let tls else { return stream }
        return try await tls.protect(stream, on: loop, deadline: deadline)
    }

    private nonisolated(nonsending) func openStream(deadline: Int64) async throws(TransportError) -> any StreamChannel {
        let (host, port) = proxy.map { ($0.proxy.host, $0.proxy.port) } ?? (endpoint.host, port)
        let socket: LoopBound<StreamSocket>
        do throws(ConnectError) {
            socket = try await StreamSocket.connect(to: host, port: port, on: loop, deadline: deadline)
        } catch {
            var failure = TransportError(error, at: HTTPSyntax.authority(host: host, port: port))
            failure.origin = .path
            throw proxy == nil ? failure : failure.ofProxy
        }
        guard let proxy else { return socket.value }
        var stream: any ByteStream = socket.value
        if let tls = proxy.tls { stream = try await tls.protect(stream, on: loop, deadline: deadline) }
        let tunnel = ProxyTunnel(over: stream, proxy.handshake, on: loop)
        try await tunnel.open(deadline: deadline)
        return tunnel
    }
}

extension ConnectionDriver {
    /// Starts, waits until the handshake is complete, and returns the connection. Call this on the loop.
    nonisolated(nonsending) func openConnection(deadline: Int64) async throws(TransportError) -> CoreConnection {
        phaseDeadline = deadline
        let error: TransportError? = await LoopBound(self, to: loop).suspend(with: (), #isolation) {
            // The task can have been cancelled before.
            guard $0.phase == .opening else { return $2.resume(returning: .cancelled(.handshake)) }
            $0.waiting.opener = $2
            $0.start()
        } onCancel: { driver, _ in
            if driver.phase == .opening { driver.end(.cancelled(.handshake), abort: true) }
        }
        if let error { throw error }
        return CoreConnection(self, capabilities: limits.describe(core.capabilities))
    }
}
