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
    /// Lets a core that routes by topic write something.
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

    /// The session that a server's core of MQTT has opened for its client.
    package var mqttSession: MQTTSession? { (core as? any TopicCore)?.session }

    /// Looks into the outbox of the session, which has got something.
    package func sendOutbox() { pump() }
}
