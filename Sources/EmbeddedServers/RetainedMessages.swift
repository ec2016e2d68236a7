import Transports

/// The last retained message of each topic (MQTT 3.1.1, section 3.3.1.3), in memory and bounded.
struct RetainedMessages {
    private let maximumCount: Int
    private let maximumBytes: Int
    // Keys are bytes, because two topics that Swift holds for equal may differ on the wire.
    private var messages: [[UInt8]: MQTTPublish] = [:]
    private var bytes = 0

    /// None yet, within these bounds.
    init(_ limits: BrokerLimits) {
        maximumCount = limits.retainedMessages
        maximumBytes = limits.retainedBytes
    }

    /// Takes a message whose publisher asks for it to be retained; one without bytes deletes its topic's (MQTT-3.3.1-10,
    /// MQTT-3.3.1-11). `false` if there is no room: the topic then has none, rather than an old one.
    mutating func keep(_ publish: MQTTPublish) -> Bool {
        let key = Array(publish.topic.utf8)
        if let former = messages.removeValue(forKey: key) { bytes -= key.count + former.payload.count }
        guard !publish.payload.isEmpty else { return true }
        let size = key.count + publish.payload.count
        guard messages.count < maximumCount, bytes + size <= maximumBytes else { return false }
        messages[key] = publish
        bytes += size
        return true
    }

    /// What a new subscriber of `filter` gets, in no order. Looks at every topic if the filter has wildcards.
    func matching(_ filter: String) -> [MQTTPublish] {
        if let own = messages[Array(filter.utf8)] { return [own] }
        guard filter.utf8.contains(where: { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "#") }) else { return [] }
        return messages.values.filter { $0.matches(filter) }
    }
}
