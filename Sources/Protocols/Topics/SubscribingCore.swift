import TransportAPI

/// A client's core that subscribes to topics at a broker.
package protocol SubscribingCore: PackageCore {
    /// The facts about the connection that the owner of its subscriptions needs.
    var facts: SubscriberFacts { get }
    /// Gives the configured filters, in their order, these numbers in place of those from 1 on. Messages that come later name
    /// them (``/TransportAPI/Payload/subscription``). So a message says to which filter it belongs also when the next
    /// connection has other filters. The default does nothing, for protocols that do not name the subscription.
    mutating func number(configured numbers: [UInt32])
    /// Lets no message leave until ``releaseMessages(_:)``, so that the subscriptions leave first. A broker that has lost
    /// the session would not pass a message to a filter that comes after it. `send` returns `blocked` meanwhile.
    ///
    /// - Parameter alsoLater: Whether later connections of the session hold their messages from the beginning, and leave
    ///   it to ``releaseMessages(_:)`` to send what earlier ones have left unacknowledged. Then it must be called on each
    ///   of them.
    mutating func holdMessages(alsoLater: Bool)
    /// Sends what earlier connections have left unacknowledged, if that has been held, and lets messages leave.
    mutating func releaseMessages(_ context: inout CoreContext)
    /// Requests subscriptions. Returns the answer if no broker has to be asked. Otherwise
    /// ``SubscriptionSignal/subscribed(_:_:)`` reports it under `id`.
    mutating func subscribe(_ requests: [SubscriptionRequest], id: UInt64, _ context: inout CoreContext)
        throws(TransportError) -> SubscriptionSignal?
    /// Ends subscriptions. Returns the answer if no broker has to be asked. Otherwise
    /// ``SubscriptionSignal/unsubscribed(_:)`` reports the broker's confirmation under `id`.
    mutating func unsubscribe(_ filters: [String], id: UInt64, _ context: inout CoreContext) throws(TransportError)
        -> SubscriptionSignal?
}

extension SubscribingCore {
    /// The default does nothing.
    package mutating func number(configured _: [UInt32]) {}
}

/// A subscription as the app of a client wants it.
package struct SubscriptionRequest: Sendable, Hashable {
    /// The topic filter, or the destination.
    package var filter: String
    /// The highest QoS of its messages, for protocols that have one.
    package var qos: Payload.QoS
    /// The number of the filter among all that the app has had, from ``first`` on. A protocol that names the
    /// subscription of each message uses it (``/TransportAPI/Payload/subscription``).
    package var number: UInt32

    /// The number of an app's first filter. Lower numbers belong to the filters of the configuration, counted from 1, until
    /// ``SubscribingCore/number(configured:)``.
    package static let first: UInt32 = 1 << 16

    /// Creates a request.
    package init(_ filter: String, qos: Payload.QoS, number: UInt32 = 0) {
        (self.filter, self.qos, self.number) = (filter, qos, number)
    }
}

/// The protocol of a client's subscriptions.
package enum SubscriptionProtocol: Sendable, Hashable {
    case mqtt, stomp
}

/// The facts about a connection that the owner of a client's subscriptions needs.
package struct SubscriberFacts: Sendable, Hashable {
    /// The protocol.
    package var spoken: SubscriptionProtocol
    /// The configured client identifier; empty if it is random.
    package var name = ""
    /// Whether the broker has continued the session.
    package var hasSession = false
    /// The session at the broker. `nil` for one that ends with the connection.
    package var brokerSession: BrokerSession?
    /// The configured filters, to which the connection itself subscribes.
    package var filters: [String] = []
    /// How long messages wait for a filter that matches them; see ``MQTTConfiguration/unclaimedWait``.
    package var unclaimedWait = Duration.seconds(30)

    /// Creates the facts about a connection without a session and without filters.
    package init(_ spoken: SubscriptionProtocol) {
        self.spoken = spoken
    }
}

/// The broker's answer to a request about subscriptions on an open connection.
package enum SubscriptionSignal: Sendable, Hashable {
    /// The answer to the `subscribe` of this id. It has the QoS granted to each filter, or `nil` for a refused one.
    case subscribed(UInt64, [Payload.QoS?])
    /// The broker has refused this filter of the `subscribe` of this id. It ends the connection and answers nothing else.
    indirect case refused(UInt64, filter: String, TransportError)
    /// The broker has confirmed the `unsubscribe` of this id.
    case unsubscribed(UInt64)
}

extension CoreSignal {
    /// The answer about subscriptions, if the core of a client has reported one; `nil` otherwise.
    package var subscription: SubscriptionSignal? { (self as? SignalCarrier<SubscriptionSignal>)?.signal }
}

extension CoreEvent {
    /// The event for an answer about subscriptions.
    static func subscription(_ signal: SubscriptionSignal) -> CoreEvent { .signal(SignalCarrier(signal)) }
}
