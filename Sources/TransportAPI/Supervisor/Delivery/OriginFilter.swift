/// Finds messages of other clients of a broker that have come before: at QoS 1 a message is sent again whenever its
/// acknowledgement was lost.
///
/// Every client of the broker can read a sender's identifier and running number, and publish messages that bear them.
/// So these alone say nothing: a message has come before only if its identifier, its number and its content did. What
/// is compared are hashes under random keys of this filter, for which no peer can look for two messages with the same
/// one. At least the last 65,536 messages are remembered. A message that is forgotten may be delivered twice; none is
/// ever lost.
package struct OriginFilter: Sendable {
    /// How many messages are remembered at least, and half of how many at most.
    static let capacity = 65_536

    /// What a message is recognised by.
    struct Mark: Hashable, Sendable {
        var origin: UInt64
        var content: UInt64
    }

    private let originKey: (UInt64, UInt64)
    private let contentKey: (UInt64, UInt64)
    private var recent: Set<Mark> = []
    private var former: Set<Mark> = []

    package init(using random: inout some RandomNumberGenerator) {
        originKey = (random.next(), random.next())
        contentKey = (random.next(), random.next())
    }

    /// How many messages are remembered.
    package var count: Int { recent.count + former.count }

    /// Whether this message of a sender is new.
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
