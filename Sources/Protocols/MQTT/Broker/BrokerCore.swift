import TransportAPI

/// The routing of an MQTT broker, as a value: it finds the sessions that get a message. It knows topics, and sessions
/// by the numbers that its owner gives them. It knows no packets, connections or sockets.
///
/// Every session gets a message once, even if several of its filters match. The QoS is the lower of the message's QoS
/// and the highest QoS granted to a matching filter (MQTT 3.1.1, sections 3.3.5 and 4.3).
package struct BrokerCore: Sendable {
    /// One copy of a message.
    package struct Delivery: Sendable, Hashable {
        /// The number of the session that gets it.
        package var session: UInt64
        /// The QoS of the copy.
        package var qos: MQTTQoS
    }

    /// A subscriber on a node of the trie.
    struct Subscriber: Sendable {
        /// The index of its session.
        var session: Int32
        var qos: MQTTQoS
    }

    /// A group of shared subscriptions on a node of the trie.
    struct Share: Sendable, Hashable {
        var node: Int32
        var group: [UInt8]
    }

    struct Session: Sendable {
        var id: UInt64
        var clientID: [UInt8]
        /// The trie's nodes that this session subscribes on, and its index in their lists of subscribers.
        var places: [Int32: Int] = [:]
        /// Its shared subscriptions, and its index among the members of each group.
        var shares: [Share: Int] = [:]
        /// Whether it has no connection, so that other members of its groups get messages in its place.
        var isAbsent = false
        /// How many levels its filters have together.
        var levels = 0
        /// Whether the session has ended. Its filters are still in the trie, but get no messages.
        var isGone = false
        /// How many filters it has.
        var filterCount: Int { places.count + shares.count }
        /// The last routing that found this session by several filters, and the index of its delivery.
        var routing: UInt64 = 0
        var delivery = 0
    }

    let limits: Limits
    var trie = TopicTrie<MQTTTopic, Subscriber>()
    var sessions: [Session] = []
    private var freeSessions: [Int32] = []
    /// The ended sessions whose filters are still in the trie.
    var goneSessions: [Int32] = []
    var indexByID: [UInt64: Int32] = [:]
    /// Keys are bytes, because client identifiers that Swift considers equal can differ on the wire.
    private var indexByClient: [[UInt8]: Int32] = [:]
    private var routing: UInt64 = 0

    /// Creates a broker without sessions.
    package init(limits: Limits = Limits()) {
        self.limits = limits
    }

    /// How many sessions there are.
    package var sessionCount: Int { indexByID.count }
    /// How many filters all sessions have together, including those of ended sessions that are still in the trie.
    package private(set) var subscriptionCount = 0
    /// How many nodes the trie has, including its root.
    package var nodeCount: Int { trie.nodeCount }

    // MARK: Sessions

    /// Adds a session whose CONNECT was accepted. The client identifier is in UTF-8. An empty one equals no other.
    ///
    /// - Returns: The earlier session of the same client identifier, whose connection has to be closed (MQTT-3.1.4-2).
    ///   It is already removed.
    /// - Throws: `.serverUnavailable` if there are too many sessions, `.busy` if the number `session` is in use.
    package mutating func connect(_ session: UInt64, clientID client: [UInt8]) throws(TransportError) -> UInt64? {
        guard indexByID[session] == nil else {
            throw TransportError(.busy, .handshake, "session \(session) exists already")
        }
        let former = client.isEmpty ? nil : indexByClient[client].map { sessions[Int($0)].id }
        if let former { disconnect(former) }
        guard sessionCount < limits.maximumSessions else {
            throw TransportError(.serverUnavailable, .handshake, "the broker is full with \(sessionCount) sessions")
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

    /// Removes a session, which gets no more messages. Does nothing if there is no such session. Its filters count
    /// until ``clear(atMost:)`` has removed them.
    package mutating func disconnect(_ session: UInt64) {
        guard let index = indexByID.removeValue(forKey: session) else { return }
        let client = sessions[Int(index)].clientID
        if !client.isEmpty { indexByClient[client] = nil }
        guard sessions[Int(index)].filterCount > 0 else { return vacate(index) }
        sessions[Int(index)].isGone = true
        goneSessions.append(index)
    }

    private mutating func vacate(_ index: Int32) {
        sessions[Int(index)] = Session(id: 0, clientID: [])
        freeSessions.append(index)
    }

    /// Removes at most `count` filters of ended sessions from the trie. Returns whether there are more.
    ///
    /// A session can have a thousand filters of many levels. Other connections should not wait until all of them are
    /// removed.
    package mutating func clear(atMost count: Int = .max) -> Bool {
        var left = count
        while left > 0, let index = goneSessions.last {
            if let (node, place) = sessions[Int(index)].places.popFirst() {
                remove(from: node, at: place)
            } else if let (share, place) = sessions[Int(index)].shares.popFirst() {
                remove(from: share, at: place)
            }
            left -= 1
            guard sessions[Int(index)].filterCount == 0 else { continue }
            goneSessions.removeLast()
            vacate(index)
        }
        return !goneSessions.isEmpty
    }

    /// Notes whether a session has a connection. A message for a group of shared subscriptions goes to a member with a
    /// connection, if there is one.
    package mutating func note(_ session: UInt64, isAbsent: Bool) {
        if let index = indexByID[session] { sessions[Int(index)].isAbsent = isAbsent }
    }

    // MARK: Subscriptions

    /// Adds a subscription, or changes the QoS of one to the same filter (MQTT-3.8.4-3).
    ///
    /// - Returns: The QoS granted. `nil` if the filter is malformed, too long or too deep, if there is no room for it,
    ///   or if there is no such session. ``makeRoom(for:of:)`` may make room.
    package mutating func subscribe(_ session: UInt64, to filter: String, qos: MQTTQoS) -> MQTTQoS? {
        guard let index = indexByID[session] else { return nil }
        return filter.withContiguousUTF8 {
            guard let shared = SharedFilter($0) else { return subscribe(Int(index), to: $0, qos: qos) }
            return share(Int(index), shared, $0, qos: qos)
        }
    }

    /// A session may change its existing subscriptions even if there is no room for more.
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
        trie.nodes[Int(node)].subscribers.append(Subscriber(session: Int32(session), qos: qos))
        subscriptionCount += 1
        return qos
    }

    /// Adds a shared subscription, under the same limits as others.
    private mutating func share(
        _ session: Int,
        _ shared: SharedFilter,
        _ text: UnsafeRawBufferPointer,
        qos: MQTTQoS
    ) -> MQTTQoS? {
        guard let shape = self.shape(of: text) else { return nil }
        let group = Array(shared.group)
        let known = trie.find(shared.filter)
        if let known, let place = sessions[session].shares[Share(node: known, group: group)],
            let index = trie.nodes[Int(known)].groups.firstIndex(where: { $0.name == group })
        {
            trie.nodes[Int(known)].groups[index].members[place].qos = qos
            return qos
        }
        let index = known.flatMap { trie.nodes[Int($0)].groups.firstIndex { $0.name == group } }
        let count = known.map { trie.nodes[Int($0)].groups.count } ?? 0
        guard mayHaveMore(session, shape), subscriptionCount < limits.maximumSubscriptions,
            index != nil || hasRoom(for: shape, text) && count < limits.maximumGroupsPerFilter
        else {
            return nil
        }
        let node = known ?? trie.insert(shared.filter)
        let place = index ?? trie.addGroup(group, to: node)
        // The key shares the memory of the name.
        let share = Share(node: node, group: trie.nodes[Int(node)].groups[place].name)
        sessions[session].shares[share] = trie.nodes[Int(node)].groups[place].members.count
        sessions[session].levels += shape.levels
        let member = Subscriber(session: Int32(session), qos: qos)
        trie.nodes[Int(node)].groups[place].members.append(member)
        subscriptionCount += 1
        return qos
    }

    /// Removes a subscription. Returns `false` if there is none to exactly this filter.
    @discardableResult
    package mutating func unsubscribe(_ session: UInt64, from filter: String) -> Bool {
        guard let index = indexByID[session], MQTTTopic.isFilter(filter) else { return false }
        let share: Share?? = filter.withContiguousUTF8 { text in
            SharedFilter(text).map { shared in
                trie.find(shared.filter).map { Share(node: $0, group: Array(shared.group)) }
            }
        }
        if let share {
            guard let share, let place = sessions[Int(index)].shares.removeValue(forKey: share) else { return false }
            sessions[Int(index)].levels -= filter.withContiguousUTF8 { FilterCost<MQTTTopic>($0).levels }
            remove(from: share, at: place)
            return true
        }
        guard let node = filter.withContiguousUTF8({ trie.find($0) }),
            let place = sessions[Int(index)].places.removeValue(forKey: node)
        else { return false }
        sessions[Int(index)].levels -= filter.withContiguousUTF8 { FilterCost<MQTTTopic>($0).levels }
        remove(from: node, at: place)
        return true
    }

    /// Removes one subscriber from a node. The last subscriber moves to its index.
    private mutating func remove(from node: Int32, at place: Int) {
        guard let last = trie.nodes[Int(node)].subscribers.popLast() else { return }
        if place < trie.nodes[Int(node)].subscribers.count {
            trie.nodes[Int(node)].subscribers[place] = last
            sessions[Int(last.session)].places[node] = place
        }
        subscriptionCount -= 1
        trie.prune(node)
    }

    /// Removes one member from a group. The last member moves to its index.
    private mutating func remove(from share: Share, at place: Int) {
        let node = Int(share.node)
        guard let index = trie.nodes[node].groups.firstIndex(where: { $0.name == share.group }),
            let last = trie.nodes[node].groups[index].members.popLast()
        else { return }
        if place < trie.nodes[node].groups[index].members.count {
            trie.nodes[node].groups[index].members[place] = last
            sessions[Int(last.session)].shares[share] = place
        }
        if trie.nodes[node].groups[index].members.isEmpty { trie.removeGroup(at: index, of: share.node) }
        subscriptionCount -= 1
        trie.prune(share.node)
    }

    // MARK: Messages

    /// Fills `deliveries` with all sessions that get a message of this topic and QoS. Allocates nothing once
    /// `deliveries` and the trie have served as many receivers.
    package mutating func route(topic: String, qos: MQTTQoS, into deliveries: inout [Delivery]) {
        deliveries.removeAll(keepingCapacity: true)
        topic.withContiguousUTF8 { trie.match($0) }
        // A session is at most once among the subscribers of a node.
        guard trie.matched.count > 1 || trie.matched.contains(where: { !trie.nodes[Int($0)].groups.isEmpty }) else {
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
            for group in trie.nodes[Int(node)].groups.indices {
                if let member = nextMember(of: group, on: Int(node)) { deliver(member, qos, into: &deliveries) }
            }
        }
    }

    /// Returns the member of a group that gets the next message: the members with a connection take turns. If a search of
    /// limited length finds none of them, it is the next one whose session has not ended, which stores the message.
    ///
    /// The members whose sessions have ended are removed where the search meets them, so that no later search meets them
    /// again. The last member stays in any case, because the group is removed with it.
    private mutating func nextMember(of group: Int, on node: Int) -> Subscriber? {
        var place = trie.nodes[node].groups[group].turn
        var absent: Int?
        // A member that moves may be examined again, in place of the removed one.
        var left = min(Self.longestSearch, trie.nodes[node].groups[group].members.count)
        while left > 0 {
            let count = trie.nodes[node].groups[group].members.count
            if place >= count { place = 0 }
            let session = Int(trie.nodes[node].groups[group].members[place].session)
            if sessions[session].isGone {
                guard count > 1 else { return nil }
                removeGone(at: place, of: group, on: node)
                if absent == count - 1 { absent = place }
                continue
            }
            if absent == nil { absent = place }
            guard sessions[session].isAbsent else {
                absent = place
                break
            }
            place += 1
            left -= 1
        }
        guard let chosen = absent else { return nil }
        trie.nodes[node].groups[group].turn = chosen + 1
        return trie.nodes[node].groups[group].members[chosen]
    }

    /// Removes a member of a group whose session has ended. The last member moves to its place.
    private mutating func removeGone(at place: Int, of group: Int, on node: Int) {
        let share = Share(node: Int32(node), group: trie.nodes[node].groups[group].name)
        let session = trie.nodes[node].groups[group].members[place].session
        sessions[Int(session)].shares[share] = nil
        remove(from: share, at: place)
    }

    /// How many members of a group are examined to find one with a connection.
    private static let longestSearch = 256

    @inline(__always)
    private mutating func deliver(_ subscriber: Subscriber, _ qos: MQTTQoS, into deliveries: inout [Delivery]) {
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
    /// Limits of the memory and work that clients can cause.
    package struct Limits: Sendable, Hashable {
        /// The most sessions at a time; 100,000 by default.
        package var maximumSessions = 100_000
        /// The most filters of one session; 1,000 by default.
        package var maximumSubscriptionsPerSession = 1000
        /// The most filters of all sessions together; 1,000,000 by default.
        package var maximumSubscriptions = 1_000_000
        /// The longest filter, in bytes; 1,024 by default.
        package var maximumFilterLength = 1024
        /// The most levels of a filter, 1 to 128; 32 by default. Topics may have more levels, which only `#` matches.
        /// The number of nodes that one message may visit grows with the third power of this limit; see
        /// ``TopicTrie/match(_:)``.
        package var maximumFilterLevels = MQTTTopic.usualFilterLevels
        /// The allowed values of ``maximumFilterLevels``.
        package static let filterLevels = 1...128
        /// The most groups of shared subscriptions to one filter; 64 by default. One member of each group gets a message,
        /// so each group is searched for it.
        package var maximumGroupsPerFilter = 64
        /// The most levels of the filters of one session together, and so of its nodes in the trie; 8,192 by default.
        package var maximumNodesPerSession = 8192
        /// The most nodes of the trie; 1,000,000 by default.
        package var maximumNodes = 1_000_000
        /// The most nodes at or below the third `+` of a filter; 10,000 by default. See ``TopicTrie/match(_:)``.
        package var maximumWildNodes = 10_000
        /// The most bytes of the names of all nodes together; 64 MiB by default.
        package var maximumNameBytes = 64 << 20

        /// Creates the defaults.
        package init() {}
    }
}

// The checks for room, and the removal of filters of ended sessions, which makes room bit by bit.
extension BrokerCore {
    /// The cost of a filter; `nil` if the limits allow it to no session.
    func shape(of filter: UnsafeRawBufferPointer) -> FilterCost<MQTTTopic>? {
        guard filter.count <= limits.maximumFilterLength, MQTTTopic.isFilter(filter) else { return nil }
        let shape = FilterCost<MQTTTopic>(filter)
        return shape.levels <= limits.maximumFilterLevels ? shape : nil
    }

    func mayHaveMore(_ session: Int, _ shape: FilterCost<MQTTTopic>) -> Bool {
        sessions[session].filterCount < limits.maximumSubscriptionsPerSession
            && sessions[session].levels + shape.levels <= limits.maximumNodesPerSession
    }

    /// Removes one filter of an ended session, if the session was refused `filter` for lack of that room. Returns
    /// whether it did.
    ///
    /// The caller repeats the call, and checks the clock in between. One call may not be enough, because the removed
    /// filter may have other levels than those that lack room.
    package mutating func makeRoom(for filter: String, of session: UInt64) -> Bool {
        guard !goneSessions.isEmpty, let index = indexByID[session] else { return false }
        return filter.withContiguousUTF8 {
            guard let shape = self.shape(of: $0), mayHaveMore(Int(index), shape) else { return false }
            guard subscriptionCount >= limits.maximumSubscriptions || !hasRoom(for: shape, $0) else { return false }
            _ = clear(atMost: 1)
            return true
        }
    }

    /// Whether the trie may grow by a filter. The check assumes that the filter shares no node with others.
    func hasRoom(for shape: FilterCost<MQTTTopic>, _ filter: UnsafeRawBufferPointer) -> Bool {
        trie.nodeCount + shape.levels <= limits.maximumNodes
            && (shape.wildLevels == 0 || trie.wildCount + shape.wildLevels <= limits.maximumWildNodes)
            && trie.nameBytes + filter.count <= limits.maximumNameBytes
    }
}
