/// What an ``MQTTCore`` reports beyond messages: to a broker, all that its client asks for; to a client, the answers to
/// what it subscribed to on the open connection.
///
/// A client's DISCONNECT is ``CoreEvent/closed(_:)``; any other end of a server's connection is an error. So a broker
/// that keeps wills publishes them after an error and forgets them after `closed`.
package enum MQTTSignal: Sendable, Hashable {
    /// Server: the client was let in. Comes right after ``CoreEvent/opened``.
    indirect case connected(MQTTConnect)
    /// Server: the client publishes. At QoS 1 and 2, PUBACK or PUBREC is written already: the broker has taken
    /// responsibility. At QoS 2 it comes once.
    case published(MQTTPublish)
    /// Server: the client subscribes, by a packet of this identifier; the broker answers with ``ConnectionDriver/grant(_:_:)``.
    case subscribed(UInt16, [MQTTSubscription])
    /// Server: the client unsubscribes, by a packet of this identifier; the broker answers with
    /// ``ConnectionDriver/confirmUnsubscribe(_:)``.
    case unsubscribed(UInt16, [String])
    /// Client: the broker's answer to the `subscribe` of this id, filter by filter; `nil` where it refused.
    case subscribeAnswered(UInt64, [MQTTQoS?])
    /// Client: the broker has confirmed the `unsubscribe` of this id.
    case unsubscribeAnswered(UInt64)
}

/// Carries an ``MQTTSignal`` past those who know no MQTT.
private final class MQTTSignalCarrier: CoreSignal {
    let signal: MQTTSignal

    init(_ signal: MQTTSignal) {
        self.signal = signal
    }
}

extension CoreSignal {
    /// What an ``MQTTCore`` has reported; `nil` if another core did.
    package var mqtt: MQTTSignal? { (self as? MQTTSignalCarrier)?.signal }
}

extension CoreEvent {
    /// A signal of an ``MQTTCore``.
    static func mqtt(_ signal: MQTTSignal) -> CoreEvent { .signal(MQTTSignalCarrier(signal)) }
}
