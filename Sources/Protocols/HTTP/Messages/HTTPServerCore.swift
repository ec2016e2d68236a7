import TransportAPI

/// One connection at a server over HTTP/1.1 (RFC 9112): one request at a time, each with its whole body.
package struct HTTPServerCore: PackageCore {
    /// Whether the connection is a WebSocket from now on, or asks to be one. Every call is then passed to the core of
    /// WebSocket.
    package private(set) var isWebSocket = false
    /// The core of WebSocket; `nil` if the connection has none.
    package private(set) var webSocket: WebSocketCore?
    /// Whether the client of this server connects from the same machine. Set it before ``start(_:)``.
    package var isPeerLocal = false {
        didSet { webSocket?.isPeerLocal = isPeerLocal }
    }
    package var clientCertificate: TLSCertificate? {
        didSet { webSocket?.clientCertificate = clientCertificate }
    }
    private let configuration: HTTPServerConfiguration

    /// Creates the core of one connection.
    ///
    /// - Parameter webSocket: the core for requests that are not plain (``isPlain(_:)``); `nil` if all are.
    /// - Throws: `.invalidConfiguration` that names the key.
    package init(_ configuration: HTTPServerConfiguration, webSocket: WebSocketCore?) throws(TransportError) {
        try configuration.validate()
        self.configuration = configuration
        self.webSocket = webSocket
    }

    /// Whether a request was reported and not answered completely.
    package var isAnswering: Bool { false }

    /// Whether a head is that of a plain request for a session over HTTP: it does not ask for WebSocket, its method is GET,
    /// HEAD, POST or OPTIONS, and its query has an item whose name begins with ``parameterPrefix``.
    package static func isPlain(_ head: HTTPHead) -> Bool { true }

    /// The beginning of the names of the query items that belong to sessions over HTTP.
    package static let parameterPrefix = "im-"

    /// Answers the request that was reported with a whole response. The driver then calls ``next(_:_:)``: the next request
    /// may have arrived, or the connection ends after this response. Without such a request it does nothing.
    package mutating func answer(_ response: HTTPResponse, _ context: inout CoreContext) {}

    /// Begins the answer to the request that was reported. Its body, if it is not empty, is the first part of the body, and
    /// ``sendEncoded(_:_:)`` writes more of it. Without such a request it does nothing.
    package mutating func beginAnswer(_ response: HTTPResponse, _ context: inout CoreContext) {}

    /// Writes a part of the body of an answer that has begun. Otherwise the bytes are dropped.
    package mutating func sendEncoded(_ bytes: UnsafeRawBufferPointer, _ context: inout CoreContext) {}

    /// Ends the answer that has begun. The driver then calls ``next(_:_:)``. If no answer has begun, it does nothing.
    package mutating func endAnswer(_ context: inout CoreContext) {}

    package var capabilities: Capabilities {
        webSocket?.capabilities ?? Capabilities(hasNativePing: false, maximumMessageSize: configuration.maximumBody)
    }
    package var acknowledges: Bool { false }
    package var identity: Identity? { webSocket?.identity }
    package var expected: ForeignProtocol.Expected? { webSocket?.expected ?? .http }

    package mutating func start(_ context: inout CoreContext) {}

    package mutating func next(_ input: inout ByteBuffer, _ context: inout CoreContext) throws(TransportError)
        -> CoreEvent?
    { nil }

    package mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        .closed(CloseReason(.peer))
    }

    package mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {}

    package mutating func send(_ payload: Payload, id: UInt64, _ context: inout CoreContext) throws(TransportError)
        -> SendStatus
    {
        throw TransportError(.unsupported, .open, "a connection over HTTP carries requests; send over its session")
    }

    @discardableResult
    package mutating func ping(_ context: inout CoreContext) throws(TransportError) -> UInt64 {
        throw TransportError(.unsupported, .open, "HTTP has no ping")
    }

    package mutating func close(_ reason: CloseReason, _ context: inout CoreContext) {}

    package var deadline: Instant? { mutating get { nil } }
}
