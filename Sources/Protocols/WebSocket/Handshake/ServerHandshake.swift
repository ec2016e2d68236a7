import TransportAPI

/// The server's side of the opening handshake (RFC 6455, section 4.2).
enum ServerHandshake {
    /// An accepted request.
    struct Accepted: Sendable {
        var key: String
        var subprotocol: String?
        var identity: Identity?
        /// The negotiated parameters, and the value of the response's header.
        var compression: (agreement: DeflateAgreement, answer: String)?
    }

    /// A refused request, and the response to it.
    struct Refusal: Error, Sendable, Hashable {
        var status: Int
        var reason: String
        var headers: [HTTPHeader] = []
        /// A text for people. If it is empty, the response has no body.
        var body = ""
        /// The protocol of a client that did not send HTTP.
        var foreign: ForeignProtocol?
    }

    /// Reads the head of a request and decides about it.
    ///
    /// - Parameters:
    ///   - isPeerLocal: whether the client is on this machine.
    ///   - clientCertificate: the verified certificate of the client, if it has one.
    static func evaluate(
        _ head: HTTPHead,
        _ configuration: WebSocketConfiguration,
        isPeerLocal: Bool,
        clientCertificate: TLSCertificate? = nil
    ) throws(Refusal) -> Accepted {
        let target = try target(head.startLine, ["GET"])
        var headers = head.headers
        guard let host = try single("Host", headers), HTTPSyntax.isHost(host) else {
            throw bad("there is no valid Host header")
        }
        if let authority = target.authority {
            // The authority in the target replaces the header (RFC 9112, section 3.2.2).
            headers = headers.map { $0.isNamed("Host") ? HTTPHeader(parsed: $0.name, authority) : $0 }
        }
        guard headers.announceNoBody else { throw bad("the request has a body") }
        let (upgrades, connections) = (
            headers.list("Upgrade", count: "websocket"), headers.list("Connection", count: "upgrade")
        )
        guard upgrades > 0, connections > 0 else { throw upgradeRequired("the request does not ask for WebSocket") }
        guard upgrades == 1, connections == 1, try single("Upgrade", headers) != nil else {
            throw bad("the request asks for more than one upgrade")
        }
        guard let version = try single("Sec-WebSocket-Version", headers) else {
            throw bad("there is no Sec-WebSocket-Version header")
        }
        guard version == "13" else { throw upgradeRequired("the request is for another version of WebSocket") }
        guard let key = try single("Sec-WebSocket-Key", headers), HandshakeKey.isValid(key) else {
            throw bad("there is no valid Sec-WebSocket-Key header")
        }
        guard let subprotocols = HandshakeListReader.subprotocols(headers.values("Sec-WebSocket-Protocol")) else {
            throw bad("the Sec-WebSocket-Protocol header is not a list of different tokens")
        }
        guard let offers = WebSocketExtension.list(headers.values("Sec-WebSocket-Extensions")) else {
            throw bad("the Sec-WebSocket-Extensions header is malformed")
        }
        let request = ClientRequest(
            path: target.path,
            query: target.query,
            subprotocols: subprotocols,
            headers: headers,
            clientCertificate: clientCertificate
        )
        try RequestAdmission.check(
            host: target.authority ?? host,
            origin: try single("Origin", headers),
            isPeerLocal: isPeerLocal,
            configuration
        )
        let identity = try decide(request, configuration)
        let subprotocol = configuration.subprotocols.first { subprotocols.contains($0) }
        let compression = configuration.compression.flatMap { DeflateAgreement.accept(offers, $0) }
        return Accepted(key: key, subprotocol: subprotocol, identity: identity, compression: compression)
    }

    /// Returns the page that answers a request; `nil` if the request asks for WebSocket, or for a path without a page.
    /// HTTP/1.0 is served too, because nginx before 1.29.7 requests pages with it by default.
    ///
    /// - Throws: the refusal of a request that no page may answer.
    static func page(
        for head: HTTPHead,
        _ configuration: WebSocketConfiguration,
        isPeerLocal: Bool
    ) throws(Refusal) -> WebPage? {
        guard !configuration.pages.isEmpty, head.headers.list("Upgrade", count: "websocket") == 0 else { return nil }
        let target = try target(head.startLine, ["GET", "HEAD"], servesOld: true)
        guard let page = configuration.pages.first(where: { $0.path == target.path }) else { return nil }
        guard let host = try single("Host", head.headers), HTTPSyntax.isHost(host) else {
            throw bad("there is no valid Host header")
        }
        guard head.headers.announceNoBody else { throw bad("the request has a body") }
        do throws(Refusal) {
            try RequestAdmission.check(
                host: target.authority ?? host,
                origin: try single("Origin", head.headers),
                isPeerLocal: isPeerLocal,
                configuration
            )
        } catch {
            var refusal = error
            if isHead(head.startLine) { refusal.body = "" }
            throw refusal
        }
        return page
    }

