extension BrokerCore {
    /// Bounds on what clients can make the broker keep.
    package struct Limits: Sendable, Hashable {
        /// The most sessions at a time; 100,000 by default.
        package var maximumSessions = 100_000
        /// The most filters of one session; 1,000 by default.
        package var maximumSubscriptionsPerSession = 1000
        /// The most filters of all sessions together; 1,000,000 by default.
        package var maximumSubscriptions = 1_000_000
        /// The longest filter, in bytes; 1,024 by default.
        package var maximumFilterLength = 1024
        /// The most levels of a filter, 1 to 128; 32 by default. Topics may have more: only `#` reaches those. The nodes that one
        /// message may visit grow with the third power of it; see ``TopicTrie/match(_:)``.
        package var maximumFilterLevels = 32
        /// What ``maximumFilterLevels`` may be.
        package static let filterLevels = 1...128
        /// The most levels that the filters of one session have together, and with them nodes of the trie; 8,192 by default.
        package var maximumNodesPerSession = 8192
        /// The most nodes of the trie; 1,000,000 by default.
        package var maximumNodes = 1_000_000
        /// The most of these that lie at or below the third `+` of a filter; 10,000 by default. See ``TopicTrie/match(_:)``.
        package var maximumWildNodes = 10_000
        /// The most bytes that the names of all nodes have; 64 MiB by default.
        package var maximumNameBytes = 64 << 20

        /// The defaults.
        package init() {}
    }
}
