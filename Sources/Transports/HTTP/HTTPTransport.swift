import Protocols
import SocketIO
import TransportAPI

extension TransportDescriptor {
    /// The descriptor of messages over HTTP without TLS: `http://host/path`, for networks that block WebSocket.
    public static let http = http(nil)

    /// The descriptor of messages over HTTP with TLS: `https://host/path`. It needs OpenSSL 3 on the machine.
    public static let httpTLS = http(.openSSLForHTTP)

    /// Returns the descriptor of messages over HTTP.
    ///
    /// - Parameter security: How connections are encrypted; `nil` for the plain transport.
    static func http(_ security: StreamSecurity?) -> TransportDescriptor {
        // Load balancers and reverse proxies close connections that have been silent for 60 s.
        let keepalive = Duration.seconds(30)
        let listening = HTTPServerSettings.all(keepalive: keepalive, security)
        let recipes = HTTPRecipes(
            usual: .init(defaultPort: security == nil ? 80 : 443, security: security),
            // Servers redirect from plain to encrypted addresses.
            encrypted: security == nil ? ["https": .init(defaultPort: 443, security: .openSSLForHTTP)] : [:],
            settings: StreamClientSettings.settings(HTTPClientSettings.list, keepalive: keepalive, security),
            serverSettings: listening.rows
        )
        var descriptor = TransportDescriptor(
            name: security == nil ? "http" : "https",
            defaultPort: security == nil ? 80 : 443,
            keepaliveInterval: keepalive,
            clientSettings: recipes.settings.rows,
            serverSettings: listening.rows,
            make: { (endpoint, context) throws(TransportError) in try recipes.make(endpoint, context) },
            serve: serveHTTP(listening, ignoring: recipes.settings.rows.ignoredByServers, security)
        )
        descriptor.answersClients = true
        descriptor.decidesHandshakes = true
        descriptor.servesPages = true
        descriptor.isEncrypted = security != nil
        descriptor.encryptedName = security == nil ? "https" : nil
        return descriptor
    }
}
