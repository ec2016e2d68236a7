import SocketIO
import TransportAPI

/// Keeps the records of an outbox in a database of SQLite, for apps that use SQLite's tools to look at it, copy it or repair it.
/// A ``FileOutboxStore`` writes less and needs no library.
///
/// SQLite is loaded when the store is opened. A write is one transaction. The database is in the mode with a write-ahead log, so
/// beside the file `outbox` there may be a file `outbox-wal`; both belong together. No other connection can open the database
/// meanwhile. SQLite has no checksums of values, so a damaged disk may change a message unnoticed.
public final class SQLiteOutboxStore: OutboxStore {
    /// What `PRAGMA application_id` has: "IMOB". A database of another application is not touched.
    static let applicationID: Int64 = 0x494d_4f42
    /// The version of the table, in `PRAGMA user_version`.
    static let version: Int64 = 1

    /// What the threads of the outbox and of the syncs share. The lock is held while the disk works, because both threads may
    /// wait for it.
    private struct State {
        var database: Database?
        var background: BackgroundSync?
    }

    /// An open database with its statements.
    private final class Database {
        let connection: SQLiteConnection
        let begin: SQLiteConnection.Statement
        let commit: SQLiteConnection.Statement
        let put: SQLiteConnection.Statement
        let remove: SQLiteConnection.Statement
        var index = RecordIndex<Void>()
        /// Whether the last sync in the background has failed.
        var hasFailed = false

        init(_ connection: SQLiteConnection) throws(SQLiteConnection.Failure) {
            self.connection = connection
            begin = try connection.prepare("BEGIN IMMEDIATE")
            commit = try connection.prepare("COMMIT")
            put = try connection.prepare("INSERT OR REPLACE INTO records (kind, number, value) VALUES (?, ?, ?)")
            remove = try connection.prepare("DELETE FROM records WHERE kind = ? AND number = ?")
        }

        func write(_ changes: [StoreChange]) throws(SQLiteConnection.Failure) {
            try begin.run()
            do throws(SQLiteConnection.Failure) {
                for change in changes {
                    switch change {
                    case .put(let record):
                        try bind(record.key, to: put)
                        try put.run(binding: 3, record.value)
                    case .remove(let key):
                        try bind(key, to: remove)
                        try remove.run()
                    }
                }
                try commit.run()
            } catch {
                connection.rollBack()
                throw error
            }
            for change in changes {
                switch change {
                case .put(let record): index.put(record.key, length: record.value.count, at: ())
                case .remove(let key): index.remove(key)
                }
            }
        }

        func sync() throws(SQLiteConnection.Failure) {
            hasFailed = true
            try connection.checkpoint()
            hasFailed = false
        }

        private func bind(
            _ key: StoredRecord.Key,
            to statement: SQLiteConnection.Statement
        ) throws(SQLiteConnection.Failure) {
            try statement.bind(1, Int64(key.kind))
            try statement.bind(2, Int64(bitPattern: key.number))
        }
    }

    private let path: String
    private let sync: StoreSync
    private let maximumBytes: Int
    private let library: SQLiteLibrary?
    private let state = Locked(State())

    /// Describes a store. Nothing happens before ``open()``.
    ///
    /// - Parameters:
    ///   - path: The path of the database, which is created if it does not exist. Its folder must exist.
    ///   - sync: When SQLite syncs to the disk. Default: within a second. With `none`, SQLite still syncs before it moves its log
    ///     to the database, because otherwise a power cut could damage the whole database.
    ///   - maximumBytes: The most bytes of all records. A record counts 14 bytes more than its value. A write beyond it fails.
    ///     Default 256 MiB; at least 1.
    public convenience init(path: String, sync: StoreSync = .default, maximumBytes: Int = 256 << 20) {
        self.init(path: path, sync: sync, maximumBytes: maximumBytes, library: .shared)
    }

    /// Why no such store can be opened on this machine; `nil` if SQLite is there.
    package static var refusal: String? { SQLiteLibrary.shared == nil ? SQLiteLibrary.missing : nil }

    private var file: SQLiteFile {
        SQLiteFile(
            path: path,
            sync: sync,
            applicationID: Self.applicationID,
            version: Self.version,
            content: "an outbox",
            schema: [
                """
                CREATE TABLE records (kind INTEGER NOT NULL, number INTEGER NOT NULL, value BLOB NOT NULL, \
                PRIMARY KEY (kind, number)) WITHOUT ROWID
                """
            ]
        )
    }

