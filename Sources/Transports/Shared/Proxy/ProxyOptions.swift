import SocketIO
import TransportAPI

extension TransportOption {
    /// The options for proxies, of clients over a byte stream.
    static let proxy = [
        TransportOption(
            "proxy",
            "\(Proxy.form), or environment",
            "connects through this proxy, or through the one in the variables of the environment (none)"
        ),
        TransportOption(
            "proxy-ca",
            "a file, a directory, or a text in PEM format",
            "the authorities that are trusted for an https:// proxy (the system's)"
        ),
    ]
}

/// The way of a client to one server through a proxy.
struct ProxyRoute: Sendable {
    let proxy: Proxy
    /// TLS to the proxy; `nil` for a proxy without it.
    let tls: ClientTLS?
    /// The handshake for the tunnel. Each attempt starts with a copy.
    let handshake: any ProxyHandshake

    /// Reads the options of a client's URL. Returns `nil` for a direct connection.
    ///
    /// - Parameters:
    ///   - options: The options.
    ///   - host: The host of the server.
    ///   - port: The port of the server.
    ///   - security: TLS to the server; `nil` for a plain transport.
    ///   - environment: The variables that `proxy=environment` reads.
    static func read(
        _ options: OptionReader,
        to host: String,
        port: UInt16,
        security: StreamSecurity?,
        _ environment: ProxyEnvironment
    ) throws(TransportError) -> ProxyRoute? {
        let authorities = try TLSSettings.file(options, "proxy-ca")
        let isFromEnvironment = try options.string("proxy") == "environment"
        let proxy =
            if isFromEnvironment {
                try environment.proxy(to: host, port: port, isEncrypted: security != nil)
            } else {
                try options.string("proxy").map { (url) throws(TransportError) in try Proxy(url, key: "proxy") }
            }
        guard authorities == nil || isFromEnvironment || proxy?.kind == .https else {
            throw .configuration("proxy-ca", "is set, but proxy is not https://")
        }
        guard let proxy else { return nil }
        let handshake = try proxy.makeHandshake(to: host, port: port)
        guard proxy.kind == .https else { return ProxyRoute(proxy: proxy, tls: nil, handshake: handshake) }
        let contexts = security?.contexts ?? .shared
        let tls = try ClientTLS(toProxy: proxy.host, port: proxy.port, authorities: authorities, contexts)
        return ProxyRoute(proxy: proxy, tls: tls, handshake: handshake)
    }
}
