/// The topic filters of all subscribers, as a tree of levels: finding whom a message concerns costs the levels of its topic
/// (and the wildcards beside them), not the number of filters.
///
/// Nodes are named by their index; an edge is found by hashing parent and level name, without making a key. Nothing that is
/// there moves when a node is added, so that one filter more takes no longer in a tree of a million nodes. Levels are compared
/// as bytes, since the specification forbids normalising (MQTT 3.1.1, section 4.7.3). Each subscriber is at most once on a
/// node; who it is, only the owner of the trie knows.
struct TopicTrie: Sendable {
    /// A subscriber on a node.
    struct Subscriber: Sendable {
        var session: Int32
        var qos: MQTTQoS
    }

    /// One level of a filter, and whom the filter that ends here concerns.
    struct Node: Sendable {
        var parent: Int32
        /// The next one in its bucket of edges; of a node that is free, the next free one.
        var next: Int32 = -1
        var name: [UInt8]
        var hash = 0
        var kind: Kind
        /// The children `+` and `#`.
        var single: Int32 = -1
        var multi: Int32 = -1
        var childCount = 0
        /// How many levels down to this one are `+`.
        var wildcards: UInt16 = 0
        var subscribers: [Subscriber] = []

        /// Whether there is a child with a name, beside `+` and `#`.
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
        /// What the hashes of all edges of its name begin with, once one was looked for.
        var hasher: Hasher?
    }

    var nodes = PagedArray(Node(parent: -1, name: [], kind: .literal))
    private var firstFree: Int32 = -1
    private var freeCount = 0
    /// The edges to literal children, by their hashes: the first node of each bucket, or -1. See TopicTrie+Edges.
    var buckets = PagedArray<Int32>(-1)
    /// The smallest power of two that is no less than the number of buckets, less one.
    var bucketMask = 0
    var edgeCount = 0

    /// The nodes that the last ``match(_:)`` has found, each with at least one subscriber.
    private(set) var matched: [Int32] = []
    private var steps: [Step] = []
    /// The levels of the topic, as far as the steps have come: nodes at the same depth share them.
    private var levels: [Level] = []
    /// How many bytes of topics were looked at for where a level ends, and for hashes, in all.
    private(set) var examined = 0

    /// How many nodes are in use, the root included.
    var nodeCount: Int { nodes.count - freeCount }
    /// How many of them are the third `+` of their filters, or below it.
    private(set) var wildCount = 0
    /// How many bytes their names have.
    private(set) var nameBytes = 0
    /// The longest name that a node has had, in bytes: a level that is longer leads nowhere but to wildcards.
    private(set) var longestName = 0
    /// From how many `+` on a node counts as wild.
    static let wildFrom = 3

