import TransportAPI

/// The keys of all records of a store, with the length of each value and the place where the store has it. Values are not in
/// it, so that an outbox of large messages needs little memory.
struct RecordIndex<Place: Sendable>: Sendable {
    /// One record.
    struct Entry: Sendable {
        var length: Int
        var place: Place
    }

    private(set) var entries: [StoredRecord.Key: Entry] = [:]
    /// The bytes of all records, each counted by ``bytes(ofValue:)``.
    private(set) var bytes = 0

    /// The bytes that a record counts: those of its value, its key and its length in the file.
    static func bytes(ofValue length: Int) -> Int { OutboxLog.putBytes + length }

    /// Adds or replaces a record.
    mutating func put(_ key: StoredRecord.Key, length: Int, at place: Place) {
        remove(key)
        entries[key] = Entry(length: length, place: place)
        bytes += Self.bytes(ofValue: length)
    }

    /// Removes a record if there is one.
    mutating func remove(_ key: StoredRecord.Key) {
        if let old = entries.removeValue(forKey: key) { bytes -= Self.bytes(ofValue: old.length) }
    }

    /// Returns what ``bytes`` is after these changes.
    func bytes(after changes: [StoreChange]) -> Int {
        var bytes = bytes
        // The lengths of the records that the changes so far concern; -1 without a record.
        var lengths: [StoredRecord.Key: Int] = [:]
        func remove(_ key: StoredRecord.Key) {
            let length = lengths[key] ?? entries[key]?.length ?? -1
            if length >= 0 { bytes -= Self.bytes(ofValue: length) }
        }
        for change in changes {
            switch change {
            case .put(let record):
                remove(record.key)
                lengths[record.key] = record.value.count
                bytes += Self.bytes(ofValue: record.value.count)
            case .remove(let key):
                remove(key)
                lengths[key] = -1
            }
        }
        return bytes
    }
}
