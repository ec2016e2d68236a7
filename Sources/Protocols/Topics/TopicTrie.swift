import Primitives

/// The topic filters of all subscribers, as a tree of levels. The cost of finding the receivers of a message grows with
/// the levels of its topic and the wildcards beside them, not with the number of filters.
///
/// A node is identified by its index. An edge is found by hashing its parent and its level name, without creating a
/// key. No node moves when another is added, so adding a filter takes no longer in a tree of a million nodes. The owner of
/// the trie adds and removes subscribers, of which the trie knows nothing. One is at most once on a node.
struct TopicTrie<Syntax: TopicSyntax, Subscriber: Sendable>: Sendable {
    /// The subscribers of a shared subscription. One of them gets each message.
    struct Group: Sendable {
        var name: [UInt8]
        var members: [Subscriber] = []
        /// The member whose turn it is.
        var turn = 0
    }

    /// One level of a filter, and the subscribers of the filter that ends here.
    struct Node: Sendable {
        var parent: Int32
        /// The next node in its bucket of edges; for a free node, the next free one.
        var next: Int32 = -1
        var name: [UInt8]
        var hash = 0
        var kind: Kind
        /// The children that are wildcards; -1 if there is none.
        var single: Int32 = -1
        var multi: Int32 = -1
        var childCount = 0
        /// How many levels are single-level wildcards, down to this one.
        var wildcards: UInt16 = 0
        var subscribers: [Subscriber] = []
        /// The groups of shared subscriptions to the filter that ends here.
        var groups: [Group] = []

        var hasSubscribers: Bool { !subscribers.isEmpty || !groups.isEmpty }

        /// Whether there is a child with a name, in addition to the wildcards.
        var hasNamedChildren: Bool { childCount > (single >= 0 ? 1 : 0) + (multi >= 0 ? 1 : 0) }
    }

    enum Kind: Sendable {
        case literal, single, multi
    }

    private struct Step {
        var node: Int32
        /// How many levels of the topic lead to it.
        var depth: Int
    }

    /// A level of the topic that is matched.
    private struct Level {
        var range: Range<Int>
        /// The common start of the hashes of all edges with its name, once one was computed.
        var hasher: Hasher?
    }

    var nodes = PagedArray(Node(parent: -1, name: [], kind: .literal))
    private var firstFree: Int32 = -1
    private var freeCount = 0
    /// The edges to literal children by their hashes: the first node of each bucket, or -1. The extension below
    /// explains them.
    var buckets = PagedArray<Int32>(-1)
    /// The smallest power of two that is not less than the number of buckets, minus one.
    var bucketMask = 0
    var edgeCount = 0

    /// The nodes that the last ``match(_:)`` has found. Each has at least one subscriber.
    private(set) var matched: [Int32] = []
    private var steps: [Step] = []
    /// The levels of the topic that the steps have reached. All nodes of one depth share them.
    private var levels: [Level] = []
    /// How many bytes of topics were examined in total, to find the ends of levels and to compute hashes.
    private(set) var examined = 0

    /// How many nodes are in use, including the root.
    var nodeCount: Int { nodes.count - freeCount }
    /// How many nodes are the third single-level wildcard of their filters or below it.
    private(set) var wildCount = 0
    /// How many bytes the names of all nodes have together.
    private(set) var nameBytes = 0
    /// The longest name that any node has had, in bytes. A longer level of a topic matches only wildcards.
    private(set) var longestName = 0

    /// Finds the nodes whose filters match `topic`. Allocates nothing once the trie has matched a topic with as many
    /// nodes.
    ///
    /// A level of the topic leads from a node to at most two others: its single-level wildcard, written `+` here, and the child
    /// with the level's name. So a subscriber with many filters of `a` and `+` could make a topic `a/a/a/…` visit nearly all
    /// nodes. The limits of subscriptions limit these visits. Nodes below at most two `+` that one topic can reach at depth d
    /// differ only in the places of these `+`. There are 1 + d + d(d - 1)/2 of them, in total 6,017 over the 32 levels that a filter
    /// has by default. All other nodes are wild, and the whole trie has at most 10,000 wild nodes by default. So one
    /// message visits at most 16,017 nodes, however many filters there are.
    ///
    /// Each level of the topic is found once and hashed once, whatever the number of nodes at its depth. To examine a
    /// level of 65,000 bytes for each of them would take longer than everything else.
    mutating func match(_ topic: UnsafeRawBufferPointer) {
        matched.removeAll(keepingCapacity: true)
        steps.removeAll(keepingCapacity: true)
        levels.removeAll(keepingCapacity: true)
        let isHidden = Syntax.isHidden(topic)
        steps.append(Step(node: 0, depth: 0))
        while let step = steps.popLast() {
            let index = Int(step.node)
            let takesWildcards = !(isHidden && index == 0)
            let hasLevel = hasLevel(step.depth, topic)
            if takesWildcards, hasLevel || Syntax.multiLevelMatchesNone { found(nodes[index].multi) }
            guard hasLevel else {
                found(step.node)
                continue
            }
            if takesWildcards, nodes[index].single >= 0 {
                steps.append(Step(node: nodes[index].single, depth: step.depth + 1))
            }
            if let child = literal(below: step.node, step.depth, topic) {
                steps.append(Step(node: child, depth: step.depth + 1))
            }
        }
    }

