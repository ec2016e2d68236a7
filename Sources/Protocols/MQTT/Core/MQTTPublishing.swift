import TransportAPI

// Messages in both directions and in both roles.
extension MQTTCore {
    @inline(__always)
    mutating func receive(
        _ publish: MQTTPublish,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        switch publish.qos {
        case .atMostOnce: break
        case .atLeastOnce: if !confirmsReceipt { write(.puback, publish.packetID, &context) }
        case .exactlyOnce:
            guard !isRepeated(publish.packetID, isDuplicate: publish.isDuplicate, &context) else { return nil }
            guard received.count < maximumUnreleased else { throw tooManyUnreleased() }
            if !confirmsReceipt { acceptOwnership(publish.packetID, &context) }
        }
        guard !routesSignals else { return .mqtt(.published(publish)) }
        if confirmsReceipt { unconfirmed.append(Unconfirmed(packetID: publish.packetID, qos: publish.qos)) }
        let payload = Payload(
            publish.payload,
            topic: publish.topic,
            qos: publish.qos,
            isRetained: publish.retain,
            isDuplicate: publish.isDuplicate
        )
        guard state == .open else { return try receiveEarly(payload, &context) }
        return .message(payload)
    }

    /// Passes over the payload of a message that is larger than allowed, if the message is a repetition in a session.
    /// Otherwise ends the connection.
    @inline(never)
    mutating func passOver(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        guard let message = reader.oversized else { return nil }
        if !message.isPassedOver {
            guard isPassedOver(message) else {
                // An error of the handshake would be final. The next connection passes over the message.
                if state == .subscribing { return opened(&context) }
                live?.noteTooLarge(message.report)
                throw reader.tooLarge(message)
            }
            reader.oversized?.isPassedOver = true
            keepAlive.lastReceived = context.now
        }
        if !input.isEmpty { keepAlive.lastReceived = context.now }
        let isComplete = reader.passOver(&input) != nil
        unread = input.count
        return isComplete ? try discard(message, &context) : nil
    }

    /// After a lost connection, a broker repeats its messages in flight with DUP (MQTT-3.3.1-1). Retained messages are
    /// repeated without DUP, and some brokers do not follow the rule. So the session remembers the messages that it has
    /// refused.
    private func isPassedOver(_ message: MQTTOversized) -> Bool {
        guard let live else { return false }
        return message.isDuplicate || live.hasRefused(message.report)
    }

    /// All bytes of the payload were passed over.
    private mutating func discard(
        _ message: MQTTOversized,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        if message.qos == .exactlyOnce {
            guard !isRepeated(message.packetID, isDuplicate: message.isDuplicate, &context) else { return .progress }
            guard received.count < maximumUnreleased else { throw tooManyUnreleased() }
        }
        confirmDiscarded(message, &context)
        guard state == .open else {
            noteDiscardedEarly(message.report)
            return .progress
        }
        return .discarded(message.report)
    }

    /// Publishes a message on the payload's topic. If it has none, a client uses the configured topic. A server then
    /// uses the first full topic name that its client subscribed to, or else the topic of the client's last message.
    package mutating func send(
        _ payload: Payload,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        let topic: String
        if let own = payload.topic {
            try Self.check(topic: own)
            topic = own
        } else if let configured = defaultTopic {
            topic = configured
        } else {
            guard !isClient, !routesSignals, !reader.lastTopic.isEmpty else { throw noTopic() }
            topic = reader.lastTopic
        }
        return try publish(
            checked: topic,
            payload.bytes,
            qos: qos(of: payload, topic),
            retain: payload.isRetained,
            id: id,
            &context
        )
    }

    /// Publishes a message at the QoS that a broker chooses. At QoS 1 and 2, ``CoreEvent/acknowledged(_:)`` follows.
    ///
    /// - Throws: `.invalidConfiguration` for a malformed topic, `.messageTooLarge`.
    package mutating func publish(
        topic: String,
        payload: [UInt8],
        qos: MQTTQoS,
        retain: Bool = false,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        try Self.check(topic: topic)
        return try publish(checked: topic, payload, qos: qos, retain: retain, id: id, &context)
    }

