import Primitives
import TransportAPI

/// What both sides of a stream have in common: its parts, its stanzas, their acknowledgements, and its end.
struct XMPPStream: Sendable {
    /// What a part of an open stream is to its side.
    enum Received {
        /// It is handled, with an event or without one.
        case handled(CoreEvent?)
        /// The stream of the peer has ended.
        case ended
        /// An element that the side itself handles.
        case other(XMPPElement)
    }

    private let role: CoreRole
    private let isManaged: Bool
    /// Whether callers wait for the acknowledgement of each message that does not choose.
    private let isAwaiting: Bool
    private let acknowledgementTimeout: Duration
    private let messageLimit: Int
    private let window: Int
    var reader: XMPPStreamReader
    /// The acknowledgements; `nil` until both sides have agreed on them.
    private(set) var acknowledgements: XMPPAcknowledgements?
    /// Events that come before the next part.
    private var deferred = Deque<CoreEvent>()
    private(set) var times = PathTimes()
    /// The start tag of each message that is sent, without its id and its end.
    var head: [UInt8] = []
    private var lastMessage: UInt64 = 0
    private var lastPing: UInt64 = 0
    /// How many bytes of the input the last call left unread.
    private var unread = 0
    /// Whether this side has begun its stream.
    private var isBegun = false
    /// Whether this side has ended its stream.
    private(set) var isEnded = false
    /// The phase of the connection, for errors.
    var phase = TransportError.Phase.handshake

    init(
        _ role: CoreRole,
        messageLimit: Int,
        window: Int,
        isManaged: Bool,
        isAwaiting: Bool,
        acknowledgementTimeout: Duration
    ) {
        self.role = role
        self.messageLimit = messageLimit
        self.window = window
        self.isManaged = isManaged
        self.isAwaiting = isAwaiting
        self.acknowledgementTimeout = acknowledgementTimeout
        reader = XMPPStreamReader()
    }

    /// The capabilities of the connection. Before the handshake is complete, they are those that it may get.
    var capabilities: Capabilities {
        let isManaged = phase == .handshake ? isManaged : acknowledgements != nil
        return Capabilities(
            hasNativePing: isManaged,
            acknowledgesMessages: isManaged && isAwaiting,
            distinguishesText: true,
            maximumMessageSize: messageLimit
        )
    }

    /// The memory that the peer makes this side use, in bytes.
    var bufferedBytes: Int { reader.bufferedBytes + (acknowledgements?.bufferedBytes ?? 0) }

    /// The peer is accepted. Stanzas may be as large as the largest message needs.
    mutating func open() {
        phase = .open
        reader.limits.stanza = XMPPMessage.stanzaLimit(messageLimit)
    }

    /// Both sides count stanzas from now on.
    mutating func manage() {
        acknowledgements = XMPPAcknowledgements(window: window)
    }

    /// The peer does not count stanzas.
    mutating func stopManaging() {
        acknowledgements = nil
    }

    // MARK: Input

