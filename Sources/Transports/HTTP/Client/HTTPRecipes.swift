import Protocols
import SocketIO
import TransportAPI

/// Makes the recipes of connections over HTTP.
struct HTTPRecipes: Sendable {
    let usual: StreamVariant
    /// The schemes to which a redirect can lead.
    let encrypted: [String: StreamVariant]
    /// The settings of a client.
    let settings: SettingList<StreamClientSettings<HTTPClientSettings>>
    /// Those of a server, which a client ignores.
    let serverSettings: [SettingRow]
    /// The variables that `proxy=environment` reads.
    var environment = ProxyEnvironment.process

    /// Returns the transport to an endpoint. All strings of its URL are read here, once: a redirect changes the settings.
    func make(_ endpoint: Endpoint, _ context: ConnectionContext) throws(TransportError) -> HTTPTransport {
        let settings = try settings.read(endpoint, ignoring: serverSettings) {
            $0.own.handshake.contextHeaders = context.headers
        }
        let cookies = settings.own.handshake.keepsCookies ? CookieStore() : nil
        return try transport(to: endpoint, settings, cookies, on: context.loop)
    }

    private func transport(
        to endpoint: Endpoint,
        _ settings: StreamClientSettings<HTTPClientSettings>,
        _ cookies: CookieStore?,
        on loop: EventLoop
    ) throws(TransportError) -> HTTPTransport {
        let variant = encrypted[endpoint.scheme] ?? usual
        var core = try FramedTCPCore(
            TCPConfiguration(
                marksText: true,
                maximumMessageSize: settings.own.maximumMessageSize,
                closeTimeout: settings.limits.closeTimeout
            )
        )
        core.carrier = .http
        return HTTPTransport(
            endpoint: endpoint,
            dialer: try settings.dialer(
                to: endpoint,
                variant,
                hasTLS: usual.security != nil,
                environment,
                on: loop
            ),
            limits: settings.limits,
            capabilities: settings.limits.describe(core.capabilities),
            cookies: cookies,
            settings: settings.own,
            headers: try settings.own.handshake.headers(for: endpoint),
            makeCore: { [core] in core },
            follow: { (redirection) throws(TransportError) in
                var settings = settings
                let query = settings.own.handshake.query
                let target = try redirection.target(from: endpoint, query: query, speaking: .http)
                settings.own.handshake.follow(target)
                settings.own.redirects -= 1
                if !target.isSameOrigin { settings.tls = settings.tls.forOtherServer }
                do throws(TransportError) {
                    return try transport(to: target.endpoint, settings, cookies, on: loop)
                } catch {
                    // The peer chose this endpoint.
                    let reason = "the server redirects to an address that can't be used: \(error.reason)"
                    throw TransportError(.handshakeFailed, .handshake, reason, detail: redirection.status)
                }
            }
        )
    }
}