    /// Writes a PUBLISH at QoS 0 that was encoded by ``encode(topic:payload:retain:into:)``.
    package mutating func sendEncoded(_ bytes: UnsafeRawBufferPointer, _ context: inout CoreContext) {
        guard state == .open else { return }
        context.output.append(contentsOf: bytes)
        keepAlive.lastSent = context.now
    }

    /// Appends a PUBLISH at QoS 0 to `output`, for ``sendEncoded(_:_:)``.
    ///
    /// - Throws: `.invalidConfiguration` for a malformed topic, `.messageTooLarge` for a payload that no packet can
    ///   carry.
    package static func encode(
        topic: String,
        payload: [UInt8],
        retain: Bool = false,
        into output: inout ByteBuffer
    ) throws(TransportError) {
        try check(topic: topic)
        guard payload.count <= MQTTCheck.maximumMessageSize else {
            throw TransportError(.messageTooLarge, .open, "the message has \(payload.count) bytes")
        }
        topic.withContiguousUTF8 {
            MQTTPacketWriter.publish(topic: $0, payload: payload, qos: .atMostOnce, retain: retain, into: &output)
        }
    }

    @inline(__always)
    mutating func publish(
        checked topic: String,
        _ payload: [UInt8],
        qos: MQTTQoS,
        retain: Bool,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        try checkOpen()
        guard payload.count <= maximumMessageSize else { throw tooLarge(payload.count) }
        if state == .early, !hasRoomForEarly { return .blocked }
        // Releasing the messages makes the driver repeat the call.
        guard !holdsMessages else { return .blocked }
        var packetID: UInt16 = 0
        if qos != .atMostOnce {
            let kind: InFlight.Kind = qos == .exactlyOnce ? .exactlyOnce : .publish
            guard session?.hasRoom ?? true, let free = begin(kind, id: id, context.now) else { return .blocked }
            packetID = free
            if let live { live.note(MQTTPublish(topic, payload, qos, retain: retain, packetID), id: id) }
        }
        topic.withContiguousUTF8 {
            MQTTPacketWriter.publish(
                topic: $0,
                payload: payload,
                qos: qos,
                retain: retain,
                packetID: packetID,
                into: &context.output
            )
        }
        keepAlive.lastSent = context.now
        if state == .early {
            sentEarly.append(SentEarly(id: id, isAcknowledged: qos != .atMostOnce))
            return .awaitingAcknowledgement
        }
        return qos == .atMostOnce ? .written : .awaitingAcknowledgement
    }

    /// Whether the message may be acknowledged. A client knows its QoS in advance. Before CONNACK, each message waits for
    /// that packet. A server must look up the topic, so the result is `true` there.
    package func acknowledges(_ payload: Payload) -> Bool {
        !isClient || (payload.qos ?? publishQoS) != .atMostOnce || state == .early
    }

    private func qos(of payload: Payload, _ topic: String) -> MQTTQoS {
        let wanted = payload.qos ?? publishQoS
        return isClient ? wanted : grantedQoS(wanted, topic)
    }

    @inline(__always)
    func checkOpen() throws(TransportError) {
        guard state == .open || state == .early else { throw notOpen() }
    }

    @inline(__always)
    private static func check(topic: String) throws(TransportError) {
        guard MQTTTopic.isName(topic) else {
            throw .configuration("topic", "'\(topic)' must be 1 to 65535 bytes without + and #")
        }
    }

    @inline(never)
    private func notOpen() -> TransportError {
        state == .closing || state == .closed
            ? TransportError(.closedByUser, .closing, "the connection is closed")
            : TransportError(.wouldBlock, .handshake, "the handshake is not complete")
    }

    @inline(never)
    private func tooManyUnreleased() -> TransportError {
        .tooMany("more than \(maximumUnreleased) messages at QoS 2 wait for PUBREL", .open)
    }

    @inline(never)
    private func noTopic() -> TransportError {
        .configuration("publish", "names no topic, and the payload has none")
    }

    @inline(never)
    private func tooLarge(_ count: Int) -> TransportError {
        TransportError(.messageTooLarge, .open, "the message has \(count) bytes, \(maximumMessageSize) are allowed")
    }
}
