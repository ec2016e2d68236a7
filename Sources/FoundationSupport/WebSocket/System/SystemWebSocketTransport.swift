import Protocols
import SocketIO
import TransportAPI
import Transports

/// The transport of a WebSocket that the system speaks.
struct SystemWebSocketTransport: RedirectedTransport {
    let endpoint: Endpoint
    let capabilities: Capabilities
    let follow: @Sendable (Redirection) throws(TransportError) -> SystemWebSocketTransport
    private let loop: EventLoop
    private let limits: ConnectionLimits
    private let core: WebSocketTaskCore
    private let request: WebSocketTaskRequest
    private let path: String
    private let makeTask: WebSocketTaskFactory

    init(
        _ endpoint: Endpoint,
        _ settings: SystemWebSocketSettings,
        on loop: EventLoop,
        _ makeTask: @escaping WebSocketTaskFactory
    ) throws(TransportError) {
        let isEncrypted = endpoint.scheme == "wss"
        var configuration = settings.configuration
        configuration.hostHeader = WebSocketConfiguration.hostHeader(
            host: endpoint.host,
            port: endpoint.port,
            defaultPort: isEncrypted ? 443 : 80
        )
        configuration.path = settings.handshake.path(for: endpoint)
        configuration.origin = settings.handshake.origin
        configuration.headers = try settings.handshake.headers(for: endpoint)
        try configuration.validate()
        var headers = configuration.headers
        if let origin = configuration.origin { headers.append(try HTTPHeader("Origin", origin)) }
        if !configuration.subprotocols.isEmpty {
            let names = configuration.subprotocols.joined(separator: ", ")
            headers.append(try HTTPHeader("Sec-WebSocket-Protocol", names))
        }
        var request = WebSocketTaskRequest(
            url: "\(endpoint.scheme)://\(configuration.hostHeader)\(configuration.path)",
            headers: headers,
            maximumMessageSize: configuration.maximumMessageSize,
            trust: try settings.trust(),
            host: endpoint.host
        )
        // A Cookie header of the app replaces those that were kept.
        request.keepsCookies = settings.handshake.keepsCookies && headers.values("Cookie").isEmpty
        request.presentsIdentity = settings.presentsIdentity
        core = WebSocketTaskCore(configuration)
        capabilities = settings.limits.describe(core.capabilities)
        (self.endpoint, self.loop, limits, self.request) = (endpoint, loop, settings.limits, request)
        (path, self.makeTask) = (configuration.path, makeTask)
        follow = { (redirection) throws(TransportError) in
            try Self.follow(redirection, from: endpoint, settings, on: loop, makeTask)
        }
    }

    /// Returns the transport to the target of a redirect. Another origin gets no headers, and no certificate of the client.
    private static func follow(
        _ redirection: Redirection,
        from endpoint: Endpoint,
        _ settings: SystemWebSocketSettings,
        on loop: EventLoop,
        _ makeTask: @escaping WebSocketTaskFactory
    ) throws(TransportError) -> SystemWebSocketTransport {
        var settings = settings
        let target = try redirection.target(from: endpoint, query: settings.handshake.query, speaking: .webSocket)
        settings.handshake.follow(target)
        settings.configuration.redirects -= 1
        if !target.isSameOrigin { settings.presentsIdentity = false }
        do throws(TransportError) {
            return try SystemWebSocketTransport(target.endpoint, settings, on: loop, makeTask)
        } catch {
            // The peer chose this endpoint.
            let reason = "the server redirects to an address that can't be used: \(error.reason)"
            throw TransportError(.handshakeFailed, .handshake, reason, detail: redirection.status)
        }
    }

    nonisolated(nonsending) func open(started: Int64, deadline: Int64) async throws(TransportError) -> OpeningAnswer {
        try await running(on: loop) { () async throws(TransportError) in
            let channel = WebSocketTaskChannel(try makeTask(request), request, path: path, on: loop)
            let driver = ConnectionDriver(core, over: channel, on: loop, limits: limits, started: started)
            do throws(TransportError) {
                return .connection(try await driver.openConnection(deadline: deadline))
            } catch {
                if let redirection = driver.core.redirection { return .elsewhere(redirection, error) }
                throw error
            }
        }
    }
}
