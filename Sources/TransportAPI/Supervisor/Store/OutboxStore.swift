/// Keeps records across processes, for an outbox whose messages must survive the end of the app: an ordered map from
/// keys to bytes. The supervisor writes its messages into it and decides what they mean, so a store needs to know nothing
/// about them. `FileOutboxStore` and `SQLiteOutboxStore` are stores; an app can have its own, such as a table of its
/// database.
///
/// All calls come one at a time from a thread that may block, never from an event loop.
public protocol OutboxStore: Sendable {
    /// Opens the store, and returns all its records in the order of their keys. It is called once, before all other calls.
    /// If it throws, it is called again when the app submits the next message.
    ///
    /// - Throws: `.storageFailed` if the store cannot be read or written, is damaged, was written by another version, or is
    ///   open already, in this process or in another one.
    func open() throws(TransportError) -> [StoredRecord]

    /// Makes all the changes or none, in order. When it returns, they survive the end of the process, and also of the
    /// system if the store promises that.
    ///
    /// - Throws: `.storageFailed` if nothing was changed, for example because the disk is full. The store can be used
    ///   again, and a later call may succeed.
    func write(_ changes: [StoreChange]) throws(TransportError)

    /// Closes the store, so that another process can open it. No call follows but ``open()``.
    func close()
}

/// One record of an ``OutboxStore``.
public struct StoredRecord: Sendable, Hashable {
    /// Identifies a record. Keys are ordered by kind, and then by number.
    public struct Key: Sendable, Hashable, Comparable {
        /// What the record is. The supervisor assigns these numbers.
        public var kind: UInt8
        /// The number of the record among those of its kind.
        public var number: UInt64

        /// Creates a key.
        public init(kind: UInt8, number: UInt64) {
            (self.kind, self.number) = (kind, number)
        }

        /// Orders keys by kind, and then by number.
        public static func < (left: Key, right: Key) -> Bool {
            (left.kind, left.number) < (right.kind, right.number)
        }
    }

    /// Its key.
    public var key: Key
    /// Its bytes, which mean nothing to the store.
    public var value: [UInt8]

    /// Creates a record.
    public init(_ key: Key, _ value: [UInt8]) {
        (self.key, self.value) = (key, value)
    }
}

/// One change of an ``OutboxStore``.
public enum StoreChange: Sendable, Hashable {
    /// Adds a record, or replaces the one of the same key.
    case put(StoredRecord)
    /// Removes the record of this key, if there is one.
    case remove(StoredRecord.Key)
}
