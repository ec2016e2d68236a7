/// Detects messages of other clients of a broker that have arrived before. At QoS 1 a message is sent again when its
/// acknowledgement was lost.
///
/// Every client of the broker can read a sender's identifier and running number, and can publish messages with them. So
/// a message counts as repeated only if its identifier, its number and its content are all the same. The filter
/// compares hashes under its own random keys, so that no peer can search for two messages with the same hash. At least
/// the last 65,536 messages are remembered. A forgotten message can be delivered twice. No message is lost.
package struct OriginFilter: Sendable {
    /// The smallest number of remembered messages; the largest is twice as much.
    static let capacity = 65_536

    /// The hashes that identify a message.
    package struct Mark: Hashable, Sendable {
        var origin: UInt64
        var content: UInt64
    }

    /// The random key of the hashes.
    package struct Key: Hashable, Sendable {
        var high: UInt64
        var low: UInt64

        init(high: UInt64, low: UInt64) {
            (self.high, self.low) = (high, low)
        }

        init(using random: inout some RandomNumberGenerator) {
            self.init(high: random.next(), low: random.next())
        }

        /// Returns the key of one of the two hashes.
        fileprivate func derived(_ purpose: UInt64) -> (UInt64, UInt64) {
            func half(_ number: UInt64) -> UInt64 {
                var hash = SipHash24(key: (high, low))
                for word in [purpose, number] { hash.combine(word) }
                return hash.finalize()
            }
            return (half(1), half(2))
        }
    }

    private let originKey: (UInt64, UInt64)
    private let contentKey: (UInt64, UInt64)
    private var recent: Set<Mark> = []
    private var former: Set<Mark> = []

    /// Creates a filter that knows the messages of these marks, which were made under the same key.
    init(_ key: Key, knowing marks: some Sequence<Mark> = []) {
        originKey = key.derived(1)
        contentKey = key.derived(2)
        for mark in marks { insert(mark) }
    }

    package init(using random: inout some RandomNumberGenerator) {
        self.init(Key(using: &random))
    }

    /// The number of remembered messages.
    package var count: Int { recent.count + former.count }

    /// Returns whether this message of a sender is new, and remembers it.
    package mutating func isNew(_ sender: SessionID, _ sequence: UInt64, _ payload: Payload) -> Bool {
        let mark = mark(sender, sequence, payload)
        guard !contains(mark) else { return false }
        insert(mark)
        return true
    }

    func contains(_ mark: Mark) -> Bool { recent.contains(mark) || former.contains(mark) }

    mutating func insert(_ mark: Mark) {
        if recent.count >= Self.capacity {
            former = recent
            recent = []
        }
        recent.insert(mark)
    }

    func mark(_ sender: SessionID, _ sequence: UInt64, _ payload: Payload) -> Mark {
        var origin = SipHash24(key: originKey)
        for word in [sender.high, sender.low, sequence] { origin.combine(word) }
        var content = SipHash24(key: contentKey)
        content.combine((payload.kind == .text ? 1 : 0) as UInt64)
        content.combine(UInt64(payload.bytes.count))
        payload.bytes.withUnsafeBytes { content.combine($0) }
        // The same message on another topic is another message.
        if let topic = payload.topic { for byte in topic.utf8 { content.combine(byte) } }
        return Mark(origin: origin.finalize(), content: content.finalize())
    }
}
