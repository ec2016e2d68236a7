import TransportAPI

/// MQTT 3.1.1 (OASIS standard, 29 October 2014), client and server.
///
/// The client opens with CONNECT, subscribes to what the configuration lists, and is open when every filter was granted.
/// The server is open when a CONNECT was let in; it serves either point to point, where payloads are messages, or a broker,
/// which gets every packet as an ``MQTTSignal``.
///
/// In a session that outlives the connection, a client answers PUBLISH with PUBACK or PUBREC when the receiver has
/// asked for the next message: what it has not taken is the broker's still, and comes again over the next connection.
/// Otherwise the answer is written at once.
///
/// A PUBLISH whose payload is larger than allowed ends the connection and is not acknowledged. In a session that
/// outlives its connections the broker would send it again for ever: there a client passes over what comes again,
/// acknowledges it, and reports it.
///
/// A client asks for its configured subscriptions on each connection, whether or not the broker has a session: the one
/// that it has may stem from a connection that broke before SUBSCRIBE, or from another configuration. Asking again
/// changes nothing but that the broker repeats retained messages (MQTT-3.8.4-3).
///
/// Both sides publish at QoS 0, 1 and 2. Nothing is sent twice over one connection, as the specification asks; a
/// message that a broker does not acknowledge in time ends the connection. What was not acknowledged in a session that
/// outlives its connections lies in the ``MQTTSession``, and the core of the next connection sends it again.
package struct MQTTCore: ExplainingCore {
    enum Side: Sendable {
        case client(MQTTConfiguration)
        case server(MQTTServerConfiguration)
    }

    enum State: UInt8, Sendable {
        /// Not started.
        case idle
        /// A client waits for CONNACK, a server for CONNECT.
        case connecting
        /// A client waits for the SUBACK of its configured filters.
        case subscribing
        case open
        /// Said goodbye; `closed` is still to be reported.
        case closing
        case closed
    }

    let side: Side
    let isClient: Bool
    /// Server: whether a broker behind it gets signals.
    let routesSignals: Bool
    let maximumMessageSize: Int
    /// Nanoseconds; `nil` at a server.
    let acknowledgementTimeout: Int64?

    /// Whether the packets come over WebSocket, whose handshake excludes other protocols.
    var isInsideWebSocket = false
    var state = State.idle
    var reader: MQTTPacketReader
    var inFlight: InFlight
    /// Whether ``takeDeferred()`` has something.
    var hasDeferred = false
    var closeReason = CloseReason.user
    /// Bytes that wait for the kernel beside the output.
    var waiting = 0
    /// How much of the input was left unread by the last ``next(_:_:)``: the beginning of a packet.
    var unread = 0

    var handshakeDeadline = Instant.zero
    var acknowledgementDeadline: Instant?
    var keepAlive = MQTTKeepAlive()

    /// Where a payload without a topic goes, checked already.
    var defaultTopic: String?
    /// The QoS of messages that ``send(_:id:_:)`` publishes.
    var publishQoS: MQTTQoS

    /// What is kept beyond the connection, if anything is; and the right to it.
    package var session: MQTTSession?
    var turn: UInt64 = 0
    /// Packet identifiers of messages at QoS 2 that PUBREC has answered and PUBREL has not released.
    var received: Set<UInt16> = []
    /// Those of them that are left of a former connection, and have not come over this one.
    var inherited: Set<UInt16> = []
    /// The most that are unreleased; a client has as many as there are identifiers, for a broker may send what it likes.
    let maximumUnreleased: Int
    /// How many packets may still come that only repeat what came over the connection before, and are no control work for it.
    var repetitionsLeft = 0

    // Client only.
    package let confirmsReceipt: Bool
    /// Messages that were received and are not confirmed, oldest first: as many as the inbox holds, and those that came
    /// early.
    var unconfirmed: [Unconfirmed] = []
    /// The broker has gone on with a session.
    var hasSession = false
    var handshakeSubscription: UInt16 = 0
    /// The QoS asked for by each SUBSCRIBE in flight.
    var requested: [UInt16: [MQTTQoS]] = [:]
    /// Messages that came before the SUBACK (section 3.8.4 allows it), to be reported after `opened`; newest first once
    /// they are.
    var early: [Payload] = []
    var earlyBytes = 0
    /// Messages that were passed over before SUBACK came, to be reported after `opened`.
    var earlyDiscarded: [DiscardedMessage] = []

    // Server only.
    /// The client's address and port, where they are known.
    package var peer: String?
    /// What the client said, until it is reported.
    var connect: MQTTConnect?
    /// What is kept of it, here or by a broker, for as long as the connection lives: its identifier and its will, in bytes.
    var heldOfConnect = 0
    /// The client's filters, with the QoS granted; point to point only.
    var subscriptions: [MQTTSubscription] = [] {
        didSet { heldOfFilters = subscriptions.reduce(0) { $0 + $1.filter.utf8.count } }
    }
    private var heldOfFilters = 0

    /// A client. `session` is what is kept from connection to connection, where the configuration asks for no clean one.
    ///
    /// - Throws: what ``MQTTConfiguration/validate()`` throws.
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

    /// The server's side of one connection.
    ///
    /// - Throws: what ``MQTTServerConfiguration/validate()`` throws.
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

    /// The longest topic, in bytes, that is kept for the next message where a broker routes: it is only to save time there.
    private static let longestRoutedTopic = 256
    /// What a packet identifier takes for which PUBREL is awaited, in the core and in its session.
    private static let bytesOfReceived = 6
    /// What one takes that is inherited, in the core alone.
    private static let bytesOfInherited = 3

    /// What a server keeps of its client: who it is, its will, its last topic, its filters if no broker has them, and
    /// what it has not released.
    package var bufferedBytes: Int {
        mutating get {
            guard !isClient else { return 0 }
            let unreleased = received.capacity * Self.bytesOfReceived + inherited.capacity * Self.bytesOfInherited
            return heldOfConnect + heldOfFilters + reader.bufferedBytes + unreleased
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
        if hasDeferred, let event = takeDeferred() { return event }
        guard state != .idle, state != .closed else { return nil }
        if routesSignals { sendOutbox(&context) }
        let packet: MQTTPacket?
        do throws(TransportError) {
            packet = try reader.next(&input)
        } catch {
            guard state == .connecting, !isInsideWebSocket else { throw error }
            guard ForeignProtocol.mustWait(for: input, expected: .mqtt) else { throw foreign(error, input, &context) }
            packet = nil
        }
        if let packet {
            keepAlive.lastReceived = context.now
            let event = try receive(packet, &context)
            unread = input.count
            return event ?? .progress
        }
        guard reader.begun == nil else { return .progress }
        if reader.oversized != nil { return try passOver(&input, &context) }
        // A client takes any byte for a sign of life, so that a long message is not mistaken for silence; a server those of a
        // message, and otherwise whole packets (MQTT-3.1.2-24).
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

    /// What was found out when something else had to be reported first.
    private mutating func takeDeferred() -> CoreEvent? {
        if state == .closing {
            state = .closed
            hasDeferred = false
            return .closed(closeReason)
        }
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
    /// The most messages that are kept while SUBACK is awaited; in bytes, one of the largest.
    static let maximumEarlyMessages = 1024
    private static let maximumEarlyDiscarded = 16

    private static let connecting = MQTTPacketTypes(.connack)
    private static let subscribing = MQTTPacketTypes(.publish, .pubrel, .suback, .pingresp)
    /// In a session that outlives its connections, answers to what was sent over the last one may come first.
    private static let subscribingAnew = MQTTPacketTypes(
        .publish,
        .puback,
        .pubrec,
        .pubrel,
        .pubcomp,
        .suback,
        .pingresp
    )
    private static let acceptedFromServer = MQTTPacketTypes(
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
        MQTTPacketWriter.connect(connect, into: &context.output)
        countWritten(&context)
        keepAlive.interval = configuration.pingInterval
        keepAlive.timeout = min(configuration.pingTimeout.wholeNanoseconds, max(keepAlive.interval, 1))
        reader.accepted = Self.connecting
    }

    /// 23 letters and digits, which every server has to take (MQTT-3.1.3-5).
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
        guard code == 0 else { throw .connack(code) }
        guard !(sessionPresent && configuration.cleanSession) else {
            throw violation("CONNACK has a session present though a clean one was asked for (MQTT-3.2.2-1)")
        }
        hasSession = sessionPresent
        takeUpSession(isPresent: sessionPresent, &context)
        guard !configuration.subscriptions.isEmpty else { return opened(&context) }
        // Whatever the connection before has left in the window.
        guard let packetID = begin(.subscribe, id: 0, context.now, beyondWindow: true) else {
            throw violation("no packet identifier is free")
        }
        handshakeSubscription = packetID
        requested[packetID] = configuration.subscriptions.map(\.qos)
        MQTTPacketWriter.subscribe(packetID, configuration.subscriptions, into: &context.output)
        countWritten(&context)
        state = .subscribing
        reader.accepted = session == nil ? Self.subscribing : Self.subscribingAnew
        return nil
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
                "SUBACK grants QoS \(granted.rawValue) where \(asked.rawValue) was asked for (MQTT-3.8.4-6)"
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
                "the broker refuses the subscription to '\(filter)'",
                detail: 0x80
            )
        }
        return state == .open ? nil : opened(&context)
    }

    mutating func opened(_ context: inout CoreContext) -> CoreEvent {
        state = .open
        resendUnacknowledged(&context)
        reader.accepted = Self.acceptedFromServer
        reader.phase = .open
        early.reverse()
        hasDeferred = !early.isEmpty || !earlyDiscarded.isEmpty
        return .opened
    }

    /// Keeps a message that came before the connection is open. A broker that goes on with a session may have sent any
    /// number of them before it read SUBSCRIBE, and would again over the next connection. SUBACK could come too late
    /// behind them, so the first one opens the connection, which is then read as fast as messages are taken.
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

    /// Keeps a report of a message that was passed over before the connection is open; the first few.
    mutating func noteDiscardedEarly(_ message: DiscardedMessage) {
        if earlyDiscarded.count < Self.maximumEarlyDiscarded { earlyDiscarded.append(message) }
    }

    // MARK: On the open connection

    /// The configured name, and whether the broker has gone on with its session.
    package var client: (name: String, hasSession: Bool) {
        guard case .client(let configuration) = side else { return ("", false) }
        return (configuration.clientID ?? "", hasSession)
    }

    /// Asks for more topics; ``MQTTSignal/subscribeAnswered(_:_:)`` brings the answer under this id.
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

    /// Gives topics up; ``MQTTSignal/unsubscribeAnswered(_:)`` confirms it under this id.
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
        // The window is for messages, which may be many and large.
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
        // An empty identifier asks for one of the server's making, which only a clean session can have.
        guard !connect.clientID.isEmpty || connect.cleanSession else { throw refuse(.identifierRejected, &context) }
        try checkSizes(connect, configuration, &context)
        let code = configuration.authentication?(connect, peer) ?? .accepted
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
        // The server's own session: whatever it holds, it has not forgotten.
        takeUpSession(isPresent: true, &context)
        heldOfConnect = (session?.name.count ?? 0) + (routesSignals ? connect.will?.size ?? 0 : 0)
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

    /// Refuses what would be kept for as long as the connection or the session lives, and is too much.
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

    /// Answers CONNECT with a refusal; the error ends the connection (MQTT-3.2.2-5).
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

    /// Answers SUBSCRIBE: with the QoS granted to each filter, in their order, or `nil` for a refused one.
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

    /// The longest filter that is kept point to point, in bytes, as at a broker: what is kept is gone through for each packet.
    private static let longestKeptFilter = 1024

    /// Keeps subscriptions, each in the place of a former one to the same filter (MQTT-3.8.4-3); returns what is
    /// granted. Filters are found by their bytes and not compared one with another, for there may be very many.
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

    /// The first topic that the client listens to by its full name.
    private var topicForClient: String? {
        subscriptions.first { MQTTTopic.isName($0.filter) }?.filter
    }

    /// The QoS at which the client gets a message of this topic: at most what it was granted, where it subscribed.
    func grantedQoS(_ wanted: MQTTQoS, _ topic: String) -> MQTTQoS {
        guard wanted != .atMostOnce else { return .atMostOnce }
        var granted: MQTTQoS?
        for subscription in subscriptions where MQTTTopic.matches(filter: subscription.filter, topic: topic) {
            granted = max(granted ?? .atMostOnce, subscription.qos)
        }
        return min(wanted, granted ?? wanted)
    }
}

