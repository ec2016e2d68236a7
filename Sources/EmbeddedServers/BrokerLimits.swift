/// Bounds on what clients can make an embedded broker keep, and what happens there.
public struct BrokerLimits: Sendable, Hashable {
    /// What becomes of a message for a subscriber who is too slow for it.
    public enum Overflow: String, Sendable, Hashable, CaseIterable {
        /// The subscriber does not get it.
        case dropNewest = "drop-newest"
        /// At QoS 1 and 2, the oldest one that waits makes room for it; at QoS 0 nothing waits, and it is dropped.
        case dropOldest = "drop-oldest"
        /// The subscriber loses its link, and with a clean session everything that waits; it is told nothing, for MQTT 3.1.1
        /// has no word for it. A subscriber that is away misses the message.
        case disconnect
    }

    /// How many sessions may outlive their links; beyond, the one that was left longest ago ends. 1000 by default.
    public var keptSessions = 1000
    /// How many messages of QoS 1 and 2 may wait for one subscriber, besides those under way to it; 1000 by default.
    public var queuedMessages = 1000
    /// How many bytes they may have; one message may pass it. 1 MiB by default. At QoS 0, how many may wait for the kernel.
    public var queuedBytes = 1 << 20
    /// What happens beyond that; ``Overflow/dropNewest`` by default.
    public var whenQueueFull = Overflow.dropNewest
    /// How many topics may have a retained message; a further topic gets none. 10,000 by default.
    public var retainedMessages = 10_000
    /// How many bytes of topics and payloads these have together; 16 MiB by default.
    public var retainedBytes = 16 << 20

    /// The defaults.
    public init() {}
}
