/// An event of MQTT that is not a message. A broker gets all packets of its client. A client gets the
/// answers to its subscription requests on the open connection.
///
/// A client's DISCONNECT is reported as ``CoreEvent/closed(_:)``. Any other end of a server's connection is an error.
/// So a broker publishes the will after an error, and deletes it after `closed`.
package enum MQTTSignal: Sendable, Hashable {
    /// Server: the client was accepted. It follows ``CoreEvent/opened`` directly.
    indirect case connected(MQTTConnect)
    /// Server: the client publishes a message. At QoS 1 and 2, PUBACK or PUBREC is already written, because the broker
    /// has taken responsibility. At QoS 2 a message is reported once.
    case published(MQTTPublish)
    /// Server: the client subscribes with a packet of this identifier. The broker answers with
    /// ``ConnectionDriver/grant(_:_:)``.
    case subscribed(UInt16, [MQTTSubscription])
    /// Server: the client unsubscribes with a packet of this identifier. The broker answers with
    /// ``ConnectionDriver/confirmUnsubscribe(_:)``.
    case unsubscribed(UInt16, [String])
    /// Client: the broker's answer to the `subscribe` of this id. It has the QoS granted to each filter, or `nil` for a
    /// refused one.
    case subscribeAnswered(UInt64, [MQTTQoS?])
    /// Client: the broker has confirmed the `unsubscribe` of this id.
    case unsubscribeAnswered(UInt64)
}

extension CoreSignal {
    /// The signal, if an MQTT core has reported it; `nil` for other cores.
    package var mqtt: MQTTSignal? { (self as? SignalCarrier<MQTTSignal>)?.signal }
}

extension CoreEvent {
    /// The event for a signal of MQTT.
    static func mqtt(_ signal: MQTTSignal) -> CoreEvent { .signal(SignalCarrier(signal)) }
}
