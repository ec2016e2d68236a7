import SocketIO
import TransportAPI

/// How a client over a byte stream uses a proxy.
struct ProxySettings: Sendable {
    /// Where the proxy is named.
    enum Choice: Sendable {
        /// In the setting itself.
        case proxy(Proxy)
        /// In the variables of the environment, if they name one for the server.
        case environment
    }

    /// The proxy; `nil` for direct connections.
    var choice: Choice?
    /// The authorities that are trusted for an https:// proxy; `nil` for those of the system.
    var authorities: TLSFile?

    static let settings = SettingList(
        ProxySettings(),
        [
            .init(
                "proxy",
                SettingFormat.proxy.orAbsent,
                \.choice,
                "connects through this proxy, or through the one in the variables of the environment"
            ),
            .init(
                "proxy-ca",
                SettingFormat.file("a file, a directory, or a text in PEM format").orAbsent(
                    "those in OpenSSL's directories"
                ),
                \.authorities,
                "the authorities that are trusted for an https:// proxy"
            ),
        ],
        check: { (settings, _) throws(TransportError) in
            switch settings.choice {
            case _ where settings.authorities == nil: break
            case .environment: break
            case .proxy(let proxy) where proxy.kind == .https: break
            default: throw .configuration("proxy-ca", "is set, but proxy is not https://")
            }
        }
    )
}

extension SettingFormat where Value == ProxySettings.Choice {
    /// The format of a proxy's URL, or the word environment.
    fileprivate static var proxy: Self {
        SettingFormat(allowed: "\(Proxy.form), or environment", isSecret: true, isString: true) {
            (value) throws(TransportError) in
            guard let text = value.string, text != "environment" else { return .environment }
            return .proxy(try Proxy(text, key: value.path))
        }
    }
}

/// The way of a client to one server through a proxy.
struct ProxyRoute: Sendable {
    /// The proxy's own host.
    let host: String
    let port: UInt16
    /// TLS to the proxy; `nil` for a proxy without it.
    let tls: ClientTLS?
    /// The handshake for the tunnel. Each attempt starts with a copy.
    let handshake: any ProxyHandshake

    /// Returns the way to a server; `nil` for a direct connection.
    ///
    /// - Parameters:
    ///   - settings: The settings of the client.
    ///   - host: The host of the server.
    ///   - port: The port of the server.
    ///   - security: TLS to the server; `nil` for a plain transport.
    ///   - environment: The variables that `proxy=environment` reads.
    static func to(
        _ host: String,
        port: UInt16,
        _ settings: ProxySettings,
        security: StreamSecurity?,
        _ environment: ProxyEnvironment
    ) throws(TransportError) -> ProxyRoute? {
        let proxy: Proxy?
        switch settings.choice {
        case nil: return nil
        case .proxy(let named): proxy = named
        case .environment: proxy = try environment.proxy(to: host, port: port, isEncrypted: security != nil)
        }
        guard let proxy else { return nil }
        let handshake = try proxy.makeHandshake(to: host, port: port)
        var tls: ClientTLS?
        if proxy.kind == .https {
            let contexts = security?.contexts ?? .shared
            tls = try ClientTLS(toProxy: proxy.host, port: proxy.port, authorities: settings.authorities, contexts)
        }
        return ProxyRoute(host: proxy.host, port: proxy.port, tls: tls, handshake: handshake)
    }
}
