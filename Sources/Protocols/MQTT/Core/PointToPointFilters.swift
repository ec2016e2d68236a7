import TransportAPI

/// The filters of the only client of a server without a broker, with the QoS granted to each.
struct PointToPointFilters: Sendable {
    /// The longest filter that is stored, in bytes; the same as in a broker. All filters are searched for each packet.
    private static let longest = 1024

    private(set) var subscriptions: [MQTTSubscription] = []
    /// The first filter that is a full topic name, without its share.
    private(set) var topic: String?
    /// The size of all filters, in bytes.
    private(set) var size = 0
    private let limit: Int

    /// Creates an empty list for so many filters.
    init(limit: Int) {
        self.limit = limit
    }

    /// Stores subscriptions, each in place of an earlier one to the same filter (MQTT-3.8.4-3). Returns the QoS granted
    /// to each, or `nil` for a refused one. Filters are found by a hash of their bytes instead of pairwise comparisons,
    /// because there may be very many.
    mutating func store(_ asked: [MQTTSubscription]) -> [MQTTQoS?] {
        var places: [FilterKey: Int] = [:]
        for (place, subscription) in subscriptions.enumerated() { places[FilterKey(subscription.filter)] = place }
        defer { changed() }
        return asked.map { subscription in
            let filter = FilterKey(subscription.filter)
            if let place = places[filter] {
                subscriptions[place] = subscription
            } else {
                guard subscriptions.count < limit, filter.text.utf8.count <= Self.longest else { return nil }
                places[filter] = subscriptions.count
                subscriptions.append(subscription)
            }
            return subscription.qos
        }
    }

    mutating func remove(_ filters: [String]) {
        let ended = Set(filters.map(FilterKey.init))
        subscriptions.removeAll { ended.contains(FilterKey($0.filter)) }
        changed()
    }

    /// The QoS at which the client gets a message of this topic: at most the highest one granted to a matching filter,
    /// if there is one.
    func grantedQoS(_ wanted: MQTTQoS, _ topic: String) -> MQTTQoS {
        guard wanted != .atMostOnce else { return .atMostOnce }
        var granted: MQTTQoS?
        for subscription in subscriptions where MQTTTopic.matches(filter: subscription.filter, topic: topic) {
            granted = max(granted ?? .atMostOnce, subscription.qos)
        }
        return min(wanted, granted ?? wanted)
    }

    private mutating func changed() {
        size = subscriptions.reduce(0) { $0 + $1.filter.utf8.count }
        topic = subscriptions.lazy.compactMap { Self.topic(of: $0.filter) }.first
    }

    private static func topic(of filter: String) -> String? {
        let shared = filter.withContiguousUTF8 { text in
            SharedFilter(text).map { String(decoding: $0.filter, as: UTF8.self) }
        }
        let topic = shared ?? filter
        return MQTTTopic.isName(topic) ? topic : nil
    }
}
