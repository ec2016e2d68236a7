import TransportAPI

/// Who gets which message: the routing of an MQTT broker, as a value. It knows sessions by numbers that its owner gives
/// them, and topics; packets, links and sockets are other people's business.
///
/// Every session gets a message once, however many of its filters match, at the lower of the QoS of the message and the
/// highest QoS granted to a matching filter (MQTT 3.1.1, sections 3.3.5 and 4.3).
package struct BrokerCore: Sendable {
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
        /// The most levels of a filter; 64 by default. Topics may have more: only `#` reaches those.
        package var maximumFilterLevels = 64

        /// The defaults.
        package init() {}
    }

    /// One copy of a message.
    package struct Delivery: Sendable, Hashable {
        /// Who gets it.
        package var session: UInt64
        /// At which QoS.
        package var qos: MQTTQoS
    }

    private struct Session: Sendable {
        var id: UInt64
        var clientID: [UInt8]
        /// The trie's nodes that this session is on, and where in their lists.
        var places: [Int32: Int] = [:]
        /// The last routing that found this session by several filters, and where its delivery lies.
        var routing: UInt64 = 0
        var delivery = 0
    }

    private let limits: Limits
    private var trie = TopicTrie()
    private var sessions: [Session] = []
    private var freeSessions: [Int32] = []
    private var indexByID: [UInt64: Int32] = [:]
    /// Keys are bytes, because two client identifiers that Swift holds for equal may differ on the wire.
    private var indexByClient: [[UInt8]: Int32] = [:]
    private var routing: UInt64 = 0

    /// A broker without sessions.
    package init(limits: Limits = Limits()) {
        self.limits = limits
    }

    /// How many sessions there are.
    package var sessionCount: Int { indexByID.count }
    /// How many filters all sessions have together.
    package private(set) var subscriptionCount = 0

    // MARK: Sessions

    /// Adds a session whose CONNECT was accepted. An empty client identifier is like no other.
    ///
    /// - Returns: the session of the same client identifier, which this one takes over from and whose link has to be closed
    ///   (MQTT-3.1.4-2). The broker has forgotten it.
    /// - Throws: `.serverUnavailable` if there are too many sessions, `.busy` if `session` is taken.
    package mutating func connect(_ session: UInt64, clientID: String) throws(TransportError) -> UInt64? {
        guard indexByID[session] == nil else {
            throw TransportError(.busy, .handshake, "session \(session) exists already")
        }
        let client = Array(clientID.utf8)
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

    /// Forgets a session and its subscriptions; does nothing if it is not there (any more).
    package mutating func disconnect(_ session: UInt64) {
        guard let index = indexByID.removeValue(forKey: session) else { return }
        let gone = sessions[Int(index)]
        for (node, place) in gone.places { remove(from: node, at: place) }
        if !gone.clientID.isEmpty { indexByClient[gone.clientID] = nil }
        sessions[Int(index)] = Session(id: 0, clientID: [])
        freeSessions.append(index)
    }

    // MARK: Subscriptions

    /// Adds a subscription, or gives one to the same filter another QoS (MQTT-3.8.4-3).
    ///
    /// - Returns: the QoS granted; `nil` if the filter is malformed, too long or too deep, there are too many, or the
    ///   session is not there.
    package mutating func subscribe(_ session: UInt64, to filter: String, qos: MQTTQoS) -> MQTTQoS? {
        guard let index = indexByID[session] else { return nil }
        let sessionIndex = Int(index)
        let isFull =
            sessions[sessionIndex].places.count >= limits.maximumSubscriptionsPerSession
            || subscriptionCount >= limits.maximumSubscriptions
        guard let node = node(filter, isFull: isFull) else { return nil }
        if let place = sessions[sessionIndex].places[node] {
            trie.nodes[Int(node)].subscribers[place].qos = qos
            return qos
        }
        guard !isFull else { return nil }
        sessions[sessionIndex].places[node] = trie.nodes[Int(node)].subscribers.count
        trie.nodes[Int(node)].subscribers.append(TopicTrie.Subscriber(session: index, qos: qos))
        subscriptionCount += 1
        return qos
    }

    /// The node of a filter that keeps the limits. Where no more fit, a session may still change what it has, which makes
    /// no new node.
    private mutating func node(_ filter: String, isFull: Bool) -> Int32? {
        let limits = limits
        return filter.withContiguousUTF8 { bytes in
            guard bytes.count <= limits.maximumFilterLength, MQTTTopic.isFilter(bytes) else { return nil }
            let levels = bytes.reduce(1) { $0 + ($1 == MQTTTopic.separator ? 1 : 0) }
            guard levels <= limits.maximumFilterLevels else { return nil }
            return isFull ? trie.find(bytes) : trie.insert(bytes)
        }
    }

    /// Removes a subscription; `false` if there is none to exactly this filter.
    @discardableResult
    package mutating func unsubscribe(_ session: UInt64, from filter: String) -> Bool {
        guard let index = indexByID[session], MQTTTopic.isFilter(filter),
            let node = filter.withContiguousUTF8({ trie.find($0) }),
            let place = sessions[Int(index)].places.removeValue(forKey: node)
        else { return false }
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
            for subscriber in trie.nodes[Int(node)].subscribers {
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
