import Protocols
import TransportAPI
import Transports

/// The limits of an embedded broker for the resources that clients can use, and its behaviour when they are reached.
public struct BrokerLimits: Sendable, Hashable {
    /// The behaviour for a message to a subscriber whose queue is full.
    public enum Overflow: String, Sendable, Hashable, CaseIterable {
        /// The message is dropped for this subscriber.
        case dropNewest = "drop-newest"
        /// At QoS 1 and 2, the oldest queued message is dropped to make room. At QoS 0 there is no queue, and the
        /// message is dropped.
        case dropOldest = "drop-oldest"
        /// The connection of the subscriber is closed. A clean session loses all queued messages. The subscriber gets
        /// no reason, because MQTT 3.1.1 has none for this. A subscriber without a connection misses the message.
        case disconnect
    }

    /// How many sessions may outlive their connections; 1000 by default. Beyond that, the session ends that has been
    /// without a connection for longest.
    public var keptSessions = 1000
    /// How long a session outlives its connection; 7 days by default. MQTT 3.1.1 leaves this to the server (section
    /// 3.1.2.4).
    public var sessionExpiry = Duration.seconds(7 * 86_400)
    /// How many messages of QoS 1 and 2 may be queued for one subscriber, in addition to those in flight; 1000 by
    /// default.
    public var queuedMessages = 1000
    /// How many bytes may be queued for one subscriber; 1 MiB by default. Each message counts with its topic and 64
    /// bytes. A larger message is only sent to a subscriber that has a connection and nothing queued. At QoS 0, this
    /// limits the bytes that are queued for the kernel.
    public var queuedBytes = 1 << 20
    /// The behaviour when a queue is full; ``Overflow/dropNewest`` by default.
    public var whenQueueFull = Overflow.dropNewest
    /// How many bytes of QoS 1 and 2 messages the broker may buffer in total; 256 MiB by default. This counts messages
    /// that are queued for subscribers, and unacknowledged messages of sessions that outlive their connections. A
    /// message that is queued for many subscribers counts once, and 64 bytes for each of them. Beyond the limit, the
    /// session with the most bytes ends. Sessions without a connection end first.
    public var maximumQueuedBytes = 256 << 20
    /// How many topics may have a retained message; 10,000 by default. Messages for further topics are not retained.
    public var retainedMessages = 10_000
    /// How many bytes these topics and messages may have together; 16 MiB by default.
    public var retainedBytes = 16 << 20
    /// How many levels a filter may have, 1 to 128; 32 by default. A deeper filter is refused. `max-filter-levels` in
    /// the URL overrides this value. More levels make one message visit more nodes of the filter tree: up to 6,016
    /// nodes at 32 levels, and 358,000 at 128.
    public var filterLevels = 32
    /// How many levels the filters of one session may have together; 8,192 by default. Further filters are refused.
    public var filterLevelsPerSession = 8192
    /// How many nodes the tree of all filters may have; 1,000,000 by default. A node takes about 200 bytes. A filter
    /// that might need more nodes is refused.
    public var filterNodes = 1_000_000
    /// How many of these nodes may be at or below the third `+` of a filter; 10,000 by default. One message may have to
    /// visit all of them without finding a subscriber.
    public var wildFilterNodes = 10_000

    /// Creates the default limits.
    public init() {}

    /// Checks all limits.
    ///
    /// - Throws: `.invalidConfiguration` for a value with which no message could be delivered, or that has no meaning.
    func check() throws(TransportError) {
        try SettingCheck.number("keptSessions", keptSessions, 0...Int.max)
        try SettingCheck.notNegative("sessionExpiry", sessionExpiry)
        try SettingCheck.number("queuedMessages", queuedMessages, 1...Int.max)
        try SettingCheck.number("queuedBytes", queuedBytes, 1...Int.max)
        try SettingCheck.number("maximumQueuedBytes", maximumQueuedBytes, 1...Int.max)
        try SettingCheck.number("retainedMessages", retainedMessages, 0...Int.max)
        try SettingCheck.number("retainedBytes", retainedBytes, 0...Int.max)
        try SettingCheck.number("filterLevels", filterLevels, BrokerCore.Limits.filterLevels)
        try SettingCheck.number("filterLevelsPerSession", filterLevelsPerSession, 1...Int.max)
        try SettingCheck.number("filterNodes", filterNodes, 1...Int.max)
        try SettingCheck.number("wildFilterNodes", wildFilterNodes, 0...Int.max)
    }
}
