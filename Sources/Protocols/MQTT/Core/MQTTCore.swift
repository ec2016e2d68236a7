import TransportAPI

/// MQTT 3.1.1 (OASIS standard, 29 October 2014), client and server.
///
/// The client sends CONNECT and subscribes to the configured filters. It is open when every filter was granted, or, with
/// ``MQTTConfiguration/publishesEarly``, as soon as these packets are written. The server is open when it has accepted a
/// CONNECT. It works in one of two ways: point to point, where payloads are
/// messages, or for a broker, which gets every packet as an ``MQTTSignal``.
///
/// In a session that outlives the connection, a client answers PUBLISH with PUBACK or PUBREC when the receiver requests
/// the next message. The broker sends a message that was not answered again over the next connection. In other sessions
/// the answer is written at once.
///
/// A PUBLISH whose payload is larger than allowed ends the connection and is not acknowledged. In a session that
/// outlives its connections the broker would send it again forever. So a client of such a session passes over a
/// repetition, acknowledges it, and reports it.
///
/// A client subscribes to its configured filters on each connection, even if the broker has a session. That session may
/// stem from a connection that broke before SUBSCRIBE, or from another configuration. The only effect of another
/// subscription to the same filter is that the broker repeats retained messages (MQTT-3.8.4-3).
///
/// Both sides publish at QoS 0, 1 and 2. Nothing is sent twice over one connection, as the specification requires. A
/// message that a broker does not acknowledge in time ends the connection. In a session that outlives its connections,
/// the ``MQTTSession`` stores the messages that were not acknowledged, and the core of the next connection sends them
/// again.
package struct MQTTCore: EarlyCore, NamedCore, ExplainingCore, IdentifyingCore {
    enum Side: Sendable {
        case client(MQTTConfiguration)
        case server(MQTTServerConfiguration)
    }

    enum State: UInt8, Sendable {
        /// The core has not started.
        case idle
        /// A client waits for CONNACK, a server for CONNECT.
        case connecting
        /// A client waits for CONNACK, but its messages may leave already (``MQTTConfiguration/publishesEarly``).
        case early
        /// A client waits for the SUBACK of its configured filters.
        case subscribing
        /// Messages can be sent and received.
        case open
        /// This side has closed the connection, and `closed` is still to be reported.
        case closing
        /// The end was reported.
        case closed
    }

    let side: Side
    let isClient: Bool
    /// Server: whether packets are reported as signals for a broker.
    let routesSignals: Bool
    let maximumMessageSize: Int
    /// In nanoseconds; `nil` for a server.
    let acknowledgementTimeout: Int64?

    /// Whether the packets come over WebSocket, whose handshake excludes other protocols.
    var isInsideWebSocket = false
    package var clientCertificate: TLSCertificate?
    var state = State.idle
    var reader: MQTTPacketReader
    var inFlight: InFlight
    /// Whether ``takeDeferred()`` has an event.
    var hasDeferred = false
    var closeReason = CloseReason.user
    /// The bytes of output that wait to be written, in addition to the context's output.
    var waiting = 0
    /// How many bytes of the input the last ``next(_:_:)`` left unread: the beginning of a packet.
    var unread = 0

    var handshakeDeadline = Instant.zero
    var acknowledgementDeadline: Instant?
    var keepAlive = MQTTKeepAlive()

    /// The topic of payloads that have none, already checked.
    var defaultTopic: String?
    /// The default QoS of messages that ``send(_:id:_:)`` publishes.
    var publishQoS: MQTTQoS

    /// The session that outlives the connection, if there is one, and this connection's right to use it.
    package var session: MQTTSession?
    var turn: UInt64 = 0
    /// The packet identifiers of messages at QoS 2 that were answered by PUBREC and not released by PUBREL.
    var received: Set<UInt16> = []
    /// Those of them from an earlier connection that have not arrived over this one.
    var inherited: Set<UInt16> = []
    /// The most messages that are not released. A client allows as many as there are identifiers, because a broker may
    /// send any number.
    let maximumUnreleased: Int
    /// How many repetitions from the earlier connection may still arrive without counting as control work.
    var repetitionsLeft = 0

    // Client only.
    package let confirmsReceipt: Bool
    /// Messages that were received and are not confirmed, oldest first. There are at most as many as the inbox holds,
    /// in addition to those that came early.
    var unconfirmed: [Unconfirmed] = []
    /// Whether the broker has continued a session.
    var hasSession = false
    /// Whether no message leaves until the client has made its subscriptions; see ``holdMessages(alsoLater:)``.
    var holdsMessages = false
    /// Whether messages of an earlier connection are to be sent again once messages may leave.
    var mustResend = false
    var handshakeSubscription: UInt16 = 0
    /// The QoS values that each SUBSCRIBE in flight has requested.
    var requested: [UInt16: [MQTTQoS]] = [:]
    /// Messages that arrived before SUBACK, which section 3.8.4 allows. They are reported after `opened`. From then on
    /// the order is newest first.
    var early: [Payload] = []
    var earlyBytes = 0
    /// Messages that were passed over before SUBACK arrived. They are reported after `opened`.
    var earlyDiscarded: [DiscardedMessage] = []
    /// The messages that were sent before CONNACK, which decides their outcome. Until then the order is oldest first,
    /// and newest first afterwards.
    var sentEarly: [SentEarly] = []
    /// The refusal in CONNACK, until the messages that were sent before it are reported as refused.
    var refusal: TransportError?

    // Server only.
    /// The client's address and port, if they are known.
    package var peer: String?
    /// The client's CONNECT, until it is reported.
    var connect: MQTTConnect?
    /// The size of its identifier and its will in bytes. They are stored here or by a broker as long as the connection
    /// lives.
    var connectSize = 0
    /// The client's filters with the QoS granted; point to point only.
    var subscriptions: [MQTTSubscription] = [] {
        didSet { filterSize = subscriptions.reduce(0) { $0 + $1.filter.utf8.count } }
    }
    private var filterSize = 0

    /// Creates a client's core. `session` outlives the connections of a client that does not request a clean one.
    ///
    /// - Throws: The errors of ``MQTTConfiguration/validate()``.
    package init(client configuration: MQTTConfiguration, session: MQTTSession? = nil) throws(TransportError) {
        try configuration.validate()
        self.session = configuration.cleanSession ? nil : session
        side = .client(configuration)
        isClient = true
        routesSignals = false
        maximumMessageSize = configuration.maximumMessageSize
        acknowledgementTimeout = configuration.acknowledgementTimeout.wholeNanoseconds
        inFlight = InFlight(
            window: configuration.maximumInFlight,
            exactlyOnce: configuration.maximumExactlyOnceInFlight
        )
        reader = MQTTPacketReader(maximumMessageSize: maximumMessageSize, accepted: MQTTPacketTypes())
        defaultTopic = configuration.publishTopic
        publishQoS = configuration.qos
        maximumUnreleased = 65_535
        confirmsReceipt = !configuration.cleanSession
        reader.passesOver = self.session != nil
    }

    /// Creates a server's core for one connection.
    ///
    /// - Throws: The errors of ``MQTTServerConfiguration/validate()``.
    package init(server configuration: MQTTServerConfiguration) throws(TransportError) {
        try configuration.validate()
        side = .server(configuration)
        isClient = false
        routesSignals = configuration.routesSignals
        maximumMessageSize = configuration.maximumMessageSize
        acknowledgementTimeout = nil
        inFlight = InFlight(window: configuration.maximumInFlight)
        reader = MQTTPacketReader(
            maximumMessageSize: maximumMessageSize,
            accepted: MQTTPacketTypes(),
            longestKeptTopic: routesSignals ? Self.longestRoutedTopic : MQTTTopic.maximumLength
        )
        publishQoS = configuration.qos
        maximumUnreleased = configuration.maximumUnreleased
        confirmsReceipt = false
    }

    /// The longest topic that is stored for the next message if a broker routes, in bytes. It only saves time there.
    private static let longestRoutedTopic = 256
    /// The memory of a packet identifier that waits for PUBREL in the core and in its session, in bytes.
    private static let bytesOfReceived = 6
    /// The memory of an identifier from an earlier connection in the core, in bytes.
    private static let bytesOfInherited = 3

    /// The memory that a server uses for its client, in bytes. It contains the client identifier, the will, the last
    /// topic, the identifiers that are not released, and, without a broker, the filters.
    package var bufferedBytes: Int {
        mutating get {
            guard !isClient else { return 0 }
            let unreleased = received.capacity * Self.bytesOfReceived + inherited.capacity * Self.bytesOfInherited
            return connectSize + filterSize + reader.bufferedBytes + unreleased
        }
    }

    package var capabilities: Capabilities {
        let interval: Int64 = if case .client(let configuration) = side { configuration.pingInterval } else { 0 }
        return Capabilities(
            hasNativePing: isClient,
            acknowledgesMessages: publishQoS != .atMostOnce,
            completesSends: isClient && session != nil,
            routesByTopic: true,
            maximumMessageSize: maximumMessageSize,
            keepaliveInterval: interval > 0 ? .nanoseconds(interval) : .seconds(60),
            keepsItselfAlive: interval > 0
        )
    }

    package mutating func start(_ context: inout CoreContext) {
        guard state == .idle else { return }
        state = .connecting
        switch side {
        case .client(let configuration):
            handshakeDeadline = context.now.advanced(by: configuration.handshakeTimeout)
            startClient(configuration, &context)
        case .server(let configuration):
            handshakeDeadline = context.now.advanced(by: configuration.handshakeTimeout)
            reader.accepted = MQTTPacketTypes(.connect)
        }
    }

    package mutating func next(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        if hasDeferred, let event = try takeDeferred() { return event }
        guard state != .idle, state != .closed else { return nil }
        if routesSignals { sendOutbox(&context) }
        let packet: MQTTPacket?
        do throws(TransportError) {
            packet = try reader.next(&input)
        } catch {
            throw awaitsFirstPacket && !isInsideWebSocket ? foreign(error, input, &context) : error
        }
        if let packet {
            keepAlive.lastReceived = context.now
            let event = try receive(packet, &context)
            unread = input.count
            return event ?? .progress
        }
        guard reader.begun == nil else { return .progress }
        if reader.oversized != nil { return try passOver(&input, &context) }
        // For a client any byte is a sign of life, so that a long message is not mistaken for silence. For a server
        // these are the bytes of a message, and whole packets otherwise (MQTT-3.1.2-24).
        if input.count > unread, isClient || input.byte(at: 0).map({ $0 >> 4 }) == MQTTPacketType.publish.rawValue {
            keepAlive.lastReceived = context.now
        }
        unread = input.count
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
        case .puback, .pubrec, .pubrel, .pubcomp: return try receiveAcknowledgement(packet, &context)
        default: break
        }
        return isClient ? try receiveAsClient(packet, &context) : try receiveAsServer(packet, &context)
    }

    /// Returns an event that had to wait because another one was reported first.
    private mutating func takeDeferred() throws(TransportError) -> CoreEvent? {
        if state == .closing {
            state = .closed
            hasDeferred = false
            return .closed(closeReason)
        }
        if state == .early { return try takeEarly() }
        if let sent = sentEarly.popLast() { return .written(sent.id) }
        if let connect {
            self.connect = nil
            hasDeferred = false
            return .mqtt(.connected(connect))
        }
        if !earlyDiscarded.isEmpty { return .discarded(earlyDiscarded.removeFirst()) }
        guard let payload = early.popLast() else {
            hasDeferred = false
            early = []
            return nil
        }
        return .message(payload)
    }
}

