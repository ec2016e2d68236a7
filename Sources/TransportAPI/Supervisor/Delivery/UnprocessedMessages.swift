/// What an app was given to acknowledge, and has not acknowledged.
public struct UnacknowledgedMessages: Sendable, Hashable {
    /// How many messages: also those that were acknowledged early, and wait for an earlier one.
    public var count: Int
    /// How long the app has had the oldest of them.
    public var oldest: Duration
    /// The app has let go of the oldest without acknowledging it. The next connection brings it again; until then no
    /// message behind it is acknowledged to the peer.
    public var isAbandoned: Bool
}

/// Messages that were given to an app which acknowledges each of them once it has processed it, in the order of their receipt.
/// Acknowledgements leave in that order: one that comes early is held until those before it have come.
package struct UnprocessedMessages: Sendable {
    private enum State {
        case given
        /// It was processed, and waits for those before it.
        case acknowledged
        /// The app has let go of it without an acknowledgement.
        case abandoned
    }

    private struct Entry {
        var key: UInt64
        /// Its place in the session; 0 outside of sessions.
        var sequence: UInt64
        var mark: OriginFilter.Mark?
        var givenAt: Instant
        var state: State
    }

    private var entries: [Entry] = []
    private var head = 0
    private var lastKey: UInt64 = 0
    /// When the app was last reminded of the oldest.
    private var remindedAt: Instant?

    /// How many messages have not left the list: each until it and those before it were acknowledged.
    package var count: Int { entries.count - head }

    /// The place in the session of the first of them that has one.
    var firstSequence: UInt64? { entries[head...].first { $0.sequence > 0 }?.sequence }

    /// Adds a message that the app is given; gives the key under which it will acknowledge it.
    mutating func add(sequence: UInt64, mark: OriginFilter.Mark?, at now: Instant) -> UInt64 {
        lastKey += 1
        entries.append(Entry(key: lastKey, sequence: sequence, mark: mark, givenAt: now, state: .given))
        return lastKey
    }

    /// Adds a message that the app is not given; how many messages have left the list by it.
    mutating func addProcessed(at now: Instant) -> Int {
        lastKey += 1
        entries.append(Entry(key: lastKey, sequence: 0, mark: nil, givenAt: now, state: .acknowledged))
        return release()
    }

    /// The app has acknowledged a message, or has let go of it; how many messages have left the list by it. `nil` if
    /// there is no such message, or if it was acknowledged before.
    mutating func settle(_ key: UInt64, isAbandoned: Bool) -> (mark: OriginFilter.Mark?, released: Int)? {
        guard let index = firstIndex(where: { $0.key >= key }), entries[index].key == key,
            entries[index].state == .given
        else { return nil }
        entries[index].state = isAbandoned ? .abandoned : .acknowledged
        return (entries[index].mark, release())
    }

    /// The key of a message of a session that the app has let go of, and which is given to it again.
    mutating func giveAgain(_ sequence: UInt64, at now: Instant) -> UInt64? {
        guard let index = firstIndex(where: { $0.sequence >= sequence }), entries[index].sequence == sequence,
            entries[index].state == .abandoned
        else { return nil }
        entries[index].state = .given
        entries[index].givenAt = now
        return entries[index].key
    }

    /// Forgets all of them: their acknowledgements find none.
    ///
    /// - Returns: the marks of those that were not acknowledged, by their keys.
    @discardableResult
    mutating func removeAll() -> [UInt64: OriginFilter.Mark] {
        var marks: [UInt64: OriginFilter.Mark] = [:]
        for entry in entries[head...] where entry.state == .given { marks[entry.key] = entry.mark }
        (entries, head) = ([], 0)
        return marks
    }

    /// When ``remind(at:every:)`` is due.
    func reminder(every interval: Duration) -> Instant? {
        guard count > 0 else { return nil }
        let since = entries[head].givenAt
        return max(since, remindedAt ?? since).advanced(by: interval)
    }

    /// What to remind the app of, once it has had the oldest message for so long.
    mutating func remind(at now: Instant, every interval: Duration) -> UnacknowledgedMessages? {
        guard let due = reminder(every: interval), due <= now else { return nil }
        remindedAt = now
        let oldest = entries[head]
        return UnacknowledgedMessages(
            count: count,
            oldest: oldest.givenAt.duration(to: now),
            isAbandoned: oldest.state == .abandoned
        )
    }

    private mutating func release() -> Int {
        let first = head
        while head < entries.count, entries[head].state == .acknowledged { head += 1 }
        let released = head - first
        if head == entries.count {
            entries.removeAll(keepingCapacity: entries.capacity <= 64)
            head = 0
        } else if head >= 64, head * 2 >= entries.count {
            entries.removeFirst(head)
            head = 0
        }
        return released
    }

    /// The first entry for which `isReached` holds, which it does for all behind that.
    private func firstIndex(where isReached: (Entry) -> Bool) -> Int? {
        var (low, high) = (head, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if isReached(entries[middle]) { high = middle } else { low = middle + 1 }
        }
        return low < entries.count ? low : nil
    }
}
