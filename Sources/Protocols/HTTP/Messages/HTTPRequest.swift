import Primitives
import TransportAPI

/// A request that has arrived completely at a server, with its body (RFC 9110, section 3.4).
package struct HTTPRequest: Sendable {
    /// The method, in its own case: `GET`, `POST`.
    package var method: String
    /// The path as it was received: percent-encoded, without the query.
    package var path: String
    /// The query as it was received, without its question mark. Empty if there was none. It is never printed, because it may
    /// contain a token.
    @Secret package var query: String
    /// All headers, in their order. If the target of the request has an authority, Host has it too.
    package var headers: [HTTPHeader]
    /// The body; empty if there was none. It is never printed.
    @Secret package var body: [UInt8] = []
    /// Whether the request came over TLS.
    package var isEncrypted = false
    /// Whether the client is on this machine.
    package var isPeerLocal = false
    /// The verified certificate of the client; `nil` without TLS, and if the client has sent none.
    package var clientCertificate: TLSCertificate?

    /// Creates a request without a body.
    package init(method: String, path: String, query: String = "", headers: [HTTPHeader] = []) {
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
    }

    /// Returns the value of the only header with a name, whose case is ignored. Returns `nil` if there is none, or more than
    /// one.
    package func header(_ name: String) -> String? {
        let values = headers.values(name)
        return values.count == 1 ? values.first : nil
    }
}

/// Reports that more of the body of a request has arrived, and that it is not complete.
private final class HTTPBodyArriving: CoreSignal {
    /// The request without its body.
    let request: HTTPRequest
    let count: Int

    init(_ request: HTTPRequest, count: Int) {
        (self.request, self.count) = (request, count)
    }
}

/// Reports that a connection which has served requests is a WebSocket from now on.
private final class WebSocketOpened: CoreSignal {}

extension CoreSignal {
    /// The request, if an ``HTTPServerCore`` has reported one; `nil` for other signals.
    package var http: HTTPRequest? { (self as? SignalCarrier<HTTPRequest>)?.signal }

    /// The request without its body, and how many bytes of the body have arrived, if an ``HTTPServerCore`` reports that more of
    /// it has come and that some is missing.
    package var arrivingHTTP: (request: HTTPRequest, count: Int)? {
        (self as? HTTPBodyArriving).map { ($0.request, $0.count) }
    }

    /// Whether an ``HTTPServerCore`` reports that its connection, which has been opened for requests before, is a WebSocket
    /// from now on. A client or a proxy that keeps connections can use one for both. ``HTTPServerCore/isWebSocket`` is true.
    package var opensWebSocket: Bool { self is WebSocketOpened }
}

extension CoreEvent {
    /// The event for a request.
    static func http(_ request: HTTPRequest) -> CoreEvent { .signal(SignalCarrier(request)) }
    /// The event for a part of the body of a request.
    static func arriving(_ request: HTTPRequest) -> CoreEvent {
        var head = request
        head.body = []
        return .signal(HTTPBodyArriving(head, count: request.body.count))
    }
    /// The event for a WebSocket on a connection that has served requests.
    static var openedWebSocket: CoreEvent { .signal(WebSocketOpened()) }
}
