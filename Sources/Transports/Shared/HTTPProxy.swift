import Protocols
import TransportAPI

/// An HTTP proxy that opens a tunnel to a server (RFC 9110, section 9.3.6).
struct HTTPProxy: Sendable, Hashable {
    static let option = TransportOption(
        "proxy",
        "http://user:password@host:port",
        "connects through this HTTP proxy, by CONNECT (none)"
    )

    /// The proxy's own host.
    let host: String
    /// Its port; 80 if the URL has none.
    let port: UInt16
    /// The request for the tunnel.
    let request: String

    /// Reads a proxy's URL, in which user and password are percent-encoded. The proxy resolves the name of `server`.
    ///
    /// - Throws: `.invalidConfiguration` that quotes nothing of the URL.
    init(_ url: String, to server: String, port serverPort: UInt16) throws(TransportError) {
        // Includes the port in any case, because CONNECT has no default port (RFC 9112, section 3.2.3).
        let target = HTTPSyntax.authority(host: server, port: serverPort)
        guard HTTPSyntax.isHost(target) else {
            throw .configuration(
                "host",
                "must be ASCII, because a proxy resolves it (write internationalised names as Punycode)"
            )
        }
        // The error can contain the name of an option, which can be a part of the password.
        guard let endpoint = try? Endpoint(url) else { throw .configuration("proxy", "is not \(Self.option.values)") }
        do throws(TransportError) {
            guard endpoint.scheme == "http" else { throw .configuration("scheme", "must be http") }
            guard ["", "/"].contains(endpoint.path), endpoint.options.isEmpty else {
                throw .configuration("url", "may contain neither path nor options")
            }
            host = endpoint.host
            port = endpoint.port ?? 80
            let credentials = try Self.credentials(endpoint)
            request = "CONNECT \(target) HTTP/1.1\r\nHost: \(target)\r\n\(credentials)\r\n"
        } catch {
            throw .configuration("proxy", "is not \(Self.option.values): \(error.reason)")
        }
    }

    private static func credentials(_ endpoint: Endpoint) throws(TransportError) -> String {
        guard let user = endpoint.user else { return "" }
        return "Proxy-Authorization: \(try HTTPHeader.basic(user: user, password: endpoint.password ?? ""))\r\n"
    }
}

/// Requests a tunnel from a proxy and reads the answer. A value that does no I/O.
struct ProxyHandshake: Sendable {
    /// How many bytes a proxy may send before the tunnel begins.
    static let maximumBytes = 16 << 10

    /// The bytes to send.
    let request: String
    private var reader = HTTPHeadReader(maximumBytes: maximumBytes)

    init(_ proxy: HTTPProxy) {
        request = proxy.request
    }

    /// Reads the next part of the answer. Returns true once the tunnel is open. The bytes left in the input have come
    /// through the tunnel.
    ///
    /// - Throws: The reason why there is no tunnel, with the phase `.connect`.
    mutating func next(_ input: inout ByteBuffer) throws(TransportError) -> Bool {
        while let head = try readHead(&input) {
            guard let status = HTTPSyntax.status(head.startLine, atLeast: 0), status != 101 else {
                throw Self.failed("does not answer with HTTP/1")
            }
            // Any success status opens the tunnel. Its answer ends with the head, even if that announces a body.
            if (200...299).contains(status) { return true }
            if status >= 200 {
                let delay = head.headers.values("Retry-After").first.flatMap(HTTPSyntax.seconds)
                throw .proxyStatus(status, retryAfter: delay)
            }
        }
        return false
    }

    private mutating func readHead(_ input: inout ByteBuffer) throws(TransportError) -> HTTPHead? {
        do throws(HTTPHeadError) {
            return try reader.next(&input)
        } catch {
            switch error {
            case .tooLarge: throw Self.failed("sent more than \(Self.maximumBytes) bytes before the tunnel was open")
            case .malformed(let problem): throw Self.failed("sent a malformed answer: \(problem)")
            }
        }
    }

    private static func failed(_ reason: String) -> TransportError {
        TransportError(.handshakeFailed, .connect, "the proxy \(reason)")
    }
}

extension TransportError {
    /// The error for the status with which a proxy refused a tunnel (RFC 9110, sections 9.3.6 and 15).
    static func proxyStatus(_ status: Int, retryAfter: Duration? = nil) -> TransportError {
        let (code, sentence): (Code, String) =
            switch status {
            case 407: (.authenticationFailed, "asks for other credentials")
            case 403: (.forbidden, "forbids this connection")
            case 405, 501: (.unsupported, "opens no tunnels")
            case 408, 504: (.timedOut, "gave up waiting for the server")
            case 429: (.tooManyRequests, "asks to slow down")
            case 502: (.unreachable, "can't reach the server")
            case 500...599: (.serverUnavailable, "is not able to open a tunnel now")
            default: (.handshakeFailed, "refused the tunnel")
            }
        return TransportError(
            code,
            .connect,
            "the proxy \(sentence): HTTP \(status)",
            detail: status,
            retryAfter: retryAfter
        )
    }
}
