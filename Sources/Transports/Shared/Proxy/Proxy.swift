import Protocols
import SocketIO
import TransportAPI

/// A proxy that opens tunnels to servers: its kind, its address, and the credentials for it.
struct Proxy: Sendable, Hashable {
    /// The kinds of proxies. The name of each is the scheme of its URLs.
    enum Kind: String, Sendable, Hashable, CaseIterable {
        /// An HTTP proxy, by the method CONNECT.
        case http
        /// An HTTP proxy that is connected to over TLS.
        case https
        /// A SOCKS proxy of version 5.
        case socks5

        /// The port of a URL without a port.
        var defaultPort: UInt16 {
            switch self {
            case .http: 80
            case .https: 443
            case .socks5: 1080
            }
        }
    }

    /// The form of a proxy's URL, for errors and help.
    static let form = "http://user:password@host:port, or the same with https:// or socks5://"

    let kind: Kind
    /// The proxy's own host.
    let host: String
    let port: UInt16
    /// The user, decoded; `nil` to send no credentials.
    @Secret private(set) var user: String?
    /// The password, decoded.
    @Secret private(set) var password: String?

    /// Reads a proxy's URL, in which user and password are percent-encoded.
    ///
    /// - Parameters:
    ///   - url: The URL.
    ///   - key: The option or the variable that has the URL, for errors.
    /// - Throws: `.invalidConfiguration` that quotes nothing of the URL.
    init(_ url: String, key: String) throws(TransportError) {
        // The error can contain the name of an option, which can be a part of the password.
        guard let endpoint = try? Endpoint(url) else { throw .configuration(key, "is not \(Self.form)") }
        do throws(TransportError) {
            kind = try Self.kind(endpoint.scheme)
            guard ["", "/"].contains(endpoint.path), endpoint.options.isEmpty else {
                throw .configuration("url", "may contain neither path nor options")
            }
            // The resolver would stop at a NUL.
            guard endpoint.host.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7f }) else {
                throw .configuration("host", "contains a space or a control character")
            }
            (host, port) = (endpoint.host, endpoint.port ?? kind.defaultPort)
            user = endpoint.user
            password = endpoint.password
            // Credentials that the kind cannot express are refused here, and not in the middle of an attempt.
            _ = try makeHandshake(to: "server", port: 1)
        } catch {
            throw .configuration(key, "is not \(Self.form): \(error.reason)")
        }
    }

    private static func kind(_ scheme: String) throws(TransportError) -> Kind {
        if let kind = Kind(rawValue: scheme) { return kind }
        switch scheme {
        case "socks5h":
            throw .configuration(
                "scheme",
                "must be socks5 and not socks5h, because the proxy resolves names in any case"
            )
        case "socks", "socks4", "socks4a":
            throw .configuration("scheme", "must be socks5, the only version of SOCKS that is supported")
        default: throw .configuration("scheme", "must be http, https or socks5")
        }
    }

    /// Returns the handshake for a tunnel to a server, whose name the proxy resolves.
    ///
    /// - Throws: `.invalidConfiguration` that quotes no credentials.
    func makeHandshake(to server: String, port: UInt16) throws(TransportError) -> any ProxyHandshake {
        switch kind {
        case .http, .https:
            return try ConnectHandshake(to: server, port: port, user: user, password: password)
        case .socks5:
            return try SOCKSHandshake(to: server, port: port, user: user, password: password)
        }
    }
}

/// The handshake that opens a tunnel through a proxy. A value that does no I/O.
///
/// After ``start(_:unixTime:)``, and after each ``next(_:_:)``, the output is sent. Any slices of the input have the same result.
protocol ProxyHandshake: Sendable {
    /// Appends the first bytes to send.
    ///
    /// - Parameter unixTime: The time of the calendar in seconds since 1970; `nil` if it is not known.
    mutating func start(_ output: inout ByteBuffer, unixTime: Int64?)
    /// Reads the next part of the proxy's answer, and appends the bytes to send then. Returns true once the tunnel is
    /// open. The bytes left in the input have come through the tunnel.
    ///
    /// - Throws: The reason why there is no tunnel, with the phase `.connect`.
    mutating func next(_ input: inout ByteBuffer, _ output: inout ByteBuffer) throws(TransportError) -> Bool
}

extension TransportError {
    /// The error of a proxy that breaks its protocol, or speaks another one.
    static func proxyFailed(_ reason: String) -> TransportError {
        TransportError(.handshakeFailed, .connect, "the proxy \(reason)")
    }

    /// Returns the error with a reason that says that the proxy is concerned, and not the server.
    var ofProxy: TransportError {
        var error = self
        error.reason = "the proxy: \(reason)"
        return error
    }
}

/// Returns the bytes of a numeric IPv4 or IPv6 address, 4 or 16 of them. Returns `nil` if `host` is a name. The zone of
/// an IPv6 address is left out, because it has no meaning on another machine.
func numericAddress(_ host: String) -> [UInt8]? {
    let isIPv6 = host.utf8.contains(UInt8(ascii: ":"))
    guard let address = SocketAddress(numeric: isIPv6 ? String(host.prefix { $0 != "%" }) : host, port: 0) else {
        return nil
    }
    // The identity ends with the address.
    return address.withIdentity { Array($0.suffix(address.isIPv6 ? 16 : 4)) }
}