// The client's side: CONNECT to CONNACK, SUBSCRIBE to SUBACK.
extension MQTTCore {
    /// The most messages that are stored before SUBACK arrives. Their bytes are limited to the largest message.
    static let maximumEarlyMessages = 1024
    private static let maximumEarlyDiscarded = 16

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
    static let acceptedFromServer = MQTTPacketTypes(
        .publish,
        .puback,
        .pubrec,
        .pubrel,
        .pubcomp,
        .suback,
        .unsuback,
        .pingresp
    )

    mutating func startClient(_ configuration: MQTTConfiguration, _ context: inout CoreContext) {
        var connect = MQTTConnect(clientID: configuration.clientID ?? Self.randomClientID(&context.random))
        connect.cleanSession = configuration.cleanSession
        connect.keepAlive = UInt16(clamping: configuration.keepAlive)
        connect.will = configuration.will
        connect.user = configuration.user
        connect.password = configuration.password
        session?.asks()
        MQTTPacketWriter.connect(connect, into: &context.output)
        countWritten(&context)
        keepAlive.interval = configuration.pingInterval
        keepAlive.timeout = min(configuration.pingTimeout.wholeNanoseconds, max(keepAlive.interval, 1))
        reader.accepted = Self.connecting
        if configuration.publishesEarly { openEarly(configuration, &context) }
    }