    /// Takes the next event that is deferred, or the next part of the peer's stream.
    mutating func next(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> XMPPStreamReader.Part? {
        if input.count > unread { times.lastReceived = context.now }
        defer {
            unread = input.count
            context.counters.controlWork &+= reader.takeSpaceWork()
        }
        do throws(XMPPFault) {
            return try reader.next(&input)
        } catch {
            throw foreign(error, input, &context) ?? fail(error, &context)
        }
    }

    mutating func takeDeferred() -> CoreEvent? { deferred.popFirst() }

    /// The error for first bytes that are certainly or possibly of another protocol, which gets an answer of its own; `nil`
    /// for a mistake in XMPP.
    private func foreign(
        _ fault: XMPPFault,
        _ input: borrowing ByteBuffer,
        _ context: inout CoreContext
    ) -> TransportError? {
        guard reader.isBeforeHeader, reader.isBetweenParts else { return nil }
        let other = input.withUnsafeReadableBytes { ForeignProtocol($0) }
        guard other.isForeign(to: .xmpp) else { return nil }
        let (isEncrypted, time) = (context.isEncrypted, context.unixTime)
        if role == .server {
            other.answer(expected: .xmpp, isEncrypted: isEncrypted, to: &context.output, unixTime: time)
        }
        let error = TransportError(fault.code, phase, fault.sentence)
        return other.error(insteadOf: error, expected: .xmpp, by: role, isEncrypted: isEncrypted)
    }

    /// Handles a part of an open stream.
    mutating func receive(
        _ part: XMPPStreamReader.Part,
        _ context: inout CoreContext
    ) throws(TransportError) -> Received {
        do throws(XMPPFault) {
            switch part {
            case .end: return .ended
            case .header: throw .malformed("the peer began its stream twice")
            case .element(let element): return try receive(element, &context)
            }
        } catch {
            throw fail(error, &context)
        }
    }

    private mutating func receive(_ element: XMPPElement, _ context: inout CoreContext) throws(XMPPFault) -> Received {
        if element.namespace.hasSameBytes(as: XMPPNamespace.client) {
            acknowledgements?.receive()
            if element.name.hasSameBytes(as: "message") { return .other(element) }
            context.counters.controlFrames += 1
            context.counters.controlWork &+= 1
            if element.name.hasSameBytes(as: "presence") { return .handled(nil) }
            guard element.name.hasSameBytes(as: "iq") else {
                throw XMPPFault("unsupported-stanza-type", "the peer sent a stanza of no known kind")
            }
            try answer(element, &context)
            return .handled(nil)
        }
        context.counters.controlFrames += 1
        guard element.namespace.hasSameBytes(as: XMPPNamespace.management), acknowledgements != nil else {
            return .other(element)
        }
        switch element.name {
        case "r":
            if acknowledgements?.isAsked() == false { context.counters.controlWork &+= 1 }
            writeAnswer(&context)
            return .handled(nil)
        case "a": return .handled(try receiveAnswer(element, &context))
        default: return .other(element)
        }
    }

    private mutating func receiveAnswer(
        _ element: XMPPElement,
        _ context: inout CoreContext
    ) throws(XMPPFault) -> CoreEvent? {
        guard var acknowledgements else { return nil }
        let answer = try acknowledgements.answer(element, now: context.now) { deferred.append(.acknowledged($0)) }
        self.acknowledgements = acknowledgements
        if !answer.isNews, answer.request == nil { context.counters.controlWork &+= 1 }
        if let request = answer.request, request <= lastPing { deferred.append(.pong(request)) }
        ask(&context)
        return deferred.popFirst()
    }

    /// Answers a request, which must get an answer (RFC 6120, section 8.2.3). Only pings (XEP-0199) have a good one.
    private mutating func answer(_ request: XMPPElement, _ context: inout CoreContext) throws(XMPPFault) {
        guard let type = request["type"], type == "get" || type == "set" else { return }
        guard let id = request["id"] else { throw XMPPFault("bad-format", "the peer sent a request without an id") }
        let isPing = request.child("ping", XMPPNamespace.ping) != nil && type == "get"
        acknowledgements?.send()
        context.output.append(utf8: "<iq type='\(isPing ? "result" : "error")'")
        XMPPWriter.append("id", id, to: &context.output)
        if let from = request["from"] { XMPPWriter.append("to", from, to: &context.output) }
        let error = "<error type='cancel'><service-unavailable xmlns='\(XMPPNamespace.stanzaErrors)'/></error>"
        write(isPing ? "/>" : ">\(error)</iq>", &context)
    }

    /// Reads the payload of a message. A message that refuses one of this side is reported as its outcome.
    ///
    /// - Returns: the event; `nil` for a message without a payload.
    mutating func event(
        of message: XMPPElement,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        let type = message["type"] ?? "normal"
        guard type != "error" else {
            context.counters.controlFrames += 1
            guard let number = message["id"].flatMap(XMPPMessage.number),
                let id = acknowledgements?.refuse(number: number)
            else {
                context.counters.controlWork &+= 1
                return nil
            }
            return .refused(id, Self.refusal(message))
        }
        do throws(XMPPFault) {
            if type == "chat" || type == "normal", let payload = try XMPPMessage.payload(of: message) {
                guard payload.bytes.count <= messageLimit else {
                    throw .excess("the peer sent \(payload.bytes.count) bytes; the limit is \(messageLimit)")
                }
                return .message(payload)
            }
        } catch {
            throw fail(error, &context)
        }
        context.counters.controlFrames += 1
        context.counters.controlWork &+= 1
        return nil
    }

    /// The error of a message that was refused (RFC 6120, section 8.3).
    private static func refusal(_ message: XMPPElement) -> TransportError {
        let error = message.children.first { $0.name.hasSameBytes(as: "error") }
        let own = error?.children.filter { $0.namespace.hasSameBytes(as: XMPPNamespace.stanzaErrors) } ?? []
        let condition = own.first { !$0.name.hasSameBytes(as: "text") }?.name ?? "undefined-condition"
        let text = own.first { $0.name.hasSameBytes(as: "text") }.map { ": \($0.excerpt)" } ?? ""
        let isUnknown = condition == "item-not-found" || condition == "remote-server-not-found"
        let sentence = "the message is refused (\(String(excerptOf: condition.utf8))\(text))"
        return TransportError(isUnknown ? .notFound : .forbidden, .open, sentence)
    }

    /// Notes that the peer has closed the connection. Returns the error if it has not ended its stream.
    func inputEnded() -> TransportError {
        if phase == .handshake {
            return TransportError(.closedByPeer, .handshake, "the peer closed the connection during the handshake")
        }
        let place = reader.isBetweenParts && unread == 0 ? "without the end of its stream" : "in the middle of a stanza"
        return TransportError(.connectionLost, phase, "the peer closed the connection \(place)")
    }

    // MARK: Output

    /// Writes a part of the protocol itself. After the end of this side's stream, nothing is written.
    mutating func write(_ text: String, _ context: inout CoreContext) {
        guard !isEnded else { return }
        context.output.append(utf8: text)
        context.counters.controlFrames += 1
        times.lastSent = context.now
    }

    /// Writes the start tag of this side's stream.
    ///
    /// - Parameter attributes: those of the stream, each with a space before it.
    mutating func begin(_ attributes: String, _ context: inout CoreContext) {
        isBegun = true
        let namespaces = "xmlns='\(XMPPNamespace.client)' xmlns:stream='\(XMPPNamespace.stream)'"
        // A server of HTTP refuses the line, and would wait for its end.
        write("<?xml version='1.0'?>\n<stream:stream\(attributes) version='1.0' \(namespaces)>", &context)
    }

    /// Writes a stanza without a message, such as presence.
    mutating func write(other stanza: String, _ context: inout CoreContext) {
        acknowledgements?.send()
        write(stanza, &context)
    }

    /// Whether a caller waits for the acknowledgement of a message, if there are any.
    func awaits(_ payload: Payload) -> Bool { payload.qos.map { $0 != .atMostOnce } ?? isAwaiting }

    /// Writes a message.
    ///
    /// - Throws: `.unsupported` for a message with a topic and for one that is to be retained or sent at QoS 2,
    ///   `.messageTooLarge`, and `.invalidText` for a text that is not UTF-8.
    mutating func send(
        _ payload: Payload,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        guard payload.topic == nil, !payload.isRetained else {
            let sentence = "XMPP has no topics and retains nothing; send the message without"
            throw TransportError(.unsupported, .open, sentence)
        }
        guard payload.bytes.count <= messageLimit else {
            let sentence = "\(payload.bytes.count) bytes are more than the limit of \(messageLimit)"
            throw TransportError(.messageTooLarge, .open, "\(sentence): raise max-message on both sides")
        }
        guard payload.qos != .exactlyOnce else {
            throw TransportError(.unsupported, .open, "XMPP has no QoS 2: send at QoS 1")
        }
        let isAwaited = acknowledgements != nil && awaits(payload)
        if isAwaited, acknowledgements?.hasRoom == false { return .blocked }
        let isBody = payload.kind == .text && XMPPWriter.isText(payload.bytes)
        guard isBody || payload.kind != .text || payload.bytes.withUnsafeBytes({ UTF8Validator.isValid($0) }) else {
            throw TransportError(.invalidText, .open, "the text to send is not UTF-8")
        }
        lastMessage += 1
        XMPPMessage.write(payload, asBody: isBody, number: lastMessage, head: head, to: &context.output)
        times.lastSent = context.now
        acknowledgements?.send()
        guard isAwaited else { return .written }
        acknowledgements?.await(number: lastMessage, id: id)
        ask(&context)
        return .awaitingAcknowledgement
    }

    /// Asks for acknowledgements if messages wait for one.
    private mutating func ask(_ context: inout CoreContext) {
        if acknowledgements?.mustAsk == true { writeRequest(&context) }
    }

    private mutating func writeRequest(_ context: inout CoreContext) {
        _ = acknowledgements?.ask(now: context.now)
        write("<r xmlns='\(XMPPNamespace.management)'/>", &context)
    }

    /// Asks for acknowledgements as a ping.
    ///
    /// - Throws: `.unsupported` if there are none.
    mutating func ping(_ context: inout CoreContext) throws(TransportError) -> UInt64 {
        guard let number = acknowledgements?.ask(now: context.now) else {
            throw TransportError(.unsupported, .open, "without stream management, XMPP has no ping of this package")
        }
        lastPing = number
        write("<r xmlns='\(XMPPNamespace.management)'/>", &context)
        return number
    }

    // MARK: The end

    /// Ends this side's stream. What is received is acknowledged before, and what was sent is to be acknowledged.
    mutating func end(_ context: inout CoreContext) {
        guard isBegun, !isEnded else { return }
        if var acknowledgements {
            if acknowledgements.isAsked() { writeAnswer(&context) }
            if acknowledgements.isAwaited { write("<r xmlns='\(XMPPNamespace.management)'/>", &context) }
        }
        write("</stream:stream>", &context)
        isEnded = true
    }

    private mutating func writeAnswer(_ context: inout CoreContext) {
        let count = acknowledgements?.received ?? 0
        write("<a xmlns='\(XMPPNamespace.management)' h='\(count)'/>", &context)
    }

    /// Ends this side's stream with an error. Returns the error to throw.
    mutating func fail(_ fault: XMPPFault, _ context: inout CoreContext) -> TransportError {
        if !isBegun, role == .server { begin(" id='0'", &context) }
        if isBegun, !isEnded { XMPPStreamError.write(fault.condition, fault.sentence, to: &context.output) }
        end(&context)
        return TransportError(fault.code, phase, fault.sentence)
    }

    /// Releases the memory of a connection that has ended.
    mutating func release() {
        reader = XMPPStreamReader()
        acknowledgements = acknowledgements.map { XMPPAcknowledgements(window: $0.window) }
        deferred = Deque()
    }

    // MARK: Deadlines

    mutating func look(at context: borrowing CoreContext) { times.look(at: context) }

    /// When an acknowledgement is overdue. The time does not run while output is queued in the kernel, unless the peer has
    /// already answered it, or while the connection is not read because no caller takes its messages.
    private var acknowledgementDue: Instant? {
        guard let acknowledgements, let since = acknowledgements.since else { return nil }
        let moved = acknowledgements.isWithheld ? since : times.outputMoved
        return max(since, times.unreadUntil, moved).advanced(by: acknowledgementTimeout)
    }

    /// When ``checkAcknowledgements(_:)`` is due.
    var acknowledgementDeadline: Instant? { earlier(acknowledgementDue, acknowledgements?.askAgain) }

    /// Asks again for an acknowledgement that the peer has withheld, and ends the stream if one is overdue.
    mutating func checkAcknowledgements(_ context: inout CoreContext) throws(TransportError) {
        if let due = acknowledgementDue, due <= context.now {
            let sentence = "an acknowledgement did not come in time"
            throw fail(XMPPFault("connection-timeout", sentence, code: .acknowledgementTimeout), &context)
        }
        guard let again = acknowledgements?.askAgain, again <= context.now else { return }
        writeRequest(&context)
    }

    /// When white space is due, because this side has been silent for so long.
    func spaceDue(after interval: Duration?) -> Instant? {
        guard let interval, acknowledgements == nil else { return nil }
        return max(times.lastSent, times.outputMoved).advanced(by: interval)
    }

    /// Writes white space, the keepalive of XMPP (RFC 6120, section 4.6.1).
    mutating func writeSpace(_ context: inout CoreContext) { write(" ", &context) }
}
