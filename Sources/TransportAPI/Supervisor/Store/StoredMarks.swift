/// The marks of the last messages of brokers that the app has processed, as records of a store. With them, the next process
/// drops a message that arrives again because its acknowledgement did not reach the broker. Docs/reference/outbox-store.md
/// defines each byte.
struct StoredMarks: Sendable {
    /// The kind of these records. Their numbers count up.
    static let kind: UInt8 = 3
    /// How many marks are kept. A mark is needed until the message's acknowledgement has reached its broker, and the broker's
    /// that of its sender. So this is more than the messages in flight.
    static let capacity: UInt64 = 4096
    private static let version: UInt8 = 1
    private static let length = 17

    /// The numbers of the marks in the store.
    private var numbers: Range<UInt64> = 1..<1
    /// The marks that the store does not have yet.
    private var waiting: [OriginFilter.Mark] = []

    /// Adds a mark to those that the store does not have yet.
    mutating func append(_ mark: OriginFilter.Mark) { waiting.append(mark) }

    /// How many marks the store does not have yet.
    var waitingCount: Int { waiting.count }

    /// The changes that bring all marks to the store.
    var changes: [StoreChange] {
        var changes: [StoreChange] = []
        for (number, mark) in zip(numbers.upperBound..., waiting) { changes.append(.put(Self.record(number, mark))) }
        for number in numbers.prefix(Int(clamping: excess(after: waiting.count))) {
            changes.append(.remove(Self.key(number)))
        }
        return changes
    }

    /// The store has made the changes of the first `count` marks.
    mutating func wrote(_ count: Int) {
        let excess = excess(after: count)
        waiting.removeFirst(count)
        let end = numbers.upperBound + UInt64(count)
        numbers = min(numbers.lowerBound + excess, numbers.upperBound)..<end
    }

    /// How many of the oldest marks have no place when `count` more are written.
    private func excess(after count: Int) -> UInt64 {
        let total = UInt64(numbers.count + count)
        return total > Self.capacity ? total - Self.capacity : 0
    }

    /// Reads the records of earlier processes, the oldest mark first.
    ///
    /// - Throws: `.storageFailed` if one was written by another version.
    static func read(_ records: [StoredRecord]) throws(TransportError) -> (StoredMarks, [OriginFilter.Mark]) {
        var marks: [OriginFilter.Mark] = []
        marks.reserveCapacity(records.count)
        let records = records.sorted { $0.key.number < $1.key.number }
        for record in records { marks.append(try mark(record)) }
        var stored = StoredMarks()
        if let first = records.first, let last = records.last {
            stored.numbers = first.key.number..<last.key.number + 1
        }
        return (stored, marks)
    }

    private static func mark(_ record: StoredRecord) throws(TransportError) -> OriginFilter.Mark {
        let bytes = record.value
        guard bytes.first == version, bytes.count == length, record.key.number <= SessionNumbering.largest else {
            throw .storedByAnotherVersion(record, "is a mark of another version")
        }
        func word(_ index: Int) -> UInt64 { bytes[1 + index * 8..<9 + index * 8].reduce(0) { $0 << 8 | UInt64($1) } }
        return OriginFilter.Mark(origin: word(0), content: word(1))
    }

    private static func key(_ number: UInt64) -> StoredRecord.Key { StoredRecord.Key(kind: kind, number: number) }

    private static func record(_ number: UInt64, _ mark: OriginFilter.Mark) -> StoredRecord {
        var bytes = [version]
        bytes.reserveCapacity(length)
        for word in [mark.origin, mark.content] {
            withUnsafeBytes(of: word.bigEndian) { bytes.append(contentsOf: $0) }
        }
        return StoredRecord(key(number), bytes)
    }
}
