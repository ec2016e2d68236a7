/// The bytes of messages that all sessions of one broker buffer together. A payload that is buffered in several places
/// counts once, because the places share its memory. The quota is used on the broker's loop, as are the sessions.
package final class QueuedBytesQuota: @unchecked Sendable {
    // Unchecked, because it is only used on the loop of all connections of its broker.

    /// The bytes of topics and payloads, and 64 bytes for each place where a message is buffered.
    package private(set) var bytes = 0
    /// How many places buffer each payload, by its address. While a payload is buffered, no other one can have its
    /// address.
    @usableFromInline var holders: [UInt: Int] = [:]

    /// Creates an empty quota.
    package init() {}

    /// How many bytes are added if the message is buffered in one more place.
    @inlinable
    package func cost<Message: TopicMessage>(of message: Message) -> Int {
        let isKept = Self.place(of: message.payload).map { holders[$0] != nil } ?? false
        return isKept ? Message.bytesOfPlace : message.bufferedBytes
    }

    func add(_ message: some TopicMessage) {
        bytes += cost(of: message)
        if let place = Self.place(of: message.payload) { holders[place, default: 0] += 1 }
    }

    func remove(_ message: some TopicMessage) {
        if let place = Self.place(of: message.payload) {
            let left = holders[place, default: 1] - 1
            holders[place] = left > 0 ? left : nil
        }
        bytes -= cost(of: message)
    }

    /// The address of a payload; `nil` if it is empty.
    @inlinable
    static func place(of payload: [UInt8]) -> UInt? {
        guard !payload.isEmpty else { return nil }
        return payload.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) }
    }
}
