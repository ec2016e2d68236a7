import Primitives
import TransportAPI

/// A client's side of XMPP (RFC 6120, RFC 6121 and XEP-0198), as far as two partners need it to exchange messages.
///
/// It opens a stream, authenticates (PLAIN for an account, ANONYMOUS without one), binds a resource, asks for
/// acknowledgements, and says that it is available. Messages go to one partner, and only messages of that partner are
/// reported, because a payload does not say who sent it. There is no roster, no room and no history; an app that needs
/// those uses a client of XMPP.
///
/// The core never takes STARTTLS. Encryption is that of the connection, from its first byte on (XEP-0368).
package struct XMPPClientCore: PackageCore {
    /// A step of the handshake, named after what has to come next.
    enum Step: Sendable {
        case header, features, success, newHeader, newFeatures, bound, enabled
    }

    package let configuration: XMPPConfiguration
    private var phase = XMPPPhase<Step>.idle
    private var stream: XMPPStream
    /// The bare address of the partner.
    private var partner: [UInt8] = []
    private var isManagementOffered = false
    /// The address that the server has bound; `nil` before.
    package private(set) var address: String?

    /// Creates the core of one connection.
    ///
    /// - Throws: The errors of ``XMPPConfiguration/validate()``.
    package init(_ configuration: XMPPConfiguration) throws(TransportError) {
        try configuration.validate()
        self.configuration = configuration
        stream = XMPPStream(
            .client,
            messageLimit: configuration.maximumMessageSize,
            window: configuration.maximumInFlight,
            isManaged: configuration.requestsManagement,
            isAwaiting: configuration.awaitsAcknowledgements,
            acknowledgementTimeout: configuration.acknowledgementTimeout
        )
    }

    package var capabilities: Capabilities { stream.capabilities }
    package var acknowledges: Bool { configuration.requestsManagement }
    package var expected: ForeignProtocol.Expected? { .xmpp }
    package var bufferedBytes: Int {
        mutating get { stream.bufferedBytes }
    }

    package mutating func start(_ context: inout CoreContext) {
        guard case .idle = phase else { return }
        phase = .opening(.header, until: context.now.advanced(by: configuration.handshakeTimeout))
        begin(&context)
    }

    private mutating func begin(_ context: inout CoreContext) {
        var attributes = ByteBuffer()
        XMPPWriter.append("to", configuration.domain, to: &attributes)
        stream.begin(attributes.withUnsafeReadableBytes { String(decoding: $0, as: UTF8.self) }, &context)
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
        guard let part = try stream.next(&input, &context) else { return nil }
        if case .opening(let step, let until) = phase {
            return try shake(part, step, until, &context) ?? .progress
        }
        switch try stream.receive(part, &context) {
        case .handled(let event): return event ?? .progress
        case .ended: return ended(&context)
        case .other(let element): return try receive(element, &context) ?? .progress
        }
    }

    // MARK: The open stream

    /// The peer has ended its stream.
    private mutating func ended(_ context: inout CoreContext) -> CoreEvent {
        defer { phase = .closed }
        stream.end(&context)
        if case .closing(let reason, _) = phase { return .closed(reason) }
        return .closed(CloseReason(.peer, text: "the server ended the stream"))
    }

    private mutating func receive(
        _ element: XMPPElement,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        if element.isNamed("message", XMPPNamespace.client) {
            guard isOfPartner(element) || element["type"]?.hasSameBytes(as: "error") == true else {
                context.counters.controlWork &+= 1
                return nil
            }
            return try stream.event(of: element, &context)
        }
        if element.isNamed("error", XMPPNamespace.stream) { return try fail(XMPPStreamError(element), &context) }
        context.counters.controlWork &+= 1
        return nil
    }

    /// Whether a message is from the partner, or from the server itself, which has no address in its own stream.
    private func isOfPartner(_ message: XMPPElement) -> Bool {
        message["from"].map { XMPPMessage.bare($0) == partner } ?? true
    }

    /// The peer has ended the stream with an error.
    private mutating func fail(_ error: XMPPStreamError, _ context: inout CoreContext) throws(TransportError)
        -> CoreEvent
    {
        stream.end(&context)
        guard case .closing(var reason, _) = phase else { throw error.error(in: stream.phase) }
        reason.error = error.error(in: .closing)
        phase = .closed
        return .closed(reason)
    }

    package func acknowledges(_ payload: Payload) -> Bool { configuration.requestsManagement && stream.awaits(payload) }

    /// Sends a message to the partner.
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
    /// - Throws: `.unsupported` if the server has not agreed on acknowledgements.
    @discardableResult
    package mutating func ping(_ context: inout CoreContext) throws(TransportError) -> UInt64 {
        try stream.ping(&context)
    }

    package mutating func connectionEnded() { stream.release() }
}

