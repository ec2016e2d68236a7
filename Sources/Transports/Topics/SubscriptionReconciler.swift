import Primitives
import Protocols
import TransportAPI

/// A subscription as an app wants it: a filter, and what the protocol says beside it, such as the QoS of MQTT.
protocol TopicSubscription: Hashable, Sendable {
    /// The answer of a broker that accepts the subscription.
    associatedtype Grant: Hashable, Sendable
    /// The topic filter.
    var filter: String { get }
}

/// Compares the subscriptions that an app wants with those in the session at each broker, and returns the packets for
/// the difference. It only decides, and its owner, ``TopicSubscriber``, sends the packets.
///
/// One packet is in flight at a time, with as many filters as fit. So a new connection requests a thousand filters in a
/// few packets, and no faster than the broker answers.
struct SubscriptionReconciler<Item: TopicSubscription> {
    enum Packet: Hashable {
        case subscribe([Item])
        case unsubscribe([String])
    }

    /// The result for one filter of a packet.
    struct Outcome: Hashable {
        enum Verdict: Hashable { case granted(Item.Grant), refused, unsubscribed }

        var filter: String
        var verdict: Verdict
        /// The number of the newest request of this filter that was answered. All older requests are answered too.
        var through: UInt64
        /// Whether the filter was given up, because there is no newer request for it.
        var isOver: Bool
    }

    private struct Request {
        var item: Item
        var number: UInt64
    }

    /// The subscriptions that a broker keeps for a client of this name. Each filter has the number of the request that
    /// was granted, or 0 while the answer is missing.
    private struct Session {
        var name: String
        /// The number of the session at the broker. `nil` for one that ends with its connection.
        var number: UInt64?
        var filters: [FilterKey: UInt64] = [:]
    }

    private struct InFlight {
        var filters: [FilterKey]
        var isSubscribing: Bool
        var through: UInt64
    }

    /// The maximum number of filters in a packet.
    static var maximumFilters: Int { 64 }
    /// The maximum number of bytes of filters in a packet, unless there is only one filter.
    static var maximumBytes: Int { 16 << 10 }

    private var wanted: [FilterKey: Request] = [:]
    private var lastNumber: UInt64 = 0
    /// The sessions by the endpoints of a supervisor.
    private var sessions: [Endpoint?: Session] = [:]
    /// The session of the current connection.
    private var current: (broker: Endpoint?, session: Session)?
    private var inFlight: InFlight?
    /// Filters after whose SUBSCRIBE the broker has closed a connection. Each is alone in its packet from then on, after
    /// all others, and has the number of connections in a row that the broker has closed while it was.
    private var suspects: [FilterKey: Int] = [:]
    /// How many connections in a row a broker closes before a filter is set aside.
    private static var closesBeforeSetAside: Int { 2 }
    /// The filters that may need a packet, in order.
    private var todo = Deque<FilterKey>()
    private var queued: Set<FilterKey> = []

    // MARK: The app

    /// Adds a filter, or requests it again. Returns the number of the request.
    mutating func want(_ item: Item) -> UInt64 {
        let key = FilterKey(item.filter)
        lastNumber += 1
        wanted[key] = Request(item: item, number: lastNumber)
        enqueue(key)
        return lastNumber
    }

    /// Removes a filter. Returns the number of the request.
    ///
    /// - Parameters:
    ///   - filter: The filter.
    ///   - always: Whether to send UNSUBSCRIBE even if no subscription is known. An earlier process may have left one.
    mutating func drop(_ filter: String, always: Bool = true) -> UInt64 {
        let key = FilterKey(filter)
        lastNumber += 1
        wanted[key] = nil
        suspects[key] = nil
        if always, current?.session.filters[key] == nil { current?.session.filters[key] = 0 }
        enqueue(key)
        return lastNumber
    }

    /// The endpoint of the current connection.
    var broker: Endpoint? { current?.broker }
    /// Whether a packet is not answered.
    var isAwaitingAnswer: Bool { inFlight != nil }
    /// Whether there may be another packet after the one in flight.
    var hasMore: Bool { !todo.isEmpty }

    func wants(_ filter: String) -> Bool { wanted[FilterKey(filter)] != nil }

    /// Returns whether there is no later request for this filter.
    func isNewest(_ number: UInt64, of filter: String) -> Bool { wanted[FilterKey(filter)]?.number == number }

    private mutating func enqueue(_ key: FilterKey) {
        if current != nil, queued.insert(key).inserted { todo.append(key) }
    }

    // MARK: Connections

    /// Starts with a new connection.
    ///
    /// - Parameters:
    ///   - broker: The endpoint of the broker.
    ///   - name: The client's name at the broker.
    ///   - number: The number of the session at the broker, which differs if the broker may have begun a new one since. This
    ///     includes a session of a connection that has ended before it was reported here. `nil` for a session that ends with
    ///     its connection.
    mutating func linked(to broker: Endpoint?, as name: String, session number: UInt64?) {
        _ = unlinked(byPeer: false)
        // Subscriptions of an earlier process are not known, and are requested again without harm.
        var session = Session(name: name, number: number)
        if let former = sessions[broker], number != nil, former.number == number, former.name == name {
            session = former
        }
        let gone = session.filters.keys.filter { wanted[$0] == nil }
        let missing = wanted.filter { session.filters[$0.key] != $0.value.number }
        // The broker may close the connection after a suspect, so the others come first.
        let suspicion = { [suspects] (key: FilterKey) in suspects[key] ?? -1 }
        let asked = missing.sorted {
            (suspicion($0.key), $0.value.number) < (suspicion($1.key), $1.value.number)
        }
        todo = Deque(gone + asked.map(\.key))
        queued = Set(todo)
        current = (broker, session)
    }

