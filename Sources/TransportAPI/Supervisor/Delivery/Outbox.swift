/// Names one message that a supervisor was given. It is encoded as its number.
public struct MessageID: Sendable, Hashable, Comparable, Codable {
    /// Counted from one.
    public var number: UInt64

    /// The identifier of this number.
    public init(_ number: UInt64) {
        self.number = number
    }

    /// Decodes the number.
    public init(from decoder: any Decoder) throws {
        number = try decoder.singleValueContainer().decode(UInt64.self)
    }

    /// Encodes the number.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(number)
    }

    /// Orders messages by the time at which they were given.
    public static func < (left: MessageID, right: MessageID) -> Bool {
        left.number < right.number
    }
}

/// Messages in their order: first those that have been handed to a connection and are not settled, then those that wait for it.
package struct Outbox: Sendable {
    package struct Entry: Sendable {
        package let id: MessageID
        /// `nil` once the message was given up, though its sequence number is taken.
        package var payload: Payload?
        /// When it ends in `.expired`.
        package let expiry: Instant?
        /// Its place in the session, from when it is sent first in one; 0 before.
        package var sequence: UInt64 = 0
        /// Whether anything of it may have left.
        package var mayHaveLeft = false
        /// When it was handed to that connection.
        package var sentAt = Instant.zero
        /// Whether it was handed to a connection more than once, so that its answer says nothing about the round trip.
        package var isRepeated = false
        /// Whether its caller has been told how it ended, though it is still sent.
        package var isTold = false

        var size: Int { payload?.bytes.count ?? 0 }
    }

    /// What became of a message that was to be put in.
    package enum Admission: Sendable, Hashable {
        case accepted
        /// It is in, and this one had to make room.
        case acceptedInPlaceOf(MessageID)
        /// There is no room now.
        case full
        /// It is larger than the whole outbox.
        case tooLarge
    }

    private var entries: [Entry] = []
    private var head = 0
    /// How many entries, from the oldest, are with a connection.
    package private(set) var sentCount = 0
    /// Bytes of all payloads.
    package private(set) var bytes = 0
    private let configuration: OutboxConfiguration

    package init(_ configuration: OutboxConfiguration) {
        self.configuration = configuration
    }

    package var count: Int { entries.count - head }
    /// How many bytes it may hold.
    package var maximumBytes: Int { configuration.maximumBytes }
    package var isEmpty: Bool { count == 0 }
    package var first: Entry? { isEmpty ? nil : entries[head] }
    package var hasUnsent: Bool { sentCount < count }

    /// The payloads of all messages, the oldest first.
    var payloads: [Payload] { entries[head...].compactMap(\.payload) }

    /// The entry at `position`, counted from the oldest.
    package subscript(position: Int) -> Entry {
        _read { yield entries[head + position] }
        _modify {
            let size = entries[head + position].size
            defer { bytes += entries[head + position].size - size }
            yield &entries[head + position]
        }
    }

    package func hasRoom(for size: Int) -> Bool {
        count < configuration.maximumCount && bytes + size <= configuration.maximumBytes
    }

    /// Puts a message at the end. `.wait` is the caller's to do, who gets `.full`.
    package mutating func append(_ id: MessageID, _ payload: Payload, expiry: Instant?) -> Admission {
        let size = payload.bytes.count
        guard size <= configuration.maximumBytes else { return .tooLarge }
        var displaced: MessageID?
        if !hasRoom(for: size) {
            // What another connection had and lost may have arrived, and its number is taken.
            guard configuration.whenFull == .dropOldest,
                let oldest = (sentCount..<count).first(where: { !self[$0].mayHaveLeft && self[$0].payload != nil }),
                count <= configuration.maximumCount, bytes - self[oldest].size + size <= configuration.maximumBytes
            else { return .full }
            displaced = remove(at: oldest).id
        }
        entries.append(Entry(id: id, payload: payload, expiry: expiry))
        bytes += size
        return displaced.map { .acceptedInPlaceOf($0) } ?? .accepted
    }

    /// The next message that no connection has; from now on one has it.
    ///
    /// - Parameter sequence: the place in the session that it gets if it has none yet; 0 outside sessions.
    package mutating func takeNext(at now: Instant, sequence: UInt64) -> Entry? {
        guard hasUnsent else { return nil }
        sentCount += 1
        let index = head + sentCount - 1
        if entries[index].sequence == 0 { entries[index].sequence = sequence }
        return noteSending(sentCount - 1, at: now)
    }

    /// Notes that the message at `position` is handed to a connection, for the first time or again.
    package mutating func noteSending(_ position: Int, at now: Instant) -> Entry {
        entries[head + position].isRepeated = entries[head + position].mayHaveLeft
        entries[head + position].mayHaveLeft = true
        entries[head + position].sentAt = now
        return entries[head + position]
    }

    /// Where the message is, counted from the oldest.
    package func position(of id: MessageID) -> Int? {
        var (low, high) = (head, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].id < id { low = middle + 1 } else { high = middle }
        }
        return low < entries.count && entries[low].id == id ? low - head : nil
    }

    /// Takes a message out, wherever it is.
    @discardableResult
    package mutating func remove(at position: Int) -> Entry {
        let entry = entries[head + position]
        bytes -= entry.size
        if position < sentCount { sentCount -= 1 }
        if position == 0 {
            entries[head].payload = nil
            head += 1
            if head == entries.count {
                // A server has one for each session, so that a large one gives its memory back.
                if entries.capacity > 64 { entries = [] }
                while entries.popLast() != nil {}
                head = 0
            } else if head >= 64, head * 2 >= entries.count {
                entries.removeFirst(head)
                head = 0
            }
        } else {
            entries.remove(at: head + position)
        }
        return entry
    }

    /// No connection has any of the messages any more: they will be sent again, in their order.
    package mutating func takeBackAll() {
        sentCount = 0
    }

    /// Gives all messages new places in the session, for one that begins anew; those given up are dropped.
    package mutating func forgetSequences() {
        takeBackAll()
        for position in (0..<count).reversed() {
            if self[position].payload == nil { remove(at: position) } else { self[position].sequence = 0 }
        }
    }
}
