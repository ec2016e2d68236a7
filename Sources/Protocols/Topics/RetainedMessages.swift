/// The last retained message of each topic, for example of MQTT (3.1.1, section 3.3.1.3), in memory and limited.
///
/// Topics are sorted level by level. A ``RetainedCursor`` skips the ranges that its filter cannot match. It continues
/// correctly if messages are added or removed between its steps.
package struct RetainedMessages<Syntax: TopicSyntax, Message: TopicMessage>: Sendable {
    // Its code is inlinable, so that another module has no generic calls.

    /// A message with its number in the order of all retained messages.
    package struct Entry: Sendable {
        /// The message.
        package var message: Message
        /// The number of the message. Later messages have higher numbers.
        package var number: UInt64

        @inlinable
        init(message: Message, number: UInt64) {
            (self.message, self.number) = (message, number)
        }
    }

    @usableFromInline
    struct Place {
        @usableFromInline var run: Int
        @usableFromInline var index: Int

        @inlinable
        init(run: Int, index: Int) {
            (self.run, self.index) = (run, index)
        }
    }

    /// The most topics in one run.
    @inlinable static var longestRun: Int { 512 }

    @usableFromInline let maximumCount: Int
    @usableFromInline let maximumBytes: Int
    /// The entries in their order. No run is empty or long, so adding a topic moves few entries.
    @usableFromInline var runs: [[Entry]] = []
    /// How many topics have a message.
    package var count = 0
    /// The bytes of these topics and payloads.
    package var bytes = 0
    /// The number of the newest message that was passed to ``keep(_:)``.
    package var newest: UInt64 = 0

    /// Creates an empty store.
    ///
    /// - Parameters:
    ///   - maximumCount: The most topics.
    ///   - maximumBytes: The most bytes of topics and payloads together.
    @inlinable
    package init(maximumCount: Int = 10_000, maximumBytes: Int = 16 << 20) {
        self.maximumCount = maximumCount
        self.maximumBytes = maximumBytes
    }

    /// Stores a message that is to be retained. A message without bytes deletes the stored one of its topic (MQTT-3.3.1-10,
    /// MQTT-3.3.1-11). Returns `false` if there is no room. The topic then has no message, because an old one would be wrong.
    @inlinable
    package mutating func keep(_ message: Message) -> Bool {
        newest += 1
        let place = message.topic.withContiguousUTF8 { firstPlace(notBefore: $0) }
        if let place, runs[place.run][place.index].message.topic.utf8.elementsEqual(message.topic.utf8) {
            bytes -= Self.size(runs[place.run][place.index].message)
            guard !message.payload.isEmpty, bytes + Self.size(message) <= maximumBytes else {
                remove(at: place)
                return message.payload.isEmpty
            }
            runs[place.run][place.index] = Entry(message: message, number: newest)
        } else {
            guard !message.payload.isEmpty else { return true }
            guard count < maximumCount, bytes + Self.size(message) <= maximumBytes else { return false }
            insert(Entry(message: message, number: newest), at: place)
        }
        bytes += Self.size(message)
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
    @inlinable
    package func step(_ cursor: inout RetainedCursor<Syntax>) -> Step {
        guard !cursor.isOver, let place = cursor.next.withUnsafeBytes({ firstPlace(notBefore: $0) }) else {
            return .over
        }
        let entry = runs[place.run][place.index]
        if entry.message.topic.withContiguousUTF8({ cursor.matches($0) }) { return .found(entry) }
        return cursor.isOver ? .over : .passed
    }

    @inlinable
    static func size(_ message: Message) -> Int { message.topic.utf8.count + message.payload.count }

    // MARK: The order

    /// The place of the first topic that is `key` or comes after it.
    @inlinable
    func firstPlace(notBefore key: UnsafeRawBufferPointer) -> Place? {
        func isBefore(_ entry: Entry) -> Bool { entry.message.topic.withContiguousUTF8 { Syntax.isBefore($0, key) } }
        let run = Self.first(runs.count) { !isBefore(runs[$0][runs[$0].count - 1]) }
        guard run < runs.count else { return nil }
        return Place(run: run, index: Self.first(runs[run].count) { !isBefore(runs[run][$0]) })
    }

    /// Returns the first of `count` indices for which `holds` is true, or `count` if there is none. `holds` must be
    /// true for all indices after that.
    @inlinable
    static func first(_ count: Int, _ holds: (Int) -> Bool) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if holds(middle) { high = middle } else { low = middle + 1 }
        }
        return low
    }

    @inlinable
    mutating func insert(_ entry: Entry, at place: Place?) {
        if runs.isEmpty { runs.append([]) }
        let place = place ?? Place(run: runs.count - 1, index: runs[runs.count - 1].count)
        runs[place.run].insert(entry, at: place.index)
        count += 1
        guard runs[place.run].count > Self.longestRun else { return }
        let behind = Array(runs[place.run][(Self.longestRun / 2)...])
        runs[place.run].removeLast(behind.count)
        runs.insert(behind, at: place.run + 1)
    }

    @inlinable
    mutating func remove(at place: Place) {
        runs[place.run].remove(at: place.index)
        if runs[place.run].isEmpty { runs.remove(at: place.run) }
        count -= 1
    }
}
