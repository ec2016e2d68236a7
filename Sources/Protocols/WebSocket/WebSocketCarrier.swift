import Primitives
import TransportAPI

/// How the byte stream of another protocol travels in the messages of a WebSocket.
package struct WebSocketCarriage: Sendable {
    /// The subprotocol, which both sides must name.
    package var subprotocol: String
    /// The protocol with this carriage.
    package var expected: ForeignProtocol.Expected
    /// The name of the protocol without it, for errors.
    package var name: String
    /// The rule that a missing subprotocol breaks, in parentheses and with a space before it; empty if it has no number.
    package var rule = ""
    /// Why a text message is an error; `nil` if the protocol may come in texts. Then an output that is UTF-8 leaves as a
    /// text, because some servers read only those, and other output as a binary message.
    package var refusalOfTexts: String?

    /// Creates a carriage in texts and binary messages.
    package init(_ subprotocol: String, _ expected: ForeignProtocol.Expected, name: String) {
        (self.subprotocol, self.expected, self.name) = (subprotocol, expected, name)
    }

    /// All of this package, so that an error names the scheme for a subprotocol.
    package static let all = [mqtt, stomp]

    /// MQTT (MQTT 3.1.1, section 6).
    package static let mqtt = {
        var carriage = WebSocketCarriage("mqtt", .mqttWebSocket, name: "MQTT")
        carriage.rule = " (MQTT-6.0.0-4)"
        carriage.refusalOfTexts = "a text message is not MQTT (MQTT-6.0.0-1)"
        return carriage
    }()

    /// STOMP 1.2. The specification says nothing about WebSocket; the name is in the registry of subprotocols.
    package static let stomp = WebSocketCarriage("v12.stomp", .stompWebSocket, name: "STOMP")

    /// The carriage with this subprotocol; `nil` if it is none of this package.
    static func named(_ subprotocol: String) -> WebSocketCarriage? {
        all.first { $0.subprotocol.utf8.elementsEqual(subprotocol.utf8) }
    }
}

/// A core whose byte stream a WebSocket can carry.
package protocol CarriedCore: PackageCore {
    /// The side.
    static var role: CoreRole { get }
    /// How the WebSocket carries the protocol.
    static var carriage: WebSocketCarriage { get }
    /// Notes that the core is inside a WebSocket, whose handshake excludes other protocols.
    mutating func enterWebSocket()
    /// Notes that a part of a message has arrived, which is a sign of life of the peer.
    mutating func noteArrival(at now: Instant)
    /// Notes how many bytes of output wait to be written, in addition to the output of the next call.
    mutating func noteWaiting(_ bytes: Int)
}

/// Another protocol over WebSocket, such as MQTT or STOMP: the core of either side inside a WebSocket core.
///
/// The output of one call of the inner core becomes one message. The inner core reads the messages that arrive as one
/// stream of bytes, part by part. So frames of the protocol and messages need not end together, and only the limits of
/// the inner core apply. The connection ends with what the inner protocol ends with, and a WebSocket close frame after
/// it, whose answer is not awaited (MQTT-3.14.4-1).
package struct WebSocketCarrier<Inner: CarriedCore>: PackageCore {
    /// The bytes between the two cores. It is a class because a core can be copied but a buffer cannot. It is created
    /// when the connection starts, and the core is not copied after that.
    private final class Between: @unchecked Sendable {
        // Unchecked, because only the core that created it uses it.
        var input = ByteBuffer()
        var output = ByteBuffer()
    }

    private static var otherSubprotocol: String {
        "the server did not choose the subprotocol '\(Inner.carriage.subprotocol)'\(Inner.carriage.rule): it may be a "
            + "WebSocket server without \(Inner.carriage.name), for which the scheme is "
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
    /// The core of the other protocol.
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
        let subprotocol = Inner.carriage.subprotocol
        configuration.subprotocols = [subprotocol]
        configuration.maximumMessageSize = WebSocketConfiguration.largestMessage
        if Inner.role == .server {
            let decide = configuration.decide
            configuration.decide = { request in
                guard request.subprotocols.contains(subprotocol) else {
                    let required = HTTPHeader(parsed: "Sec-WebSocket-Protocol", subprotocol)
                    return .refuse(status: 400, headers: [required])
                }
                return decide?(request) ?? .accept
            }
        }
        outer = try WebSocketCore(Inner.role, configuration, givesParts: true)
        self.inner = inner
        self.inner.enterWebSocket()
    }

    package var capabilities: Capabilities { inner.capabilities }
    package var confirmsReceipt: Bool { inner.confirmsReceipt }
    package var identity: Identity? { outer.identity }
    package var expected: ForeignProtocol.Expected? { Inner.carriage.expected }
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
        if Inner.role == .client, input.count > unread { inner.noteArrival(at: context.now) }
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
        guard outer.subprotocol == Inner.carriage.subprotocol else {
            let scheme = ForeignProtocol.Expected.webSocket.scheme(isEncrypted: context.isEncrypted)
            let error = ClientHandshake.failed(Self.otherSubprotocol + scheme)
            throw fail(error, CloseCode.protocolError, &context)
        }
        isInside = true
        inside(&context) { $0.start(&$1) }
    }

    private mutating func take(_ message: Payload, _ context: inout CoreContext) throws(TransportError) {
        if message.kind == .text, let refusal = Inner.carriage.refusalOfTexts {
            let error = TransportError(.protocolViolation, .open, refusal)
            throw fail(error, CloseCode.unacceptableData, &context)
        }
        // Any part of a message is a sign of life for a server too. Other frames are not, because they contain nothing of the
        // protocol (MQTT-3.1.2-24).
        if message.bytes.isEmpty {
            context.counters.controlWork &+= 1
        } else {
            inner.noteArrival(at: context.now)
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
        inner.noteWaiting(context.output.count)
        swap(&context.output, &between.output)
        defer {
            swap(&context.output, &between.output)
            if !between.output.isEmpty {
                let maySendText = Inner.carriage.refusalOfTexts == nil
                between.output.withUnsafeReadableBytes { outer.write($0, maySendText: maySendText, &context) }
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
    /// Writes bytes as one uncompressed message, if the connection is open: as a text if that is allowed and they are
    /// UTF-8, otherwise as a binary message.
    fileprivate mutating func write(
        _ bytes: UnsafeRawBufferPointer,
        maySendText: Bool,
        _ context: inout CoreContext
    ) {
        guard phase == .open else { return }
        let isText = maySendText && UTF8Validator.isValid(bytes)
        let key = role == .client ? UInt32(truncatingIfNeeded: context.random.next()) : nil
        FrameWriter.write(isText ? .text : .binary, bytes, maskKey: key, to: &context.output)
    }
}

// The requirements of one side only.

extension WebSocketCarrier: SubscribingCore where Inner: SubscribingCore {
    package var facts: SubscriberFacts { inner.facts }

    package mutating func number(configured numbers: [UInt32]) { inner.number(configured: numbers) }

    package mutating func holdMessages(alsoLater: Bool) { inner.holdMessages(alsoLater: alsoLater) }

    package mutating func releaseMessages(_ context: inout CoreContext) {
        inside(&context) { $0.releaseMessages(&$1) }
    }

    package mutating func subscribe(
        _ requests: [SubscriptionRequest],
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SubscriptionSignal? {
        try inside(&context) { (core, context) throws(TransportError) in
            try core.subscribe(requests, id: id, &context)
        }
    }

    package mutating func unsubscribe(
        _ filters: [String],
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SubscriptionSignal? {
        try inside(&context) { (core, context) throws(TransportError) in
            try core.unsubscribe(filters, id: id, &context)
        }
    }
}