// The end of a connection: the peer's, and this one's goodbye.
extension MQTTCore {
    static let hint = ", before it sent a packet: it may speak another protocol, so compare the scheme and the port"

    /// The error for first bytes that are no packet, which can be of another protocol.
    private func foreign(
        _ error: TransportError,
        _ input: borrowing ByteBuffer,
        _ context: inout CoreContext
    ) -> TransportError {
        guard let other = ForeignProtocol(input, expected: .mqtt) else { return error }
        if !isClient { other.answer(expected: .mqtt, to: &context.output) }
        return other.error(insteadOf: error, expected: .mqtt, by: isClient ? .client : .server)
    }

    package mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        switch state {
        case .closing, .closed:
            state = .closed
            hasDeferred = false
            return .closed(closeReason)
        case .idle, .connecting, .subscribing:
            let hint = isClient && state == .connecting ? Self.hint : ""
            let sentence = "the peer closed the connection during the handshake\(hint)"
            throw TransportError(.closedByPeer, .handshake, sentence)
        case .open:
            // A broker has no DISCONNECT to send: closing the connection is its only goodbye.
            let isWithinPacket = unread > 0 || reader.oversized != nil
            guard isClient, !isWithinPacket else {
                let missing = isWithinPacket ? "in the middle of a packet" : "without DISCONNECT"
                throw TransportError(.connectionLost, .open, "the peer closed the connection \(missing)")
            }
            state = .closed
            return .closed(CloseReason(.peer, text: "the broker closed the connection"))
        }
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

// Packets without content, and what goes with writing one.
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