// The handshake.
extension XMPPClientCore {
    private mutating func shake(
        _ part: XMPPStreamReader.Part,
        _ step: Step,
        _ until: Instant,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        context.counters.controlFrames += 1
        switch part {
        case .end:
            stream.end(&context)
            throw TransportError(.closedByPeer, .handshake, "the server ended the stream during the handshake")
        case .header(let header): try check(header, &context)
        case .element(let element) where element.isNamed("error", XMPPNamespace.stream):
            return try fail(XMPPStreamError(element), &context)
        case .element: break
        }
        switch (step, part) {
        case (.header, .header): phase = .opening(.features, until: until)
        case (.newHeader, .header): phase = .opening(.newFeatures, until: until)
        case (.features, .element(let features)):
            try authenticate(features, &context)
            phase = .opening(.success, until: until)
        case (.success, .element(let answer)):
            try checkSuccess(answer, &context)
            stream.reader.restart()
            begin(&context)
            phase = .opening(.newHeader, until: until)
        case (.newFeatures, .element(let features)):
            try bind(features, &context)
            phase = .opening(.bound, until: until)
        case (.bound, .element(let answer)):
            guard try isBound(answer, &context) else { return nil }
            return askForManagement(until, &context)
        case (.enabled, .element(let answer)): return isAgreed(answer) ? opened() : nil
        default: throw violation("a part of the stream is out of place in the handshake", &context)
        }
        return nil
    }

    private mutating func violation(_ sentence: String, _ context: inout CoreContext) -> TransportError {
        stream.fail(XMPPFault("bad-format", sentence), &context)
    }

    /// Ends the stream without an error of its own, because the server has said what is missing.
    private mutating func refuse(
        _ code: TransportError.Code,
        _ sentence: String,
        _ context: inout CoreContext
    ) -> TransportError {
        stream.end(&context)
        return TransportError(code, .handshake, sentence)
    }

    private mutating func check(_ header: XMPPElement, _ context: inout CoreContext) throws(TransportError) {
        guard header.isNamed("stream", XMPPNamespace.stream) else {
            throw stream.fail(
                XMPPFault("invalid-namespace", "the server's first tag is not that of a stream"),
                &context
            )
        }
        guard header["version"]?.utf8.starts(with: "1.".utf8) == true else {
            let seen = header["version"].map { "'\(String(excerptOf: $0.utf8))'" } ?? "none"
            let sentence = "the server's version of XMPP is \(seen), expected was 1.0"
            throw stream.fail(XMPPFault("unsupported-version", sentence, code: .handshakeFailed), &context)
        }
    }

    private mutating func authenticate(_ features: XMPPElement, _ context: inout CoreContext) throws(TransportError) {
        guard features.isNamed("features", XMPPNamespace.stream) else {
            throw violation("the server sent no features of its stream", &context)
        }
        let mechanisms = features.child("mechanisms", XMPPNamespace.sasl)?.children.filter {
            $0.isNamed("mechanism", XMPPNamespace.sasl)
        }
        let mechanism = configuration.user == nil ? "ANONYMOUS" : "PLAIN"
        guard mechanisms?.contains(where: { $0.text.elementsEqual(mechanism.utf8) }) == true else {
            let startTLS = features.child("starttls", XMPPNamespace.startTLS)
            if mechanisms == nil || startTLS?.child("required", XMPPNamespace.startTLS) != nil, startTLS != nil {
                let sentence = "the server requires STARTTLS, which this client does not have"
                throw refuse(
                    .handshakeFailed,
                    "\(sentence): use xmpps:// at the server's port for direct TLS",
                    &context
                )
            }
            let offered = mechanisms?.map { String(excerptOf: $0.text, limit: 30) }.joined(separator: ", ") ?? ""
            let advice =
                configuration.user == nil ? "; write the account into the URL, as in xmpps://USER:PASSWORD@host" : ""
            let sentence = "the server offers the mechanisms '\(offered)', and this client needs \(mechanism)\(advice)"
            throw refuse(.authenticationFailed, sentence, &context)
        }
        var text = "<auth xmlns='\(XMPPNamespace.sasl)' mechanism='\(mechanism)'"
        if let user = configuration.user {
            let response = [0] + Array(user.utf8) + [0] + Array((configuration.password ?? "").utf8)
            text += ">\(String(decoding: Base64.encode(response), as: UTF8.self))</auth>"
        } else {
            text += "/>"
        }
        stream.write(text, &context)
    }

    private mutating func checkSuccess(_ answer: XMPPElement, _ context: inout CoreContext) throws(TransportError) {
        if answer.isNamed("success", XMPPNamespace.sasl) { return }
        guard answer.isNamed("failure", XMPPNamespace.sasl) else {
            throw violation("the server answered authentication with neither success nor failure", &context)
        }
        let condition = answer.children.first { !$0.name.hasSameBytes(as: "text") }?.name ?? "not-authorized"
        let text = answer.child("text", XMPPNamespace.sasl).map { ": \($0.excerpt)" } ?? ""
        let isPassing = condition == "temporary-auth-failure"
        let sentence = "the server refuses this client (\(String(excerptOf: condition.utf8))\(text))"
        throw refuse(isPassing ? .serverUnavailable : .authenticationFailed, sentence, &context)
    }

