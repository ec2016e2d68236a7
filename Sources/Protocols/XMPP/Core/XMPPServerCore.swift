import Primitives
import TransportAPI

/// A server's side of XMPP for one client, for tests and measurements: the stream, authentication by PLAIN or ANONYMOUS, one
/// resource, and acknowledgements (XEP-0198).
///
/// Every message of the client is reported, whatever its address, and messages to the client come from the address to which
/// it wrote last. There are no other users, no roster and no storage. PLAIN is offered over encrypted connections and to
/// clients on this machine.
package struct XMPPServerCore: PackageCore {
    /// A step of the handshake, named after what has to come next.
    private enum Step: Sendable {
        case header, authentication, newHeader, binding, first
    }

    private let configuration: XMPPServerConfiguration
    private var phase = XMPPPhase<Step>.idle
    private var stream: XMPPStream
    /// A stanza that has opened the connection and is still to be handled.
    private var held: XMPPStreamReader.Part?
    private var domain = "localhost"
    private var user: String?
    /// The attribute with the address that the client has got, as each message to it has it.
    private var recipient: [UInt8] = []
    /// The address to which the client wrote last; `nil` before it wrote.
    private var partner: String?
    /// Whether the client is on this machine. Set it before ``start(_:)``.
    package var isPeerLocal = false
    package private(set) var identity: Identity?

    /// Creates the core of one connection.
    ///
    /// - Throws: The errors of ``XMPPServerConfiguration/validate()``.
    package init(_ configuration: XMPPServerConfiguration) throws(TransportError) {
        try configuration.validate()
        self.configuration = configuration
        stream = XMPPStream(
            .server,
            messageLimit: configuration.maximumMessageSize,
            window: configuration.maximumInFlight,
            isManaged: configuration.offersManagement,
            isAwaiting: false,
            acknowledgementTimeout: configuration.acknowledgementTimeout
        )
    }

    package var capabilities: Capabilities { stream.capabilities }
    package var acknowledges: Bool { configuration.offersManagement }
    package var expected: ForeignProtocol.Expected? { .xmpp }
    package var bufferedBytes: Int {
        mutating get { stream.bufferedBytes + stream.head.count + recipient.count }
    }

    package mutating func start(_ context: inout CoreContext) {
        guard case .idle = phase else { return }
        phase = .opening(.header, until: context.now.advanced(by: configuration.handshakeTimeout))
    }

    package mutating func next(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        if let event = stream.takeDeferred() { return event }
        switch phase {
        case .idle, .closed: return nil
        case .ending(let reason):
            phase = .closed
            return .closed(reason)
        case .opening, .open, .closing: break
        }
        let next: XMPPStreamReader.Part?
        if let held {
            next = held
            self.held = nil
        } else {
            next = try stream.next(&input, &context)
        }
        guard let part = next else { return nil }
        if case .opening(let step, let until) = phase {
            return try shake(part, step, until, &context) ?? .progress
        }
        switch try stream.receive(part, &context) {
        case .handled(let event): return event ?? .progress
        case .ended: return ended(&context)
        case .other(let element): return try receive(element, &context) ?? .progress
        }
    }

    private mutating func ended(_ context: inout CoreContext) -> CoreEvent {
        defer { phase = .closed }
        stream.end(&context)
        if case .closing(let reason, _) = phase { return .closed(reason) }
        return .closed(CloseReason(.peer, text: "the client ended the stream"))
    }

    private mutating func receive(
        _ element: XMPPElement,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        if element.isNamed("message", XMPPNamespace.client) {
            try note(partner: element["to"], &context)
            return try stream.event(of: element, &context)
        }
        if element.isNamed("error", XMPPNamespace.stream) {
            stream.end(&context)
            throw XMPPStreamError(element).error(in: stream.phase)
        }
        context.counters.controlWork &+= 1
        if element.isNamed("enable", XMPPNamespace.management) {
            let condition = "<unexpected-request xmlns='\(XMPPNamespace.stanzaErrors)'/>"
            stream.write("<failed xmlns='\(XMPPNamespace.management)'>\(condition)</failed>", &context)
        }
        return nil
    }

    /// The client has written to this address, so messages to it come from there.
    private mutating func note(partner to: String?, _ context: inout CoreContext) throws(TransportError) {
        guard let to, partner?.hasSameBytes(as: to) != true else { return }
        try check(to, "an address", atMost: XMPPCheck.longestAddress, &context)
        partner = to
        makeHead()
    }

    /// Checks the size of an address or of a part of one, which this side repeats in each message (RFC 7622, section 3.1).
    private mutating func check(
        _ text: String,
        _ name: String,
        atMost limit: Int,
        _ context: inout CoreContext
    ) throws(TransportError) {
        guard text.utf8.count <= limit else {
            throw stream.fail(
                .excess("the client sent \(name) of \(text.utf8.count) bytes; the limit is \(limit)"),
                &context
            )
        }
    }

    private mutating func makeHead() {
        var head = ByteBuffer()
        head.append(utf8: "<message type='chat'")
        if let partner { XMPPWriter.append("from", partner, to: &head) }
        head.append(contentsOf: recipient)
        stream.head = head.bytes(at: 0, count: head.count) ?? []
    }

    package func acknowledges(_ payload: Payload) -> Bool { configuration.offersManagement && stream.awaits(payload) }

    /// Sends a message to the client. Only at ``Payload/QoS/atLeastOnce`` its outcome is that of the acknowledgement, which
    /// comes when the client reads: a server that waited for that with each message could not send the next one.
    ///
    /// - Throws: `.unsupported` for a message with a topic and for one that is to be retained or sent at QoS 2,
    ///   `.messageTooLarge`, and `.invalidText` for a text that is not UTF-8.
    package mutating func send(
        _ payload: Payload,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        switch phase {
        case .open: return try stream.send(payload, id: id, &context)
        case .idle, .opening: throw TransportError.notOpen(isOver: false)
        case .closing, .ending, .closed: throw TransportError.notOpen(isOver: true)
        }
    }

    /// Asks for acknowledgements, which serves as a ping.
    ///
    /// - Throws: `.unsupported` if the client has not asked for acknowledgements.
    @discardableResult
    package mutating func ping(_ context: inout CoreContext) throws(TransportError) -> UInt64 {
        try stream.ping(&context)
    }

    package mutating func connectionEnded() {
        stream.release()
        held = nil
    }
}

