import TransportAPI

/// How far the search for retained messages has come for one filter. Topics that are kept while it is under way are found if
/// they lie ahead of it.
package struct RetainedCursor: Sendable {
    /// The well-formed filter, in UTF-8.
    package let filter: [UInt8]
    /// The first topic, in the order of ``RetainedMessages``, that may match and was not looked at; there need be none of it.
    private(set) var next: [UInt8]
    /// No further topic can match.
    private(set) var isOver = false

    /// The least byte that follows the separator in the order, so that behind a topic it leads past all that lies below.
    private static let past: UInt8 = 1

    /// At the first topic that may match a well-formed filter: the one of its levels before the first wildcard.
    package init(_ filter: [UInt8]) {
        self.filter = filter
        next = filter
        guard let wildcard = filter.firstIndex(where: { $0 == MQTTTopic.singleLevel || $0 == MQTTTopic.multiLevel })
        else {
            return
        }
        next.removeLast(filter.count - max(wildcard - 1, 0))
    }

    /// Whether the topic at which the search has arrived matches; moves on to the next one that may.
    mutating func matches(_ topic: UnsafeRawBufferPointer) -> Bool {
        let filter = filter
        return filter.withUnsafeBytes { matches($0, topic) }
    }

    private mutating func matches(_ filter: UnsafeRawBufferPointer, _ topic: UnsafeRawBufferPointer) -> Bool {
        let isWild = filter.first == MQTTTopic.singleLevel || filter.first == MQTTTopic.multiLevel
        if isWild, topic.first == MQTTTopic.system {
            // The server's own topics are not for wildcards at the first level (MQTT-4.7.2-1).
            next = [MQTTTopic.system + 1]
            return false
        }
        var (inFilter, inTopic) = (0, 0)
        /// Where the last level ends that a `+` stands for.
        var lastWild: Int?
        while inFilter <= filter.count {
            let filterEnd = MQTTTopic.levelEnd(filter, from: inFilter)
            let wanted = UnsafeRawBufferPointer(rebasing: filter[inFilter..<filterEnd])
            if wanted.count == 1, wanted[0] == MQTTTopic.multiLevel {
                goOn(behind: topic, MQTTTopic.separator)
                return true
            }
            guard inTopic <= topic.count else {
                // The topic is too short; what lies below it may not be.
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

    /// Nothing more can match below the level that a `+` stands for here: on to the next level in its place.
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
