import TransportAPI

/// A core of MQTT, whatever it is carried by.
package protocol TopicCore: CompletingCore {
    /// What is kept beyond the connection, if anything is.
    var session: MQTTSession? { get }
    /// The same, as long as no later connection has it.
    var live: MQTTSession? { get }
    /// Client: its name at the broker, and whether that has gone on with a session of it.
    var client: (name: String, hasSession: Bool) { get }
    /// Asks for more topics; ``MQTTSignal/subscribeAnswered(_:_:)`` brings the answer under this id.
    mutating func subscribe(_ subscriptions: [MQTTSubscription], id: UInt64, _ context: inout CoreContext)
        throws(TransportError)
    /// Gives topics up; ``MQTTSignal/unsubscribeAnswered(_:)`` confirms it under this id.
    mutating func unsubscribe(_ filters: [String], id: UInt64, _ context: inout CoreContext) throws(TransportError)
    /// Server: answers SUBSCRIBE.
    mutating func grant(_ packetID: UInt16, _ granted: [MQTTQoS?], _ context: inout CoreContext)
    /// Server: answers UNSUBSCRIBE.
    mutating func confirmUnsubscribe(_ packetID: UInt16, _ context: inout CoreContext)
}

extension MQTTCore: TopicCore {}
