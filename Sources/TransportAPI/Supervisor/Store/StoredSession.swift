/// What a new process needs to continue the session of an earlier one, as a record of its store.
/// Docs/reference/outbox-store.md defines each byte.
package struct StoredSession: Sendable, Hashable {
    /// The identifier of the client. It is a secret.
    var identity: SessionID
    /// The sender of the client's messages (``SessionNumbering/sender``).
    var sender: UInt64
    /// The key of the marks of messages from brokers (``StoredMarks``).
    var markKey: OriginFilter.Key
    /// The number of processes that have used the session, this one included.
    var launch: UInt16 = 0
    /// The incarnation that the server has given it; 0 if there is none.
    var incarnation: UInt64 = 0
    /// The number up to which the app has processed the server's messages of that incarnation.
    var processed: UInt64 = 0
    /// No message has a greater number. Numbers are reserved in blocks, so that not every message changes the record.
    var lastNumber: UInt64 = 0

    static let key = StoredRecord.Key(kind: 2, number: 0)
    /// How many numbers are reserved at a time. The next process leaves out the rest, and the peer's window has room for that.
    private static let block = SessionReceiver.window / 2
    private static let version: UInt8 = 1
    private static let length = 67

    init(identity: SessionID, sender: UInt64, markKey: OriginFilter.Key) {
        (self.identity, self.sender, self.markKey) = (identity, sender, markKey)
    }

    /// The record of this session.
    var record: StoredRecord {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.length)
        bytes.append(Self.version)
        withUnsafeBytes(of: launch.bigEndian) { bytes.append(contentsOf: $0) }
        for word in [
            identity.high, identity.low, sender, incarnation, processed, lastNumber, markKey.high, markKey.low,
        ] {
            withUnsafeBytes(of: word.bigEndian) { bytes.append(contentsOf: $0) }
        }
        return StoredRecord(Self.key, bytes)
    }

    /// Reads a record.
    ///
    /// - Throws: `.storageFailed` if it was written by another version.
    init(_ record: StoredRecord) throws(TransportError) {
        let bytes = record.value
        guard record.key == Self.key, bytes.first == Self.version, bytes.count == Self.length else {
            throw .storedByAnotherVersion(record, "is a session of another version")
        }
        func word(_ index: Int) -> UInt64 {
            bytes[3 + index * 8..<11 + index * 8].reduce(0) { $0 << 8 | UInt64($1) }
        }
        self.init(
            identity: SessionID(high: word(0), low: word(1)),
            sender: word(2),
            markKey: OriginFilter.Key(high: word(6), low: word(7))
        )
        launch = UInt16(bytes[1]) << 8 | UInt16(bytes[2])
        (incarnation, processed, lastNumber) = (word(3), word(4), word(5))
        guard max(processed, lastNumber) <= SessionNumbering.largest else {
            throw .storedByAnotherVersion(record, "has a number that no message has")
        }
    }

    /// Begins another process of the session. One that has had so many that they cannot be counted begins again under the
    /// identifier of `other`.
    mutating func launched(or other: StoredSession) {
        if launch == .max { begin(as: other) }
        launch += 1
    }

    /// Begins again, under the identifier of `other`. Messages keep their sender and their numbers.
    mutating func begin(as other: StoredSession) {
        identity = other.identity
        launch = 0
        incarnation = 0
        processed = 0
    }

    /// Reserves numbers up to this one and some more.
    ///
    /// - Returns: Whether this has changed the session.
    mutating func reserve(through number: UInt64) -> Bool {
        guard number > lastNumber else { return false }
        lastNumber = min(number + Self.block, SessionNumbering.largest)
        return true
    }
}

extension TransportError {
    /// The error of a record that this version cannot read.
    static func storedByAnotherVersion(_ record: StoredRecord, _ what: String) -> TransportError {
        let place = "record \(record.key.number) of kind \(record.key.kind) in the store"
        return TransportError(
            .storageFailed,
            .configure,
            "\(place) \(what); use another store, or this app's newer version"
        )
    }
}
