import Primitives
import TransportAPI

/// A client's side of MQTT 3.1.1.
///
/// It sends CONNECT and subscribes to the configured filters. It is open when every filter was granted, or, with
/// ``MQTTConfiguration/publishesEarly``, as soon as these packets are written.
///
/// It subscribes to its configured filters on each connection, even if the broker has a session. That session may stem
/// from a connection that broke before SUBSCRIBE, or from another configuration. The only effect of another
/// subscription to the same filter is that the broker repeats retained messages (MQTT-3.8.4-3).
///
/// In a session that outlives the connection, it answers PUBLISH with PUBACK or PUBREC when the receiver requests the
/// next message. The broker sends a message that was not answered again over the next connection. In other sessions the
/// answer is written at once.
///
/// A message that the broker does not acknowledge in time ends the connection. In a session that outlives its
/// connections, the ``MQTTSession`` stores the messages that were not acknowledged, and the core of the next connection
/// sends them again.
package struct MQTTClientCore: MQTTCore {
    enum Phase: Sendable {
        /// The core has not started.
        case idle
        /// CONNACK must come by this time.
        case connecting(until: Instant)
        /// CONNACK must come by this time, but messages may leave already. It decides the outcome of those that have.
        case early(until: Instant, sent: [SentEarly])
        /// CONNACK has refused the connection after messages had left.
        case refused(TransportError)
        /// The SUBACK of the configured filters must come by this time. Messages that arrive before it, which section
        /// 3.8.4 allows, are in ``deferred``, oldest first. So many bytes they have.
        case subscribing(until: Instant, bytes: Int)
        /// Messages can be sent and received.
        case open
        /// This side has closed the connection, and `closed` is still to be reported.
        case closing(CloseReason)
        /// The end was reported.
        case closed
    }

    /// Which messages wait until the client has made its subscriptions; see ``holdMessages(alsoLater:)``.
    enum Hold: Sendable {
        case none
        /// New messages.
        case new
        /// New messages, and before them those that earlier connections have left unacknowledged.
        case unacknowledged
    }

    /// The filters of a SUBSCRIBE that is not answered yet.
    struct Request: Sendable {
        /// The QoS values requested.
        var qos: [MQTTQoS]
        /// Whether they are the configured filters, to which the connection itself subscribes.
        var isConfigured = false
    }

    package static let role = CoreRole.client

    let configuration: MQTTConfiguration
    package var flow: MQTTFlow
    var phase = Phase.idle
    /// Events that wait because another one is reported first: the next one is the last, except in
    /// ``Phase/subscribing(until:bytes:)``.
    var deferred: [CoreEvent] = []
    var pings: MQTTClientPings
    /// Messages that were received and are not confirmed, oldest first. There are at most as many as the inbox holds,
    /// in addition to those that came early.
    var unconfirmed = Deque<Unconfirmed>()
    /// By packet identifier.
    var requests: [UInt16: Request] = [:]
    /// Whether the broker has continued a session.
    var hasSession = false
    var hold = Hold.none

    /// Creates the core of one connection. `session` outlives the connections of a client that does not request a clean
    /// one.
    ///
    /// - Throws: The errors of ``MQTTConfiguration/validate()``.
    package init(_ configuration: MQTTConfiguration, session: MQTTSession? = nil) throws(TransportError) {
        try configuration.validate()
        self.configuration = configuration
        pings = MQTTClientPings(configuration)
        let size = configuration.maximumMessageSize
        flow = MQTTFlow(
            .client,
            reader: MQTTPacketReader(maximumMessageSize: size, accepted: MQTTPacketTypes()),
            maximumMessageSize: size,
            qos: configuration.qos,
            inFlight: InFlight(
                window: configuration.maximumInFlight,
                exactlyOnce: configuration.maximumExactlyOnceInFlight,
                timeout: configuration.acknowledgementTimeout.wholeNanoseconds
            ),
            // As many as there are identifiers, because a broker may send any number.
            maximumUnreleased: 65_535
        )
        flow.session = configuration.cleanSession ? nil : session
        flow.reader.passesOver = flow.session != nil
    }

    package var capabilities: Capabilities {
        flow.capabilities(keepalive: pings.interval, completesSends: flow.session != nil)
    }

    package var confirmsReceipt: Bool { !configuration.cleanSession }

    package mutating func start(_ context: inout CoreContext) {
        guard case .idle = phase else { return }
        let deadline = context.now.advanced(by: configuration.handshakeTimeout)
        phase = .connecting(until: deadline)
        var connect = MQTTConnect(clientID: configuration.clientID ?? Self.randomClientID(&context.random))
        connect.cleanSession = configuration.cleanSession
        connect.keepAlive = UInt16(clamping: configuration.keepAlive)
        connect.will = configuration.will
        connect.user = configuration.user
        connect.password = configuration.password
        flow.session?.asks()
        MQTTPacketWriter.connect(connect, into: &context.output)
        flow.countWritten(&context)
        flow.reader.accepted = Self.connecting
        if configuration.publishesEarly { openEarly(until: deadline, &context) }
    }

    /// Creates an identifier of 23 letters and digits, which every server has to accept (MQTT-3.1.3-5).
    private static func randomClientID(_ random: inout RandomSource) -> String {
        let alphabet = Array("0123456789abcdefghijklmnopqrstuvwxyz".utf8)
        let drawn = (0..<21).map { _ in alphabet.randomElement(using: &random) ?? alphabet[0] }
        return "im" + String(decoding: drawn, as: UTF8.self)
    }

    package mutating func next(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        if !deferred.isEmpty, let event = takeDeferred() { return event }
        switch phase {
        case .idle, .closed: return nil
        case .refused(let error): throw error
        case .connecting, .early, .subscribing, .open, .closing: break
        }
        let packet: MQTTPacket?
        do throws(TransportError) {
            packet = try flow.reader.next(&input)
        } catch {
            throw awaitsFirstPacket ? foreign(error, input, &context) : error
        }
        if let packet {
            flow.times.lastReceived = context.now
            let event = try receive(packet, &context)
            flow.unread = input.count
            return event ?? .progress
        }
        if flow.reader.oversized != nil { return try passOver(&input, &context) }
        // Any byte is a sign of life, so that a long message is not mistaken for silence.
        if input.count > flow.unread { flow.times.lastReceived = context.now }
        flow.unread = input.count
        return nil
    }

    @inline(__always)
    private mutating func receive(
        _ packet: MQTTPacket,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        if case .publish(let publish) = packet { return try receive(publish, &context) }
        context.counters.controlFrames += 1
        switch packet {
        case .puback, .pubrec, .pubrel, .pubcomp: return try flow.receiveAcknowledgement(packet, &context)
        case .pingresp: return try receivePong()
        case .connack(let sessionPresent, let code): return try receiveConnack(sessionPresent, code, &context)
        case .suback(let packetID, let granted): return try receiveSuback(packetID, granted, &context)
        case .unsuback(let packetID):
            return .subscription(.unsubscribed(try finish(.unsubscribe, packetID, "UNSUBACK")))
        default: throw violation("a server does not send this packet (section 2.2.1)")
        }
    }

    /// Returns the next event that had to wait.
    private mutating func takeDeferred() -> CoreEvent? {
        if case .subscribing = phase { return nil }
        if case .closing = phase { phase = .closed }
        return deferred.popLast()
    }

    /// Releases a packet identifier for the acknowledgement `name`. Returns the id of its packet.
    private mutating func finish(
        _ kind: InFlight.Kind,
        _ packetID: UInt16,
        _ name: String
    ) throws(TransportError) -> UInt64 {
        guard let id = flow.inFlight.end(kind, packetID) else { throw flow.notInFlight(name, packetID) }
        return id
    }
}

