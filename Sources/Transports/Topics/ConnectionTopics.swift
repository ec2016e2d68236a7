import Protocols
import SocketIO
import TransportAPI

// The calls of a client.
extension ConnectionDriver {
    /// The core, if it subscribes to topics.
    var subscribingCore: (any SubscribingCore)? { core as? any SubscribingCore }

    /// Calls `body` with the core, to write packets. The core must subscribe to topics.
    func withSubscribingCore(
        _ body: (inout any SubscribingCore, inout CoreContext) throws(TransportError) -> Void
    ) throws(TransportError) {
        guard phase == .open else { throw reason?.asError ?? .notOpen }
        guard var subscribing = subscribingCore else {
            throw TransportError(.unsupported, .open, "this transport has no topics")
        }
        enterCore()
        defer {
            core = subscribing
            leaveCore()
        }
        try body(&subscribing, &context)
    }

    /// Gives the filters of the URL these numbers, in the messages that wait for the app and in later ones. Call it once.
    func number(configured numbers: [UInt32]) {
        receiving.inbox.number(subscriptions: numbers)
        // A connection that has ended brings no further messages.
        try? withSubscribingCore { (core, _) in core.number(configured: numbers) }
    }

    /// Lets no message leave before the subscriptions, until ``releaseMessages()``.
    func holdMessages(alsoLater: Bool) {
        // A connection that has ended sends no messages.
        try? withSubscribingCore { (core, _) in core.holdMessages(alsoLater: alsoLater) }
    }

    /// Lets messages leave.
    func releaseMessages() {
        try? withSubscribingCore { (core, context) in core.releaseMessages(&context) }
        if !waiting.blocked.isEmpty { requestFlush() }
    }
}

// The calls of a broker.
extension ConnectionDriver {
    /// Answers SUBSCRIBE. `granted` has the QoS of each filter in order, or `nil` for a refused one.
    package func grant(_ packetID: UInt16, _ granted: [MQTTQoS?]) {
        withBrokeredCore { (core, context) in core.grant(packetID, granted, &context) }
    }

    /// Answers UNSUBSCRIBE.
    package func confirmUnsubscribe(_ packetID: UInt16) {
        withBrokeredCore { (core, context) in core.confirmUnsubscribe(packetID, &context) }
    }

    /// Calls `body` with the core, unless the connection has ended and needs no answer.
    private func withBrokeredCore(_ body: (inout any BrokeredCore, inout CoreContext) -> Void) {
        guard phase == .open, var brokered = core as? any BrokeredCore else { return }
        enterCore()
        body(&brokered, &context)
        core = brokered
        leaveCore()
    }

    /// The session of a server's core, or `nil` if a later connection has taken it over.
    package var liveSession: MQTTSession? { (core as? any BrokeredCore)?.live }

    /// Sends the messages that were added to the outbox of the session.
    package func sendOutbox() { pump() }
}