    /// Finds the nodes whose filters match `topic`. Allocates nothing once the trie has seen a topic that found as many.
    ///
    /// A level of the topic leads from a node to two others at most, its `+` and the child of the level's name, so that a
    /// subscriber of many filters over `a` and `+` could have a topic `a/a/a/…` visit nearly all that there are. How many may
    /// be visited is bounded by what may be subscribed to. Below at most two `+`, the nodes at depth d that one topic can
    /// reach differ in where these stand: 1 + d + d(d - 1)/2 of them, which is 6,017 over the 32 levels that a filter has by
    /// default. All others are wild, of which the whole trie has 10,000 by default. So one message visits 16,017 nodes at
    /// most, however many filters there are.
    ///
    /// Each level of the topic is found once and hashed once, whatever the number of nodes at its depth: one of 65,000 bytes,
    /// looked at anew for each of them, would take longer than all the rest.
    mutating func match(_ topic: UnsafeRawBufferPointer) {
        matched.removeAll(keepingCapacity: true)
        steps.removeAll(keepingCapacity: true)
        levels.removeAll(keepingCapacity: true)
        // The server's own topics are only for filters that begin with their literal name (MQTT-4.7.2-1).
        let isSystem = topic.first == MQTTTopic.system
        steps.append(Step(node: 0, depth: 0))
        while let step = steps.popLast() {
            let index = Int(step.node)
            let takesWildcards = !(isSystem && index == 0)
            // `#` stands for its parent level too: sport/# matches sport (section 4.7.1.2).
            if takesWildcards { found(nodes[index].multi) }
            guard hasLevel(step.depth, topic) else {
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

    /// Whether the topic has a level at this depth. Whoever asks has come by way of the one above.
    @inline(__always)
    private mutating func hasLevel(_ depth: Int, _ topic: UnsafeRawBufferPointer) -> Bool {
        if depth < levels.count { return true }
        let start = levels.last.map { $0.range.upperBound + 1 } ?? 0
        guard start <= topic.count else { return false }
        let end = MQTTTopic.levelEnd(topic, from: start)
        examined &+= end - start
        levels.append(Level(range: start..<end))
        return true
    }

    /// The literal child of the name that the topic has at this depth.
    @inline(__always)
    private mutating func literal(below parent: Int32, _ depth: Int, _ topic: UnsafeRawBufferPointer) -> Int32? {
        let range = levels[depth].range
        // Many nodes have wildcards for children, or none: no need to hash for those.
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
        if node >= 0, !nodes[Int(node)].subscribers.isEmpty { matched.append(node) }
    }

    /// The node of a well-formed filter; `nil` if there is none.
    func find(_ filter: UnsafeRawBufferPointer) -> Int32? {
        var node: Int32 = 0
        var offset = 0
        while offset <= filter.count {
            let end = MQTTTopic.levelEnd(filter, from: offset)
            guard let next = next(node, UnsafeRawBufferPointer(rebasing: filter[offset..<end])) else { return nil }
            node = next
            offset = end + 1
        }
        return node
    }

    /// The node of a well-formed filter, made if there is none. One without subscribers has to be given to
    /// ``prune(_:)`` or to get one.
    mutating func insert(_ filter: UnsafeRawBufferPointer) -> Int32 {
        var node: Int32 = 0
        var offset = 0
        while offset <= filter.count {
            let end = MQTTTopic.levelEnd(filter, from: offset)
            let name = UnsafeRawBufferPointer(rebasing: filter[offset..<end])
            node = next(node, name) ?? add(to: node, name)
            offset = end + 1
        }
        return node
    }

    /// Forgets a node and those above it that hold nothing any more.
    mutating func prune(_ node: Int32) {
        var node = node
        while node > 0, nodes[Int(node)].childCount == 0, nodes[Int(node)].subscribers.isEmpty {
            let parent = nodes[Int(node)].parent
            switch nodes[Int(node)].kind {
            case .single: nodes[Int(parent)].single = -1
            case .multi: nodes[Int(parent)].multi = -1
            case .literal: removeEdge(to: node)
            }
            nodes[Int(parent)].childCount -= 1
            if nodes[Int(node)].wildcards >= Self.wildFrom { wildCount -= 1 }
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
        if fresh.wildcards >= Self.wildFrom { wildCount += 1 }
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
        case MQTTTopic.singleLevel: return .single
        case MQTTTopic.multiLevel: return .multi
        default: return .literal
        }
    }
}

// The edges to literal children, in a hash table that grows by one bucket with each edge (linear hashing, Litwin 1980): no
// subscriber's filter is the one for which all others are hashed anew. The hash is the standard library's, which is seeded for
// each process, so that nobody can choose names that collide.
extension TopicTrie {
    /// What the hashes of all edges of this name begin with: so a name is hashed once for any number of parents.
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

    /// The literal child of this name, whose edge has this hash.
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

    /// The bucket of a hash: as many of its bits as there are buckets for, or one fewer where that bucket is still to come.
    @inline(__always)
    private func bucket(_ hash: Int) -> Int {
        let bucket = hash & bucketMask
        return bucket < buckets.count ? bucket : hash & bucketMask >> 1
    }

    private mutating func chain(_ node: Int32, into bucket: Int) {
        nodes[Int(node)].next = buckets[bucket]
        buckets[bucket] = node
    }

    /// Adds a bucket, which takes over its share of the one that has stood for it.
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

/// What a well-formed filter takes in a trie.
struct FilterCost {
    private(set) var levels = 1
    /// How many of them are the third `+`, or come behind it.
    private(set) var wildLevels = 0

    init(_ filter: UnsafeRawBufferPointer) {
        var wildcards = 0
        for byte in filter {
            if byte == MQTTTopic.separator {
                levels += 1
                if wildcards >= TopicTrie.wildFrom { wildLevels += 1 }
            } else if byte == MQTTTopic.singleLevel {
                wildcards += 1
                if wildcards == TopicTrie.wildFrom { wildLevels += 1 }
            }
        }
    }
}
