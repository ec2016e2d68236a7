import TransportAPI

/// A client's core that subscribes to topics.
package protocol SubscribingCore: PackageCore {
    /// The facts about the connection that the owner of its subscriptions needs.
    var facts: MQTTClientFacts { get }
    /// Lets no message leave until ``releaseMessages(_:)``, so that the subscriptions leave first. A broker that has lost
    /// the session would not pass a message to a filter that comes after it. `send` returns `blocked` meanwhile.
    ///
    /// - Parameter alsoLater: Whether later connections of the session hold their messages from the beginning, and leave
    ///   it to ``releaseMessages(_:)`` to send what earlier ones have left unacknowledged. Then it must be called on each
    ///   of them.
    mutating func holdMessages(alsoLater: Bool)
    /// Sends what earlier connections have left unacknowledged, if that has been held, and lets messages leave.
    mutating func releaseMessages(_ context: inout CoreContext)
    /// Sends a subscription request. ``MQTTSignal/subscribeAnswered(_:_:)`` reports the answer under `id`.
    mutating func subscribe(_ subscriptions: [MQTTSubscription], id: UInt64, _ context: inout CoreContext)
        throws(TransportError)
    /// Ends subscriptions. ``MQTTSignal/unsubscribeAnswered(_:)`` reports the broker's confirmation under `id`.
    mutating func unsubscribe(_ filters: [String], id: UInt64, _ context: inout CoreContext) throws(TransportError)
}

/// The facts about a connection that the owner of a client's subscriptions needs.
package struct MQTTClientFacts: Sendable, Hashable {
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
}