    /// Describes a store that uses this SQLite.
    init(path: String, sync: StoreSync, maximumBytes: Int, library: SQLiteLibrary?) {
        (self.path, self.sync, self.maximumBytes, self.library) = (path, sync, max(1, maximumBytes), library)
    }

    deinit { close() }

    /// Opens the database, or creates it, and returns all records in the order of their keys.
    ///
    /// - Throws: `.storageFailed` if there is no SQLite, if the database cannot be read or written, is damaged, belongs to another
    ///   application, has another version or more than `maximumBytes`, or is open already.
    public func open() throws(TransportError) -> [StoredRecord] {
        try state.withLock { state throws(TransportError) in
            guard state.database == nil else { throw .inUse(path, by: "this store") }
            guard let library else { throw .cannotOpen(path, "\(SQLiteLibrary.missing), or use a FileOutboxStore") }
            let connection = try file.open(library, longest: maximumBytes + 1024)
            let database = try opening { () throws(Failure) in try Database(connection) }
            let records = try read(database)
            if case .interval(let interval) = sync {
                do throws(SystemError) {
                    state.background = try BackgroundSync(every: interval) { [weak self] in self?.syncInBackground() }
                } catch {
                    throw .cannotOpen(
                        path,
                        "its thread cannot be started: \(error); start fewer threads",
                        number: error.number
                    )
                }
            }
            state.database = database
            return records
        }
    }

    /// Makes the changes in one transaction.
    ///
    /// - Throws: `.storageFailed` if nothing was changed: the disk is full or has failed, or a limit would be exceeded.
    public func write(_ changes: [StoreChange]) throws(TransportError) {
        try state.withLock { state throws(TransportError) in
            guard let database = state.database else { throw .storeClosed(path) }
            guard !changes.isEmpty else { return }
            let after = database.index.bytes(after: changes)
            guard after <= maximumBytes || after < database.index.bytes else {
                throw .storeFull(path, after, maximum: maximumBytes)
            }
            do throws(Failure) {
                // Nothing more is promised before what was promised is on the disk.
                if database.hasFailed { try database.sync() }
                try database.write(changes)
            } catch {
                throw .cannotWrite(path, "\(error); \(error.advice), and try again")
            }
            state.background?.request()
        }
    }

    /// Syncs the database unless the store never does, closes it, and lets other stores open it.
    public func close() {
        state.withLock { state in
            // There is nobody left to report a failure to.
            if sync != .none { try? state.database?.sync() }
            state.background?.stop()
            state = State()
        }
    }

    /// Calls `body` with the open database.
    func withConnection<Result>(_ body: (SQLiteConnection) throws -> Result) rethrows -> Result? {
        try state.withLock { state in try state.database.map { try body($0.connection) } }
    }

    private func syncInBackground() {
        state.withLock { state in
            // After a failure, the next write tries again.
            try? state.database?.sync()
        }
    }

    /// Reads all records.
    private func read(_ database: Database) throws(TransportError) -> [StoredRecord] {
        let statement = try opening { () throws(Failure) in
            try database.connection.prepare("SELECT kind, number, value FROM records")
        }
        var records: [StoredRecord] = []
        var problem: TransportError?
        try opening { () throws(Failure) in
            try statement.run {
                guard problem == nil else { return }
                guard let kind = UInt8(exactly: statement.number(0)), let size = statement.size(2) else {
                    problem = .cannotOpen(
                        path,
                        "its table has a row that is no record; restore the database from a copy"
                    )
                    return
                }
                let bytes = database.index.bytes + RecordIndex<Void>.bytes(ofValue: size)
                guard bytes <= maximumBytes else {
                    problem = .storeTooLarge(path, bytes, maximum: maximumBytes)
                    return
                }
                let key = StoredRecord.Key(kind: kind, number: UInt64(bitPattern: statement.number(1)))
                database.index.put(key, length: size, at: ())
                records.append(StoredRecord(key, statement.bytes(2)))
            }
        }
        if let problem { throw problem }
        // SQLite has no unsigned numbers, and orders those from 2^63 on as negative ones.
        return records.sorted { $0.key < $1.key }
    }

    private typealias Failure = SQLiteConnection.Failure

    private func opening<Result>(_ body: () throws(Failure) -> Result) throws(TransportError) -> Result {
        try file.opening(body)
    }
}