    /// Creates an identifier of 23 letters and digits, which every server has to accept (MQTT-3.1.3-5).
    private static func randomClientID(_ random: inout RandomSource) -> String {
        let alphabet = Array("0123456789abcdefghijklmnopqrstuvwxyz".utf8)
        let drawn = (0..<21).map { _ in alphabet.randomElement(using: &random) ?? alphabet[0] }
        return "im" + String(decoding: drawn, as: UTF8.self)
    }

    mutating func receiveAsClient(
        _ packet: MQTTPacket,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        switch packet {
        case .pingresp: return try receivePong()
        case .connack(let sessionPresent, let code): return try receiveConnack(sessionPresent, code, &context)
        case .suback(let packetID, let granted): return try receiveSuback(packetID, granted, &context)
        case .unsuback(let packetID):
            return .mqtt(.unsubscribeAnswered(try finish(.unsubscribe, packetID, "UNSUBACK")))
        default: throw violation("a server does not send this packet (section 2.2.1)")
        }
    }

    private mutating func receiveConnack(
        _ sessionPresent: Bool,
        _ code: UInt8,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        guard case .client(let configuration) = side else { throw violation("CONNACK came to a server") }
        guard code == 0 else { return try refused(.connack(code, to: configuration)) }
        guard !(sessionPresent && configuration.cleanSession) else {
            throw violation("CONNACK says that a session is present, but a clean one was requested (MQTT-3.2.2-1)")
        }
        hasSession = sessionPresent
        session?.answered(isPresent: sessionPresent, using: &context.random)
        takeUpSession(isPresent: sessionPresent, &context)
        guard state != .early else {
            acceptEarly()
            return nil
        }
        guard !configuration.subscriptions.isEmpty else { return opened(&context) }
        guard subscribe(to: configuration.subscriptions, &context) else {
            throw violation("no packet identifier is free")
        }
        state = .subscribing
        reader.accepted = session == nil ? Self.subscribing : Self.subscribingAgain
        return nil
    }

