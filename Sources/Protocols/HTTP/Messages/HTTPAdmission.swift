import TransportAPI

/// A request that a server refuses: the response to it, and the error to report locally.
package struct HTTPRefusal: Error, Sendable, Hashable {
    /// The response, without the headers of CORS.
    package var response: HTTPResponse
    /// The reason for this side.
    package var error: TransportError

    init(_ refusal: ServerHandshake.Refusal) {
        var headers = refusal.headers
        if !refusal.body.isEmpty { headers.append(HTTPHeader(parsed: "Content-Type", "text/plain; charset=us-ascii")) }
        response = HTTPResponse(refusal.status, headers: headers, body: Array(refusal.body.utf8))
        error = refusal.error
    }
}

// The rules of the opening handshake of WebSocket for requests without one.
extension HTTPRequest {
    /// Checks the headers Origin and Host (``WebSocketConfiguration/allowedOrigins``,
    /// ``WebSocketConfiguration/allowedHosts``).
    ///
    /// - Throws: the refusal with status 403, or 400 if there is more than one of them.
    package func checkOrigin(_ configuration: WebSocketConfiguration) throws(HTTPRefusal) {
        do throws(ServerHandshake.Refusal) {
            let (origins, hosts) = (headers.values("Origin"), headers.values("Host"))
            guard origins.count <= 1, hosts.count <= 1 else {
                throw ServerHandshake.Refusal(status: 400, reason: "there is more than one Origin or Host header")
            }
            try RequestAdmission.check(
                host: hosts.first ?? "",
                origin: origins.first,
                isPeerLocal: isPeerLocal,
                configuration
            )
        } catch {
            throw HTTPRefusal(error)
        }
    }

    /// Calls the app's decision (``WebSocketConfiguration/decide``) if the path is served
    /// (``WebSocketConfiguration/allowedPaths``). The decision gets a request whose query is `query`.
    ///
    /// - Returns: the identity from the decision; `nil` if it has given none.
    /// - Throws: the refusal, with status 404 or that of the decision.
    package func decide(_ configuration: WebSocketConfiguration, query: String) throws(HTTPRefusal) -> Identity? {
        let request = ClientRequest(
            path: path,
            query: query,
            subprotocols: [],
            headers: headers,
            clientCertificate: clientCertificate
        )
        do throws(ServerHandshake.Refusal) {
            return try ServerHandshake.decide(request, configuration)
        } catch {
            throw HTTPRefusal(error)
        }
    }
}
