/// The state of a broker at one moment.
public struct BrokerStatistics: Sendable, Hashable {
    /// Clients with a connection.
    public var connections = 0
    /// Sessions, with a connection or without.
    public var sessions = 0
    /// Filters of all sessions, including those of ended sessions that are not removed yet.
    public var subscriptions = 0
    /// Topics that have a retained message.
    public var retainedMessages = 0
    /// Bytes of these topics and messages.
    public var retainedBytes = 0
    /// Sessions that have not received all retained messages of their subscriptions yet.
    public var pendingRetained = 0
    /// Bytes of QoS 1 and 2 messages that are buffered for subscribers, as ``BrokerLimits/maximumQueuedBytes`` counts
    /// them.
    public var queuedBytes = 0
    /// Messages since the start that were dropped for a subscriber or not retained, because there was no room.
    public var dropped: UInt64 = 0
}
