import TransportAPI

/// MQTT 3.1.1 (OASIS standard, 29 October 2014), client and server.
///
/// The client opens with CONNECT, subscribes to what the configuration lists, and is open when every filter was granted.
/// The server is open when a CONNECT was let in; it serves either point to point, where payloads are messages, or a broker,
/// which gets every packet as an ``MQTTSignal``.
///
/// In a session that outlives the link, a client answers PUBLISH with PUBACK or PUBREC when the receiver has asked for the
/// next message: what it has not taken is the broker's still, and comes again over the next link. Otherwise the answer is
/// written at once.
///
/// A PUBLISH whose payload is larger than allowed ends the link and is not acknowledged. In a session that outlives its links the
/// broker would send it again for ever: there a client passes over what comes again, acknowledges it, and reports it.
///
/// A client asks for its configured subscriptions on each link, whether or not the broker has a session: the one that it has may stem from
/// a link that broke before SUBSCRIBE, or from another configuration. Asking again changes nothing but that the broker repeats
/// retained messages (MQTT-3.8.4-3).
///
/// Both sides publish at QoS 0, 1 and 2. Nothing is sent twice over one link, as the specification asks; a message that a
/// broker does not acknowledge in time ends the link. What was not acknowledged in a session that outlives its links lies in the
/// ``MQTTSession``, and the core of the next link sends it again.
package struct MQTTCore: ProtocolCore {
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

    /// What is kept beyond the link, if anything is; and the right to it.
    var session: MQTTSession?
    var turn: UInt64 = 0
    /// Packet identifiers of messages at QoS 2 that PUBREC has answered and PUBREL has not released.
    var received: Set<UInt16> = []
    /// Those of them that are left of a former link, and have not come over this one.
    var inherited: Set<UInt16> = []
    /// The most that are unreleased; a client has as many as there are identifiers, for a broker may send what it likes.
    let maximumUnreleased: Int
    /// How many packets may still come that only repeat what came over the link before, and are no demands for it.
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
    var peer: String?
    /// What the client said, until it is reported.
    var connect: MQTTConnect?
    /// What is kept of it, here or by a broker, for as long as the link lives: its identifier and its will, in bytes.
    var heldOfConnect = 0
    /// The client's filters, with the QoS granted; point to point only.
    var subscriptions: [MQTTSubscription] = [] {
        didSet { heldOfFilters = subscriptions.reduce(0) { $0 + $1.filter.utf8.count } }
    }
    private var heldOfFilters = 0

    /// A client. `session` is what is kept from link to link, where the configuration asks for no clean one.
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

    /// The server's side of one link.
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

    /// What a server keeps of its client: who it is, its will, its last topic, its filters if no broker has them, and what it has
    /// not released.
    package var heldBytes: Int {
        mutating get {
            guard !isClient else { return 0 }
            let unreleased = received.capacity * Self.bytesOfReceived + inherited.capacity * Self.bytesOfInherited
            return heldOfConnect + heldOfFilters + reader.heldBytes + unreleased
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
        if let packet = try reader.next(&input) {
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
