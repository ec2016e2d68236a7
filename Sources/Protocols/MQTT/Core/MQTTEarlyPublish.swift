import TransportAPI

// A client that sends messages before CONNACK (MQTT 3.1.1, section 3.1.4), which saves the round trips of CONNECT and
// SUBSCRIBE. CONNECT, SUBSCRIBE and the messages leave in this order, and a broker processes them in this order. So the
// client also receives its own first message.
//
// A broker that refuses CONNECT may not process the packets behind it (MQTT-3.1.4-5). So the outcome of each message that
// was sent before CONNACK waits for it. A refusal ends the connection after each of them was reported as refused.
//
// The session must be clean. A kept session can hold messages of the last connection, which must leave first and keep
// their packet identifiers. Only CONNACK says whether the broker still has that session.
extension MQTTCore {
    /// A message that was sent before CONNACK.
    struct SentEarly: Sendable {
        var id: UInt64
        /// Whether the broker acknowledges the message itself, so that CONNACK alone is not its outcome.
        var isAcknowledged: Bool
    }

    package var isAccepted: Bool { state != .early }

    /// Whether one more message may leave before CONNACK. Their number has the limit of messages in flight.
    var hasRoomForEarly: Bool { refusal == nil && sentEarly.count < inFlight.window }

    /// CONNECT is written. Writes SUBSCRIBE behind it, and opens the connection.
    mutating func openEarly(_ configuration: MQTTConfiguration, _ context: inout CoreContext) {
        // All packet identifiers are free.
        if !configuration.subscriptions.isEmpty { _ = subscribe(to: configuration.subscriptions, &context) }
        state = .early
        hasDeferred = true
    }

    /// Returns `opened` at first. After a refusal, reports each message that was sent before it, and then ends the
    /// connection.
    mutating func takeEarly() throws(TransportError) -> CoreEvent? {
        guard let refusal else {
            hasDeferred = false
            return .opened
        }
        guard let sent = sentEarly.popLast() else { throw refusal }
        // The refusal is no property of the message, which a supervisor may send over its next connection.
        return .refused(sent.id, CloseReason(refusal).sendError)
    }

    /// CONNACK has accepted the connection, and with it the messages at QoS 0. Those at QoS 1 and 2 wait for their
    /// acknowledgements. The acknowledgement timeout applies to SUBACK, because the connection is open already.
    mutating func acceptEarly() {
        state = .open
        reader.accepted = Self.acceptedFromServer
        reader.phase = .open
        sentEarly = sentEarly.reversed().filter { !$0.isAcknowledged }
        hasDeferred = !sentEarly.isEmpty
    }

    /// CONNACK has refused the connection.
    mutating func refused(_ error: TransportError) throws(TransportError) -> CoreEvent? {
        guard state == .early else { throw error }
        refusal = error
        sentEarly.reverse()
        hasDeferred = true
        return nil
    }
}
