import TransportAPI

/// Who gets which message: the routing of an MQTT broker, as a value. It knows sessions by numbers that its owner gives
/// them, and topics; packets, connections and sockets are other people's business.
///
/// Every session gets a message once, however many of its filters match, at the lower of the QoS of the message and the
/// highest QoS granted to a matching filter (MQTT 3.1.1, sections 3.3.5 and 4.3).
package struct BrokerCore: Sendable {
    /// One copy of a message.
    package struct Delivery: Sendable, Hashable {
        /// Who gets it.
        package var session: UInt64
        /// At which QoS.
        package var qos: MQTTQoS
    }

    struct Session: Sendable {
        var id: UInt64
        var clientID: [UInt8]
        /// The trie's nodes that this session is on, and where in their lists.
        var places: [Int32: Int] = [:]
        /// How many levels its filters have together.
        var levels = 0
        /// It has been forgotten, but for its filters, which get nothing any more.
        var isGone = false
        /// The last routing that found this session by several filters, and where its delivery lies.
        var routing: UInt64 = 0
        var delivery = 0
    }

    let limits: Limits
    var trie = TopicTrie()
    var sessions: [Session] = []
    private var freeSessions: [Int32] = []
    /// The sessions that are gone and whose filters are still in the trie.
    var goneSessions: [Int32] = []
    var indexByID: [UInt64: Int32] = [:]
    /// Keys are bytes, because two client identifiers that Swift holds for equal may differ on the wire.
    private var indexByClient: [[UInt8]: Int32] = [:]
    private var routing: UInt64 = 0

    /// A broker without sessions.
    package init(limits: Limits = Limits()) {
        self.limits = limits
    }

    /// How many sessions there are.
    package var sessionCount: Int { indexByID.count }
    /// How many filters all sessions have together, those included that are gone but not cleared away yet.
    package private(set) var subscriptionCount = 0
    /// How many nodes the trie of their levels has, its root included.
    package var nodeCount: Int { trie.nodeCount }

    // MARK: Sessions

    /// Adds a session whose CONNECT was accepted. The client identifier is in UTF-8; an empty one is like no other.
    ///
    /// - Returns: the session of the same client identifier, which this one takes over from and whose connection has to
    ///   be closed (MQTT-3.1.4-2). The broker has forgotten it.
    /// - Throws: `.serverUnavailable` if there are too many sessions, `.busy` if `session` is taken.
    package mutating func connect(_ session: UInt64, clientID client: [UInt8]) throws(TransportError) -> UInt64? {
        guard indexByID[session] == nil else {
            throw TransportError(.busy, .handshake, "session \(session) exists already")
        }
        let former = client.isEmpty ? nil : indexByClient[client].map { sessions[Int($0)].id }
        if let former { disconnect(former) }
        guard sessionCount < limits.maximumSessions else {
            throw TransportError(.serverUnavailable, .handshake, "the broker has \(sessionCount) sessions, its most")
        }
        let index: Int32
        let fresh = Session(id: session, clientID: client)
        if let free = freeSessions.popLast() {
            index = free
            sessions[Int(index)] = fresh
        } else {
            index = Int32(sessions.count)
            sessions.append(fresh)
        }
        indexByID[session] = index
        if !client.isEmpty { indexByClient[client] = index }
        return former
    }

    /// Forgets a session, which gets nothing any more; does nothing if it is not there (any more). Its filters count until
    /// ``clear(atMost:)`` has cleared them away.
    package mutating func disconnect(_ session: UInt64) {
        guard let index = indexByID.removeValue(forKey: session) else { return }
        let client = sessions[Int(index)].clientID
        if !client.isEmpty { indexByClient[client] = nil }
        guard !sessions[Int(index)].places.isEmpty else { return vacate(index) }
        sessions[Int(index)].isGone = true
        goneSessions.append(index)
    }

    private mutating func vacate(_ index: Int32) {
        sessions[Int(index)] = Session(id: 0, clientID: [])
        freeSessions.append(index)
    }

    /// Clears away so many filters of sessions that are gone; whether there are more.
    ///
    /// A session may have a thousand filters of many levels, which take longer to clear away than others should wait.
    package mutating func clear(atMost count: Int = .max) -> Bool {
        var left = count
        while left > 0, let index = goneSessions.last {
            if let (node, place) = sessions[Int(index)].places.popFirst() { remove(from: node, at: place) }
            left -= 1
            guard sessions[Int(index)].places.isEmpty else { continue }
            goneSessions.removeLast()
            vacate(index)
        }
        return !goneSessions.isEmpty
    }

    // MARK: Subscriptions

    /// Adds a subscription, or gives one to the same filter another QoS (MQTT-3.8.4-3).
    ///
    /// - Returns: the QoS granted; `nil` if the filter is malformed, too long or too deep, there is no room for it, or the
    ///   session is not there. ``makeRoom(for:of:)`` may make some.
    package mutating func subscribe(_ session: UInt64, to filter: String, qos: MQTTQoS) -> MQTTQoS? {
        guard let index = indexByID[session] else { return nil }
        return filter.withContiguousUTF8 { subscribe(Int(index), to: $0, qos: qos) }
    }

    /// Where no more fits, a session may still change what it has.
    private mutating func subscribe(_ session: Int, to filter: UnsafeRawBufferPointer, qos: MQTTQoS) -> MQTTQoS? {
        guard let shape = self.shape(of: filter) else { return nil }
        let known = trie.find(filter)
        if let known, let place = sessions[session].places[known] {
            trie.nodes[Int(known)].subscribers[place].qos = qos
            return qos
        }
        guard mayHaveMore(session, shape), subscriptionCount < limits.maximumSubscriptions,
            known != nil || hasRoom(for: shape, filter)
        else {
            return nil
        }
        let node = known ?? trie.insert(filter)
        sessions[session].places[node] = trie.nodes[Int(node)].subscribers.count
        sessions[session].levels += shape.levels
        trie.nodes[Int(node)].subscribers.append(TopicTrie.Subscriber(session: Int32(session), qos: qos))
        subscriptionCount += 1
        return qos
    }

    /// Removes a subscription; `false` if there is none to exactly this filter.
    @discardableResult
    package mutating func unsubscribe(_ session: UInt64, from filter: String) -> Bool {
        guard let index = indexByID[session], MQTTTopic.isFilter(filter),
            let node = filter.withContiguousUTF8({ trie.find($0) }),
            let place = sessions[Int(index)].places.removeValue(forKey: node)
        else { return false }
        sessions[Int(index)].levels -= filter.withContiguousUTF8 { FilterCost($0).levels }
        remove(from: node, at: place)
        return true
    }

    /// Takes one subscriber off a node; the last one moves into its place.
    private mutating func remove(from node: Int32, at place: Int) {
        guard let last = trie.nodes[Int(node)].subscribers.popLast() else { return }
        if place < trie.nodes[Int(node)].subscribers.count {
            trie.nodes[Int(node)].subscribers[place] = last
            sessions[Int(last.session)].places[node] = place
        }
        subscriptionCount -= 1
        trie.prune(node)
    }

    // MARK: Messages

    /// Fills `deliveries` with everyone who gets a message of this topic and QoS. Allocates nothing once `deliveries` and the
    /// trie have served as large an audience.
    package mutating func route(topic: String, qos: MQTTQoS, into deliveries: inout [Delivery]) {
        deliveries.removeAll(keepingCapacity: true)
        topic.withContiguousUTF8 { trie.match($0) }
        // On one node nobody is twice.
        guard trie.matched.count > 1 else {
            guard let node = trie.matched.first else { return }
            for subscriber in trie.nodes[Int(node)].subscribers where !sessions[Int(subscriber.session)].isGone {
                let session = sessions[Int(subscriber.session)].id
                deliveries.append(Delivery(session: session, qos: min(qos, subscriber.qos)))
            }
            return
        }
        routing &+= 1
        for node in trie.matched {
            for subscriber in trie.nodes[Int(node)].subscribers { deliver(subscriber, qos, into: &deliveries) }
        }
    }

    @inline(__always)
    private mutating func deliver(_ subscriber: TopicTrie.Subscriber, _ qos: MQTTQoS, into deliveries: inout [Delivery])
    {
        let index = Int(subscriber.session)
        guard !sessions[index].isGone else { return }
        let granted = min(qos, subscriber.qos)
        if sessions[index].routing == routing {
            let delivery = sessions[index].delivery
            deliveries[delivery].qos = max(deliveries[delivery].qos, granted)
        } else {
            sessions[index].routing = routing
            sessions[index].delivery = deliveries.count
            deliveries.append(Delivery(session: sessions[index].id, qos: granted))
        }
    }
}

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
        /// The most levels of a filter, 1 to 128; 32 by default. Topics may have more: only `#` reaches those. The
        /// nodes that one message may visit grow with the third power of it; see ``TopicTrie/match(_:)``.
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

