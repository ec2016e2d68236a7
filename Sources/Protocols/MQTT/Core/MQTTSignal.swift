/// An event of MQTT at a broker that is not a message: it gets all packets of its client. A client reports a
/// ``SubscriptionSignal``.
///
/// A client's DISCONNECT is reported as ``CoreEvent/closed(_:)``. Any other end of a server's connection is an error.
/// So a broker publishes the will after an error, and deletes it after `closed`.
package enum MQTTSignal: Sendable, Hashable {
    /// the client was accepted. It follows ``CoreEvent/opened`` directly.
    indirect case connected(MQTTConnect)
    /// the client publishes a message. At QoS 1 and 2, PUBACK or PUBREC is already written, because the broker
    /// has taken responsibility. At QoS 2 a message is reported once.
    case published(MQTTPublish)
    /// the client subscribes with a packet of this identifier. The broker answers with
    /// ``ConnectionDriver/grant(_:_:)``.
    case subscribed(UInt16, [MQTTSubscription])
    /// the client unsubscribes with a packet of this identifier. The broker answers with
    /// ``ConnectionDriver/confirmUnsubscribe(_:)``.
    case unsubscribed(UInt16, [String])
}

extension CoreSignal {
    /// The signal, if an MQTT core has reported it; `nil` for other cores.
    package var mqtt: MQTTSignal? { (self as? SignalCarrier<MQTTSignal>)?.signal }
}

extension CoreEvent {
    /// The event for a signal of MQTT.
    static func mqtt(_ signal: MQTTSignal) -> CoreEvent { .signal(SignalCarrier(signal)) }
}
