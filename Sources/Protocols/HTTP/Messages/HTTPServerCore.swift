import TransportAPI

/// One connection at a server over HTTP/1.1 (RFC 9112): one request at a time, each with its whole body. A connection that
/// asks for WebSocket becomes one.
///
/// A request is reported as a signal (``CoreSignal/http``), after ``CoreEvent/opened`` if it is the first one. It is answered
/// with ``answer(_:_:)``, or with ``beginAnswer(_:_:)``, ``sendEncoded(_:_:)`` and ``endAnswer(_:)``. The input of further
/// requests waits until then.
///
/// Every request that is not plain (``isPlain(_:)``) goes to the core of WebSocket, if there is one, and so does everything
/// that is no request. It gets the bytes as they have arrived, and every later call. It then opens a WebSocket, or answers
/// with a page or a refusal and closes the connection.
package struct HTTPServerCore: PackageCore {
    /// What the answer to a request depends on.
    private struct Exchange: Sendable {
        /// Whether the response has no body, because the method is HEAD.
        var isHead: Bool
        /// Whether the request is of HTTP/1.0, so that the response has no chunks.
        var isOld: Bool
        /// Whether the connection ends after the response.
        var isLast: Bool
    }

    /// A request whose body arrives.
    private struct Incoming: Sendable {
        var request: HTTPRequest
        var reader: HTTPBodyReader
        var exchange: Exchange
        /// When its head was complete.
        var start: Instant
    }

    /// How the parts of a body are written.
    private enum BodyForm: Sendable {
        case chunks
        /// As they are. The end of the connection ends the body.
        case plain
        case none
    }

    private enum State: Sendable {
        /// Waits for a head.
        case head(HTTPHeadReader)
        case body(Incoming)
        /// `.opened` was reported, and the request must be.
        case complete(HTTPRequest, Exchange)
        /// The request was reported.
        case answering(Exchange)
        /// The answer has begun.
        case streaming(Exchange, BodyForm)
        /// `.closed` must be reported.
        case ending
        case ended
        /// Every call goes to the core of WebSocket.
        case webSocket
    }

    /// The beginning of the names of the query items that belong to sessions over HTTP.
    package static let parameterPrefix = "im-"
    /// How many bytes of a body must come per second, in the long run.
    private static let leastRate = 1 << 10
    private static let plainMethods = ["GET", "HEAD", "POST", "OPTIONS"]

    /// The core of WebSocket; `nil` if the connection cannot become one.
    package private(set) var webSocket: WebSocketCore?
    /// Whether the client of this server connects from the same machine. Set it before ``start(_:)``.
    package var isPeerLocal = false {
        didSet { webSocket?.isPeerLocal = isPeerLocal }
    }
    package var clientCertificate: TLSCertificate? {
        didSet { webSocket?.clientCertificate = clientCertificate }
    }
    private let configuration: HTTPServerConfiguration
    private var state = State.ended
    /// Whether `.opened` was reported.
    private var isOpened = false
    /// When the next head must have begun, or must be complete if it has begun.
    private var headDue: Instant?
    /// Whether a part of the next head has arrived.
    private var hasHeadBegun = false
    /// When the connection began.
    private var started = Instant.zero
    /// Why the connection has ended.
    private var ending = CloseReason.user

    /// Creates the core of one connection.
    ///
    /// - Parameter webSocket: the core for requests that are not plain (``isPlain(_:)``); `nil` if all requests are served
    ///   as if they were.
    /// - Throws: `.invalidConfiguration` that names the key.
    package init(_ configuration: HTTPServerConfiguration, webSocket: WebSocketCore?) throws(TransportError) {
        try configuration.validate()
        self.configuration = configuration
        self.webSocket = webSocket
    }

    /// Whether a head is that of a plain request, for a session over HTTP: it does not ask for WebSocket, its method is GET,
    /// HEAD, POST or OPTIONS, and its query has an item whose name begins with ``parameterPrefix``.
    package static func isPlain(_ head: HTTPHead) -> Bool {
        guard head.headers.list("Upgrade", count: "websocket") == 0, let line = try? HTTPRequestLine(head.startLine),
            plainMethods.contains(line.method), let target = try? line.parsedTarget()
        else { return false }
        return FormQuery.contains(prefix: parameterPrefix, target.query)
    }

    /// Whether the core of WebSocket has the connection: it opens a WebSocket, has one, or refuses.
    package var isWebSocket: Bool { if case .webSocket = state { true } else { false } }

    /// Whether a request was reported and not answered completely.
    package var isAnswering: Bool {
        switch state {
        case .answering, .streaming: true
        default: false
        }
    }

    /// The capabilities of a WebSocket, if the connection can become one. A connection for requests has none: messages go
    /// over sessions.
    package var capabilities: Capabilities {
        webSocket?.capabilities ?? Capabilities(hasNativePing: false, maximumMessageSize: configuration.maximumBody)
    }
    package var acknowledges: Bool { false }
    package var identity: Identity? { webSocket?.identity }
    package var expected: ForeignProtocol.Expected? { webSocket?.expected ?? .http }
    package var lateHandshake: String { "no request came in time" }

    /// The memory of the body that arrives, or of the WebSocket.
    package var bufferedBytes: Int {
        mutating get {
            switch state {
            case .body(let incoming): incoming.request.body.capacity
            case .webSocket: webSocket?.bufferedBytes ?? 0
            default: 0
            }
        }
    }

    package mutating func start(_ context: inout CoreContext) {
        started = context.now
        awaitHead(until: context.now.advanced(by: configuration.handshakeTimeout))
    }

    private mutating func awaitHead(until due: Instant) {
        headDue = due
        hasHeadBegun = false
        state = .head(
            HTTPHeadReader(
                maximumBytes: configuration.maximumHeaderBytes,
                maximumCount: configuration.maximumHeaderCount,
                skipsEmptyLines: true
            )
        )
    }

    /// Reads until there is something to report.
    ///
    /// - Throws: the refusal of a request that is malformed or too large, after the response with the matching status is
    ///   written; `.tooManyRequests` if too many bytes arrive before a request is answered; the errors of WebSocket.
    package mutating func next(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        switch state {
        case .webSocket: return try nextOfWebSocket(&input, &context)
        case .head(let reader): return try readHead(reader, &input, &context)
        case .body: return try readBody(&input, &context)
        case .complete(let request, let exchange):
            state = .answering(exchange)
            return .http(request)
        case .answering, .streaming:
            guard input.count <= configuration.maximumHeaderBytes else {
                throw end(.tooMany("too many requests came before the first was answered", .open))
            }
            return nil
        case .ending:
            input.removeAll()
            state = .ended
            return .closed(ending)
        case .ended:
            input.removeAll()
            return nil
        }
    }

    /// Handles the end of the peer's output. A client that has ended its half of the connection does not get the answer to its
    /// request.
    ///
    /// - Throws: `.connectionLost` in the middle of a request and before the first one; the errors of WebSocket.
    package mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        switch state {
        case .webSocket:
            return try webSocket?.inputEnded(&context) ?? .closed(ending)
        case .head where !isOpened || hasHeadBegun, .body:
            throw end(TransportError(.connectionLost, .handshake, "the connection ended before a request was complete"))
        case .head, .complete, .answering, .streaming: ending = CloseReason(.peer)
        case .ending, .ended: break
        }
        state = .ended
        return .closed(ending)
    }

    /// When a head, a body or the next request must have come, or the deadline of the WebSocket.
    package var deadline: Instant? {
        mutating get {
            switch state {
            case .webSocket: webSocket?.deadline
            case .head: headDue
            case .body(let incoming): due(incoming)
            default: nil
            }
        }
    }

    /// When so many bytes of a body no longer suffice.
    private func due(_ incoming: Incoming) -> Instant {
        let allowed = Duration.milliseconds(incoming.request.body.count * 1000 / Self.leastRate)
        return incoming.start.advanced(by: configuration.handshakeTimeout + allowed)
    }

    /// Ends an idle connection, and a request that comes too slowly.
    ///
    /// - Throws: `.timedOut` after status 408 was written; the errors of WebSocket.
    package mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {
        switch state {
        case .webSocket: try webSocket?.deadlineReached(&context)
        case .head:
            guard let headDue, headDue <= context.now else { return }
            if isOpened, !hasHeadBegun {
                end(CloseReason(.user, text: "no further request came in time"))
            } else {
                throw refuse(ServerHandshake.Refusal(status: 408, reason: lateHandshake), &context)
            }
        case .body(let incoming) where due(incoming) <= context.now:
            let reason = "the body of the request came too slowly"
            throw refuse(ServerHandshake.Refusal(status: 408, reason: reason), &context)
        default: break
        }
    }

    package mutating func connectionEnded() {
        if isWebSocket { webSocket?.connectionEnded() } else { state = .ended }
    }

    package mutating func close(_ reason: CloseReason, _ context: inout CoreContext) {
        switch state {
        case .webSocket: webSocket?.close(reason, &context)
        case .ending, .ended: break
        default: end(reason)
        }
    }

    /// Sends a message over the WebSocket.
    ///
    /// - Throws: `.unsupported` on a connection for requests, whose messages go over sessions.
    package mutating func send(
        _ payload: Payload,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        guard isWebSocket, let status = try webSocket?.send(payload, id: id, &context) else {
            throw TransportError(.unsupported, .open, "a connection for HTTP requests carries no messages of its own")
        }
        return status
    }

    @discardableResult
    package mutating func ping(_ context: inout CoreContext) throws(TransportError) -> UInt64 {
        guard isWebSocket, let number = try webSocket?.ping(&context) else {
            throw TransportError(.unsupported, .open, "HTTP has no ping")
        }
        return number
    }
}

