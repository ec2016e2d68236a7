import Primitives
import TransportAPI

/// The progress of the search for retained messages that match one filter. Topics that are added during the search are
/// found if they lie ahead of the cursor.
package struct RetainedCursor: Sendable {
    /// The well-formed filter, in UTF-8.
    package let filter: [UInt8]
    /// The next topic to check, in the order of ``RetainedMessages``. It need not exist.
    private(set) var next: [UInt8]
    /// Whether no further topic can match.
    private(set) var isOver = false

    /// The lowest byte after the separator in the order. Appended to a topic, it leads past all topics below that
    /// topic.
    private static let past: UInt8 = 1

    /// Creates a cursor at the first topic that may match a well-formed filter. That topic has the filter's levels
    /// before its first wildcard.
    package init(_ filter: [UInt8]) {
        self.filter = filter
        next = filter
        guard let wildcard = filter.firstIndex(where: { $0 == MQTTTopic.singleLevel || $0 == MQTTTopic.multiLevel })
        else {
            return
        }
        next.removeLast(filter.count - max(wildcard - 1, 0))
    }

    /// Whether the topic that the search has reached matches. Moves the cursor to the next topic that may match.
    mutating func matches(_ topic: UnsafeRawBufferPointer) -> Bool {
        let filter = filter
        return filter.withUnsafeBytes { matches($0, topic) }
    }

    private mutating func matches(_ filter: UnsafeRawBufferPointer, _ topic: UnsafeRawBufferPointer) -> Bool {
        let isWild = filter.first == MQTTTopic.singleLevel || filter.first == MQTTTopic.multiLevel
        if isWild, topic.first == MQTTTopic.system {
            // Wildcards at the first level do not match the server's own topics (MQTT-4.7.2-1).
            next = [MQTTTopic.system + 1]
            return false
        }
        var (inFilter, inTopic) = (0, 0)
        /// The end of the last level that a `+` matches.
        var lastWild: Int?
        while inFilter <= filter.count {
            let filterEnd = MQTTTopic.levelEnd(filter, from: inFilter)
            let wanted = UnsafeRawBufferPointer(rebasing: filter[inFilter..<filterEnd])
            if wanted.count == 1, wanted[0] == MQTTTopic.multiLevel {
                goOn(behind: topic, MQTTTopic.separator)
                return true
            }
            guard inTopic <= topic.count else {
                // The topic is too short, but topics below it may match.
                goOn(behind: topic, MQTTTopic.separator)
                return false
            }
            let topicEnd = MQTTTopic.levelEnd(topic, from: inTopic)
            let level = UnsafeRawBufferPointer(rebasing: topic[inTopic..<topicEnd])
            if wanted.count == 1, wanted[0] == MQTTTopic.singleLevel {
                lastWild = topicEnd
            } else if !wanted.hasSameBytes(as: level) {
                if RetainedMessages.isBefore(level, wanted) {
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
            goOn(behind: topic, MQTTTopic.separator)
            return true
        }
        leap(topic, lastWild)
        return false
    }

    /// Moves past all topics below the level that the last `+` matches here, because none of them can match.
    private mutating func leap(_ topic: UnsafeRawBufferPointer, _ lastWild: Int?) {
        guard let lastWild else { return isOver = true }
        goOn(behind: UnsafeRawBufferPointer(rebasing: topic[..<lastWild]), Self.past)
    }

    private mutating func goOn(behind topic: UnsafeRawBufferPointer, _ last: UInt8? = nil) {
        next.removeAll(keepingCapacity: true)
        next.append(contentsOf: topic)
        if let last { next.append(last) }
    }
}
