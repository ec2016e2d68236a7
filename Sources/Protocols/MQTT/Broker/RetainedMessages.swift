import TransportAPI

/// The last retained message of each topic (MQTT 3.1.1, section 3.3.1.3), in memory and bounded.
///
/// Topics are sorted level by level, the separator before all other bytes, so that whatever lies below a topic follows
/// it in one stretch. A ``RetainedCursor`` leaps over the stretches that its filter can't match, and goes on where it
/// was whatever has come and gone in between.
package struct RetainedMessages: Sendable {
    /// A message, and which one it is of all that were ever kept.
    package struct Entry: Sendable {
        package var publish: MQTTPublish
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
    /// The entries in their order. No run is empty or long, so that a new topic moves few of the others.
    private var runs: [[Entry]] = []
    /// How many topics have a message.
    package private(set) var count = 0
    /// How many bytes their topics and payloads have.
    package private(set) var bytes = 0
    /// The number of the newest message that was to be kept.
    package private(set) var newest: UInt64 = 0

    /// None yet; at most so many topics, and so many bytes of topics and payloads.
    package init(maximumCount: Int = 10_000, maximumBytes: Int = 16 << 20) {
        self.maximumCount = maximumCount
        self.maximumBytes = maximumBytes
    }

    /// Takes a message whose publisher asks for it to be retained; one without bytes deletes its topic's (MQTT-3.3.1-10,
    /// MQTT-3.3.1-11). `false` if there is no room: the topic then has none, rather than an old one.
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

    /// What one step of a cursor comes to.
    package enum Step: Sendable {
        /// A message that matches.
        case found(Entry)
        /// A topic that does not match was passed, and all beside it for which the same holds.
        case passed
        /// There are no more.
        case over
    }

    /// Lets a cursor look at one topic. Costs a search in the sorted topics.
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

    /// No topic has a byte 0 (MQTT-4.7.3-2), so that its rank is free.
    private static func rank(_ byte: UInt8) -> UInt8 { byte == MQTTTopic.separator ? 0 : byte }

    /// Where the first topic lies that is this one or comes behind it.
    private func firstPlace(notBefore key: UnsafeRawBufferPointer) -> Place? {
        func isBefore(_ entry: Entry) -> Bool { entry.publish.topic.withContiguousUTF8 { Self.isBefore($0, key) } }
        let run = Self.first(runs.count) { !isBefore(runs[$0][runs[$0].count - 1]) }
        guard run < runs.count else { return nil }
        return Place(run: run, index: Self.first(runs[run].count) { !isBefore(runs[run][$0]) })
    }

    /// The first of `count` indices of which `holds` is true, as it is of all behind it; `count` if there is none.
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