// Requests, read as they arrive.
extension HTTPServerCore {
    private mutating func readHead(
        _ reader: HTTPHeadReader,
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        var reader = reader
        let found: HTTPHeadReader.Found?
        do throws(HTTPHeadError) {
            found = try reader.find(&input)
        } catch {
            guard webSocket == nil else { return try becomeWebSocket(&input, &context) }
            throw refuse(error, input, &context)
        }
        guard let found else {
            state = .head(reader)
            // A single CR is the beginning of an empty line, which is skipped.
            if !hasHeadBegun, let first = input.byte(at: 0), first != UInt8(ascii: "\r") {
                hasHeadBegun = true
                headDue = context.now.advanced(by: configuration.handshakeTimeout)
            }
            return nil
        }
        guard webSocket == nil || Self.isPlain(found.head) else { return try becomeWebSocket(&input, &context) }
        reader.consume(found, &input)
        do throws(ServerHandshake.Refusal) {
            state = .body(try begin(found.head, &context))
        } catch {
            throw refuse(error, &context)
        }
        return try readBody(&input, &context)
    }

    /// Checks the head of a request, and answers its Expect header.
    private func begin(
        _ head: HTTPHead,
        _ context: inout CoreContext
    ) throws(ServerHandshake.Refusal) -> Incoming {
        let line = try HTTPRequestLine(head.startLine)
        let target = try line.parsedTarget()
        guard try ServerHandshake.single("Host", head.headers).map(HTTPSyntax.isHost) ?? line.isOld else {
            throw ServerHandshake.bad("there is no valid Host header")
        }
        var request = HTTPRequest(method: line.method, path: target.path, query: target.query, headers: head.headers)
        if let authority = target.authority {
            // The authority in the target replaces the header (RFC 9112, section 3.2.2).
            request.headers.removeAll { $0.isNamed("Host") }
            request.headers.append(HTTPHeader(parsed: "Host", authority))
        }
        request.isEncrypted = context.isEncrypted
        request.isPeerLocal = isPeerLocal
        request.clientCertificate = clientCertificate
        let framing: HTTPBodyFraming
        let reader: HTTPBodyReader
        do throws(HTTPMessageError) {
            framing = try HTTPBodyFraming(request: head.headers, isOld: line.isOld)
            reader = try HTTPBodyReader(
                framing,
                maximumBody: configuration.maximumBody,
                maximumTrailers: configuration.maximumHeaderBytes
            )
        } catch {
            throw ServerHandshake.Refusal(error)
        }
        let expectations = line.isOld ? [] : head.headers.values("Expect")
        guard expectations.allSatisfy({ HTTPSyntax.equalIgnoringCase($0, "100-continue") }) else {
            throw ServerHandshake.Refusal(status: 417, reason: "the request expects more than 100-continue")
        }
        if !expectations.isEmpty, framing != .length(0) { context.output.append(utf8: "HTTP/1.1 100 Continue\r\n\r\n") }
        let exchange = Exchange(
            isHead: line.method == "HEAD",
            isOld: line.isOld,
            isLast: line.isOld || head.headers.list("Connection", count: "close") > 0
        )
        return Incoming(request: request, reader: reader, exchange: exchange, start: context.now)
    }

