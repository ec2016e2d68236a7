/// How many bytes of messages all sessions of one broker keep. A payload that several of them keep is the same memory,
/// and counts once. Lives on the broker's loop, as they do.
package final class QueuedBytesQuota: @unchecked Sendable {
    // Unchecked, because it is only ever touched on the loop on which all connections of its broker live.

    /// The bytes of topics and payloads, and 64 for each place in which one is kept.
    package private(set) var bytes = 0
    /// How many times each payload is kept, by where it lies: as long as it is kept, no other one can lie there.
    private var holders: [UInt: Int] = [:]

    package init() {}

    /// How much keeping a message once more would add.
    package func cost(of publish: MQTTPublish) -> Int {
        let isKept = Self.place(of: publish).map { holders[$0] != nil } ?? false
        return isKept ? MQTTPublish.bytesOfPlace : publish.keptBytes
    }

    func add(_ publish: MQTTPublish) {
        bytes += cost(of: publish)
        if let place = Self.place(of: publish) { holders[place, default: 0] += 1 }
    }

    func remove(_ publish: MQTTPublish) {
        if let place = Self.place(of: publish) {
            let left = holders[place, default: 1] - 1
            holders[place] = left > 0 ? left : nil
        }
        bytes -= cost(of: publish)
    }

    /// Where the payload lies; an empty one lies nowhere.
    private static func place(of publish: MQTTPublish) -> UInt? {
        guard !publish.payload.isEmpty else { return nil }
        return publish.payload.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) }
    }
}

extension MQTTPublish {
    /// What each place counts in which a message is kept, in bytes.
    static let bytesOfPlace = 64
    /// What keeping it is counted as: its topic, its payload, and its place.
    package var keptBytes: Int { topic.utf8.count + payload.count + Self.bytesOfPlace }
}
