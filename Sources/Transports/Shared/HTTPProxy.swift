import Protocols
import TransportAPI

/// The way to a server through an HTTP proxy that opens tunnels (RFC 9110, section 9.3.6).
struct HTTPProxy: Sendable, Hashable {
    static let option = TransportOption(
        "proxy",
        "http://user:password@host:port",
        "connects through this HTTP proxy, by CONNECT (none)"
    )

    /// The proxy's own host.
    let host: String
    /// Its port; 80 where the URL names none.
    let port: UInt16
    /// What asks it for the tunnel.
    let request: String

    /// Reads a proxy's URL, in which user and password are percent-encoded. The proxy looks up the name of `server`.
    ///
    /// - Throws: `.invalidConfiguration` that quotes nothing of the URL.
    init(_ url: String, to server: String, port serverPort: UInt16) throws(TransportError) {
        // With the port in any case: no port is the default one (RFC 9112, section 3.2.3).
        let target = HTTPSyntax.authority(host: server, port: serverPort)
        guard HTTPSyntax.isHost(target) else {
            throw .configuration(
                "host",
                "must be ASCII where a proxy is to look it up (internationalised names as Punycode)"
            )
        }
        // What is wrong may be told by the name of an option, and that be a part of the password.
        guard let endpoint = try? Endpoint(url) else { throw .configuration("proxy", "is not \(Self.option.values)") }
        do throws(TransportError) {
            guard endpoint.scheme == "http" else { throw .configuration("scheme", "must be http") }
            guard ["", "/"].contains(endpoint.path), endpoint.options.isEmpty else {
                throw .configuration("url", "may hold neither path nor options")
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

/// Asks a proxy for a tunnel and reads its answer: a value that does no I/O.
struct ProxyHandshake: Sendable {
    /// How much a proxy may say before the tunnel begins, in bytes.
    static let maximumBytes = 16 << 10

    /// What is sent.
    let request: String
    private var reader = HTTPHeadReader(maximumBytes: maximumBytes)

    init(_ proxy: HTTPProxy) {
        request = proxy.request
    }

    /// Reads on; true once the tunnel is open: what the input still holds has come through it.
    ///
    /// - Throws: why there is no tunnel, with the phase `.connect`.
    mutating func next(_ input: inout ByteBuffer) throws(TransportError) -> Bool {
        while let head = try readHead(&input) {
            guard let status = HTTPSyntax.status(head.startLine, atLeast: 0), status != 101 else {
                throw Self.failed("does not answer with HTTP/1")
            }
            // Any success opens the tunnel, and its head is all of it, whatever that says about a body.
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
            case .tooLarge: throw Self.failed("says more than \(Self.maximumBytes) bytes before there is a tunnel")
            case .malformed(let problem): throw Self.failed("gives a malformed answer: \(problem)")
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