    private mutating func readBody(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        guard case .body(var incoming) = state else { return nil }
        // The body must have one owner, so that it grows in place.
        state = .ended
        let before = incoming.request.body.count
        do throws(HTTPMessageError) {
            guard try incoming.reader.read(&input, into: &incoming.request.body) else {
                let hasGrown = incoming.request.body.count > before
                let event: CoreEvent? = hasGrown ? .arriving(incoming.request) : nil
                state = .body(incoming)
                return event
            }
        } catch {
            throw refuse(ServerHandshake.Refusal(error), &context)
        }
        guard isOpened else {
            isOpened = true
            state = .complete(incoming.request, incoming.exchange)
            return .opened
        }
        state = .answering(incoming.exchange)
        return .http(incoming.request)
    }

    /// Passes everything from the bytes in the input on to the core of WebSocket.
    private mutating func becomeWebSocket(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        state = .webSocket
        webSocket?.start(&context)
        return try nextOfWebSocket(&input, &context)
    }

    private mutating func nextOfWebSocket(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        let event = try webSocket?.next(&input, &context)
        guard case .opened? = event, isOpened else {
            if case .opened? = event { isOpened = true }
            return event
        }
        return .openedWebSocket
    }

    /// Answers a head that cannot be read. Returns the error to throw.
    private mutating func refuse(
        _ error: HTTPHeadError,
        _ input: borrowing ByteBuffer,
        _ context: inout CoreContext
    ) -> TransportError {
        let refusal = ServerHandshake.Refusal(error)
        let foreign = input.withUnsafeReadableBytes { ForeignProtocol($0) }
        guard !isOpened, foreign.isForeign(to: .http) else { return refuse(refusal, &context) }
        let (isEncrypted, time) = (context.isEncrypted, context.unixTime)
        // A client of TLS can read an alert, and the others recognize HTTP.
        if foreign == .tls {
            foreign.answer(expected: .http, isEncrypted: isEncrypted, to: &context.output, unixTime: time)
        } else {
            ServerHandshake.write(refusal, to: &context.output, unixTime: time)
        }
        return end(foreign.error(insteadOf: refusal.error, expected: .http, by: .server, isEncrypted: isEncrypted))
    }