    private mutating func bind(_ features: XMPPElement, _ context: inout CoreContext) throws(TransportError) {
        guard features.isNamed("features", XMPPNamespace.stream) else {
            throw violation("the server sent no features of its stream", &context)
        }
        guard features.child("bind", XMPPNamespace.bind) != nil else {
            throw refuse(.handshakeFailed, "the server offers no binding of a resource", &context)
        }
        isManagementOffered = features.child("sm", XMPPNamespace.management) != nil
        context.output.append(utf8: "<iq type='set' id='bind'><bind xmlns='\(XMPPNamespace.bind)'")
        if let resource = configuration.resource {
            context.output.append(utf8: "><resource>")
            XMPPWriter.append(escaped: resource.utf8, to: &context.output)
            stream.write("</resource></bind></iq>", &context)
        } else {
            stream.write("/></iq>", &context)
        }
    }

    /// Takes the answer to the binding. Returns whether it was that.
    private mutating func isBound(_ answer: XMPPElement, _ context: inout CoreContext) throws(TransportError) -> Bool {
        guard answer.isNamed("iq", XMPPNamespace.client), answer["id"]?.hasSameBytes(as: "bind") == true else {
            return false
        }
        guard answer["type"]?.hasSameBytes(as: "result") == true,
            let jid = answer.child("bind", XMPPNamespace.bind)?.child("jid", XMPPNamespace.bind)?.text, !jid.isEmpty
        else {
            let error =
                answer.children.first { $0.name.hasSameBytes(as: "error") }?.children.first?.name ?? "no address"
            throw refuse(.handshakeFailed, "the server binds no resource (\(String(excerptOf: error.utf8)))", &context)
        }
        guard jid.count <= XMPPCheck.longestAddress else {
            throw violation("the server bound an address of \(jid.count) bytes", &context)
        }
        let own = String(decoding: jid, as: UTF8.self)
        address = own
        let to = configuration.partner ?? own
        partner = XMPPMessage.bare(to)
        var head = ByteBuffer()
        head.append(utf8: "<message type='chat'")
        XMPPWriter.append("to", to, to: &head)
        stream.head = head.bytes(at: 0, count: head.count) ?? []
        return true
    }

    /// Asks for acknowledgements if the server offers them, and says that this client is available.
    private mutating func askForManagement(_ until: Instant, _ context: inout CoreContext) -> CoreEvent? {
        let asks = configuration.requestsManagement && isManagementOffered
        if asks {
            stream.write("<enable xmlns='\(XMPPNamespace.management)'/>", &context)
            // Each side counts what it sends from its own element on.
            stream.manage()
        }
        stream.write(other: "<presence/>", &context)
        guard asks else { return opened() }
        phase = .opening(.enabled, until: until)
        return nil
    }

    /// Takes the answer to the request for acknowledgements. Returns whether it was that.
    private mutating func isAgreed(_ answer: XMPPElement) -> Bool {
        if answer.isNamed("enabled", XMPPNamespace.management) { return true }
        // Stanzas before the answer are not counted, and nothing in them is a message to this resource.
        guard answer.isNamed("failed", XMPPNamespace.management) else { return false }
        stream.stopManaging()
        return true
    }

    private mutating func opened() -> CoreEvent {
        phase = .open
        stream.open()
        return .opened
    }
}

// The end, and the deadlines.
extension XMPPClientCore {
    package var lateHandshake: String {
        guard case .opening(let step, _) = phase else { return "the handshake was not complete in time" }
        return switch step {
        case .header, .newHeader: "the server's stream did not begin in time"
        case .features, .newFeatures: "the features of the server's stream did not come in time"
        case .success: "the answer to the authentication did not come in time"
        case .bound: "no address was bound in time"
        case .enabled: "the answer to the request for acknowledgements did not come in time"
        }
    }

    package mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        guard let event = phase.inputEnded() else { throw stream.inputEnded() }
        return event
    }

    /// Ends this side's stream, and waits for the end of the server's.
    package mutating func close(_ reason: CloseReason, _ context: inout CoreContext) {
        let until = context.now.advanced(by: configuration.closeTimeout)
        if phase.close(reason, until: until) { stream.end(&context) }
    }

    package var deadline: Instant? {
        mutating get {
            switch phase {
            case .idle, .ending, .closed: nil
            case .opening(_, let until), .closing(_, let until): until
            case .open: earlier(stream.acknowledgementDeadline, stream.spaceDue(after: configuration.keepalive))
            }
        }
    }

    package mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {
        guard let deadline, deadline <= context.now else { return }
        stream.look(at: context)
        switch phase {
        case .idle, .ending, .closed: return
        case .opening: throw TransportError(.timedOut, .handshake, lateHandshake)
        case .closing(var reason, let until):
            let extended = max(until, context.outputMoved.advanced(by: configuration.closeTimeout))
            guard extended <= context.now else {
                phase = .closing(reason, until: extended)
                return
            }
            reason.error = TransportError(.timedOut, .closing, "the peer did not end its stream in time")
            phase = .ending(reason)
        case .open:
            try stream.checkAcknowledgements(&context)
            if let due = stream.spaceDue(after: configuration.keepalive), due <= context.now {
                stream.writeSpace(&context)
            }
        }
    }
}