// The handshake.
extension XMPPServerCore {
    private mutating func shake(
        _ part: XMPPStreamReader.Part,
        _ step: Step,
        _ until: Instant,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        context.counters.controlFrames += 1
        if case .end = part {
            stream.end(&context)
            throw TransportError(.closedByPeer, .handshake, "the client ended the stream during the handshake")
        }
        switch (step, part) {
        case (.header, .header(let header)):
            try begin(header, &context)
            writeMechanisms(&context)
            phase = .opening(.authentication, until: until)
        case (.authentication, .element(let request)):
            try authenticate(request, &context)
            stream.reader.restart()
            phase = .opening(.newHeader, until: until)
        case (.newHeader, .header(let header)):
            try begin(header, &context)
            let management = configuration.offersManagement ? "<sm xmlns='\(XMPPNamespace.management)'/>" : ""
            let bind = "<bind xmlns='\(XMPPNamespace.bind)'/>"
            stream.write("<stream:features>\(bind)\(management)</stream:features>", &context)
            phase = .opening(.binding, until: until)
        case (.binding, .element(let request)):
            try bind(request, &context)
            phase = .opening(.first, until: until)
        case (.first, .element(let element)): return try receiveFirst(element, &context)
        default:
            throw stream.fail(
                XMPPFault("bad-format", "a part of the stream is out of place in the handshake"),
                &context
            )
        }
        return nil
    }