    /// Writes the SUBSCRIBE of the configured filters, even if packets of the earlier connection fill the window.
    /// Returns `false` if no packet identifier is free.
    mutating func subscribe(to subscriptions: [MQTTSubscription], _ context: inout CoreContext) -> Bool {
        guard let packetID = begin(.subscribe, id: 0, context.now, beyondWindow: true) else { return false }
        handshakeSubscription = packetID
        requested[packetID] = subscriptions.map(\.qos)
        MQTTPacketWriter.subscribe(packetID, subscriptions, into: &context.output)
        countWritten(&context)
        return true
    }

    private mutating func receiveSuback(
        _ packetID: UInt16,
        _ granted: [MQTTQoS?],
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        let id = try finish(.subscribe, packetID, "SUBACK")
        let asked = requested.removeValue(forKey: packetID) ?? []
        guard asked.count == granted.count else {
            throw violation("SUBACK answers \(granted.count) of \(asked.count) filters (MQTT-3.8.4-5)")
        }
        for case (let asked, let granted?) in zip(asked, granted) where granted > asked {
            throw violation(
                "SUBACK grants QoS \(granted.rawValue) where \(asked.rawValue) was requested (MQTT-3.8.4-6)"
            )
        }
        guard packetID == handshakeSubscription, case .client(let configuration) = side else {
            return .mqtt(.subscribeAnswered(id, granted))
        }
        handshakeSubscription = 0
        if let refused = granted.firstIndex(of: nil) {
            write(.disconnect, &context)
            let filter = configuration.subscriptions[refused].filter
            throw TransportError(
                .forbidden,
                .handshake,
                MQTTTopic.refusal(of: filter),
                detail: 0x80
            )
        }
        return state == .open ? nil : opened(&context)
    }

