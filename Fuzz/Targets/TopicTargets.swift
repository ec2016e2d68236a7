import TransportAPI

@testable import Protocols
@testable import Transports

/// Compares the router of a broker with the plain rule: each session with a matching filter gets a message once, at its
/// highest QoS. Each line is an action. Its first byte selects the kind, its second byte the session.
func fuzzMQTTTopics(_ bytes: [UInt8]) throws {
    var limits = BrokerCore.Limits()
    limits.maximumSubscriptionsPerSession = 6
    limits.maximumSubscriptions = 12
    limits.maximumFilterLevels = 6
    var broker = BrokerCore(limits: limits)
    var model = TopicModel(limits: limits)
    for line in bytes.split(separator: UInt8(ascii: "\n")).prefix(200) where line.count >= 2 {
        let (what, who) = (line[line.startIndex], UInt64(line[line.startIndex + 1] & 3))
        let text = String(decoding: line.dropFirst(2), as: UTF8.self)
        let qos = MQTTQoS(rawValue: what >> 3 & 3) ?? .exactlyOnce
        switch what & 7 {
        case 0: try check(broker.unsubscribe(who, from: text), model.unsubscribe(who, text), text)
        case 1:
            let isFree = (try? broker.connect(who, clientID: []) ?? 0) != nil
            try check(isFree, model.connect(who), "connect")
        case 2:
            broker.disconnect(who)
            model.sessions[who] = nil
            // A session that has ended receives nothing, even before its filters are removed.
            if let topic = model.sessions.values.first?.keys.first {
                try model.route(String(decoding: topic, as: UTF8.self), qos, &broker)
            }
            while broker.clear(atMost: 2) {}
        case 3, 4: try model.route(text, qos, &broker)
        default: try check(broker.subscribe(who, to: text, qos: qos), model.subscribe(who, text, qos), text)
        }
        try ensure(broker.subscriptionCount == model.count, "\(broker.subscriptionCount), not \(model.count)")
    }
    for session in model.sessions.keys { broker.disconnect(session) }
    try ensure(!broker.clear(), "the removal of filters does not end")
    try ensure(broker.subscriptionCount == 0 && broker.sessionCount == 0, "something is left")
}

private func check<Value: Equatable>(_ value: Value, _ expected: Value, _ text: String) throws {
    try ensure(value == expected, "\(text.debugDescription): \(value) instead of \(expected)")
}

/// The plain rule. Filters are compared by their bytes.
private struct TopicModel {
    let limits: BrokerCore.Limits
    var sessions: [UInt64: [[UInt8]: MQTTQoS]] = [:]

    init(limits: BrokerCore.Limits) {
        self.limits = limits
    }

    var count: Int { sessions.values.reduce(0) { $0 + $1.count } }

    /// Connects a session. Returns `false` if the router must refuse it.
    mutating func connect(_ who: UInt64) -> Bool {
        guard sessions[who] == nil else { return false }
        sessions[who] = [:]
        // The router's answer is the session that made room: none, without a client identifier.
        return true
    }

    mutating func subscribe(_ who: UInt64, _ filter: String, _ qos: MQTTQoS) -> MQTTQoS? {
        let bytes = Array(filter.utf8)
        guard let filters = sessions[who], MQTTTopic.isFilter(filter), bytes.count <= limits.maximumFilterLength,
            bytes.count(where: { $0 == MQTTTopic.separator }) < limits.maximumFilterLevels
        else { return nil }
        let isFull = filters.count >= limits.maximumSubscriptionsPerSession || count >= limits.maximumSubscriptions
        guard filters[bytes] != nil || !isFull else { return nil }
        sessions[who]?[bytes] = qos
        return qos
    }

    mutating func unsubscribe(_ who: UInt64, _ filter: String) -> Bool {
        sessions[who]?.removeValue(forKey: Array(filter.utf8)) != nil
    }

    func route(_ topic: String, _ qos: MQTTQoS, _ broker: inout BrokerCore) throws {
        guard MQTTTopic.isName(topic) else { return }
        var deliveries: [BrokerCore.Delivery] = []
        broker.route(topic: topic, qos: qos, into: &deliveries)
        var expected: [UInt64: MQTTQoS] = [:]
        for (who, filters) in sessions {
            for (filter, granted) in filters
            where MQTTTopic.matches(filter: String(decoding: filter, as: UTF8.self), topic: topic) {
                expected[who] = max(expected[who] ?? .atMostOnce, min(qos, granted))
            }
        }
        try ensure(deliveries.count == expected.count, "\(deliveries) instead of \(expected)")
        for delivery in deliveries { try check(expected[delivery.session], delivery.qos, topic) }
    }
}