    private mutating func begin(_ header: XMPPElement, _ context: inout CoreContext) throws(TransportError) {
        guard header.isNamed("stream", XMPPNamespace.stream) else {
            throw stream.fail(
                XMPPFault("invalid-namespace", "the client's first tag is not that of a stream"),
                &context
            )
        }
        guard header["version"]?.utf8.starts(with: "1.".utf8) == true else {
            let sentence = "the client speaks no version 1 of XMPP"
            throw stream.fail(XMPPFault("unsupported-version", sentence, code: .handshakeFailed), &context)
        }
        if let to = header["to"], !to.isEmpty {
            try check(to, "a domain", atMost: XMPPCheck.longestPart, &context)
            domain = to
        }
        var attributes = ByteBuffer()
        XMPPWriter.append("from", domain, to: &attributes)
        XMPPWriter.append("id", String(context.random.next(), radix: 16), to: &attributes)
        stream.begin(attributes.withUnsafeReadableBytes { String(decoding: $0, as: UTF8.self) }, &context)
    }

    private mutating func writeMechanisms(_ context: inout CoreContext) {
        let plain = isPlainAllowed(context) ? "<mechanism>PLAIN</mechanism>" : ""
        let all = "\(plain)<mechanism>ANONYMOUS</mechanism>"
        stream.write(
            "<stream:features><mechanisms xmlns='\(XMPPNamespace.sasl)'>\(all)</mechanisms></stream:features>",
            &context
        )
    }

    /// Whether nobody on the way can read a password.
    private func isPlainAllowed(_ context: borrowing CoreContext) -> Bool { context.isEncrypted || isPeerLocal }

    private mutating func authenticate(_ request: XMPPElement, _ context: inout CoreContext) throws(TransportError) {
        guard request.isNamed("auth", XMPPNamespace.sasl) else {
            throw stream.fail(XMPPFault("not-authorized", "the client does not authenticate"), &context)
        }
        var password: String?
        switch request["mechanism"] {
        case "ANONYMOUS"?: break
        case "PLAIN"?:
            guard isPlainAllowed(context) else {
                throw refuse("encryption-required", "the client sent a password over a plain connection", &context)
            }
            guard let decoded = Self.plain(request.text) else {
                throw refuse("malformed-request", "the client sent no user and password", &context)
            }
            (user, password) = (decoded.user, decoded.password)
        default: throw refuse("invalid-mechanism", "the client chose a mechanism that was not offered", &context)
        }
        if let authentication = configuration.authentication {
            guard authentication(user, password) else {
                throw refuse("not-authorized", "the client's account is refused", &context)
            }
            identity = user.map { Identity($0) }
        }
        stream.write("<success xmlns='\(XMPPNamespace.sasl)'/>", &context)
    }

    private mutating func refuse(
        _ condition: String,
        _ sentence: String,
        _ context: inout CoreContext
    ) -> TransportError {
        stream.write("<failure xmlns='\(XMPPNamespace.sasl)'><\(condition)/></failure>", &context)
        stream.end(&context)
        return TransportError(.authenticationFailed, .handshake, sentence)
    }

    /// Reads user and password (RFC 4616): three texts with U+0000 between them. The first one has another purpose.
    private static func plain(_ text: [UInt8]) -> (user: String, password: String)? {
        guard let bytes = text.withUnsafeBufferPointer({ Base64.decode($0) }), bytes.count <= 3 * 1024 else {
            return nil
        }
        let parts = bytes.split(separator: 0, omittingEmptySubsequences: false)
        guard parts.count == 3, let user = String(validating: parts[1], as: UTF8.self),
            let password = String(validating: parts[2], as: UTF8.self), !user.isEmpty,
            parts[1].count <= XMPPCheck.longestPart,
            XMPPWriter.isText(Array(parts[1]))
        else { return nil }
        return (user, password)
    }

