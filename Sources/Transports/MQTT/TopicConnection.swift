import Protocols
import SocketIO
import TransportAPI

/// A connection that may route by topic, which ``MQTTClient`` subscribes over.
package protocol TopicConnection: Connection {
    /// Its driver.
    var driver: LoopBound<ConnectionDriver> { get }
}

extension CoreConnection: TopicConnection {}

extension ConnectionDriver {
    /// Calls `body` with the core, to write packets. The core must route by topic.
    func withTopicCore(
        _ body: (inout any TopicCore, inout CoreContext) throws(TransportError) -> Void
    ) throws(TransportError) {
        guard phase == .open else { throw reason?.asError ?? .notOpen }
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

    /// Lets no message leave before the subscriptions, until ``releaseMessages()``.
    func holdMessages(alsoLater: Bool) {
        // A connection that has ended sends no messages.
        try? withTopicCore { (core, _) in core.holdMessages(alsoLater: alsoLater) }
    }

    /// Lets messages leave.
    func releaseMessages() {
        try? withTopicCore { (core, context) in core.releaseMessages(&context) }
        if !waiting.blocked.isEmpty { requestFlush() }
    }

    /// Answers SUBSCRIBE, for a broker. `granted` has the QoS of each filter in order, or `nil` for a refused one.
    package func grant(_ packetID: UInt16, _ granted: [MQTTQoS?]) {
        // A connection that has ended needs no answer.
        try? withTopicCore { (core, context) in core.grant(packetID, granted, &context) }
    }

    /// Answers UNSUBSCRIBE, for a broker.
    package func confirmUnsubscribe(_ packetID: UInt16) {
        try? withTopicCore { (core, context) in core.confirmUnsubscribe(packetID, &context) }
    }

    /// The session of a server's core, or `nil` if a later connection has taken it over.
    package var liveSession: MQTTSession? { (core as? any TopicCore)?.live }

    /// The session that a server's MQTT core has opened for its client.
    package var mqttSession: MQTTSession? { (core as? any TopicCore)?.session }

    /// Sends the messages that were added to the outbox of the session.
    package func sendOutbox() { pump() }
}
