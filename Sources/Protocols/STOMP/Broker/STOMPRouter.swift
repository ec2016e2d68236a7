import TransportAPI

/// The topics of the embedded STOMP broker. The specification leaves the syntax to brokers; this one is that of RabbitMQ,
/// except that `#` is only a wildcard at the end: `/topic/rooms.*` and `/topic/rooms.#`.
package enum STOMPTopic: TopicSyntax {
    @inlinable package static var separator: UInt8 { UInt8(ascii: ".") }
    @inlinable package static var singleLevel: UInt8 { UInt8(ascii: "*") }
    @inlinable package static var multiLevel: UInt8 { UInt8(ascii: "#") }
    /// `/topic/rooms.#` matches `/topic/rooms` too.
    @inlinable package static var multiLevelMatchesNone: Bool { true }
    @inlinable package static var hidden: UInt8? { nil }
}

/// Finds the subscriptions to topics that get a message. It knows them by the numbers that its owner gives them.
package struct STOMPRouter: Sendable {
    /// Limits of the memory and work that clients can cause.
    package struct Limits: Sendable, Hashable {
        /// The most subscriptions of all clients together; 1,000,000 by default.
        package var maximumSubscriptions = 1_000_000
        /// The longest destination, in bytes; 1,024 by default.
        package var maximumLength = 1024
        /// The most levels of a destination that is subscribed to; 32 by default.
        package var maximumLevels = 32
        /// The most nodes of the tree of all destinations; 1,000,000 by default.
        package var maximumNodes = 1_000_000
        /// The most nodes at or below the third `*` of a destination; 10,000 by default. See ``TopicTrie/match(_:)``.
        package var maximumWildNodes = 10_000
        /// The most bytes of the names of all nodes together; 64 MiB by default.
        package var maximumNameBytes = 64 << 20

        /// Creates the defaults.
        package init() {}
    }

    private let limits: Limits
    private var trie = TopicTrie<STOMPTopic, UInt64>()
    /// The node of each subscription, and its index among the subscribers there.
    private var places: [UInt64: (node: Int32, index: Int)] = [:]

    /// Creates a router without subscriptions.
    package init(limits: Limits = Limits()) {
        self.limits = limits
    }

    /// How many subscriptions there are.
    package var count: Int { places.count }

    /// Adds a subscription under a number that is not in use.
    ///
    /// - Returns: Whether there was room for it.
    package mutating func add(_ number: UInt64, to destination: String) -> Bool {
        guard places.count < limits.maximumSubscriptions, places[number] == nil else { return false }
        return destination.withContiguousUTF8 { text in
            guard !text.isEmpty, text.count <= limits.maximumLength else { return false }
            let cost = FilterCost<STOMPTopic>(text)
            guard cost.levels <= limits.maximumLevels else { return false }
            let known = trie.find(text)
            guard known != nil || hasRoom(for: cost, text.count) else { return false }
            let node = known ?? trie.insert(text)
            places[number] = (node, trie.nodes[Int(node)].subscribers.count)
            trie.nodes[Int(node)].subscribers.append(number)
            return true
        }
    }

    private func hasRoom(for cost: FilterCost<STOMPTopic>, _ length: Int) -> Bool {
        trie.nodeCount + cost.levels <= limits.maximumNodes
            && (cost.wildLevels == 0 || trie.wildCount + cost.wildLevels <= limits.maximumWildNodes)
            && trie.nameBytes + length <= limits.maximumNameBytes
    }

    /// Removes a subscription, if there is one of this number. The last subscriber of its node moves to its place.
    package mutating func remove(_ number: UInt64) {
        guard let (node, index) = places.removeValue(forKey: number),
            let last = trie.nodes[Int(node)].subscribers.popLast()
        else { return }
        if index < trie.nodes[Int(node)].subscribers.count {
            trie.nodes[Int(node)].subscribers[index] = last
            places[last]?.index = index
        }
        trie.prune(node)
    }

    /// Fills `receivers` with the subscriptions that match a destination.
    package mutating func route(_ destination: String, into receivers: inout [UInt64]) {
        receivers.removeAll(keepingCapacity: true)
        destination.withContiguousUTF8 { trie.match($0) }
        for node in trie.matched { receivers += trie.nodes[Int(node)].subscribers }
    }
}