// CONNECT to CONNACK, SUBSCRIBE to SUBACK.
extension MQTTClientCore {
    /// The most messages that are stored before SUBACK arrives. Their bytes are limited to the largest message.
    static let maximumEarlyMessages = 1024
    /// The most reports of messages that were passed over before SUBACK arrived.
    static let maximumEarlyDiscarded = 16

    private static let connecting = MQTTPacketTypes(.connack)
    private static let subscribing = MQTTPacketTypes(.publish, .pubrel, .suback, .pingresp)
    /// In a session that outlives its connections, answers to packets of the last connection may arrive first.
    private static let subscribingAgain = MQTTPacketTypes(
        .publish,
        .puback,
        .pubrec,
        .pubrel,
        .pubcomp,
        .suback,
        .pingresp
    )
    private static let accepted = MQTTPacketTypes(
        .publish,
        .puback,
        .pubrec,
        .pubrel,
        .pubcomp,
        .suback,
        .unsuback,
        .pingresp
    )

    private mutating func receiveConnack(
        _ sessionPresent: Bool,
        _ code: UInt8,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        guard code == 0 else {
            try refuse(.connack(code, to: configuration))
            return nil
        }
        guard !(sessionPresent && configuration.cleanSession) else {
            throw violation("CONNACK says that a session is present, but a clean one was requested (MQTT-3.2.2-1)")
        }
        hasSession = sessionPresent
        flow.session?.answered(isPresent: sessionPresent, using: &context.random)
        flow.resumeSession(isPresent: sessionPresent, &context)
        if case .early(_, let sent) = phase {
            acceptEarly(sent)
            return nil
        }
        guard case .connecting(let deadline) = phase, !configuration.subscriptions.isEmpty else {
            return opened(&context)
        }
        guard subscribeAsConfigured(&context) else { throw violation("no packet identifier is free") }
        phase = .subscribing(until: deadline, bytes: 0)
        flow.reader.accepted = flow.session == nil ? Self.subscribing : Self.subscribingAgain
        return nil
    }

