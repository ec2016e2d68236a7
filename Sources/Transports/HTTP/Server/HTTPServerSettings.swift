import Protocols
import SocketIO
import TransportAPI

/// The settings of a server over HTTP.
struct HTTPServerSettings: Sendable {
    /// The rules for requests, and the limits of their heads.
    var request = WebSocketConfiguration()
    var sessions = HTTPSessionLimits()
    var maximumMessageSize = TCPConfiguration().maximumMessageSize

    static let list = {
        var list = SettingList(HTTPServerSettings())
        list.append(WebSocketConfiguration.admission, at: \.request)
        list.append(HTTPSessionLimits.settings, at: \.sessions)
        return list.adding([
            .init(
                "max-head",
                .bytes(256...1 << 20),
                \.request.maximumHeaderBytes,
                "the largest head of a request that is accepted"
            ),
            .init(
                "max-headers",
                .integer(10...10_000),
                \.request.maximumHeaderCount,
                "the most headers that are accepted in a request"
            ),
            .init(
                "handshake-timeout",
                .duration(),
                \.request.handshakeTimeout,
                "how long the head of a request may take"
            ),
            .maximumMessageSize(\.maximumMessageSize, atMost: 0x7fff_ffff),
        ])
    }()

    /// All settings of a server.
    static func all(keepalive: Duration, _ security: StreamSecurity?) -> SettingList<StreamServerSettings<Self>> {
        StreamServerSettings.settings(list, keepalive: keepalive, security)
    }
}

/// How a server over HTTP accepts its sessions, alone or beside WebSockets.
struct HTTPService: Sendable {
    private let limits: HTTPSessionLimits
    private let connection: ConnectionLimits
    private let bounds: ServerLimits
    private let request: WebSocketConfiguration
    private let core: FramedTCPCore
    private let carrier: HTTPServerCore

    /// Creates the service for an endpoint.
    ///
    /// - Parameters:
    ///   - request: The rules for requests, which are those of the WebSockets at the same port too.
    ///   - webSocket: The core of the WebSockets at the same port; `nil` for none.
    /// - Throws: `.invalidConfiguration` that names the key.
    init(
        _ limits: HTTPSessionLimits,
        _ connection: ConnectionLimits,
        _ bounds: ServerLimits,
        request: WebSocketConfiguration,
        maximumMessageSize: Int,
        webSocket: WebSocketCore?
    ) throws(TransportError) {
        (self.limits, self.connection, self.bounds, self.request) = (limits, connection, bounds, request)
        var core = try FramedTCPCore(
            TCPConfiguration(
                marksText: true,
                maximumMessageSize: maximumMessageSize,
                closeTimeout: connection.closeTimeout
            )
        )
        core.role = .server
        core.carrier = .http
        self.core = core
        var configuration = HTTPServerConfiguration()
        configuration.maximumHeaderBytes = request.maximumHeaderBytes
        configuration.maximumHeaderCount = request.maximumHeaderCount
        configuration.maximumBody = limits.window
        configuration.handshakeTimeout = request.handshakeTimeout
        carrier = try HTTPServerCore(configuration, webSocket: webSocket)
    }

    /// Listens at an address. Call this on the loop.
    func accept(
        at address: SocketAddress,
        _ queue: AcceptQueue,
        on loop: EventLoop,
        _ serving: Serving,
        _ tls: ServerTLS?
    ) throws(SystemError) -> HTTPAcceptor {
        try HTTPAcceptor(
            address,
            queue,
            on: loop,
            setup: .init(
                limits: limits,
                connection: connection,
                core: core,
                admission: request,
                maximumPerAddress: bounds.maximumPerAddress,
                stallTimeout: bounds.stallTimeout
            ),
            bounds: bounds,
            tls: tls,
            pages: serving.pages,
            handler: serving.handler(queue)
        ) { [carrier] client in
            var core = carrier
            core.isPeerLocal = client.isLocal
            return core
        }
    }
}

extension TransportDescriptor {
    /// Listens at an endpoint for sessions over HTTP.
    ///
    /// - Parameters:
    ///   - listening: All settings of such a server (``HTTPServerSettings/all(keepalive:_:)``).
    ///   - ignored: The settings of a client's URL that a server ignores.
    ///   - security: How its connections are encrypted; `nil` for the plain transport.
    static func serveHTTP(
        _ listening: SettingList<StreamServerSettings<HTTPServerSettings>>,
        ignoring ignored: [SettingRow],
        _ security: StreamSecurity?
    ) -> Serve {
        { (endpoint, loop, serving) async throws(TransportError) in
            let settings = try listening.read(endpoint, ignoring: ignored)
            var request = settings.own.request
            request.decide = serving.decide
            request.pages = serving.pages
            try request.admit(endpoint)
            try request.validate()
            let service = try HTTPService(
                settings.own.sessions,
                settings.limits,
                settings.bounds,
                request: request,
                maximumMessageSize: settings.own.maximumMessageSize,
                webSocket: nil
            )
            let tls = try await ServerTLS.load(security, settings.tls, on: loop)
            return try await CoreListener.listen(at: endpoint, on: loop, serving: serving) {
                (address, queue) throws(SystemError) in
                try service.accept(at: address, queue, on: loop, serving, tls?.value)
            }
        }
    }
}
