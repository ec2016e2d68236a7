import Primitives

/// The syntax of a protocol's topics, and of the filters that match them, as a type without values. Code that is generic over
/// it is compiled for each syntax, so it costs no more than constants.
///
/// A topic consists of levels. In a filter, a level can be a wildcard. Separator, wildcards and ``hidden`` are different
/// characters of ASCII, and no topic contains a byte 0. Topics are compared byte by byte, because Swift's comparison of strings
/// normalizes.
package protocol TopicSyntax: Sendable {
    /// The byte between two levels.
    static var separator: UInt8 { get }
    /// As a whole level of a filter, it matches any one level.
    static var singleLevel: UInt8 { get }
    /// As the last level of a filter, it matches all further levels.
    static var multiLevel: UInt8 { get }
    /// Whether ``multiLevel`` also matches no level at all: `sport/#` of MQTT matches `sport`, and `sport.>` of NATS does not.
    static var multiLevelMatchesNone: Bool { get }
    /// The first byte of topics that no filter with a wildcard as its first level matches; `nil` if there are none.
    static var hidden: UInt8? { get }
    /// Whether a message to `topic` goes to a subscriber of `filter`. Both must be well-formed. Use it for a few filters, and
    /// ``TopicTrie`` for many.
    static func matches(filter: String, topic: String) -> Bool
}

extension TopicSyntax {
    /// Compares level by level.
    package static func matches(filter: String, topic: String) -> Bool {
        filter.withContiguousUTF8 { filter in topic.withContiguousUTF8 { matches(filter: filter, topic: $0) } }
    }

    static func matches(filter: UnsafeRawBufferPointer, topic: UnsafeRawBufferPointer) -> Bool {
        guard !filter.isEmpty else { return false }
        if isHidden(topic), beginsWithWildcard(filter) { return false }
        var (inFilter, inTopic) = (0, 0)
        while inFilter <= filter.count {
            let filterEnd = levelEnd(filter, from: inFilter)
            let isWild = filterEnd - inFilter == 1
            if isWild && filter[inFilter] == multiLevel { return multiLevelMatchesNone || inTopic <= topic.count }
            guard inTopic <= topic.count else { return false }
            let topicEnd = levelEnd(topic, from: inTopic)
            if !(isWild && filter[inFilter] == singleLevel) {
                let expected = UnsafeRawBufferPointer(rebasing: filter[inFilter..<filterEnd])
                guard expected.hasSameBytes(as: UnsafeRawBufferPointer(rebasing: topic[inTopic..<topicEnd])) else {
                    return false
                }
            }
            inFilter = filterEnd + 1
            inTopic = topicEnd + 1
        }
        return inTopic > topic.count
    }

    /// Whether a topic is hidden from filters whose first level is a wildcard.
    @inlinable @inline(__always)
    static func isHidden(_ topic: UnsafeRawBufferPointer) -> Bool {
        guard let hidden, let first = topic.first else { return false }
        return first == hidden
    }

    /// Whether the first level of a well-formed filter is a wildcard.
    @inlinable @inline(__always)
    static func beginsWithWildcard(_ filter: UnsafeRawBufferPointer) -> Bool {
        guard let first = filter.first, first == singleLevel || first == multiLevel else { return false }
        return filter.count == 1 || filter[1] == separator
    }

    /// The end of the level that begins at `start`: the next separator or the end of the bytes.
    @inlinable @inline(__always)
    static func levelEnd(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int {
        var end = start
        while end < bytes.count && bytes[end] != separator { end += 1 }
        return end
    }
}

/// A message to a topic.
package protocol TopicMessage: Sendable {
    /// The topic, without wildcards.
    var topic: String { get }
    /// The message itself.
    var payload: [UInt8] { get }
}

extension TopicMessage {
    /// The bytes that a buffered message counts for each place that buffers it, even if these share its payload.
    @inlinable static var bytesOfPlace: Int { 64 }
    /// The bytes that a buffered message counts: its topic, its payload, and its place.
    @inlinable package var bufferedBytes: Int { topic.utf8.count + payload.count + Self.bytesOfPlace }
}

/// A topic filter as a key. It is compared by its bytes, because filters that Swift considers equal can differ on the wire.
package struct FilterKey: Hashable, Sendable {
    /// The filter.
    package let text: String

    /// Creates the key of a filter.
    package init(_ text: String) { self.text = text }

    package static func == (left: FilterKey, right: FilterKey) -> Bool {
        left.text.withContiguousUTF8 { left in right.text.withContiguousUTF8 { left.hasSameBytes(as: $0) } }
    }

    package func hash(into hasher: inout Hasher) {
        text.withContiguousUTF8 { hasher.combine(bytes: $0) }
    }
}

extension String {
    /// Calls `body` with the text's UTF-8. Native strings are not copied, and all strings on Linux are native.
    @inlinable @inline(__always)
    func withContiguousUTF8<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R {
        if let result = utf8.withContiguousStorageIfAvailable({ body(UnsafeRawBufferPointer($0)) }) { return result }
        return Array(utf8).withUnsafeBytes(body)
    }
}
