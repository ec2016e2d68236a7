import TransportAPI

// What only MQTT has is the inner core's.
extension MQTTWebSocketCore: TopicCore {
    var session: MQTTSession? { inner.session }
    var live: MQTTSession? { inner.live }
    var client: (name: String, hasSession: Bool) { inner.client }

    mutating func subscribe(
        _ subscriptions: [MQTTSubscription],
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) {
        try inside(&context) { (core, context) throws(TransportError) in
            try core.subscribe(subscriptions, id: id, &context)
        }
    }

    mutating func grant(_ packetID: UInt16, _ granted: [MQTTQoS?], _ context: inout CoreContext) {
        inside(&context) { $0.grant(packetID, granted, &$1) }
    }

    mutating func confirmUnsubscribe(_ packetID: UInt16, _ context: inout CoreContext) {
        inside(&context) { $0.confirmUnsubscribe(packetID, &$1) }
    }

    mutating func unsubscribe(
        _ filters: [String],
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) {
        try inside(&context) { (core, context) throws(TransportError) in
            try core.unsubscribe(filters, id: id, &context)
        }
    }
}
