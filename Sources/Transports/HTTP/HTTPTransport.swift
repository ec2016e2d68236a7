import Protocols
import SocketIO
import TransportAPI

extension TransportDescriptor {
    /// The descriptor of messages over HTTP without TLS: `http://host/path`, for networks that block WebSocket.
    static let http = http(nil)

    /// The descriptor of messages over HTTP with TLS: `https://host/path`. It needs OpenSSL 3 on the machine.
    static let httpTLS = http(.openSSLForHTTP)

    /// Returns the descriptor of messages over HTTP.
    ///
    /// - Parameter security: How connections are encrypted; `nil` for the plain transport.
    static func http(_ security: StreamSecurity?) -> TransportDescriptor {
        // Load balancers and reverse proxies close connections that have been silent for 60 s.
        let keepalive = Duration.seconds(30)
        let listening = HTTPServerSettings.all(keepalive: keepalive, security)
        var descriptor = TransportDescriptor(
            name: security == nil ? "http" : "https",
            defaultPort: security == nil ? 80 : 443,
            keepaliveInterval: keepalive,
            serverSettings: listening.rows,
            make: { (endpoint, _) throws(TransportError) in
                throw TransportError(.unsupported, .configure, "\(endpoint.scheme):// has no client")
            },
            serve: serveHTTP(listening, ignoring: [], security)
        )
        descriptor.answersClients = true
        descriptor.decidesHandshakes = true
        descriptor.servesPages = true
        descriptor.isEncrypted = security != nil
        descriptor.encryptedName = security == nil ? "https" : nil
        return descriptor
    }
}
