import TransportAPI

// The messages that a client receives.
extension MQTTClientCore {
    /// A received message that is confirmed when its receiver has processed it.
    struct Unconfirmed: Sendable {
        var packetID: UInt16
        var qos: MQTTQoS
        /// Whether the message was passed over. No receiver processes it, so it is confirmed right after those before
        /// it.
        var isDiscarded = false
    }

    @inline(__always)
    mutating func receive(
        _ publish: MQTTPublish,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        let isConfirmedLater = confirmsReceipt
        switch publish.qos {
        case .atMostOnce: break
        case .atLeastOnce: if !isConfirmedLater { flow.write(.puback, publish.packetID, &context) }
        case .exactlyOnce:
            guard !isRepeated(publish.packetID, isDuplicate: publish.isDuplicate, &context) else { return nil }
            try flow.checkUnreleased()
            if !isConfirmedLater { flow.acceptOwnership(publish.packetID, &context) }
        }
        if isConfirmedLater { unconfirmed.append(Unconfirmed(packetID: publish.packetID, qos: publish.qos)) }
        let payload = Payload(
            publish.payload,
            topic: publish.topic,
            qos: publish.qos,
            isRetained: publish.retain,
            isDuplicate: publish.isDuplicate
        )
        guard case .open = phase else { return try receiveEarly(payload, &context) }
        return .message(payload)
    }

    /// Whether a message at QoS 2 was accepted before, or waits to be confirmed.
    private mutating func isRepeated(_ packetID: UInt16, isDuplicate: Bool, _ context: inout CoreContext) -> Bool {
        if flow.isRepeated(packetID, isDuplicate: isDuplicate, &context) { return true }
        guard unconfirmed.contains(where: { $0.packetID == packetID && $0.qos == .exactlyOnce }) else { return false }
        flow.countDuplicate(&context)
        return true
    }

    /// Stores a message that arrived before the connection is open. A broker that continues a session may have sent any
    /// number of them before it read SUBSCRIBE, and would do so again over the next connection. SUBACK could then
    /// arrive too late. So the first message opens the connection, which is then read as fast as messages are consumed.
    private mutating func receiveEarly(
        _ payload: Payload,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        guard case .subscribing(let deadline, let before) = phase else { return .message(payload) }
        let bytes = before + payload.bytes.count
        deferred.append(.message(payload))
        guard !confirmsReceipt else { return opened(&context) }
        guard deferred.count <= Self.maximumEarlyMessages, bytes <= flow.maximumMessageSize else {
            throw TransportError(.bufferFull, .handshake, "too many messages came before SUBACK")
        }
        phase = .subscribing(until: deadline, bytes: bytes)
        return nil
    }

    // MARK: Messages that are larger than allowed

    /// Passes over the payload of a message that is larger than allowed, if the message is a repetition in a session.
    /// Otherwise ends the connection, and does not acknowledge the message. In a session that outlives its connections
    /// the broker would send it again forever, so the next connection passes over it, acknowledges it, and reports it.
    @inline(never)
    mutating func passOver(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        guard let message = flow.reader.oversized else { return nil }
        if !message.isPassedOver {
            guard isPassedOver(message) else {
                // An error of the handshake would be final. The next connection passes over the message.
                if case .subscribing = phase { return opened(&context) }
                flow.live?.noteTooLarge(message.report)
                throw flow.reader.tooLarge(message)
            }
            flow.reader.oversized?.isPassedOver = true
            flow.times.lastReceived = context.now
        }
        if !input.isEmpty { flow.times.lastReceived = context.now }
        let isComplete = flow.reader.passOver(&input) != nil
        flow.unread = input.count
        return isComplete ? try discard(message, &context) : nil
    }

    /// After a lost connection, a broker repeats its messages in flight with DUP (MQTT-3.3.1-1). Retained messages are
    /// repeated without DUP, and some brokers do not follow the rule. So the session remembers the messages that it has
    /// refused.
    private func isPassedOver(_ message: MQTTOversized) -> Bool {
        guard let live = flow.live else { return false }
        return message.isDuplicate || live.hasRefused(message.report)
    }

    /// All bytes of the payload were passed over.
    private mutating func discard(
        _ message: MQTTOversized,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        if message.qos == .exactlyOnce {
            guard !isRepeated(message.packetID, isDuplicate: message.isDuplicate, &context) else { return .progress }
            try flow.checkUnreleased()
        }
        // It is acknowledged after the messages that came before it (MQTT-4.6.0-2).
        unconfirmed.append(Unconfirmed(packetID: message.packetID, qos: message.qos, isDiscarded: true))
        confirmDiscarded(&context)
        guard case .subscribing = phase else { return .discarded(message.report) }
        if deferred.count < Self.maximumEarlyDiscarded { deferred.append(.discarded(message.report)) }
        return .progress
    }

    // MARK: Confirmation

    package mutating func confirmReceipt(_ context: inout CoreContext) {
        guard let message = unconfirmed.popFirst() else { return }
        confirm(message, &context)
        confirmDiscarded(&context)
    }

    private mutating func confirmDiscarded(_ context: inout CoreContext) {
        while let message = unconfirmed.first, message.isDiscarded {
            _ = unconfirmed.popFirst()
            confirm(message, &context)
        }
    }

    private mutating func confirm(_ message: Unconfirmed, _ context: inout CoreContext) {
        switch phase {
        case .open, .subscribing: break
        case .idle, .connecting, .early, .refused, .closing, .closed:
            // It is too late for PUBREC, but the next connection has to recognize a repetition of the message.
            if message.qos == .exactlyOnce { flow.live?.received.insert(message.packetID) }
            return
        }
        switch message.qos {
        case .atMostOnce: break
        case .atLeastOnce: flow.write(.puback, message.packetID, &context)
        case .exactlyOnce: flow.acceptOwnership(message.packetID, &context)
        }
    }
}