    mutating func opened(_ context: inout CoreContext) -> CoreEvent {
        state = .open
        if live?.subscribesFirst == true {
            // The owner of the subscriptions releases it, also if there is none.
            mustResend = true
        } else {
            resendUnacknowledged(&context)
        }
        reader.accepted = Self.acceptedFromServer
        reader.phase = .open
        early.reverse()
        hasDeferred = !early.isEmpty || !earlyDiscarded.isEmpty
        return .opened
    }

    /// Stores a message that arrived before the connection is open. A broker that continues a session may have sent any
    /// number of them before it read SUBSCRIBE, and would do so again over the next connection. SUBACK could then
    /// arrive too late. So the first message opens the connection, which is then read as fast as messages are consumed.
    mutating func receiveEarly(
        _ payload: Payload,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        early.append(payload)
        guard !confirmsReceipt else { return opened(&context) }
        earlyBytes += payload.bytes.count
        guard early.count <= Self.maximumEarlyMessages, earlyBytes <= maximumMessageSize else {
            throw TransportError(.bufferFull, .handshake, "too many messages came before SUBACK")
        }
        return nil
    }

    /// Stores the report of a message that was passed over before the connection is open, up to a limit.
    mutating func noteDiscardedEarly(_ message: DiscardedMessage) {
        if earlyDiscarded.count < Self.maximumEarlyDiscarded { earlyDiscarded.append(message) }
    }

    // MARK: On the open connection

    package var client: MQTTClientFacts {
        guard case .client(let configuration) = side else { return MQTTClientFacts() }
        return MQTTClientFacts(
            name: configuration.clientID ?? "",
            hasSession: hasSession,
            brokerSession: session?.brokerSession,
            filters: configuration.subscriptions.map(\.filter),
            unclaimedWait: configuration.unclaimedWait
        )
    }

    package mutating func holdMessages(alsoLater: Bool) {
        guard isClient, state == .open || state == .early else { return }
        holdsMessages = true
        if alsoLater { live?.subscribesFirst = true }
    }

    package mutating func releaseMessages(_ context: inout CoreContext) {
        holdsMessages = false
        guard mustResend else { return }
        mustResend = false
        if state == .open { resendUnacknowledged(&context) }
    }

    /// Sends a subscription request. ``MQTTSignal/subscribeAnswered(_:_:)`` reports the answer under `id`.
    ///
    /// - Throws: `.invalidConfiguration` for a malformed filter, `.wouldBlock` while no packet identifier is free.
    package mutating func subscribe(
        _ subscriptions: [MQTTSubscription],
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) {
        try MQTTCheck.subscriptions(subscriptions)
        let packetID = try begin(.subscribe, subscriptions.count, id, context.now)
        requested[packetID] = subscriptions.map(\.qos)
        MQTTPacketWriter.subscribe(packetID, subscriptions, into: &context.output)
        countWritten(&context)
    }