    /// Writes the SUBSCRIBE of the configured filters, even if packets of the earlier connection fill the window.
    /// Returns `false` if no packet identifier is free.
    mutating func subscribeAsConfigured(_ context: inout CoreContext) -> Bool {
        let begun = flow.inFlight.begin(.subscribe, id: 0, now: context.now, beyondWindow: true)
        guard let packetID = begun else { return false }
        requests[packetID] = Request(qos: configuration.subscriptions.map(\.qos), isConfigured: true)
        MQTTPacketWriter.subscribe(packetID, configuration.subscriptions, into: &context.output)
        flow.countWritten(&context)
        return true
    }

    private mutating func receiveSuback(
        _ packetID: UInt16,
        _ granted: [MQTTQoS?],
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        let id = try finish(.subscribe, packetID, "SUBACK")
        let asked = requests.removeValue(forKey: packetID) ?? Request(qos: [])
        guard asked.qos.count == granted.count else {
            throw violation("SUBACK answers \(granted.count) of \(asked.qos.count) filters (MQTT-3.8.4-5)")
        }
        for case (let asked, let granted?) in zip(asked.qos, granted) where granted > asked {
            throw violation(
                "SUBACK grants QoS \(granted.rawValue) where \(asked.rawValue) was requested (MQTT-3.8.4-6)"
            )
        }
        guard asked.isConfigured else { return .subscription(.subscribed(id, granted)) }
        if let refused = granted.firstIndex(of: nil) {
            flow.write(.disconnect, &context)
            let filter = configuration.subscriptions[refused].filter
            throw TransportError(.forbidden, .handshake, MQTTTopic.refusal(of: filter), detail: 0x80)
        }
        if case .open = phase { return nil }
        return opened(&context)
    }

    mutating func opened(_ context: inout CoreContext) -> CoreEvent {
        phase = .open
        if flow.live?.subscribesFirst == true {
            // The owner of the subscriptions releases it with `releaseMessages`, also if there is none.
            hold = .unacknowledged
        } else {
            flow.resendUnacknowledged(&context)
        }
        flow.open(accepting: Self.accepted)
        deferred.reverse()
        return .opened
    }

    /// CONNACK has accepted a connection that was open early.
    mutating func accepted() {
        phase = .open
        flow.open(accepting: Self.accepted)
    }
}

// The end of a connection, by the peer or by this side, and its deadlines.
extension MQTTClientCore {
    private var awaitsFirstPacket: Bool {
        switch phase {
        case .connecting, .early, .refused: true
        case .idle, .subscribing, .open, .closing, .closed: false
        }
    }