// What there is room for, and what makes room: the filters of sessions that are gone, which are cleared away bit by bit.
extension BrokerCore {
    /// What a filter is made of; `nil` if nobody may have it.
    func shape(of filter: UnsafeRawBufferPointer) -> FilterCost? {
        guard filter.count <= limits.maximumFilterLength, MQTTTopic.isFilter(filter) else { return nil }
        let shape = FilterCost(filter)
        return shape.levels <= limits.maximumFilterLevels ? shape : nil
    }

    func mayHaveMore(_ session: Int, _ shape: FilterCost) -> Bool {
        sessions[session].places.count < limits.maximumSubscriptionsPerSession
            && sessions[session].levels + shape.levels <= limits.maximumNodesPerSession
    }

    /// Clears away one filter of a session that is gone if it is room that `filter` lacks, which the session was
    /// refused; whether it did.
    ///
    /// For who looks at the clock in between: what is cleared away may have other levels than are lacking.
    package mutating func makeRoom(for filter: String, of session: UInt64) -> Bool {
        guard !goneSessions.isEmpty, let index = indexByID[session] else { return false }
        return filter.withContiguousUTF8 {
            guard let shape = self.shape(of: $0), mayHaveMore(Int(index), shape) else { return false }
            guard subscriptionCount >= limits.maximumSubscriptions || !hasRoom(for: shape, $0) else { return false }
            _ = clear(atMost: 1)
            return true
        }
    }

    /// Whether the trie may grow by a filter. It is judged as if it had no node in common with others.
    func hasRoom(for shape: FilterCost, _ filter: UnsafeRawBufferPointer) -> Bool {
        trie.nodeCount + shape.levels <= limits.maximumNodes
            && (shape.wildLevels == 0 || trie.wildCount + shape.wildLevels <= limits.maximumWildNodes)
            && trie.nameBytes + filter.count <= limits.maximumNameBytes
    }
}