    /// Ends subscriptions. ``MQTTSignal/unsubscribeAnswered(_:)`` reports the broker's confirmation under `id`.
    ///
    /// - Throws: `.invalidConfiguration` for a malformed filter, `.wouldBlock` while no packet identifier is free.
    package mutating func unsubscribe(
        _ filters: [String],
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) {
        try MQTTCheck.subscriptions(filters.map { MQTTSubscription($0) })
        let packetID = try begin(.unsubscribe, filters.count, id, context.now)
        MQTTPacketWriter.unsubscribe(packetID, filters, into: &context.output)
        countWritten(&context)
    }

    private mutating func begin(
        _ kind: InFlight.Kind,
        _ filters: Int,
        _ id: UInt64,
        _ now: Instant
    ) throws(TransportError) -> UInt16 {
        guard isClient else { throw TransportError(.unsupported, .open, "a server does not subscribe") }
        try checkOpen()
        guard filters > 0 else { throw .configuration("subscribe", "has no topic filter (MQTT-3.8.3-3)") }
        // The window applies to messages only, which may be many and large.
        guard let packetID = begin(kind, id: id, now, beyondWindow: true) else {
            throw TransportError(.wouldBlock, .open, "65535 packets wait for their acknowledgement")
        }
        return packetID
    }
}

// The server's side: CONNECT, SUBSCRIBE, UNSUBSCRIBE, PINGREQ, DISCONNECT.
extension MQTTCore {
    private static let acceptedFromClient = MQTTPacketTypes(
        .publish,
        .puback,
        .pubrec,
        .pubrel,
        .pubcomp,
        .subscribe,
        .unsubscribe,
        .pingreq,
        .disconnect
    )

    mutating func receiveAsServer(
        _ packet: MQTTPacket,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        switch packet {
        case .connect(let connect): return try receiveConnect(connect, &context)
        case .connectOtherLevel: throw refuse(.unacceptableProtocolVersion, &context)
        case .subscribe(let packetID, let asked): return receiveSubscribe(packetID, asked, &context)
        case .unsubscribe(let packetID, let filters): return receiveUnsubscribe(packetID, filters, &context)
        case .pingreq:
            context.counters.controlWork &+= 1
            write(.pingresp, &context)
            return nil
        case .disconnect:
            state = .closed
            return .closed(CloseReason(.peer, text: "the client disconnected"))
        default: throw violation("a client does not send this packet (section 2.2.1)")
        }
    }

    private mutating func receiveConnect(
        _ connect: MQTTConnect,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        guard case .server(let configuration) = side else { throw violation("CONNECT came to a client") }
        // An empty identifier requests one from the server, which is allowed in a clean session only.
        guard !connect.clientID.isEmpty || connect.cleanSession else { throw refuse(.identifierRejected, &context) }
        try checkSizes(connect, configuration, &context)
        let code = configuration.authentication?(connect, peer, clientCertificate) ?? .accepted
        guard code == .accepted else { throw refuse(code, &context) }
        var isPresent = false
        if let sessions = configuration.sessions {
            guard let opened = sessions.open(connect, now: context.now) else {
                throw refuse(.serverUnavailable, &context)
            }
            session = opened.session
            isPresent = opened.isPresent
        }
        MQTTPacketWriter.connack(sessionPresent: isPresent, code: 0, into: &context.output)
        countWritten(&context)
        // This is the server's own session, so it has not lost it.
        takeUpSession(isPresent: true, &context)
        connectSize = (session?.name.count ?? 0) + (routesSignals ? connect.will?.size ?? 0 : 0)
        resendUnacknowledged(&context)
        keepAlive.interval = Duration.seconds(Int(connect.keepAlive)).wholeNanoseconds / 2 * 3
        state = .open
        reader.accepted = Self.acceptedFromClient
        reader.phase = .open
        if routesSignals {
            self.connect = connect
            hasDeferred = true
        }
        return .opened
    }

