import TransportAPI

/// A core of MQTT, over any byte stream.
package protocol TopicCore: CompletingCore {
    /// The session that outlives the connection; `nil` if there is none.
    var session: MQTTSession? { get }
    /// The same session, unless a later connection has taken it over; `nil` then.
    var live: MQTTSession? { get }
    /// Client: its configured client identifier, and whether the broker has continued the session.
    var client: (name: String, hasSession: Bool) { get }
    /// Sends a subscription request. ``MQTTSignal/subscribeAnswered(_:_:)`` reports the answer under `id`.
    mutating func subscribe(_ subscriptions: [MQTTSubscription], id: UInt64, _ context: inout CoreContext)
        throws(TransportError)
    /// Ends subscriptions. ``MQTTSignal/unsubscribeAnswered(_:)`` reports the broker's confirmation under `id`.
    mutating func unsubscribe(_ filters: [String], id: UInt64, _ context: inout CoreContext) throws(TransportError)
    /// Server: answers SUBSCRIBE with the QoS granted to each filter, or `nil` for a refused one.
    mutating func grant(_ packetID: UInt16, _ granted: [MQTTQoS?], _ context: inout CoreContext)
    /// Server: answers UNSUBSCRIBE.
    mutating func confirmUnsubscribe(_ packetID: UInt16, _ context: inout CoreContext)
}

extension MQTTCore: TopicCore {}
