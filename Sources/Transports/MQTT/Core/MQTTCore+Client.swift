import TransportAPI

// The client's side: CONNECT to CONNACK, SUBSCRIBE to SUBACK.
extension MQTTCore {
    /// The most messages that are kept while SUBACK is awaited; in bytes, one of the largest.
    static let maximumEarlyMessages = 1024
    private static let maximumEarlyDiscarded = 16

    private static let connecting = MQTTPacketTypes(.connack)
    private static let subscribing = MQTTPacketTypes(.publish, .pubrel, .suback, .pingresp)
    /// In a session that outlives its links, answers to what was sent over the last one may come first.
    private static let subscribingAnew = MQTTPacketTypes(
        .publish,
        .puback,
        .pubrec,
        .pubrel,
        .pubcomp,
        .suback,
        .pingresp
    )
    private static let open = MQTTPacketTypes(
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
        // Whatever the link before has left in the window.
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
        reader.accepted = Self.open
        reader.phase = .open
        early.reverse()
        hasDeferred = !early.isEmpty || !earlyDiscarded.isEmpty
        return .opened
    }

    /// Keeps a message that came before the link is open. A broker that goes on with a session may have sent any number of
    /// them before it read SUBSCRIBE, and would again over the next link. SUBACK could come too late behind them, so the first
    /// one opens the link, which is then read as fast as messages are taken.
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

    /// Keeps a report of a message that was passed over before the link is open; the first few.
    mutating func noteDiscardedEarly(_ message: DiscardedMessage) {
        if earlyDiscarded.count < Self.maximumEarlyDiscarded { earlyDiscarded.append(message) }
    }

    // MARK: On the open link

    /// The configured name, and whether the broker has gone on with its session.
    var client: (name: String, hasSession: Bool) {
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