    /// Refuses an identifier or a will that is too large to be stored as long as the connection or the session lives.
    private mutating func checkSizes(
        _ connect: MQTTConnect,
        _ configuration: MQTTServerConfiguration,
        _ context: inout CoreContext
    ) throws(TransportError) {
        let (name, will) = (connect.clientID.utf8.count, connect.will?.size ?? 0)
        guard name <= configuration.maximumClientID else {
            var error = refuse(.identifierRejected, &context)
            error.reason = "the client identifier has \(name) bytes, \(configuration.maximumClientID) are allowed"
            throw error
        }
        guard will <= configuration.maximumWill else {
            var error = refuse(.notAuthorized, &context)
            error.code = .messageTooLarge
            error.reason = "the will has \(will) bytes, \(configuration.maximumWill) are allowed"
            throw error
        }
    }

    /// Answers CONNECT with a refusal. Returns the error that ends the connection (MQTT-3.2.2-5).
    private mutating func refuse(_ code: MQTTConnackCode, _ context: inout CoreContext) -> TransportError {
        MQTTPacketWriter.connack(code: code.rawValue, into: &context.output)
        countWritten(&context)
        return .connack(code.rawValue)
    }

    private mutating func receiveSubscribe(
        _ packetID: UInt16,
        _ asked: [MQTTSubscription],
        _ context: inout CoreContext
    ) -> CoreEvent? {
        guard case .server(let configuration) = side else { return nil }
        context.counters.controlWork &+= 1 + UInt64(asked.count) / 8
        if routesSignals { return .mqtt(.subscribed(packetID, asked)) }
        grant(packetID, keep(asked, limit: configuration.maximumSubscriptions), &context)
        defaultTopic = topicForClient
        return nil
    }

    /// Answers SUBSCRIBE with the QoS granted to each filter in its order, or `nil` for a refused one.
    package mutating func grant(_ packetID: UInt16, _ granted: [MQTTQoS?], _ context: inout CoreContext) {
        guard state == .open else { return }
        MQTTPacketWriter.suback(packetID, granted, into: &context.output)
        countWritten(&context)
    }

    /// Answers UNSUBSCRIBE.
    package mutating func confirmUnsubscribe(_ packetID: UInt16, _ context: inout CoreContext) {
        guard state == .open else { return }
        write(.unsuback, packetID, &context)
    }

    private mutating func receiveUnsubscribe(
        _ packetID: UInt16,
        _ filters: [String],
        _ context: inout CoreContext
    ) -> CoreEvent? {
        context.counters.controlWork &+= 1 + UInt64(filters.count) / 8
        guard !routesSignals else { return .mqtt(.unsubscribed(packetID, filters)) }
        write(.unsuback, packetID, &context)
        let gone = Set(filters.map(MQTTFilterKey.init))
        subscriptions.removeAll { gone.contains(MQTTFilterKey($0.filter)) }
        defaultTopic = topicForClient
        return nil
    }

    /// The longest filter that is stored point to point, in bytes; the same as in a broker. All filters are searched
    /// for each packet.
    private static let longestKeptFilter = 1024

    /// Stores subscriptions, each in place of an earlier one to the same filter (MQTT-3.8.4-3). Returns the QoS granted
    /// to each. Filters are found by a hash of their bytes instead of pairwise comparisons, because there may be very
    /// many.
    private mutating func keep(_ asked: [MQTTSubscription], limit: Int) -> [MQTTQoS?] {
        var kept = subscriptions
        var places: [MQTTFilterKey: Int] = [:]
        for (place, subscription) in kept.enumerated() { places[MQTTFilterKey(subscription.filter)] = place }
        defer { subscriptions = kept }
        return asked.map { subscription in
            let filter = MQTTFilterKey(subscription.filter)
            if let place = places[filter] {
                kept[place] = subscription
            } else {
                guard kept.count < limit, filter.text.utf8.count <= Self.longestKeptFilter else { return nil }
                places[filter] = kept.count
                kept.append(subscription)
            }
            return subscription.qos
        }
    }

    /// The first filter of the client that is a full topic name.
    private var topicForClient: String? {
        for subscription in subscriptions {
            let filter = subscription.filter.withContiguousUTF8 { text in
                SharedFilter(text).map { String(decoding: $0.filter, as: UTF8.self) }
            }
            let topic = filter ?? subscription.filter
            if MQTTTopic.isName(topic) { return topic }
        }
        return nil
    }