    /// Whether the topic has a level at this depth. All levels above it must have been visited.
    @inline(__always)
    private mutating func hasLevel(_ depth: Int, _ topic: UnsafeRawBufferPointer) -> Bool {
        if depth < levels.count { return true }
        let start = levels.last.map { $0.range.upperBound + 1 } ?? 0
        guard start <= topic.count else { return false }
        let end = Syntax.levelEnd(topic, from: start)
        examined &+= end - start
        levels.append(Level(range: start..<end))
        return true
    }

    /// The literal child with the topic's level name at this depth.
    @inline(__always)
    private mutating func literal(below parent: Int32, _ depth: Int, _ topic: UnsafeRawBufferPointer) -> Int32? {
        let range = levels[depth].range
        // Many nodes have only wildcards as children, or none. They need no hash.
        guard range.count <= longestName, nodes[Int(parent)].hasNamedChildren else { return nil }
        let name = UnsafeRawBufferPointer(rebasing: topic[range])
        let hasher: Hasher
        if let known = levels[depth].hasher {
            hasher = known
        } else {
            hasher = Self.hasher(name)
            levels[depth].hasher = hasher
            examined &+= name.count
        }
        return child(of: parent, name, Self.hash(parent, hasher))
    }

    @inline(__always)
    private mutating func found(_ node: Int32) {
        if node >= 0, nodes[Int(node)].hasSubscribers { matched.append(node) }
    }

    /// The node of a well-formed filter; `nil` if there is none.
    func find(_ filter: UnsafeRawBufferPointer) -> Int32? {
        var node: Int32 = 0
        var offset = 0
        while offset <= filter.count {
            let end = Syntax.levelEnd(filter, from: offset)
            guard let next = next(node, UnsafeRawBufferPointer(rebasing: filter[offset..<end])) else { return nil }
            node = next
            offset = end + 1
        }
        return node
    }

    /// Returns the node of a well-formed filter, and creates it if there is none. The caller must add a subscriber to
    /// it or pass it to ``prune(_:)``.
    mutating func insert(_ filter: UnsafeRawBufferPointer) -> Int32 {
        var node: Int32 = 0
        var offset = 0
        while offset <= filter.count {
            let end = Syntax.levelEnd(filter, from: offset)
            let name = UnsafeRawBufferPointer(rebasing: filter[offset..<end])
            node = next(node, name) ?? add(to: node, name)
            offset = end + 1
        }
        return node
    }

    /// Adds a group of shared subscriptions to a node. Returns its index. The caller must add a member.
    mutating func addGroup(_ name: [UInt8], to node: Int32) -> Int {
        nodes[Int(node)].groups.append(Group(name: name))
        nameBytes += name.count
        return nodes[Int(node)].groups.count - 1
    }

    /// Removes a group without members from its node. The caller must pass the node to ``prune(_:)``.
    mutating func removeGroup(at index: Int, of node: Int32) {
        nameBytes -= nodes[Int(node)].groups.remove(at: index).name.count
    }

    /// Removes a node, and then its parents, as long as they have neither children nor subscribers.
    mutating func prune(_ node: Int32) {
        var node = node
        while node > 0, nodes[Int(node)].childCount == 0, !nodes[Int(node)].hasSubscribers {
            let parent = nodes[Int(node)].parent
            switch nodes[Int(node)].kind {
            case .single: nodes[Int(parent)].single = -1
            case .multi: nodes[Int(parent)].multi = -1
            case .literal: removeEdge(to: node)
            }
            nodes[Int(parent)].childCount -= 1
            if nodes[Int(node)].wildcards >= FilterCost<Syntax>.wildFrom { wildCount -= 1 }
            nameBytes -= nodes[Int(node)].name.count
            nodes[Int(node)] = Node(parent: -1, next: firstFree, name: [], kind: .literal)
            firstFree = node
            freeCount += 1
            node = parent
        }
    }

    private func next(_ node: Int32, _ name: UnsafeRawBufferPointer) -> Int32? {
        let next: Int32
        switch Self.kind(name) {
        case .literal:
            guard nodes[Int(node)].hasNamedChildren else { return nil }
            return child(of: node, name, Self.hash(node, Self.hasher(name)))
        case .single: next = nodes[Int(node)].single
        case .multi: next = nodes[Int(node)].multi
        }
        return next >= 0 ? next : nil
    }