    package mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        switch phase {
        case .closing(let reason):
            phase = .closed
            deferred = []
            return .closed(reason)
        case .closed: return .closed(.user)
        case .refused(let error): throw error
        case .idle, .connecting, .early, .subscribing:
            throw TransportError(.closedByPeer, .handshake, "the peer closed the connection during the handshake")
        case .open:
            // A broker cannot send DISCONNECT. It only closes the connection.
            guard flow.unread == 0, flow.reader.oversized == nil else {
                let sentence = "the peer closed the connection in the middle of a packet"
                throw TransportError(.connectionLost, .open, sentence)
            }
            phase = .closed
            return .closed(CloseReason(.peer, text: "the broker closed the connection\(rivalHint)"))
        }
    }

    /// The advice after a close by the broker, which has no reason: another client with this identifier may have connected
    /// (MQTT-3.1.4-2). A random identifier belongs to this client alone.
    private var rivalHint: String {
        guard let name = configuration.clientID, !name.isEmpty else { return "" }
        return "; if this repeats, another client may use the same client-id '\(String(excerptOf: name.utf8))'"
    }

    package mutating func close(_ reason: CloseReason, _ context: inout CoreContext) {
        switch phase {
        case .closing, .closed: return
        case .idle: break
        case .connecting, .early, .refused, .subscribing, .open: flow.write(.disconnect, &context)
        }
        phase = .closing(reason)
        deferred = [.closed(reason)]
        flow.reader.accepted = MQTTPacketTypes()
    }

    package var deadline: Instant? {
        mutating get {
            switch phase {
            case .idle, .refused, .closing, .closed: return nil
            case .connecting(let until), .early(let until, _): return until
            // SUBACK may be queued after many messages of a session. Pings keep the connection alive meanwhile.
            case .subscribing(let until, _): return min(until, pings.due(flow.times) ?? until)
            case .open: break
            }
            guard let pingDue = pings.due(flow.times) else { return flow.inFlight.deadline }
            let keepAlive = min(pingDue, pings.answerDue(flow.times) ?? pingDue)
            return min(keepAlive, flow.inFlight.deadline ?? keepAlive)
        }
    }

    package var lateHandshake: String {
        awaitsFirstPacket ? "no CONNACK came in time" : "no SUBACK came in time"
    }

    package mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {
        guard let deadline, deadline <= context.now else { return }
        flow.times.look(at: context)
        switch phase {
        case .idle, .refused, .closing, .closed: return
        case .connecting(let until), .early(let until, _), .subscribing(let until, _):
            guard until > context.now else { throw TransportError(.timedOut, .handshake, lateHandshake) }
        case .open:
            if let due = flow.inFlight.deadline, due <= context.now { try acknowledgementOverdue(&context) }
            if let due = pings.answerDue(flow.times), due <= context.now {
                throw TransportError(.keepaliveTimeout, .open, "no PINGRESP came in time")
            }
        }
        guard let due = pings.due(flow.times), due <= context.now else { return }
        pings.keepsAlive(context.now)
        flow.write(.pingreq, &context)
    }

    /// Checks the oldest packet in flight, because the packet that set the deadline may have been acknowledged. Its
    /// time counts from the moment when its answer could arrive and be read.
    ///
    /// A broker answers in order, and an acknowledgement may be queued after other messages. So while bytes arrive, the
    /// client sends PINGREQ. The acknowledgement is missing if PINGRESP arrives before it.
    private mutating func acknowledgementOverdue(_ context: inout CoreContext) throws(TransportError) {
        let (times, isChecking) = (flow.times, pings.isChecking)
        guard let oldest = flow.inFlight.oldest else { return flow.inFlight.clearDeadline() }
        let since = isChecking ? times.lastReceived : oldest
        let due = flow.inFlight.expect(from: max(since, times.unreadUntil, times.outputMoved))
        guard due <= context.now else { return }
        let hasLaterInput = flow.inFlight.expect(from: times.lastReceived) > context.now
        guard hasLaterInput, !isChecking else { throw Self.unacknowledged }
        pings.checks(packetSentAt: oldest, context.now)
        flow.write(.pingreq, &context)
    }

    private static var unacknowledged: TransportError {
        TransportError(.acknowledgementTimeout, .open, "a packet was not acknowledged in time")
    }

    @discardableResult
    package mutating func ping(_ context: inout CoreContext) throws(TransportError) -> UInt64 {
        try checkOpen()
        flow.write(.pingreq, &context)
        return pings.next()
    }

    private mutating func receivePong() throws(TransportError) -> CoreEvent? {
        guard let answer = pings.answered() else { throw violation("PINGRESP answers no PINGREQ (MQTT-3.12.4-1)") }
        if let since = answer.packetSentAt {
            flow.inFlight.clearDeadline()
            if let oldest = flow.inFlight.oldest {
                guard oldest > since else { throw Self.unacknowledged }
                flow.inFlight.expect(since: oldest)
            }
        }
        return .pong(answer.number)
    }
}

extension TransportError {
    /// The error for a CONNACK that refuses a client. It says which credentials the client has not sent.
    fileprivate static func connack(_ returnCode: UInt8, to configuration: MQTTConfiguration) -> TransportError {
        var error = TransportError.connack(returnCode)
        let isAboutCredentials = error.code == .authenticationFailed || error.code == .forbidden
        guard isAboutCredentials, configuration.password == nil else { return error }
        error.reason +=
            "; no \(configuration.user == nil ? "user name" : "password") was sent: write it into the URL, as in "
            + "mqtt://USER:PASSWORD@host, or return it from the preparation"
        return error
    }
}
