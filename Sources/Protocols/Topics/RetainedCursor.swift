import Primitives
import TransportAPI

/// The progress of the search for retained messages that match one filter. Topics that are added during the search are
/// found if they lie ahead of the cursor.
package struct RetainedCursor<Syntax: TopicSyntax>: Sendable {
    /// The well-formed filter, in UTF-8.
    package let filter: [UInt8]
    /// The next topic to check, in the order of ``RetainedMessages``. It need not exist.
    @usableFromInline var next: [UInt8]
    /// Whether no further topic can match.
    @usableFromInline var isOver = false

    /// The lowest byte after the separator in the order. Appended to a topic, it leads past all topics below that
    /// topic.
    @inlinable static var past: UInt8 { 1 }

    /// Creates a cursor at the first topic that may match a well-formed filter. That topic has the filter's levels
    /// before its first wildcard.
    @inlinable
    package init(_ filter: [UInt8]) {
        self.filter = filter
        next = filter
        guard let wildcard = filter.firstIndex(where: { $0 == Syntax.singleLevel || $0 == Syntax.multiLevel })
        else {
            return
        }
        next.removeLast(filter.count - max(wildcard - 1, 0))
    }

    /// Whether the topic that the search has reached matches. Moves the cursor to the next topic that may match.
    @inlinable
    mutating func matches(_ topic: UnsafeRawBufferPointer) -> Bool {
        let filter = filter
        return filter.withUnsafeBytes { matches($0, topic) }
    }

    @inlinable
    mutating func matches(_ filter: UnsafeRawBufferPointer, _ topic: UnsafeRawBufferPointer) -> Bool {
        if let hidden = Syntax.hidden, Syntax.isHidden(topic), Syntax.beginsWithWildcard(filter) {
            // The separator comes before all other bytes.
            next = [hidden + 1 == Syntax.separator ? hidden + 2 : hidden + 1]
            return false
        }
        var (inFilter, inTopic) = (0, 0)
        /// The end of the last level that a single-level wildcard matches.
        var lastWild: Int?
        while inFilter <= filter.count {
            let filterEnd = Syntax.levelEnd(filter, from: inFilter)
            let wanted = UnsafeRawBufferPointer(rebasing: filter[inFilter..<filterEnd])
            if wanted.count == 1, wanted[0] == Syntax.multiLevel {
                goOn(behind: topic, Syntax.separator)
                return Syntax.multiLevelMatchesNone || inTopic <= topic.count
            }
            guard inTopic <= topic.count else {
                // The topic is too short, but topics below it may match.
                goOn(behind: topic, Syntax.separator)
                return false
            }
            let topicEnd = Syntax.levelEnd(topic, from: inTopic)
            let level = UnsafeRawBufferPointer(rebasing: topic[inTopic..<topicEnd])
            if wanted.count == 1, wanted[0] == Syntax.singleLevel {
                lastWild = topicEnd
            } else if !wanted.hasSameBytes(as: level) {
                if Syntax.isBefore(level, wanted) {
                    goOn(behind: UnsafeRawBufferPointer(rebasing: topic[..<inTopic]))
                    next.append(contentsOf: wanted)
                } else {
                    leap(topic, lastWild)
                }
                return false
            }
            (inFilter, inTopic) = (filterEnd + 1, topicEnd + 1)
        }
        guard inTopic <= topic.count else {
            goOn(behind: topic, Syntax.separator)
            return true
        }
        leap(topic, lastWild)
        return false
    }

    /// Moves past all topics below the level that the last wildcard matches here, because none of them can match.
    @inlinable
    mutating func leap(_ topic: UnsafeRawBufferPointer, _ lastWild: Int?) {
        guard let lastWild else { return isOver = true }
        goOn(behind: UnsafeRawBufferPointer(rebasing: topic[..<lastWild]), Self.past)
    }

    @inlinable
    mutating func goOn(behind topic: UnsafeRawBufferPointer, _ last: UInt8? = nil) {
        next.removeAll(keepingCapacity: true)
        next.append(contentsOf: topic)
        if let last { next.append(last) }
    }
}

// The order of topics. The separator comes before all other bytes, so all topics below a topic follow it directly.
extension TopicSyntax {
    /// Whether a topic comes before another one.
    @inlinable
    static func isBefore(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        let common = min(left.count, right.count)
        var index = 0
        while common - index >= 8,
            left.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                == right.loadUnaligned(fromByteOffset: index, as: UInt64.self)
        {
            index += 8
        }
        while index < common {
            if left[index] != right[index] { return rank(left[index]) < rank(right[index]) }
            index += 1
        }
        return left.count < right.count
    }

    /// The rank of a byte in the order. No topic has a byte 0, so that rank is free for the separator.
    @inlinable @inline(__always)
    static func rank(_ byte: UInt8) -> UInt8 { byte == separator ? 0 : byte }
}