// The messages that a client sends.
extension MQTTClientCore {
    /// Publishes a message on the payload's topic. If it has none, on the configured topic.
    package mutating func send(
        _ payload: Payload,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        if let topic = payload.topic { try MQTTFlow.check(topic: topic) }
        guard let topic = payload.topic ?? configuration.publishTopic else { throw flow.noTopic() }
        try checkOpen()
        try flow.check(size: payload.bytes.count)
        // Releasing the messages makes the driver repeat the call.
        guard case .none = hold, mayLeave else { return .blocked }
        let qos = payload.qos ?? flow.publishQoS
        let retain = payload.isRetained
        let status = flow.publish(checked: topic, payload.bytes, qos: qos, retain: retain, id: id, &context)
        guard case .early = phase, status != .blocked else { return status }
        phase.noteSent(SentEarly(id: id, isAcknowledged: qos != .atMostOnce))
        return .awaitingAcknowledgement
    }

    @inline(__always)
    func checkOpen() throws(TransportError) {
        switch phase {
        case .open, .early, .refused: return
        case .closing, .closed: throw TransportError.notOpen(isOver: true)
        case .idle, .connecting, .subscribing: throw TransportError.notOpen(isOver: false)
        }
    }

    /// Whether one more message may leave. Before CONNACK, their number has the limit of messages in flight.
    private var mayLeave: Bool {
        switch phase {
        case .early(_, let sent): sent.count < flow.inFlight.window
        case .refused: false
        case .idle, .connecting, .subscribing, .open, .closing, .closed: true
        }
    }

    /// Whether the message may be acknowledged. Before CONNACK, each message waits for that packet.
    package func acknowledges(_ payload: Payload) -> Bool {
        (payload.qos ?? flow.publishQoS) != .atMostOnce || !isAccepted
    }
}

extension MQTTClientCore {
    package mutating func completion(of id: UInt64, _ context: inout CoreContext) -> SendCompletion? {
        guard let live = flow.live else { return nil }
        if live.takeCompleted(id) { return .acknowledged }
        guard let entry = live.entry(of: id), flow.inFlight.adopt(entry.publish.packetID, as: id) else { return nil }
        if entry.waitsForCaller {
            // While messages are held, ``releaseMessages(_:)`` follows.
            if case .unacknowledged = hold { return .pending }
            flow.resend(entry.publish, &context)
        }
        return .pending
    }

    package func forget(_ id: UInt64) { flow.session?.forget(id) }
}

extension MQTTClientCore: SubscribingCore {
    package var facts: SubscriberFacts {
        var facts = SubscriberFacts(.mqtt)
        facts.name = configuration.clientID ?? ""
        facts.hasSession = hasSession
        facts.brokerSession = flow.session?.brokerSession
        facts.filters = configuration.subscriptions.map(\.filter)
        facts.unclaimedWait = configuration.unclaimedWait
        return facts
    }

    package mutating func holdMessages(alsoLater: Bool) {
        switch phase {
        case .open, .early, .refused: break
        case .idle, .connecting, .subscribing, .closing, .closed: return
        }
        if case .none = hold { hold = .new }
        if alsoLater { flow.live?.subscribesFirst = true }
    }

    package mutating func releaseMessages(_ context: inout CoreContext) {
        let held = hold
        hold = .none
        if case .unacknowledged = held, case .open = phase { flow.resendUnacknowledged(&context) }
    }

    package mutating func subscribe(
        _ requests: [SubscriptionRequest],
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SubscriptionSignal? {
        try subscribe(requests.map { MQTTSubscription($0.filter, qos: $0.qos) }, id: id, &context)
        return nil
    }

    /// Sends SUBSCRIBE.
    ///
    /// - Throws: `.invalidConfiguration` for a malformed filter, `.wouldBlock` while no packet identifier is free.
    package mutating func subscribe(
        _ subscriptions: [MQTTSubscription],
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) {
        try MQTTCheck.subscriptions(subscriptions)
        let packetID = try begin(.subscribe, subscriptions.count, id, context.now)
        requests[packetID] = Request(qos: subscriptions.map(\.qos))
        MQTTPacketWriter.subscribe(packetID, subscriptions, into: &context.output)
        flow.countWritten(&context)
    }

    /// - Throws: `.invalidConfiguration` for a malformed filter, `.wouldBlock` while no packet identifier is free.
    @discardableResult
    package mutating func unsubscribe(
        _ filters: [String],
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SubscriptionSignal? {
        try MQTTCheck.subscriptions(filters.map { MQTTSubscription($0) })
        let packetID = try begin(.unsubscribe, filters.count, id, context.now)
        MQTTPacketWriter.unsubscribe(packetID, filters, into: &context.output)
        flow.countWritten(&context)
        return nil
    }

    private mutating func begin(
        _ kind: InFlight.Kind,
        _ filters: Int,
        _ id: UInt64,
        _ now: Instant
    ) throws(TransportError) -> UInt16 {
        try checkOpen()
        guard filters > 0 else { throw .configuration("subscribe", "has no topic filter (MQTT-3.8.3-3)") }
        // The window applies to messages only, which may be many and large.
        guard let packetID = flow.inFlight.begin(kind, id: id, now: now, beyondWindow: true) else {
            throw TransportError(.wouldBlock, .open, "65535 packets wait for their acknowledgement")
        }
        return packetID
    }
}
