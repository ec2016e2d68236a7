import Primitives

/// The messages that were given to an app which acknowledges each of them after it has processed it, in the order of
/// their receipt. Acknowledgements are sent in that order. An early acknowledgement waits until all messages before it
/// are acknowledged.
package struct UnprocessedMessages: Sendable {
    private enum State {
        /// The app has it.
        case given
        /// The app has acknowledged it. Messages before it are not acknowledged yet.
        case acknowledged
        /// The app has released it without an acknowledgement.
        case abandoned
    }

    private struct Entry {
        var key: UInt64
        /// Its sequence number in the session; 0 outside sessions.
        var sequence: UInt64
        var mark: OriginFilter.Mark?
        var givenAt: Instant
        var state: State
    }

    private var entries = Deque<Entry>()
    private var lastKey: UInt64 = 0
    /// The time of the last reminder about the oldest message.
    private var remindedAt: Instant?

    package init() {}

    /// The number of messages in the list. A message leaves it when it and all messages before it are acknowledged.
    package var count: Int { entries.count }

    /// The sequence number of the first message that has one.
    var firstSequence: UInt64? { entries.first { $0.sequence > 0 }?.sequence }

    /// Adds a message that the app is given, and returns the key under which the app will acknowledge it.
    mutating func add(sequence: UInt64, mark: OriginFilter.Mark?, at now: Instant) -> UInt64 {
        lastKey += 1
        entries.append(Entry(key: lastKey, sequence: sequence, mark: mark, givenAt: now, state: .given))
        return lastKey
    }

    /// Adds a message outside sessions, like ``add(sequence:mark:at:)``.
    package mutating func add(at now: Instant) -> UInt64 { add(sequence: 0, mark: nil, at: now) }

    /// Records that the app has acknowledged a message, and returns how many messages have left the list.
    package mutating func settle(_ key: UInt64) -> Int { settle(key, isAbandoned: false)?.released ?? 0 }

    /// Adds a message that the app is not given, and returns how many messages have left the list.
    mutating func addProcessed(at now: Instant) -> Int {
        lastKey += 1
        entries.append(Entry(key: lastKey, sequence: 0, mark: nil, givenAt: now, state: .acknowledged))
        return release()
    }

    /// Records that the app has acknowledged or released a message, and returns how many messages have left the list.
    /// Returns `nil` if there is no such message, or if it was acknowledged before.
    mutating func settle(_ key: UInt64, isAbandoned: Bool) -> (mark: OriginFilter.Mark?, released: Int)? {
        guard let index = firstIndex(where: { $0.key >= key }), entries[index].key == key,
            entries[index].state == .given
        else { return nil }
        entries[index].state = isAbandoned ? .abandoned : .acknowledged
        return (entries[index].mark, release())
    }

    /// Whether the app was given a message under this key and has not settled it.
    func contains(_ key: UInt64) -> Bool {
        guard let index = firstIndex(where: { $0.key >= key }) else { return false }
        return entries[index].key == key && entries[index].state == .given
    }

    /// Returns the key of a message of a session that the app has released and that is given to it again.
    mutating func giveAgain(_ sequence: UInt64, at now: Instant) -> UInt64? {
        guard let index = firstIndex(where: { $0.sequence >= sequence }), entries[index].sequence == sequence,
            entries[index].state == .abandoned
        else { return nil }
        entries[index].state = .given
        entries[index].givenAt = now
        return entries[index].key
    }

    /// Removes all messages. Their later acknowledgements have no effect.
    ///
    /// - Returns: The marks of the messages that were not acknowledged, by their keys.
    @discardableResult
    mutating func removeAll() -> [UInt64: OriginFilter.Mark] {
        var marks: [UInt64: OriginFilter.Mark] = [:]
        for entry in entries where entry.state == .given { marks[entry.key] = entry.mark }
        entries = Deque()
        return marks
    }

    /// The time at which ``remind(at:every:)`` is due.
    func reminder(every interval: Duration) -> Instant? {
        guard let since = entries.first?.givenAt else { return nil }
        return max(since, remindedAt ?? since).advanced(by: interval)
    }

    /// Returns the reminder for the app, once the app has had the oldest message for `interval`.
    mutating func remind(at now: Instant, every interval: Duration) -> UnacknowledgedMessages? {
        guard let oldest = entries.first, let due = reminder(every: interval), due <= now else { return nil }
        remindedAt = now
        return UnacknowledgedMessages(
            count: count,
            oldest: oldest.givenAt.duration(to: now),
            isAbandoned: oldest.state == .abandoned
        )
    }

    private mutating func release() -> Int {
        var released = 0
        while entries.first?.state == .acknowledged {
            _ = entries.popFirst()
            released += 1
        }
        // A server has such a list for each session, so a large one releases its memory.
        if entries.isEmpty, entries.capacity > 64 { entries = Deque() }
        return released
    }

    /// Returns the first entry for which `isReached` is true. It must be true for all later entries, too.
    private func firstIndex(where isReached: (Entry) -> Bool) -> Int? {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if isReached(entries[middle]) { high = middle } else { low = middle + 1 }
        }
        return low < entries.count ? low : nil
    }
}
