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
extension MQTTClientCore {
    /// A message that was sent before CONNACK.
    struct SentEarly: Sendable {
        var id: UInt64
        /// Whether the broker acknowledges the message itself, so that CONNACK alone is not its outcome.
        var isAcknowledged: Bool
    }

    package var isAccepted: Bool {
        switch phase {
        case .early, .refused: false
        case .idle, .connecting, .subscribing, .open, .closing, .closed: true
        }
    }

    /// CONNECT is written. Writes SUBSCRIBE behind it, and opens the connection.
    mutating func openEarly(until deadline: Instant, _ context: inout CoreContext) {
        // All packet identifiers are free.
        if !configuration.subscriptions.isEmpty { _ = subscribeAsConfigured(&context) }
        phase = .early(until: deadline, sent: [])
        deferred = [.opened]
    }

    /// CONNACK has accepted the connection, and with it the messages at QoS 0. Those at QoS 1 and 2 wait for their
    /// acknowledgements. The acknowledgement timeout applies to SUBACK, because the connection is open already.
    mutating func acceptEarly(_ sent: [SentEarly]) {
        deferred = sent.reversed().filter { !$0.isAcknowledged }.map { .written($0.id) }
        accepted()
    }

    /// CONNACK has refused the connection. Each message that was sent before it is reported, and then the error.
    mutating func refuse(_ error: TransportError) throws(TransportError) {
        guard case .early(_, let sent) = phase else { throw error }
        // The refusal is no property of a message, which a supervisor may send over its next connection.
        let refusal = CloseReason(error).sendError
        deferred = sent.reversed().map { .refused($0.id, refusal) }
        phase = .refused(error)
    }
}

extension MQTTClientCore.Phase {
    /// Records a message that leaves before CONNACK. Does nothing in another phase.
    mutating func noteSent(_ message: MQTTClientCore.SentEarly) {
        guard case .early(let until, var sent) = self else { return }
        // The array is not copied while it has one owner.
        self = .idle
        sent.append(message)
        self = .early(until: until, sent: sent)
    }
}
