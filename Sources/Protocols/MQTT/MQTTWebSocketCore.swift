import TransportAPI

/// MQTT over WebSocket (MQTT 3.1.1, section 6): the MQTT core of either side inside a WebSocket core.
///
/// The output of one call of the inner core becomes one binary message. The inner core reads the messages that arrive
/// as one stream of bytes, part by part. So packets and messages need not end together, and only the limits of the
/// inner core apply. The subprotocol must be "mqtt". The connection ends with DISCONNECT and a WebSocket close frame
/// after it, whose answer is not awaited (MQTT-3.14.4-1).
package struct MQTTWebSocketCore<Inner: MQTTCore>: PackageCore {
    /// The bytes between the two cores. It is a class because a core can be copied but a buffer cannot. It is created
    /// when the connection starts, and the core is not copied after that.
    private final class Between: @unchecked Sendable {
        // Unchecked, because only the core that created it uses it.
        var input = ByteBuffer()
        var output = ByteBuffer()
    }

    private static var otherSubprotocol: String {
        "the server did not choose the subprotocol 'mqtt' (MQTT-6.0.0-4): it may be a WebSocket server without MQTT, for "
            + "which the scheme is "
    }
    private(set) var outer: WebSocketCore
    /// Whether the client of this server connects from the same machine. Set it before ``start(_:)``.
    package var isPeerLocal: Bool {
        get { outer.isPeerLocal }
        set { outer.isPeerLocal = newValue }
    }
    package var cookies: CookieHeader? {
        get { outer.cookies }
        set { outer.cookies = newValue }
    }
    package var receivedCookies: [SetCookie] { outer.receivedCookies }
    package var clientCertificate: TLSCertificate? {
        get { outer.clientCertificate }
        set {
            outer.clientCertificate = newValue
            inner.clientCertificate = newValue
        }
    }
    /// The MQTT core.
    package var inner: Inner
    private var between: Between?
    /// Whether the WebSocket is open and the inner core has started.
    private var isInside = false
    /// Whether the inner core has reported the end or an error.
    private var isOver = false
    /// How many bytes of the input the last ``next(_:_:)`` left unread.
    private var unread = 0

    /// Creates the core of one connection. It replaces the subprotocols and the largest message of `configuration`.
    ///
    /// - Throws: `.invalidConfiguration` that names the key.
    package init(_ inner: Inner, over configuration: WebSocketConfiguration) throws(TransportError) {
        var configuration = configuration
        configuration.subprotocols = [WebSocketConfiguration.mqttSubprotocol]
        configuration.maximumMessageSize = WebSocketConfiguration.largestMessage
        if Inner.role == .server {
            let decide = configuration.decide
            configuration.decide = { request in
                guard request.subprotocols.contains(WebSocketConfiguration.mqttSubprotocol) else {
                    return .refuse(
                        status: 400,
                        headers: [HTTPHeader(parsed: "Sec-WebSocket-Protocol", WebSocketConfiguration.mqttSubprotocol)]
                    )
                }
                return decide?(request) ?? .accept
            }
        }
        outer = try WebSocketCore(Inner.role, configuration, givesParts: true)
        self.inner = inner
        self.inner.flow.isInsideWebSocket = true
    }

    package var capabilities: Capabilities { inner.capabilities }
    package var confirmsReceipt: Bool { inner.confirmsReceipt }
    package var identity: Identity? { outer.identity }
    package var expected: ForeignProtocol.Expected? { .mqttWebSocket }
    package var lateHandshake: String { isInside ? inner.lateHandshake : outer.lateHandshake }
    package var isAccepted: Bool { inner.isAccepted }
    package func acknowledges(_ payload: Payload) -> Bool { inner.acknowledges(payload) }

    package mutating func completion(of id: UInt64, _ context: inout CoreContext) -> SendCompletion? {
        inside(&context) { $0.completion(of: id, &$1) }
    }

    package func forget(_ id: UInt64) { inner.forget(id) }

    /// The memory of both cores and of a packet that has not arrived whole, in bytes.
    package var bufferedBytes: Int {
        mutating get { outer.bufferedBytes + (between?.input.capacity ?? 0) + inner.bufferedBytes }
    }

    package mutating func start(_ context: inout CoreContext) {
        between = Between()
        outer.start(&context)
    }

    package mutating func next(_ input: inout ByteBuffer, _ context: inout CoreContext) throws(TransportError)
        -> CoreEvent?
    {
        // For a client, part of a long message is a sign of life.
        if Inner.role == .client, input.count > unread { inner.flow.times.lastReceived = context.now }
        defer { unread = input.count }
        while !isOver {
            if isInside, let event = try nextInside(&context) { return event }
            switch try outer.next(&input, &context) {
            case nil: return nil
            case .opened: try open(&context)
            case .message(let message):
                try take(message, &context)
                // A peer may send packets byte by byte, each byte as a message. Other connections are served in
                // between.
                return try nextInside(&context) ?? .progress
            case .closed(let reason): return try outerClosed(reason, &context)
            case .progress: return .progress
            default: continue
            }
        }
        input.removeAll()
        return nil
    }

    private mutating func open(_ context: inout CoreContext) throws(TransportError) {
        guard outer.subprotocol == WebSocketConfiguration.mqttSubprotocol else {
            let scheme = ForeignProtocol.Expected.webSocket.scheme(isEncrypted: context.isEncrypted)
            let error = ClientHandshake.failed(Self.otherSubprotocol + scheme)
            throw fail(error, CloseCode.protocolError, &context)
        }
        isInside = true
        inside(&context) { $0.start(&$1) }
    }

    private mutating func take(_ message: Payload, _ context: inout CoreContext) throws(TransportError) {
        guard message.kind == .binary else {
            let error = TransportError(.protocolViolation, .open, "a text message is not MQTT (MQTT-6.0.0-1)")
            throw fail(error, CloseCode.unacceptableData, &context)
        }
        // Any part of a message is a sign of life for a server too. Other frames are not, because they contain no MQTT
        // (MQTT-3.1.2-24).
        if message.bytes.isEmpty {
            context.counters.controlWork &+= 1
        } else {
            inner.flow.times.lastReceived = context.now
        }
        between?.input.append(contentsOf: message.bytes)
    }

    /// Runs the inner core on the bytes that have arrived.
    private mutating func nextInside(_ context: inout CoreContext) throws(TransportError) -> CoreEvent? {
        guard let between else { return nil }
        let event: CoreEvent?
        do throws(TransportError) {
            event = try inside(&context) { (core, context) throws(TransportError) in
                try core.next(&between.input, &context)
            }
        } catch {
            throw fail(error, CloseCode.forError(error), &context)
        }
        if between.input.isEmpty { between.input = ByteBuffer() }
        if case .closed(let reason)? = event {
            isOver = true
            outer.close(reason, &context)
        }
        return event
    }

    /// The peer has sent a WebSocket close frame without DISCONNECT before it.
    private mutating func outerClosed(
        _ reason: CloseReason,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent {
        isOver = true
        if let error = reason.error { throw error }
        return isInside ? try inner.inputEnded(&context) : .closed(reason)
    }

    package mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        isOver = true
        return try outer.inputEnded(&context)
    }

    package mutating func send(
        _ payload: Payload,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        try inside(&context) { (core, context) throws(TransportError) in try core.send(payload, id: id, &context) }
    }

    package mutating func sendEncoded(_ bytes: UnsafeRawBufferPointer, _ context: inout CoreContext) {
        inside(&context) { $0.sendEncoded(bytes, &$1) }
    }

    @discardableResult
    package mutating func ping(_ context: inout CoreContext) throws(TransportError) -> UInt64 {
        try inside(&context) { (core, context) throws(TransportError) in try core.ping(&context) }
    }

    package mutating func confirmReceipt(_ context: inout CoreContext) {
        inside(&context) { $0.confirmReceipt(&$1) }
    }

    package mutating func close(_ reason: CloseReason, _ context: inout CoreContext) {
        guard isInside else { return outer.close(reason, &context) }
        inside(&context) { $0.close(reason, &$1) }
    }

    package mutating func connectionEnded() {
        outer.connectionEnded()
        inner.connectionEnded()
        if let between { between.input = ByteBuffer() }
    }

    package var deadline: Instant? {
        mutating get {
            guard !isOver else { return nil }
            guard isInside, let inner = inner.deadline else { return outer.deadline }
            return outer.deadline.map { min($0, inner) } ?? inner
        }
    }

    package mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {
        if let due = outer.deadline, due <= context.now { try outer.deadlineReached(&context) }
        guard isInside, !isOver, let due = inner.deadline, due <= context.now else { return }
        do throws(TransportError) {
            try inside(&context) { (core, context) throws(TransportError) in try core.deadlineReached(&context) }
        } catch {
            // With this code the client may connect again. After 1008 a supervisor gives up.
            throw fail(error, ClosePayload.timedOut, &context)
        }
    }

    // MARK: Between the cores

    /// Calls the inner core, and sends its output as one message.
    mutating func inside<R, E: Error>(
        _ context: inout CoreContext,
        _ body: (inout Inner, inout CoreContext) throws(E) -> R
    ) throws(E) -> R {
        guard let between else { return try body(&inner, &context) }
        inner.flow.waiting = context.output.count
        swap(&context.output, &between.output)
        defer {
            swap(&context.output, &between.output)
            if !between.output.isEmpty {
                between.output.withUnsafeReadableBytes { outer.writeBinary($0, &context) }
                between.output = ByteBuffer()
            }
        }
        return try body(&inner, &context)
    }

    /// Ends the connection with a close frame that contains the reason. Returns the error to throw.
    private mutating func fail(
        _ error: TransportError,
        _ code: UInt16,
        _ context: inout CoreContext
    ) -> TransportError {
        isOver = true
        outer.close(CloseReason(.protocolError, code: code, text: error.reason), &context)
        return error
    }
}

