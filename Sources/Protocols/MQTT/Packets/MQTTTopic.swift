import TransportAPI

/// Topic names and topic filters (MQTT 3.1.1, section 4.7). The specification forbids normalization.
package enum MQTTTopic: TopicSyntax {
    @inlinable package static var separator: UInt8 { UInt8(ascii: "/") }
    @inlinable package static var singleLevel: UInt8 { UInt8(ascii: "+") }
    @inlinable package static var multiLevel: UInt8 { UInt8(ascii: "#") }
    /// `sport/#` matches `sport` too (section 4.7.1.2).
    @inlinable package static var multiLevelMatchesNone: Bool { true }
    /// Only filters that begin with their literal name match the server's own topics (MQTT-4.7.2-1).
    @inlinable package static var hidden: UInt8? { system }
    @inlinable static var system: UInt8 { UInt8(ascii: "$") }

    /// The longest topic or filter, in bytes. Its length has 16 bits on the wire.
    static let maximumLength = 65_535

    /// How many levels a filter may have at this package's broker by default, and at some others too.
    package static let usualFilterLevels = 32

    /// Returns the sentence about a filter that a broker has refused. SUBACK has no reason, so the sentence names the one
    /// that can be seen from the filter.
    package static func refusal(of filter: String) -> String {
        let levels = filter.utf8.count { $0 == separator } + 1
        let seen = "the broker refuses the subscription to '\(filter)'"
        guard levels > usualFilterLevels else { return seen }
        return
            "\(seen), which has \(levels) levels; brokers limit them, this package's to \(usualFilterLevels) unless its "
            + "option max-filter-levels allows more"
    }

    /// Whether `bytes` may be published to: 1 to 65,535 bytes without wildcards and U+0000 (MQTT-3.3.2-2, MQTT-4.7.3).
    static func isName(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard !bytes.isEmpty, bytes.count <= maximumLength else { return false }
        for byte in bytes where byte == singleLevel || byte == multiLevel || byte == 0 { return false }
        return true
    }

    /// Whether `bytes` may be subscribed to: `+` fills a level, and `#` fills the last one (MQTT-4.7.1).
    static func isFilter(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard !bytes.isEmpty, bytes.count <= maximumLength else { return false }
        for (index, byte) in bytes.enumerated() {
            switch byte {
            case 0:
                return false
            case multiLevel:
                guard index == bytes.count - 1, index == 0 || bytes[index - 1] == separator else { return false }
            case singleLevel:
                guard index == 0 || bytes[index - 1] == separator,
                    index == bytes.count - 1 || bytes[index + 1] == separator
                else { return false }
            default:
                continue
            }
        }
        return true
    }

    static func isName(_ text: String) -> Bool {
        text.withContiguousUTF8 { isName($0) }
    }

    static func isFilter(_ text: String) -> Bool {
        text.withContiguousUTF8 { isFilter($0) }
    }

    /// Whether a message to `topic` goes to a subscriber of `filter`, which may be that of a shared subscription. Both must be
    /// well-formed.
    package static func matches(filter: String, topic: String) -> Bool {
        filter.withContiguousUTF8 { filter in
            topic.withContiguousUTF8 { matches(filter: SharedFilter(filter)?.filter ?? filter, topic: $0) }
        }
    }

    /// Whether a filter is that of a shared subscription.
    package static func isShared(_ filter: String) -> Bool {
        filter.withContiguousUTF8 { SharedFilter($0) != nil }
    }

    /// The longest topic name for which ``filters(matching:atMost:)`` returns filters with wildcards, in bytes.
    private static let longestGuess = 256

    /// Filters that match a topic name: the name itself, then those with wildcards, those with the fewest `+` first.
    ///
    /// - Parameters:
    ///   - topic: A well-formed topic name.
    ///   - count: The most filters.
    package static func filters(matching topic: String, atMost count: Int) -> [String] {
        var filters = [topic]
        // Few filters are longer, and a peer chooses the topic.
        guard topic.utf8.count <= longestGuess else { return filters }
        let levels = topic.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        // The levels that are `+`, as bits.
        let wild = min(levels.count, 6)
        let masks = (0..<1 << wild).sorted { $0.nonzeroBitCount < $1.nonzeroBitCount }
        for mask in masks {
            guard filters.count < count else { break }
            let replaced = levels.enumerated().map { $0.offset < wild && mask >> $0.offset & 1 == 1 ? "+" : $0.element }
            if mask != 0 { filters.append(replaced.joined(separator: "/")) }
            // `#` in place of the rest, or behind the whole name, unless this repeats a filter of another mask.
            for end in stride(from: levels.count, through: 0, by: -1)
            where filters.count < count && mask >> end == 0 {
                filters.append((replaced[..<end] + ["#"]).joined(separator: "/"))
            }
        }
        let isSystem = topic.utf8.first == system
        return filters.prefix(count).filter { !isSystem || $0.utf8.first == system }
    }
}

/// The parts of the filter of a shared subscription: `$share/group/filter` (MQTT 5.0, section 4.8.2, which brokers of
/// 3.1.1 support too), or `$queue/filter`. Each message that matches goes to one member of the group.
///
/// A filter that only begins like one, such as `$share/group`, is an ordinary filter.
struct SharedFilter {
    private static let share = Array("$share/".utf8)
    private static let queue = Array("$queue/".utf8)

    /// The name of the group; empty for `$queue`, whose subscribers are one group.
    let group: UnsafeRawBufferPointer
    /// The filter for topics.
    let filter: UnsafeRawBufferPointer

    /// Returns `nil` unless `text` is the filter of a shared subscription. The parts point into `text`.
    @inline(__always)
    init?(_ text: UnsafeRawBufferPointer) {
        guard text.first == MQTTTopic.system else { return nil }
        self.init(system: text)
    }

    private init?(system text: UnsafeRawBufferPointer) {
        if text.starts(with: Self.queue) {
            group = UnsafeRawBufferPointer(rebasing: text[..<0])
            filter = UnsafeRawBufferPointer(rebasing: text[Self.queue.count...])
        } else {
            guard text.starts(with: Self.share) else { return nil }
            let end = MQTTTopic.levelEnd(text, from: Self.share.count)
            group = UnsafeRawBufferPointer(rebasing: text[Self.share.count..<end])
            guard end < text.count, !group.isEmpty, !group.contains(MQTTTopic.singleLevel),
                !group.contains(MQTTTopic.multiLevel)
            else { return nil }
            filter = UnsafeRawBufferPointer(rebasing: text[(end + 1)...])
        }
        guard !filter.isEmpty else { return nil }
    }
}

extension MQTTPublish {
    /// Whether the message goes to a subscriber of `filter`, which must be well-formed.
    package func matches(_ filter: String) -> Bool {
        MQTTTopic.matches(filter: filter, topic: topic)
    }
}

extension MQTTPublish: TopicMessage {}
