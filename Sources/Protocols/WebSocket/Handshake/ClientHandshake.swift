import TransportAPI

/// The client's side of the opening handshake (RFC 6455, section 4.1).
package enum ClientHandshake {
    /// Writes the request. A Cookie header of the configuration replaces `cookies`.
    static func writeRequest(
        _ configuration: WebSocketConfiguration,
        key: String,
        cookies: CookieHeader?,
        to output: inout ByteBuffer
    ) {
        output.append(utf8: "GET ")
        output.append(utf8: configuration.path)
        output.append(utf8: " HTTP/1.1\r\n")
        output.append(header: "Host", configuration.hostHeader)
        output.append(utf8: "Upgrade: websocket\r\nConnection: Upgrade\r\n")
        output.append(header: "Sec-WebSocket-Key", key)
        output.append(utf8: "Sec-WebSocket-Version: 13\r\n")
        if let origin = configuration.origin { output.append(header: "Origin", origin) }
        if !configuration.subprotocols.isEmpty {
            output.append(header: "Sec-WebSocket-Protocol", configuration.subprotocols.joined(separator: ", "))
        }
        if let compression = configuration.compression {
            output.append(header: "Sec-WebSocket-Extensions", DeflateAgreement.offer(compression))
        }
        for header in configuration.headers { output.append(header: header.name, header.value) }
        if let cookies, configuration.headers.values("Cookie").isEmpty {
            output.append(header: "Cookie", cookies.value)
        }
        output.append(utf8: "\r\n")
    }

    /// The result of reading a response.
    enum Answer: Sendable, Hashable {
        /// An interim response (RFC 9110, section 15.2), which the final one follows.
        case interim
        /// The connection is open, with this subprotocol and compression.
        case accepted(subprotocol: String?, DeflateAgreement?)
    }

    /// Verifies the head of a response.
    ///
    /// A 101 has no body. So Content-Length and Transfer-Encoding have no meaning in it (RFC 9112, section 6.3), and
    /// frames follow the head in any case.
    ///
    /// - Parameter unixTime: the time of this machine in seconds since 1970; `nil` if it is not known.
    /// - Throws: the error for the server's refusal, or `.handshakeFailed` for a response that violates the protocol.
    static func verify(
        _ head: HTTPHead,
        key: String,
        _ configuration: WebSocketConfiguration,
        unixTime: Int64? = nil,
        isEncrypted: Bool = false
    ) throws(TransportError) -> Answer {
        let status = try status(head.startLine)
        guard status == 101 else {
            if status < 200 { return .interim }
            var error = TransportError.refusedRequest(
                status: status,
                retryAfter: head.headers.retryAfter(at: unixTime),
                path: configuration.path,
                headers: configuration.headers
            )
            if let hint = hint(status, head, isEncrypted: isEncrypted) { error.reason += hint }
            throw error
        }
        guard let upgrade = try single("Upgrade", head), HTTPSyntax.equalIgnoringCase(upgrade, "websocket") else {
            throw failed("the server did not upgrade to WebSocket")
        }
        guard head.headers.list("Connection", count: "upgrade") == 1 else {
            throw failed("the server's Connection header does not have Upgrade exactly once")
        }
        guard let accept = try single("Sec-WebSocket-Accept", head),
            HandshakeKey.areEqual(accept, HandshakeKey.accept(for: key))
        else { throw failed("the server's Sec-WebSocket-Accept does not match the client's key") }
        guard let extensions = WebSocketExtension.list(head.headers.values("Sec-WebSocket-Extensions")) else {
            throw failed("the server's Sec-WebSocket-Extensions header is malformed")
        }
        let agreement = try DeflateAgreement.read(extensions, offered: configuration.compression)
        guard let subprotocol = try single("Sec-WebSocket-Protocol", head) else {
            return .accepted(subprotocol: nil, agreement)
        }
        guard configuration.subprotocols.contains(subprotocol) else {
            throw failed("the server chose a subprotocol that was not offered")
        }
        return .accepted(subprotocol: subprotocol, agreement)
    }

    /// Returns the cookies that a response sets. Interim responses set none.
    ///
    /// - Parameter unixTime: the time of this machine in seconds since 1970, for answers without a Date header.
    package static func cookies(_ head: HTTPHead, unixTime: Int64?) -> [SetCookie] {
        let date = head.headers.date(otherwise: unixTime)
        return head.headers.values("Set-Cookie").compactMap { SetCookie($0, date: date) }
    }

    /// Returns the redirection in a response, or `nil` if there is none.
    static func redirection(_ head: HTTPHead) throws(TransportError) -> Redirection? {
        let status = try status(head.startLine)
        guard [301, 302, 303, 307, 308].contains(status), let location = try single("Location", head) else {
            return nil
        }
        return Redirection(status: status, location: location)
    }

    private static func status(_ line: String) throws(TransportError) -> Int {
        guard let status = HTTPSyntax.status(line) else {
            throw failed("the server does not answer with HTTP/1.1, but with '\(excerpt(line))'")
        }
        return status
    }

    /// The reason in a refusal with status 400: the subprotocol that the server requires, or the protocol of the port.
    /// Servers of this package send it.
    private static func hint(_ status: Int, _ head: HTTPHead, isEncrypted: Bool) -> String? {
        guard status == 400 else { return nil }
        if let required = head.headers.values("Sec-WebSocket-Protocol").first {
            let spoken = WebSocketCarriage.named(required)?.expected
            let advice = spoken.map { ": use \($0.scheme(isEncrypted: isEncrypted))" } ?? ""
            return "; the server requires the subprotocol '\(excerpt(required))'\(advice)"
        }
        let phrase = head.startLine.utf8.split(separator: UInt8(ascii: " "), maxSplits: 2).dropFirst(2).first
        guard let phrase, !phrase.elementsEqual("Bad Request".utf8) else { return nil }
        return ", \(excerpt(String(Substring(phrase))))"
    }

    private static func excerpt(_ text: String) -> String { String(excerptOf: text.utf8) }

    private static func single(_ name: String, _ head: HTTPHead) throws(TransportError) -> String? {
        let values = head.headers.values(name)
        guard values.count <= 1 else { throw failed("the server sent more than one \(name) header") }
        return values.first
    }

    package static func failed(_ reason: String) -> TransportError {
        TransportError(.handshakeFailed, .handshake, reason)
    }
}

extension TransportError {
    /// Returns the error for the status with which a server has refused a request. It says what the request shows about the
    /// cause.
    ///
    /// - Parameter path: the path of the request. A query, which may be secret, is not shown.
    package static func refusedRequest(
        status: Int,
        retryAfter: Duration?,
        path: String,
        headers: [HTTPHeader]
    ) -> TransportError {
        var error = TransportError.httpStatus(status, retryAfter: retryAfter)
        switch status {
        case 401 where headers.values("Authorization").isEmpty:
            error.reason +=
                "; no Authorization header was sent: set it in headers or in the preparation, or write "
                + "USER:PASSWORD@ before the host of the URL"
        case 404, 410:
            error.reason +=
                "; the path of the request is '\(String(excerptOf: path.utf8.prefix { $0 != UInt8(ascii: "?") }))'"
        default: break
        }
        return error
    }

    /// Creates the error of a client for a response whose head cannot be read.
    init(response error: HTTPHeadError) {
        self =
            switch error {
            case .tooLarge: ClientHandshake.failed("the head of the server's response is too large")
            case .malformed(let problem): ClientHandshake.failed("the server's response is malformed: \(problem)")
            }
    }
}