    private mutating func add(to parent: Int32, _ name: UnsafeRawBufferPointer) -> Int32 {
        let kind = Self.kind(name)
        var fresh = Node(parent: parent, name: kind == .literal ? [UInt8](name) : [], kind: kind)
        fresh.wildcards = nodes[Int(parent)].wildcards + (kind == .single ? 1 : 0)
        if kind == .literal { fresh.hash = Self.hash(parent, Self.hasher(name)) }
        longestName = max(longestName, fresh.name.count)
        if fresh.wildcards >= FilterCost<Syntax>.wildFrom { wildCount += 1 }
        nameBytes += fresh.name.count
        let node = firstFree >= 0 ? firstFree : Int32(nodes.count)
        if firstFree >= 0 {
            firstFree = nodes[Int(node)].next
            freeCount -= 1
            nodes[Int(node)] = fresh
        } else {
            nodes.append(fresh)
        }
        switch kind {
        case .literal: addEdge(to: node)
        case .single: nodes[Int(parent)].single = node
        case .multi: nodes[Int(parent)].multi = node
        }
        nodes[Int(parent)].childCount += 1
        return node
    }

    private static func kind(_ name: UnsafeRawBufferPointer) -> Kind {
        guard name.count == 1 else { return .literal }
        switch name[0] {
        case Syntax.singleLevel: return .single
        case Syntax.multiLevel: return .multi
        default: return .literal
        }
    }
}

// The edges to literal children, in a hash table that grows by one bucket with each edge (linear hashing, Litwin 1980).
// So no single filter causes a rehash of all edges. The hash is the standard library's, which has a random seed in each
// process. So a subscriber cannot choose names that collide.
extension TopicTrie {
    /// The common start of the hashes of all edges with this name. With it, a name is hashed once for any number of
    /// parents.
    @inline(__always)
    static func hasher(_ name: UnsafeRawBufferPointer) -> Hasher {
        var hasher = Hasher()
        hasher.combine(bytes: name)
        return hasher
    }

    @inline(__always)
    static func hash(_ parent: Int32, _ name: Hasher) -> Int {
        var hasher = name
        hasher.combine(parent)
        return hasher.finalize()
    }

    /// The literal child with this name, whose edge has this hash.
    func child(of parent: Int32, _ name: UnsafeRawBufferPointer, _ hash: Int) -> Int32? {
        var node = buckets[bucket(hash)]
        while node >= 0 {
            let index = Int(node)
            if nodes[index].hash == hash, nodes[index].parent == parent,
                nodes[index].name.withUnsafeBytes({ $0.hasSameBytes(as: name) })
            {
                return node
            }
            node = nodes[index].next
        }
        return nil
    }

    mutating func addEdge(to node: Int32) {
        if edgeCount >= buckets.count { split() }
        chain(node, into: bucket(nodes[Int(node)].hash))
        edgeCount += 1
    }

    mutating func removeEdge(to node: Int32) {
        let bucket = bucket(nodes[Int(node)].hash)
        var former: Int32 = -1
        var current = buckets[bucket]
        while current != node {
            guard current >= 0 else { return }
            former = current
            current = nodes[Int(current)].next
        }
        if former < 0 {
            buckets[bucket] = nodes[Int(node)].next
        } else {
            nodes[Int(former)].next = nodes[Int(node)].next
        }
        edgeCount -= 1
    }

    /// The bucket of a hash: as many of its bits as the number of buckets needs, or one fewer if that bucket does not
    /// exist yet.
    @inline(__always)
    private func bucket(_ hash: Int) -> Int {
        let bucket = hash & bucketMask
        return bucket < buckets.count ? bucket : hash & bucketMask >> 1
    }

    private mutating func chain(_ node: Int32, into bucket: Int) {
        nodes[Int(node)].next = buckets[bucket]
        buckets[bucket] = node
    }

    /// Adds a bucket, and moves the edges that belong to it from the bucket that stood for it.
    private mutating func split() {
        let fresh = buckets.count
        if fresh > bucketMask { bucketMask = bucketMask << 1 | 1 }
        let old = fresh & bucketMask >> 1
        var node = buckets[old]
        buckets.append(-1)
        buckets[old] = -1
        while node >= 0 {
            let next = nodes[Int(node)].next
            chain(node, into: bucket(nodes[Int(node)].hash))
            node = next
        }
    }
}

/// The cost of a well-formed filter in a trie.
struct FilterCost<Syntax: TopicSyntax> {
    /// A level is wild if it is at least this single-level wildcard of its filter, or comes after it.
    static var wildFrom: Int { 3 }

    private(set) var levels = 1
    /// How many of its levels are wild.
    private(set) var wildLevels = 0

    init(_ filter: UnsafeRawBufferPointer) {
        var wildcards = 0
        for byte in filter {
            if byte == Syntax.separator {
                levels += 1
                if wildcards >= Self.wildFrom { wildLevels += 1 }
            } else if byte == Syntax.singleLevel {
                wildcards += 1
                if wildcards == Self.wildFrom { wildLevels += 1 }
            }
        }
    }
}