    private mutating func bind(_ request: XMPPElement, _ context: inout CoreContext) throws(TransportError) {
        let bind = request.child("bind", XMPPNamespace.bind)
        guard request.isNamed("iq", XMPPNamespace.client), request["type"]?.hasSameBytes(as: "set") == true,
            let id = request["id"], let bind
        else {
            throw stream.fail(XMPPFault("not-authorized", "the client does not bind a resource"), &context)
        }
        let wanted = bind.child("resource", XMPPNamespace.bind).map { String(decoding: $0.text, as: UTF8.self) } ?? ""
        try check(wanted, "a resource", atMost: XMPPCheck.longestPart, &context)
        let resource = wanted.isEmpty ? String(context.random.next(), radix: 16) : wanted
        let local = user ?? String(context.random.next(), radix: 16)
        let address = "\(local)@\(domain)/\(resource)"
        context.output.append(utf8: "<iq type='result'")
        XMPPWriter.append("id", id, to: &context.output)
        context.output.append(utf8: "><bind xmlns='\(XMPPNamespace.bind)'><jid>")
        XMPPWriter.append(escaped: address.utf8, to: &context.output)
        stream.write("</jid></bind></iq>", &context)
        var attribute = ByteBuffer()
        XMPPWriter.append("to", address, to: &attribute)
        recipient = attribute.bytes(at: 0, count: attribute.count) ?? []
        makeHead()
    }

    /// Takes the client's first element after its binding. The request for acknowledgements, or any stanza that needs no
    /// answer, opens the connection.
    private mutating func receiveFirst(
        _ element: XMPPElement,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        if element.isNamed("iq", XMPPNamespace.client) {
            _ = try stream.receive(.element(element), &context)
            return nil
        }
        if configuration.offersManagement, element.isNamed("enable", XMPPNamespace.management) {
            stream.write("<enabled xmlns='\(XMPPNamespace.management)'/>", &context)
            stream.manage()
        } else {
            held = .element(element)
        }
        phase = .open
        stream.open()
        return .opened
    }
}

// The end, and the deadlines.
extension XMPPServerCore {
    package var lateHandshake: String {
        guard case .opening(let step, _) = phase else { return "the handshake was not complete in time" }
        return switch step {
        case .header, .newHeader: "the client's stream did not begin in time"
        case .authentication: "the client did not authenticate in time"
        case .binding: "the client bound no resource in time"
        case .first: "the client sent nothing after its binding"
        }
    }

    package mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        guard let event = phase.inputEnded() else { throw stream.inputEnded() }
        return event
    }

    /// Ends this side's stream, with a stream error if the reason has one, and waits for the end of the client's.
    package mutating func close(_ reason: CloseReason, _ context: inout CoreContext) {
        let until = context.now.advanced(by: configuration.closeTimeout)
        if phase.close(reason, until: until) { endStream(reason, &context) }
    }

    private mutating func endStream(_ reason: CloseReason, _ context: inout CoreContext) {
        guard let error = reason.error else { return stream.end(&context) }
        _ = stream.fail(XMPPFault("undefined-condition", error.reason, code: error.code), &context)
    }

    package var deadline: Instant? {
        mutating get {
            switch phase {
            case .idle, .ending, .closed: nil
            case .opening(_, let until), .closing(_, let until): until
            case .open: stream.acknowledgementDeadline
            }
        }
    }

    package mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {
        guard let deadline, deadline <= context.now else { return }
        stream.look(at: context)
        switch phase {
        case .idle, .ending, .closed: return
        case .opening:
            let fault = XMPPFault("connection-timeout", lateHandshake, code: .timedOut)
            throw stream.fail(fault, &context)
        case .closing(var reason, let until):
            let extended = max(until, context.outputMoved.advanced(by: configuration.closeTimeout))
            guard extended <= context.now else {
                phase = .closing(reason, until: extended)
                return
            }
            reason.error = TransportError(.timedOut, .closing, "the client did not end its stream in time")
            phase = .ending(reason)
        case .open: try stream.checkAcknowledgements(&context)
        }
    }
}