extension WebSocketCore {
    /// Writes bytes as one uncompressed binary message, if the connection is open.
    fileprivate mutating func writeBinary(_ bytes: UnsafeRawBufferPointer, _ context: inout CoreContext) {
        guard phase == .open else { return }
        let key = role == .client ? UInt32(truncatingIfNeeded: context.random.next()) : nil
        FrameWriter.write(.binary, bytes, maskKey: key, to: &context.output)
    }
}

// The requirements of one side only.

extension MQTTWebSocketCore: SubscribingCore where Inner: SubscribingCore {
    package var facts: MQTTClientFacts { inner.facts }

    package mutating func holdMessages(alsoLater: Bool) { inner.holdMessages(alsoLater: alsoLater) }

    package mutating func releaseMessages(_ context: inout CoreContext) {
        inside(&context) { $0.releaseMessages(&$1) }
    }

    package mutating func subscribe(
        _ subscriptions: [MQTTSubscription],
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) {
        try inside(&context) { (core, context) throws(TransportError) in
            try core.subscribe(subscriptions, id: id, &context)
        }
    }

    package mutating func unsubscribe(
        _ filters: [String],
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) {
        try inside(&context) { (core, context) throws(TransportError) in
            try core.unsubscribe(filters, id: id, &context)
        }
    }
}

extension MQTTWebSocketCore: BrokeredCore where Inner: BrokeredCore {
    package var live: MQTTSession? { inner.live }

    package mutating func grant(_ packetID: UInt16, _ granted: [MQTTQoS?], _ context: inout CoreContext) {
        inside(&context) { $0.grant(packetID, granted, &$1) }
    }

    package mutating func confirmUnsubscribe(_ packetID: UInt16, _ context: inout CoreContext) {
        inside(&context) { $0.confirmUnsubscribe(packetID, &$1) }
    }
}

extension WebSocketConfiguration {
    /// The subprotocol of MQTT (MQTT-6.0.0-3).
    static let mqttSubprotocol = "mqtt"
}