    /// The QoS at which the client gets a message of this topic: at most the highest one granted to a matching filter,
    /// if there is one.
    func grantedQoS(_ wanted: MQTTQoS, _ topic: String) -> MQTTQoS {
        guard wanted != .atMostOnce else { return .atMostOnce }
        var granted: MQTTQoS?
        for subscription in subscriptions where MQTTTopic.matches(filter: subscription.filter, topic: topic) {
            granted = max(granted ?? .atMostOnce, subscription.qos)
        }
        return min(wanted, granted ?? wanted)
    }
}

// The end of a connection, by the peer or by this side.
extension MQTTCore {
    /// Whether the peer has sent no packet yet.
    var awaitsFirstPacket: Bool { state == .connecting || state == .early }

    package var expected: ForeignProtocol.Expected { .mqtt }

    /// The error for first bytes that are no packet, which can be of another protocol.
    private func foreign(
        _ error: TransportError,
        _ input: borrowing ByteBuffer,
        _ context: inout CoreContext
    ) -> TransportError {
        let other = input.withUnsafeReadableBytes { ForeignProtocol($0) }
        let isEncrypted = context.isEncrypted
        if !isClient, other.isForeign(to: .mqtt) {
            other.answer(expected: .mqtt, isEncrypted: isEncrypted, to: &context.output, unixTime: context.unixTime)
        }
        let role = isClient ? CoreRole.client : .server
        return other.error(insteadOf: error, expected: .mqtt, by: role, isEncrypted: isEncrypted)
    }

    package mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        switch state {
        case .closing, .closed:
            state = .closed
            hasDeferred = false
            return .closed(closeReason)
        case .idle, .connecting, .early, .subscribing:
            if let refusal { throw refusal }
            throw TransportError(.closedByPeer, .handshake, "the peer closed the connection during the handshake")
        case .open:
            // A broker cannot send DISCONNECT. It only closes the connection.
            let isWithinPacket = unread > 0 || reader.oversized != nil
            guard isClient, !isWithinPacket else {
                let missing = isWithinPacket ? "in the middle of a packet" : "without DISCONNECT"
                throw TransportError(.connectionLost, .open, "the peer closed the connection \(missing)")
            }
            state = .closed
            return .closed(CloseReason(.peer, text: "the broker closed the connection\(rivalHint)"))
        }
    }

    /// The advice after a close by the broker, which has no reason: another client with this identifier may have connected
    /// (MQTT-3.1.4-2). A random identifier belongs to this client alone.
    private var rivalHint: String {
        guard case .client(let configuration) = side, let name = configuration.clientID, !name.isEmpty else {
            return ""
        }
        return "; if this repeats, another client may use the same client-id '\(String(excerptOf: name.utf8))'"
    }

    package mutating func close(_ reason: CloseReason, _ context: inout CoreContext) {
        guard state != .closing, state != .closed else { return }
        if isClient && state != .idle { write(.disconnect, &context) }
        closeReason = reason
        state = .closing
        hasDeferred = true
        reader.accepted = MQTTPacketTypes()
    }

    package mutating func connectionEnded() {
        reader.begun = nil
    }
}

// Packets without content, and the counters of each packet that is written.
extension MQTTCore {
    mutating func write(_ type: MQTTPacketType, _ context: inout CoreContext) {
        MQTTPacketWriter.bare(type, into: &context.output)
        countWritten(&context)
    }

    mutating func write(_ type: MQTTPacketType, _ packetID: UInt16, _ context: inout CoreContext) {
        MQTTPacketWriter.identified(type, packetID, into: &context.output)
        countWritten(&context)
    }

    mutating func countWritten(_ context: inout CoreContext) {
        context.counters.controlFrames += 1
        keepAlive.lastSent = context.now
    }

    func violation(_ sentence: String) -> TransportError {
        TransportError(.protocolViolation, state == .open ? .open : .handshake, sentence)
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
