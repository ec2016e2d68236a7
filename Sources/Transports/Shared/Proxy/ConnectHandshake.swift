import Protocols
import TransportAPI

/// The handshake with an HTTP proxy (RFC 9110, section 9.3.6): a CONNECT request and its answer.
struct ConnectHandshake: ProxyHandshake {
    /// How many bytes a proxy may send before the tunnel begins.
    static let maximumBytes = 16 << 10

    /// The request for the tunnel, with the credentials.
    @Secret private(set) var request: String
    private let hasCredentials: Bool
    private var reader = HTTPHeadReader(maximumBytes: maximumBytes)
    private var unixTime: Int64?

    /// Creates the handshake for a tunnel to a server.
    ///
    /// - Throws: `.invalidConfiguration` that quotes no credentials.
    init(to server: String, port: UInt16, user: String?, password: String?) throws(TransportError) {
        // Includes the port in any case, because CONNECT has no default port (RFC 9112, section 3.2.3).
        let target = HTTPSyntax.authority(host: server, port: port)
        guard HTTPSyntax.isHost(target) else { throw .hostForProxy }
        hasCredentials = user != nil
        var credentials = ""
        if let user {
            credentials = "Proxy-Authorization: \(try HTTPHeader.basic(user: user, password: password ?? ""))\r\n"
        }
        request = "CONNECT \(target) HTTP/1.1\r\nHost: \(target)\r\n\(credentials)\r\n"
    }

    mutating func start(_ output: inout ByteBuffer, unixTime: Int64?) {
        self.unixTime = unixTime
        output.append(utf8: request)
    }

    mutating func next(_ input: inout ByteBuffer, _: inout ByteBuffer) throws(TransportError) -> Bool {
        while let head = try readHead(&input) {
            guard let status = HTTPSyntax.status(head.startLine, atLeast: 0), status != 101 else {
                throw .proxyFailed("does not answer with HTTP/1")
            }
            // Any success status opens the tunnel. Its answer ends with the head, even if that announces a body.
            if (200...299).contains(status) { return true }
            if status >= 200 {
                var error = [401, 407].contains(status) ? refusal(status, head.headers) : .proxyStatus(status)
                error.retryAfter = head.headers.retryAfter(at: unixTime)
                throw error
            }
        }
        return false
    }

    /// The error of a proxy that requires other credentials. Names its methods (RFC 9110, section 11.7.1) if it does not
    /// support Basic. tinyproxy answers with 401, although that is the status of a server.
    private func refusal(_ status: Int, _ headers: [HTTPHeader]) -> TransportError {
        var methods: [String] = []
        for part in headers.values("Proxy-Authenticate").flatMap({ $0.split(separator: ",") }) {
            guard let word = part.split(separator: " ").first, HTTPSyntax.isToken(word.utf8) else { continue }
            methods.append(String(word.prefix(20)))
        }
        if !methods.isEmpty, !methods.contains(where: { $0.lowercased() == "basic" }) {
            return TransportError(
                .unsupported,
                .connect,
                "the proxy supports the methods \(methods.prefix(4).joined(separator: ", ")); allowed here is only Basic: "
                    + "HTTP \(status)",
                detail: status
            )
        }
        return TransportError(
            .authenticationFailed,
            .connect,
            hasCredentials
                ? "the proxy asks for other credentials: HTTP \(status)"
                : "the proxy asks for credentials, so write user and password into its URL: HTTP \(status)",
            detail: status
        )
    }

    private mutating func readHead(_ input: inout ByteBuffer) throws(TransportError) -> HTTPHead? {
        do throws(HTTPHeadError) {
            return try reader.next(&input)
        } catch {
            switch error {
            case .tooLarge: throw .proxyFailed("sent more than \(Self.maximumBytes) bytes before the tunnel was open")
            // The type of an alert (RFC 8446, section 5.1), with which a TLS server refuses plain text.
            case .malformed where input.byte(at: 0) == 0x15:
                throw .proxyFailed("answers with TLS; write https:// in its URL")
            case .malformed(let problem): throw .proxyFailed("sent a malformed answer: \(problem)")
            }
        }
    }
}

extension TransportError {
    /// The error for the host of a server whose name no proxy can resolve.
    static let hostForProxy = TransportError.configuration(
        "host",
        "must be ASCII of at most 255 bytes, because a proxy resolves it (write internationalised names as Punycode)"
    )

    /// The error for the status with which a proxy refused a tunnel (RFC 9110, sections 9.3.6 and 15).
    static func proxyStatus(_ status: Int) -> TransportError {
        let (code, sentence): (Code, String) =
            switch status {
            case 403: (.forbidden, "forbids this connection")
            case 405, 501: (.unsupported, "opens no tunnels")
            case 408, 504: (.timedOut, "gave up waiting for the server")
            case 429: (.tooManyRequests, "asks to slow down")
            case 502: (.unreachable, "can't reach the server")
            case 500...599: (.serverUnavailable, "is not able to open a tunnel now")
            default: (.handshakeFailed, "refused the tunnel")
            }
        return TransportError(code, .connect, "the proxy \(sentence): HTTP \(status)", detail: status)
    }
}
