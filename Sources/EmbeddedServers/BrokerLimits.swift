import Protocols
import TransportAPI
import Transports

/// Bounds on what clients can make an embedded broker keep, and what happens there.
public struct BrokerLimits: Sendable, Hashable {
    /// What becomes of a message for a subscriber who is too slow for it.
    public enum Overflow: String, Sendable, Hashable, CaseIterable {
        /// The subscriber does not get it.
        case dropNewest = "drop-newest"
        /// At QoS 1 and 2, the oldest one that waits makes room for it; at QoS 0 nothing waits, and it is dropped.
        case dropOldest = "drop-oldest"
        /// The subscriber loses its connection, and with a clean session everything that waits; it is told nothing, for
        /// MQTT 3.1.1 has no word for it. A subscriber that is away misses the message.
        case disconnect
    }

    /// How many sessions may outlive their connections; beyond, the one that was left longest ago ends. 1000 by default.
    public var keptSessions = 1000
    /// For how long a session outlives its connection; 7 days by default. MQTT 3.1.1 leaves that to the server (section
    /// 3.1.2.4).
    public var sessionExpiry = Duration.seconds(7 * 86_400)
    /// How many messages of QoS 1 and 2 may wait for one subscriber, besides those under way to it; 1000 by default.
    public var queuedMessages = 1000
    /// How many bytes they may have, each counted with its topic and 64 bytes more; 1 MiB by default. A message that is
    /// larger goes only to a subscriber with a connection for whom nothing else waits. At QoS 0, how many bytes may
    /// wait for the kernel.
    public var queuedBytes = 1 << 20
    /// What happens beyond that; ``Overflow/dropNewest`` by default.
    public var whenQueueFull = Overflow.dropNewest
    /// How many bytes the messages of QoS 1 and 2 may have that wait for all subscribers, or that sessions which
    /// outlive their connections keep until they are acknowledged; 256 MiB by default. A message that waits for many
    /// counts once, and 64 bytes for each. Beyond, the session that keeps most ends: of those without a connection, or
    /// if none of these keeps anything, of all.
    public var maximumQueuedBytes = 256 << 20
    /// How many topics may have a retained message; a further topic gets none. 10,000 by default.
    public var retainedMessages = 10_000
    /// How many bytes of topics and payloads these have together; 16 MiB by default.
    public var retainedBytes = 16 << 20
    /// How many levels a filter may have, 1 to 128; 32 by default. A deeper one is refused. `max-filter-levels` in the
    /// URL comes first. With more levels a single message may have to visit more of the tree of filters: 6,016 nodes at
    /// 32, 358,000 at 128.
    public var filterLevels = 32
    /// How many levels the filters of one session may have together; 8,192 by default. A further filter is refused.
    public var filterLevelsPerSession = 8192
    /// How many nodes the tree of all filters' levels may have, each some 200 bytes; 1,000,000 by default. A filter that might
    /// need more is refused.
    public var filterNodes = 1_000_000
    /// How many of these may be the third `+` of a filter, or come behind it; 10,000 by default. They are what a single message
    /// may have to visit without finding a subscriber.
    public var wildFilterNodes = 10_000

    /// The defaults.
    public init() {}

    /// - Throws: `.invalidConfiguration` for ``filterLevels`` that are not allowed.
    func checkedFilterLevels() throws(TransportError) -> Int {
        let allowed = BrokerCore.Limits.filterLevels
        guard allowed ~= filterLevels else {
            let range = "\(allowed.lowerBound) to \(allowed.upperBound)"
            throw .configuration("filterLevels", "is \(filterLevels), allowed are \(range)")
        }
        return filterLevels
    }
}