    /// Answers with a refusal. Returns the error to throw.
    private mutating func refuse(_ refusal: ServerHandshake.Refusal, _ context: inout CoreContext) -> TransportError {
        ServerHandshake.write(refusal, to: &context.output, unixTime: unixTime(context))
        return end(refusal.error)
    }

    /// Ends the connection. Returns the error to throw.
    private mutating func end(_ error: TransportError) -> TransportError {
        state = .ended
        ending = CloseReason(error)
        return error
    }

    /// Ends the connection cleanly.
    private mutating func end(_ reason: CloseReason) {
        state = .ending
        ending = reason
    }
}

// Answers. They write to the output, and report nothing.
extension HTTPServerCore {
    /// Answers the request that was reported with a whole response. The driver then calls ``next(_:_:)``, because the next
    /// request may have arrived, and because the connection may end after this response. Without such a request, and after
    /// the answer has begun, it does nothing.
    package mutating func answer(_ response: HTTPResponse, _ context: inout CoreContext) {
        guard case .answering(let exchange) = state else { return }
        let isAllowed = response.allowsBody
        let length = isAllowed ? HTTPHeader(parsed: "Content-Length", "\(response.body.count)") : nil
        write(response, length, isLast: exchange.isLast, &context)
        if isAllowed, !exchange.isHead { context.output.append(contentsOf: response.body) }
        finish(exchange, &context)
    }

