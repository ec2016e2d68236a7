/// What a broker has to do with at one moment.
public struct BrokerStatistics: Sendable, Hashable {
    /// Clients with a connection.
    public var connections = 0
    /// Sessions, with a connection or without.
    public var sessions = 0
    /// Filters of all sessions, and those of ended ones that have not been cleared away yet.
    public var subscriptions = 0
    /// Topics that have a retained message.
    public var retainedMessages = 0
    /// Bytes of these topics and messages.
    public var retainedBytes = 0
    /// Sessions that have yet to get some of what was retained when they subscribed.
    public var pendingRetained = 0
    /// Bytes of messages of QoS 1 and 2 that are kept for subscribers, as ``BrokerLimits/maximumQueuedBytes`` counts them.
    public var queuedBytes = 0
    /// Messages that did not get to a subscriber, or were not retained, for want of room, since the start.
    public var dropped: UInt64 = 0
}
