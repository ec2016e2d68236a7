/// A queue of messages: first those that were handed to a connection and are not settled, then those that wait for a
/// connection.
package struct Outbox: Sendable {
    /// One message of the outbox.
    package struct Entry: Sendable {
        package let id: MessageID
        /// `nil` once the message was given up, while its number is still needed.
        package fileprivate(set) var payload: Payload?
        /// Whether a part of it may have left over a connection that has settled it since.
        package fileprivate(set) var mayHaveLeft = false
        /// Whether it was handed to a connection more than once, so that its acknowledgement gives no sample of the
        /// round trip.
        package fileprivate(set) var isRepeated = false
        /// Whether its outcome was reported to its caller although it is still sent.
        package fileprivate(set) var isReported = false
        /// The time at which it ends in `.expired`.
        package let expiry: Instant?
        /// In a session, the first number that it takes once it was sent. The last one is that of its identifier, and those
        /// before it are of messages that were removed before they were sent. 0 before that.
        package fileprivate(set) var firstNumber: UInt64 = 0
        /// The connection that was handed it and has not settled it; 0 if there is none. Whether a part of it has left
        /// is not known until then, because a connection may keep a message that waits for room.
        package fileprivate(set) var handedTo = 0
        /// The time at which it was last handed to a connection.
        package fileprivate(set) var sentAt = Instant.zero

        fileprivate init(_ id: MessageID, _ payload: Payload, expiry: Instant?, mayHaveLeft: Bool) {
            self.id = id
            self.payload = payload
            self.expiry = expiry
            self.mayHaveLeft = mayHaveLeft
        }

        var size: Int { payload?.bytes.count ?? 0 }
        /// Whether no part of it has left, as far as its connections have settled it.
        package var isUnsent: Bool { !mayHaveLeft && handedTo == 0 }
        /// Whether it can be removed without a trace: it is unsent, and the peer does not wait for its number.
        var isRemovable: Bool { isUnsent && firstNumber == 0 && payload != nil }
        /// Whether its caller still waits for its outcome.
        var isAwaited: Bool { payload != nil && !isReported }

        /// Records that it is handed to a connection, for the first time or again.
        fileprivate mutating func hand(to connection: Int, at now: Instant) -> Handed {
            isRepeated = !isUnsent
            mayHaveLeft = isRepeated
            handedTo = payload == nil ? 0 : connection
            sentAt = now
            return Handed(id: id, payload: payload, isRepeated: isRepeated, firstNumber: firstNumber)
        }

        /// Returns what is needed of it after its removal. It is `mutating` so that the entry is read in its place and not
        /// copied.
        fileprivate mutating func removed() -> Removed {
            Removed(
                id: id,
                isUnsent: !mayHaveLeft && handedTo == 0,
                isRemovable: !mayHaveLeft && handedTo == 0 && firstNumber == 0 && payload != nil,
                isRepeated: isRepeated,
                isAwaited: payload != nil && !isReported
            )
        }

        /// Drops its payload, and returns the number of bytes.
        fileprivate mutating func dropPayload() -> Int {
            guard let bytes = payload?.bytes.count else { return 0 }
            payload = nil
            return bytes
        }

        /// Records the outcome that a connection has reported.
        fileprivate mutating func settle(by connection: Int, _ outcome: SendOutcome) {
            guard handedTo == connection else { return }
            handedTo = 0
            if case .rejected = outcome { return }
            mayHaveLeft = true
        }
    }

    /// A message as a connection gets it.
    package struct Handed: Sendable {
        package let id: MessageID
        /// `nil` if the message was given up.
        package let payload: Payload?
        /// Whether a connection was handed it before, or may have been in an earlier process.
        package let isRepeated: Bool
        /// See ``Entry``.
        package let firstNumber: UInt64
    }

    /// The few properties of a removed message that are needed afterwards. A copy of the whole entry would cost more.
    package struct Removed: Sendable {
        package let id: MessageID
        /// See ``Entry``.
        let isUnsent: Bool
        /// See ``Entry``.
        let isRemovable: Bool
        /// See ``Entry``.
        let isRepeated: Bool
        /// See ``Entry``.
        let isAwaited: Bool

        /// Reports the outcome to its caller, unless one was reported before.
        func finish(_ outcome: SendOutcome, _ actions: inout [SupervisorAction]) {
            if isAwaited { actions.append(.finish(id, outcome)) }
        }
    }

    /// The result of adding a message.
    package enum Admission: Sendable, Hashable {
        /// The message was added.
        case accepted
        /// The message was added, and this one was dropped to make room.
        case acceptedInPlaceOf(MessageID)
        /// The outbox is full.
        case full
        /// The message is larger than the whole outbox.
        case tooLarge
    }

    private var entries: [Entry] = []
    private var head = 0
    /// The number of entries, from the oldest, that were handed to a connection.
    package private(set) var sentCount = 0
    /// The number of the newest entries that the store does not have yet. They are not handed to a connection.
    private var unstoredCount = 0
    /// The number of bytes of all payloads.
    package private(set) var bytes = 0
    private let configuration: OutboxConfiguration
    private let isStored: Bool

    /// - Parameter isStored: Whether a message is handed to a connection only once the store has it.
    package init(_ configuration: OutboxConfiguration, isStored: Bool = false) {
        self.configuration = configuration
        self.isStored = isStored
    }

    package var count: Int { entries.count - head }
    /// The maximum number of bytes.
    package var maximumBytes: Int { configuration.maximumBytes }
    package var isEmpty: Bool { count == 0 }
    /// Whether a message can be handed to a connection that was not.
    package var hasUnsent: Bool { sentCount < storedCount }
    private var storedCount: Int { count - unstoredCount }

    /// The payloads of all messages, the oldest first.
    var payloads: [Payload] { entries[head...].compactMap(\.payload) }

    /// The entry at `position`, counted from the oldest.
    package subscript(position: Int) -> Entry {
        _read { yield entries[head + position] }
    }

    /// The time at which the oldest message that has not ended ends in `.expired`. Entries without a payload have ended
    /// already. There are few of them, and they come first.
    var nextExpiry: Instant? {
        var index = head
        while index < entries.count {
            if entries[index].payload != nil { return entries[index].expiry }
            index += 1
        }
        return nil
    }

    /// The time at which a message that is given now ends in `.expired`.
    func expiry(from now: Instant) -> Instant? { configuration.maximumAge.map { now.advanced(by: $0) } }

    package func hasRoom(for size: Int) -> Bool {
        count < configuration.maximumCount && bytes + size <= configuration.maximumBytes
    }

    /// Adds a message at the end. With the policy `.wait` it returns `.full`, and the caller waits.
    ///
    /// - Parameter mayHaveLeft: Whether an earlier process may have sent it.
    package mutating func append(
        _ id: MessageID,
        _ payload: Payload,
        expiry: Instant?,
        mayHaveLeft: Bool = false
    ) -> Admission {
        let size = payload.bytes.count
        guard size <= configuration.maximumBytes else { return .tooLarge }
        var displaced: MessageID?
        if !hasRoom(for: size) {
            // A message that was handed to an earlier connection may have arrived, and its number is taken.
            guard configuration.whenFull == .dropOldest,
                let oldest = (sentCount..<count).first(where: { self[$0].isRemovable }),
                count <= configuration.maximumCount, bytes - self[oldest].size + size <= configuration.maximumBytes
            else { return .full }
            displaced = remove(at: oldest).id
        }
        entries.append(Entry(id, payload, expiry: expiry, mayHaveLeft: mayHaveLeft))
        bytes += size
        if isStored { unstoredCount += 1 }
        return displaced.map { .acceptedInPlaceOf($0) } ?? .accepted
    }

    /// Returns the next message that was not handed to a connection, and marks it as handed over.
    ///
    /// - Parameters:
    ///   - connection: The connection that gets it.
    ///   - now: The current time.
    ///   - firstNumber: In a session, the number after the last one that was sent; 0 outside sessions.
    package mutating func handNext(to connection: Int, at now: Instant, firstNumber: UInt64) -> Handed? {
        guard hasUnsent else { return nil }
        let position = sentCount
        sentCount += 1
        if entries[head + position].firstNumber == 0 { entries[head + position].firstNumber = firstNumber }
        return entries[head + position].hand(to: connection, at: now)
    }

    /// Records that the message at `position` is handed to a connection again.
    mutating func handAgain(_ position: Int, to connection: Int, at now: Instant) -> Handed {
        entries[head + position].hand(to: connection, at: now)
    }

    /// Records the outcome that a connection has reported for the message at `position`.
    mutating func noteSettled(_ position: Int, by connection: Int, _ outcome: SendOutcome) {
        entries[head + position].settle(by: connection, outcome)
    }

    /// Records that the outcome of the message at `position` was reported, although it is still sent.
    mutating func noteReported(_ position: Int) {
        entries[head + position].isReported = true
    }

    /// Drops the payload of the message at `position`. Its number is still needed.
    mutating func giveUp(_ position: Int) {
        bytes -= entries[head + position].dropPayload()
    }

    /// Returns the position of the message, counted from the oldest.
    package func position(of id: MessageID) -> Int? {
        let index = firstIndex(notBefore: id)
        return index < entries.count && entries[index].id == id ? index - head : nil
    }

    /// Returns the index of the oldest entry whose identifier is not smaller than `id`.
    private func firstIndex(notBefore id: MessageID) -> Int {
        var (low, high) = (head, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].id < id { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Records that the store has this message and all before it.
    mutating func stored(through id: MessageID) {
        let index = firstIndex(notBefore: id)
        let end = index < entries.count && entries[index].id == id ? index + 1 : index
        unstoredCount = min(unstoredCount, entries.count - end)
    }

    /// Whether the store does not have the message at `position` yet.
    func isUnstored(_ position: Int) -> Bool { position >= storedCount }

    /// Removes the message at `position`. The messages on the shorter side of it move.
    @discardableResult
    package mutating func remove(at position: Int) -> Removed {
        let removed = entries[head + position].removed()
        bytes -= entries[head + position].dropPayload()
        if position >= storedCount { unstoredCount -= 1 }
        if position < sentCount { sentCount -= 1 }
        if position < count - position {
            for index in stride(from: head + position, to: head, by: -1) { entries.swapAt(index, index - 1) }
            moveHead(to: head + 1)
        } else {
            entries.remove(at: head + position)
        }
        return removed
    }

    /// Removes those of the oldest `number` messages that `isRemoved` selects, in one pass, however many they are.
    ///
    /// - Returns: The removed messages, the oldest first.
    mutating func removeAll(amongOldest number: Int, where isRemoved: (borrowing Entry) -> Bool) -> [Removed] {
        var removed: [Removed] = []
        let storedCount = storedCount
        // The messages that stay move towards the newer ones, which keep their places.
        var place = head + number
        for index in (head..<head + number).reversed() {
            if isRemoved(entries[index]) {
                removed.append(entries[index].removed())
                bytes -= entries[index].dropPayload()
                if index - head < sentCount { sentCount -= 1 }
                if index - head >= storedCount { unstoredCount -= 1 }
            } else {
                place -= 1
                if place != index { entries.swapAt(place, index) }
            }
        }
        moveHead(to: place)
        return removed.reversed()
    }

    /// Drops the entries before `index`, whose payloads are gone already.
    private mutating func moveHead(to index: Int) {
        head = index
        if head == entries.count {
            // A server has an outbox for each session, so a large one releases its memory.
            if entries.capacity > 64 { entries = [] }
            while entries.popLast() != nil {}
            head = 0
        } else if head >= 64, head * 2 >= entries.count {
            entries.removeFirst(head)
            head = 0
        }
    }

    /// Marks all messages as not handed over, so that they are sent again, in order.
    package mutating func takeBackAll() {
        sentCount = 0
    }

    /// Marks all messages as never sent in the session, for one that begins again. Messages that were given up are dropped.
    package mutating func forgetNumbers() {
        takeBackAll()
        _ = removeAll(amongOldest: count) { $0.payload == nil }
        for index in head..<entries.count { entries[index].firstNumber = 0 }
    }
}