    /// Begins the answer to the request that was reported. The body of `response`, if it is not empty, is the first part, and
    /// ``sendEncoded(_:_:)`` writes the others. Without such a request, and after the answer has begun, it does nothing.
    package mutating func beginAnswer(_ response: HTTPResponse, _ context: inout CoreContext) {
        guard case .answering(let exchange) = state else { return }
        let form: BodyForm = exchange.isHead || !response.allowsBody ? .none : exchange.isOld ? .plain : .chunks
        let coding = form == .chunks ? HTTPHeader(parsed: "Transfer-Encoding", "chunked") : nil
        write(response, coding, isLast: exchange.isLast, &context)
        state = .streaming(exchange, form)
        response.body.withUnsafeBytes { sendEncoded($0, &context) }
    }

    /// Writes a part of the body of an answer that has begun, as one chunk, or an encoded message of the WebSocket. Otherwise
    /// the bytes are dropped.
    package mutating func sendEncoded(_ bytes: UnsafeRawBufferPointer, _ context: inout CoreContext) {
        switch state {
        case .webSocket: webSocket?.sendEncoded(bytes, &context)
        case .streaming(_, .chunks) where !bytes.isEmpty:
            context.output.append(utf8: String(bytes.count, radix: 16) + "\r\n")
            context.output.append(contentsOf: bytes)
            context.output.append(utf8: "\r\n")
        case .streaming(_, .plain): context.output.append(contentsOf: bytes)
        default: break
        }
    }

    /// Ends the answer that has begun. The driver then calls ``next(_:_:)``, as after ``answer(_:_:)``. If no answer has
    /// begun, it does nothing.
    package mutating func endAnswer(_ context: inout CoreContext) {
        guard case .streaming(let exchange, let form) = state else { return }
        if form == .chunks { context.output.append(utf8: "0\r\n\r\n") }
        finish(exchange, &context)
    }

    private func write(
        _ response: HTTPResponse,
        _ framing: HTTPHeader?,
        isLast: Bool,
        _ context: inout CoreContext
    ) {
        context.output.append(utf8: "HTTP/1.1 \(response.status) \(HTTPResponse.phrase(response.status))\r\n")
        context.output.append(date: unixTime(context))
        for header in response.headers where !HTTPResponse.isReserved(header) {
            context.output.append(header: header.name, header.value)
        }
        if let framing { context.output.append(header: framing.name, framing.value) }
        if isLast { context.output.append(header: "Connection", "close") }
        context.output.append(utf8: "\r\n")
    }

    private mutating func finish(_ exchange: Exchange, _ context: inout CoreContext) {
        if exchange.isLast {
            end(CloseReason(.user, text: "the last request of the connection was answered"))
        } else {
            awaitHead(until: context.now.advanced(by: configuration.idleTimeout))
        }
    }

    /// The time of this machine in seconds since 1970. Connections may last for hours.
    private func unixTime(_ context: borrowing CoreContext) -> Int64? {
        let elapsed = started.duration(to: context.now).components.seconds
        return context.unixTime.map { $0 + elapsed }
    }
}

extension ServerHandshake.Refusal {
    /// Creates the refusal of a request whose body cannot be read.
    fileprivate init(_ error: HTTPMessageError) {
        self.init(status: error.status, reason: "the request cannot be read: \(error.reason)")
    }
}
