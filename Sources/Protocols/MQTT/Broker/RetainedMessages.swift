import TransportAPI

/// The last retained message of each topic (MQTT 3.1.1, section 3.3.1.3), in memory and limited.
///
/// Topics are sorted level by level. The separator comes before all other bytes, so all topics below a topic follow it
/// directly. A ``RetainedCursor`` skips the ranges that its filter cannot match. It continues correctly if messages are
/// added or removed between its steps.
package struct RetainedMessages: Sendable {
    /// A message with its number in the order of all retained messages.
    package struct Entry: Sendable {
        /// The message.
        package var publish: MQTTPublish
        /// The number of the message. Later messages have higher numbers.
        package var number: UInt64
    }

    private struct Place {
        var run: Int
        var index: Int
    }

    /// The most topics in one run.
    private static let longestRun = 512

    private let maximumCount: Int
    private let maximumBytes: Int
    /// The entries in their order. No run is empty or long, so adding a topic moves few entries.
    private var runs: [[Entry]] = []
    /// How many topics have a message.
    package private(set) var count = 0
    /// The bytes of these topics and payloads.
    package private(set) var bytes = 0
    /// The number of the newest message that was passed to ``keep(_:)``.
    package private(set) var newest: UInt64 = 0

    /// Creates an empty store.
    ///
    /// - Parameters:
    ///   - maximumCount: The most topics.
    ///   - maximumBytes: The most bytes of topics and payloads together.
    package init(maximumCount: Int = 10_000, maximumBytes: Int = 16 << 20) {
        self.maximumCount = maximumCount
        self.maximumBytes = maximumBytes
    }

    /// Stores a message with the flag RETAIN. A message without bytes deletes the stored one of its topic
    /// (MQTT-3.3.1-10, MQTT-3.3.1-11). Returns `false` if there is no room. The topic then has no message, because an
    /// old one would be wrong.
    package mutating func keep(_ publish: MQTTPublish) -> Bool {
        newest += 1
        let place = publish.topic.withContiguousUTF8 { firstPlace(notBefore: $0) }
        if let place, runs[place.run][place.index].publish.topic.utf8.elementsEqual(publish.topic.utf8) {
            bytes -= Self.size(runs[place.run][place.index].publish)
            guard !publish.payload.isEmpty, bytes + Self.size(publish) <= maximumBytes else {
                remove(at: place)
                return publish.payload.isEmpty
            }
            runs[place.run][place.index] = Entry(publish: publish, number: newest)
        } else {
            guard !publish.payload.isEmpty else { return true }
            guard count < maximumCount, bytes + Self.size(publish) <= maximumBytes else { return false }
            insert(Entry(publish: publish, number: newest), at: place)
        }
        bytes += Self.size(publish)
        return true
    }

    /// The result of one step of a cursor.
    package enum Step: Sendable {
        /// The cursor has found a message that matches.
        case found(Entry)
        /// The cursor has passed a topic that does not match, and its neighbours that cannot match for the same reason.
        case passed
        /// There are no more messages that match.
        case over
    }

    /// Checks one topic for a cursor. It costs a search in the sorted topics.
    package func step(_ cursor: inout RetainedCursor) -> Step {
        guard !cursor.isOver, let place = cursor.next.withUnsafeBytes({ firstPlace(notBefore: $0) }) else {
            return .over
        }
        let entry = runs[place.run][place.index]
        if entry.publish.topic.withContiguousUTF8({ cursor.matches($0) }) { return .found(entry) }
        return cursor.isOver ? .over : .passed
    }

    private static func size(_ publish: MQTTPublish) -> Int { publish.topic.utf8.count + publish.payload.count }

    // MARK: The order

    /// Whether a topic comes before another one.
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

    /// The rank of a byte in the order. No topic has a byte 0 (MQTT-4.7.3-2), so that rank is free for the separator.
    private static func rank(_ byte: UInt8) -> UInt8 { byte == MQTTTopic.separator ? 0 : byte }

    /// The place of the first topic that is `key` or comes after it.
    private func firstPlace(notBefore key: UnsafeRawBufferPointer) -> Place? {
        func isBefore(_ entry: Entry) -> Bool { entry.publish.topic.withContiguousUTF8 { Self.isBefore($0, key) } }
        let run = Self.first(runs.count) { !isBefore(runs[$0][runs[$0].count - 1]) }
        guard run < runs.count else { return nil }
        return Place(run: run, index: Self.first(runs[run].count) { !isBefore(runs[run][$0]) })
    }

    /// Returns the first of `count` indices for which `holds` is true, or `count` if there is none. `holds` must be
    /// true for all indices after that.
    private static func first(_ count: Int, _ holds: (Int) -> Bool) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if holds(middle) { high = middle } else { low = middle + 1 }
        }
        return low
    }

    private mutating func insert(_ entry: Entry, at place: Place?) {
        if runs.isEmpty { runs.append([]) }
        let place = place ?? Place(run: runs.count - 1, index: runs[runs.count - 1].count)
        runs[place.run].insert(entry, at: place.index)
        count += 1
        guard runs[place.run].count > Self.longestRun else { return }
        let behind = Array(runs[place.run][(Self.longestRun / 2)...])
        runs[place.run].removeLast(behind.count)
        runs.insert(behind, at: place.run + 1)
    }

    private mutating func remove(at place: Place) {
        runs[place.run].remove(at: place.index)
        if runs[place.run].isEmpty { runs.remove(at: place.run) }
        count -= 1
    }
}