    /// Handles the end of the connection. The answer to the packet in flight is lost.
    ///
    /// Some brokers answer a forbidden SUBSCRIBE by closing the connection. A filter is set aside if the broker has
    /// closed two connections in a row after its SUBSCRIBE and before the answer, with the filter alone in the packet.
    /// Other ends of connections are no sign of that.
    ///
    /// - Returns: The filter that was set aside, as refused.
    mutating func unlinked(byPeer: Bool) -> [Outcome] {
        var outcomes: [Outcome] = []
        if let packet = inFlight, packet.isSubscribing {
            for key in packet.filters {
                guard byPeer, packet.filters.count == 1 else {
                    if byPeer || suspects[key] != nil { suspects[key] = 0 }
                    continue
                }
                suspects[key, default: 0] += 1
                if suspects[key] == Self.closesBeforeSetAside { outcomes += answered([nil]) }
            }
        }
        if let (broker, session) = current { sessions[broker] = session }
        current = nil
        inFlight = nil
        todo = Deque()
        queued = []
        return outcomes
    }

    // MARK: Packets

    /// Returns the packet to write now, or `nil` if there is none or while an answer is missing.
    mutating func next() -> Packet? {
        guard current != nil, inFlight == nil else { return nil }
        var (filters, bytes, isSubscribing) = ([FilterKey](), 0, false)
        while let key = todo.first {
            var isSuspect = false
            if let asks = isToBeSubscribed(key) {
                bytes += key.text.utf8.count
                let fits = filters.count < Self.maximumFilters && bytes <= Self.maximumBytes && asks == isSubscribing
                isSuspect = asks && suspects[key] != nil
                guard filters.isEmpty || fits && !isSuspect else { break }
                isSubscribing = asks
                filters.append(key)
            }
            queued.remove(key)
            _ = todo.popFirst()
            if isSuspect { break }
        }
        guard !filters.isEmpty else { return nil }
        for key in filters { current?.session.filters[key] = 0 }
        inFlight = InFlight(filters: filters, isSubscribing: isSubscribing, through: lastNumber)
        guard isSubscribing else { return .unsubscribe(filters.map(\.text)) }
        return .subscribe(filters.compactMap { wanted[$0]?.item })
    }

    /// Returns whether to subscribe to a filter (`true`) or to unsubscribe from it (`false`), or `nil` if the broker
    /// has the wanted state.
    private func isToBeSubscribed(_ key: FilterKey) -> Bool? {
        let held = current?.session.filters[key]
        guard let request = wanted[key] else { return held == nil ? nil : false }
        return held == request.number ? nil : true
    }

    /// Handles the refusal of one filter of the packet in flight by a broker that answers nothing else and ends the
    /// connection. Returns `nil` if the filter is not in it.
    mutating func refused(_ filter: String) -> Outcome? {
        let key = FilterKey(filter)
        guard let packet = inFlight, packet.isSubscribing, packet.filters.contains(key) else { return nil }
        // The other filters have no answer and are requested again over the next connection.
        inFlight = nil
        suspects[key] = nil
        var outcome = Outcome(filter: key.text, verdict: .refused, through: packet.through, isOver: false)
        if let request = wanted[key], request.number <= packet.through {
            outcome.isOver = true
            wanted[key] = nil
            current?.session.filters[key] = nil
        }
        return outcome
    }

    /// Handles the answer to the packet in flight. `granted` has what the broker grants for each filter, or `nil` if it
    /// refused it. It is empty for UNSUBSCRIBE. A packet that could not be written counts as refused.
    mutating func answered(_ granted: [Item.Grant?], wasWritten: Bool = true) -> [Outcome] {
        guard let packet = inFlight.take() else { return [] }
        var outcomes: [Outcome] = []
        for (index, key) in packet.filters.enumerated() {
            suspects[key] = nil
            var outcome = Outcome(filter: key.text, verdict: .unsubscribed, through: packet.through, isOver: false)
            let request = wanted[key]
            if !packet.isSubscribing {
                if wasWritten { current?.session.filters[key] = nil }
                outcome.isOver = request == nil
            } else if index < granted.count, let grant = granted[index] {
                outcome.verdict = .granted(grant)
                if let request, request.number <= packet.through { current?.session.filters[key] = request.number }
            } else {
                outcome.verdict = .refused
                if let request, request.number <= packet.through {
                    outcome.isOver = true
                    wanted[key] = nil
                    current?.session.filters[key] = nil
                }
            }
            outcomes.append(outcome)
        }
        return outcomes
    }
}
