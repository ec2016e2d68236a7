import TransportAPI

/// A core of MQTT, whatever it is carried by.
protocol TopicCore: ProtocolCore {
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

extension ConnectionDriver {
    /// Lets a core that routes by topic write something.
    func withTopicCore(
        _ body: (inout any TopicCore, inout CoreContext) throws(TransportError) -> Void
    ) throws(TransportError) {
        guard phase == .open else { throw reason?.endError ?? .notOpen }
        guard var topics = core as? any TopicCore else {
            throw TransportError(.unsupported, .open, "this transport has no topics")
        }
        enterCore()
        defer {
            core = topics
            leaveCore()
        }
        try body(&topics, &context)
    }

    /// A broker's answer to SUBSCRIBE: the QoS granted to each filter, in their order, or `nil` for a refused one.
    package func grant(_ packetID: UInt16, _ granted: [MQTTQoS?]) {
        // A connection that has ended needs no answer.
        try? withTopicCore { (core, context) in core.grant(packetID, granted, &context) }
    }

    /// A broker's answer to UNSUBSCRIBE.
    package func confirmUnsubscribe(_ packetID: UInt16) {
        try? withTopicCore { (core, context) in core.confirmUnsubscribe(packetID, &context) }
    }

    /// The session of a server's core, unless a later connection has taken it over.
    package var liveSession: MQTTSession? { (core as? any TopicCore)?.live }
}