    /// Whether a request asks for the head of the response only.
    static func isHead(_ line: String) -> Bool { line.utf8.starts(with: "HEAD ".utf8) }

    /// Checks the path, and asks the app's decision.
    static func decide(
        _ request: ClientRequest,
        _ configuration: WebSocketConfiguration
    ) throws(Refusal) -> Identity? {
        if let paths = configuration.allowedPaths, !paths.contains(request.path) {
            throw Refusal(status: 404, reason: "nothing is served at this path")
        }
        switch configuration.decide?(request) {
        case nil, .accept: return nil
        case .acceptAs(let identity): return identity
        case .refuse(let status, let headers):
            let status = ClientDecision.refusalStatus(status)
            let others = headers.filter { !HTTPResponse.isReserved($0) }
            throw Refusal(status: status, reason: ClientDecision.refusalReason, headers: others)
        }
    }

    /// Parses a request line and returns its target.
    ///
    /// - Parameters:
    ///   - methods: The methods that are served. Other known ones get status 405, and unknown ones 501 (RFC 9110, section
    ///     15.6.2).
    ///   - servesOld: Whether HTTP/1.0 is served.
    private static func target(
        _ line: String,
        _ methods: [String],
        servesOld: Bool = false
    ) throws(Refusal) -> HTTPRequestLine.Target {
        let line = try HTTPRequestLine(line)
        guard servesOld || !line.isOld else { throw Refusal(status: 505, reason: "the request is not HTTP/1.1") }
        guard methods.contains(line.method) else {
            guard knownMethods.contains(line.method) else {
                throw Refusal(status: 501, reason: "the method is unknown")
            }
            let allowed = methods.joined(separator: ", ")
            let reason = "the method is not \(methods.joined(separator: " or "))"
            throw Refusal(status: 405, reason: reason, headers: [HTTPHeader(parsed: "Allow", allowed)])
        }
        return try line.parsedTarget()
    }

    /// The methods of RFC 9110, section 9, and of RFC 5789.
    private static let knownMethods = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
    ]

    /// Returns the value of a header that may occur once; `nil` if it is missing.
    static func single(_ name: String, _ headers: [HTTPHeader]) throws(Refusal) -> String? {
        let values = headers.values(name)
        guard values.count <= 1 else { throw bad("there is more than one \(name) header") }
        return values.first
    }

    /// Returns the refusal of a malformed request.
    static func bad(_ reason: String) -> Refusal {
        Refusal(status: 400, reason: reason)
    }

    /// Returns the refusal that names the right protocol and version (RFC 6455, section 4.4; RFC 9110, section
    /// 15.5.22).
    private static func upgradeRequired(_ reason: String) -> Refusal {
        let headers = [HTTPHeader(parsed: "Upgrade", "websocket"), HTTPHeader(parsed: "Sec-WebSocket-Version", "13")]
        return Refusal(status: 426, reason: reason, headers: headers)
    }
}

extension ServerHandshake {
    /// Writes the response that opens the connection.
    static func write(_ accepted: Accepted, to output: inout ByteBuffer) {
        output.append(utf8: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n")
        output.append(header: "Sec-WebSocket-Accept", HandshakeKey.accept(for: accepted.key))
        if let subprotocol = accepted.subprotocol { output.append(header: "Sec-WebSocket-Protocol", subprotocol) }
        if let answer = accepted.compression?.answer { output.append(header: "Sec-WebSocket-Extensions", answer) }
        output.append(utf8: "\r\n")
    }

    /// Writes the response that refuses a request.
    ///
    /// - Parameter unixTime: the time of this machine in seconds since 1970; `nil` if it is not known.
    static func write(_ refusal: Refusal, to output: inout ByteBuffer, unixTime: Int64?) {
        output.append(utf8: "HTTP/1.1 \(refusal.status) \(HTTPResponse.phrase(refusal.status))\r\n")
        output.append(date: unixTime)
        for header in refusal.headers { output.append(header: header.name, header.value) }
        let connection = refusal.headers.values("Upgrade").isEmpty ? "close" : "Upgrade, close"
        if !refusal.body.isEmpty { output.append(header: "Content-Type", "text/plain; charset=us-ascii") }
        let length = refusal.body.utf8.count
        output.append(utf8: "Content-Length: \(length)\r\nConnection: \(connection)\r\n\r\n\(refusal.body)")
    }
}

extension ServerHandshake.Refusal {
    /// Creates the refusal for a head that cannot be read.
    init(_ error: HTTPHeadError) {
        switch error {
        case .tooLarge: self.init(status: 431, reason: "the request's head is too large")
        case .malformed(let problem): self.init(status: 400, reason: problem)
        }
    }

    /// The error that the server reports locally.
    var error: TransportError { .refused(status: status, reason) }
}
