/// The bytes of messages that all sessions of one broker buffer together. A payload that is buffered in several places
/// counts once, because the places share its memory. The quota is used on the broker's loop, as are the sessions.
package final class QueuedBytesQuota: @unchecked Sendable {
    // Unchecked, because it is only used on the loop of all connections of its broker.

    /// The bytes of topics and payloads, and 64 bytes for each place where a message is buffered.
    package private(set) var bytes = 0
    /// How many places buffer each payload, by its address. While a payload is buffered, no other one can have its
    /// address.
    private var holders: [UInt: Int] = [:]

    /// Creates an empty quota.
    package init() {}

    /// How many bytes are added if the message is buffered in one more place.
    package func cost(of publish: MQTTPublish) -> Int {
        let isKept = Self.place(of: publish).map { holders[$0] != nil } ?? false
        return isKept ? MQTTPublish.bytesOfPlace : publish.bufferedBytes
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

    /// The address of the payload; `nil` if it is empty.
    private static func place(of publish: MQTTPublish) -> UInt? {
        guard !publish.payload.isEmpty else { return nil }
        return publish.payload.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) }
    }
}

extension MQTTPublish {
    /// The bytes that each place of a buffered message counts.
    static let bytesOfPlace = 64
    /// The bytes that a buffered message counts: its topic, its payload, and its place.
    package var bufferedBytes: Int { topic.utf8.count + payload.count + Self.bytesOfPlace }
}
