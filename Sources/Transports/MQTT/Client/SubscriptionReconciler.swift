import Protocols
import TransportAPI

/// What an app wants to be subscribed to, and what the session at each broker has of it: a connection asks for the difference.
/// Decides only; ``MQTTSubscriber`` carries out.
///
/// One packet is under way at a time, with as many filters as fit. So a connection that comes anew asks for a thousand
/// of them in a few packets, and no faster than the broker answers.
struct SubscriptionReconciler {
    enum Packet: Hashable {
        case subscribe([MQTTSubscription])
        case unsubscribe([String])
    }

    /// What became of one filter of a packet.
    struct Outcome: Hashable {
        enum Verdict: Hashable { case granted(MQTTQoS), refused, unsubscribed }

        var filter: String
        var verdict: Verdict
        /// The newest wish that it answers, and with it all older ones of this filter.
        var through: UInt64
        /// Whether the filter is given up: nobody has wished for it since.
        var isOver: Bool
    }

    private struct Wish {
        var qos: MQTTQoS
        var number: UInt64
    }

    /// What a broker keeps for a client of this name: each filter, with the number of the wish that it was granted for, or 0
    /// while the answer is missing.
    private struct Session {
        var name: String
        var filters: [MQTTFilterKey: UInt64] = [:]
    }

    private struct UnderWay {
        var filters: [MQTTFilterKey]
        var isSubscribing: Bool
        var through: UInt64
    }

    /// The most filters and, unless there is only one, bytes of them in a packet.
    static let maximumFilters = 64
    static let maximumBytes = 16 << 10

    private var wanted: [MQTTFilterKey: Wish] = [:]
    private var lastNumber: UInt64 = 0
    /// By the endpoints of a supervisor.
    private var sessions: [Endpoint?: Session] = [:]
    /// Of the connection that there is.
    private var current: (broker: Endpoint?, session: Session)?
    private var underWay: UnderWay?
    /// What may have to be asked for, in order.
    private var todo: [MQTTFilterKey] = []
    private var queued: Set<MQTTFilterKey> = []

    // MARK: The app

    /// A filter is wanted from now on; also anew, of one that is subscribed to. Gives the wish's number.
    mutating func want(_ subscription: MQTTSubscription) -> UInt64 {
        let key = MQTTFilterKey(subscription.filter)
        lastNumber += 1
        wanted[key] = Wish(qos: subscription.qos, number: lastNumber)
        enqueue(key)
        return lastNumber
    }

    /// A filter is not wanted any more.
    ///
    /// - Parameter always: the broker is told even if nothing is known of a subscription: it may be left of an earlier process.
    mutating func drop(_ filter: String, always: Bool = true) -> UInt64 {
        let key = MQTTFilterKey(filter)
        lastNumber += 1
        wanted[key] = nil
        if always, current?.session.filters[key] == nil { current?.session.filters[key] = 0 }
        enqueue(key)
        return lastNumber
    }

    func wants(_ filter: String) -> Bool { wanted[MQTTFilterKey(filter)] != nil }

    /// Whether no later wish has been made for this filter.
    func isNewest(_ number: UInt64, of filter: String) -> Bool { wanted[MQTTFilterKey(filter)]?.number == number }

    private mutating func enqueue(_ key: MQTTFilterKey) {
        if current != nil, queued.insert(key).inserted { todo.append(key) }
    }

    // MARK: Connections

    /// There is a connection.
    ///
    /// - Parameters:
    ///   - name: the client's name at the broker.
    ///   - isPresent: the broker has gone on with a session of this name.
    mutating func linked(to broker: Endpoint?, as name: String, isPresent: Bool) {
        unlinked()
        var session = sessions[broker] ?? Session(name: name)
        // What is not known of a session, because an earlier process had it, is asked for once more; that does no harm.
        if !isPresent || session.name != name { session = Session(name: name) }
        let gone = session.filters.keys.filter { wanted[$0] == nil }
        let missing = wanted.filter { session.filters[$0.key] != $0.value.number }
        todo = gone + missing.sorted { $0.value.number < $1.value.number }.map(\.key)
        queued = Set(todo)
        current = (broker, session)
    }

    /// The connection is gone, and with it the answer to what was under way.
    mutating func unlinked() {
        if let (broker, session) = current { sessions[broker] = session }
        current = nil
        underWay = nil
        todo = []
        queued = []
    }

    // MARK: Packets

    /// What is to be written now; `nil` if nothing, or while an answer is awaited.
    mutating func next() -> Packet? {
        guard current != nil, underWay == nil else { return nil }
        var (filters, bytes, taken, isSubscribing) = ([MQTTFilterKey](), 0, 0, false)
        for key in todo {
            if let asks = isToBeSubscribed(key) {
                bytes += key.text.utf8.count
                let fits = filters.count < Self.maximumFilters && bytes <= Self.maximumBytes && asks == isSubscribing
                guard filters.isEmpty || fits else { break }
                isSubscribing = asks
                filters.append(key)
            }
            queued.remove(key)
            taken += 1
        }
        todo.removeFirst(taken)
        guard !filters.isEmpty else { return nil }
        for key in filters { current?.session.filters[key] = 0 }
        underWay = UnderWay(filters: filters, isSubscribing: isSubscribing, through: lastNumber)
        guard isSubscribing else { return .unsubscribe(filters.map(\.text)) }
        return .subscribe(filters.map { MQTTSubscription($0.text, qos: wanted[$0]?.qos ?? .atMostOnce) })
    }

    /// Whether to subscribe to a filter or to unsubscribe from it; `nil` if the broker has it as it is wanted.
    private func isToBeSubscribed(_ key: MQTTFilterKey) -> Bool? {
        let held = current?.session.filters[key]
        guard let wish = wanted[key] else { return held == nil ? nil : false }
        return held == wish.number ? nil : true
    }

    /// The packet under way is answered: with the QoS granted to each filter, `nil` where it was refused, or none for
    /// UNSUBSCRIBE. One that could not be written is refused.
    mutating func answered(_ granted: [MQTTQoS?], wasWritten: Bool = true) -> [Outcome] {
        guard let packet = underWay.take() else { return [] }
        var outcomes: [Outcome] = []
        for (index, key) in packet.filters.enumerated() {
            var outcome = Outcome(filter: key.text, verdict: .unsubscribed, through: packet.through, isOver: false)
            let wish = wanted[key]
            if !packet.isSubscribing {
                if wasWritten { current?.session.filters[key] = nil }
                outcome.isOver = wish == nil
            } else if index < granted.count, let qos = granted[index] {
                outcome.verdict = .granted(qos)
                if let wish, wish.number <= packet.through { current?.session.filters[key] = wish.number }
            } else {
                outcome.verdict = .refused
                if let wish, wish.number <= packet.through {
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
