import OutboxStores
import SocketIO
import TransportAPI

/// Keeps the messages of rooms in a database of SQLite.
///
/// A message that ``append(_:id:sender:to:)`` has numbered survives the end of the process, and with `sync: .always` also a power
/// cut. SQLite is loaded when the store is opened. One process has the database open at a time.
public final class SQLiteHistory: HistoryStore {
    /// What `PRAGMA application_id` has: "IMHI".
    static let applicationID: Int64 = 0x494d_4849
    static let version: Int64 = 1

    private typealias Failure = SQLiteConnection.Failure

    /// An open database with its statements.
    private final class Database {
        let connection: SQLiteConnection
        let begin: SQLiteConnection.Statement
        let commit: SQLiteConnection.Statement
        let findRoom: SQLiteConnection.Statement
        let addRoom: SQLiteConnection.Statement
        let changeRoom: SQLiteConnection.Statement
        let findEntry: SQLiteConnection.Statement
        let addEntry: SQLiteConnection.Statement
        let dropEntries: SQLiteConnection.Statement
        let readEntries: SQLiteConnection.Statement

        init(_ connection: SQLiteConnection) throws(Failure) {
            self.connection = connection
            begin = try connection.prepare("BEGIN IMMEDIATE")
            commit = try connection.prepare("COMMIT")
            findRoom = try connection.prepare("SELECT room, first, last FROM rooms WHERE name = ?")
            addRoom = try connection.prepare("INSERT INTO rooms (name, first, last) VALUES (?, 1, 0)")
            changeRoom = try connection.prepare("UPDATE rooms SET first = ?, last = ? WHERE room = ?")
            findEntry = try connection.prepare("SELECT number FROM entries WHERE room = ? AND id = ?")
            addEntry = try connection.prepare(
                "INSERT INTO entries (room, number, id, sender, bytes) VALUES (?, ?, ?, ?, ?)"
            )
            dropEntries = try connection.prepare("DELETE FROM entries WHERE room = ? AND number < ?")
            readEntries = try connection.prepare(
                "SELECT number, id, sender, bytes FROM entries WHERE room = ? AND number > ? ORDER BY number LIMIT ?"
            )
        }

        func room(_ name: String) throws(Failure) -> (key: Int64, first: Int64, last: Int64)? {
            try findRoom.bind(1, Array(name.utf8))
            var room: (Int64, Int64, Int64)?
            try findRoom.run { () throws(Failure) in
                room = (findRoom.number(0), findRoom.number(1), findRoom.number(2))
            }
            return room
        }

        func number(of id: String, in room: Int64) throws(Failure) -> Int64? {
            try findEntry.bind(1, room)
            try findEntry.bind(2, Array(id.utf8))
            var number: Int64?
            try findEntry.run { () throws(Failure) in number = findEntry.number(0) }
            return number
        }
    }

    private let path: String
    private let sync: StoreSync
    private let limits: HistoryLimits
    private let state = Locked<Database?>(nil)
    private let file: SQLiteFile

    /// Describes a store. Nothing happens before ``open()``.
    ///
    /// - Parameters:
    ///   - path: The path of the database, which is created if it does not exist. Its folder must exist.
    ///   - sync: When SQLite syncs to the disk. With an interval, it syncs when its log is full and at ``close()``. Default: an
    ///     interval.
    ///   - limits: The limits of a room.
    public init(path: String, sync: StoreSync = .default, _ limits: HistoryLimits = .init()) {
        (self.path, self.sync, self.limits) = (path, sync, limits)
        file = SQLiteFile(
            path: path,
            sync: sync,
            applicationID: Self.applicationID,
            version: Self.version,
            content: "a history",
            schema: [
                """
                CREATE TABLE rooms (room INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, first INTEGER NOT NULL, \
                last INTEGER NOT NULL)
                """,
                """
                CREATE TABLE entries (room INTEGER NOT NULL, number INTEGER NOT NULL, id BLOB NOT NULL, \
                sender BLOB NOT NULL, bytes BLOB NOT NULL, UNIQUE (room, number), UNIQUE (room, id))
                """,
            ]
        )
    }

    /// Opens the database, or creates it.
    ///
    /// - Throws: `.storageFailed` if there is no SQLite, if the database cannot be read or written, is damaged, belongs to another
    ///   application, has another version, or is open already.
    public func open() throws(TransportError) {
        try state.withLock { database throws(TransportError) in
            guard database == nil else { throw .inUse(path, by: "this store") }
            guard let library = SQLiteLibrary.shared else {
                throw .cannotOpen(path, "\(SQLiteLibrary.missing), or use a MemoryHistory")
            }
            let connection = try file.open(library, longest: limits.largestMessage + 4 * limits.longestName + 1024)
            database = try file.opening { () throws(Failure) in try Database(connection) }
        }
    }

    /// Adds a message in one transaction.
    ///
    /// - Throws: `.messageTooLarge` or `.invalidConfiguration` for a message or a name beyond the limits, `.storageFailed` if
    ///   nothing was added: the store is not open, or the disk is full or has failed.
    public func append(
        _ bytes: [UInt8],
        id: String,
        sender: String,
        to room: String
    ) throws(TransportError) -> UInt64 {
        try limits.check(bytes, id: id, sender: sender, room: room)
        return try withDatabase { database throws(Failure) in
            try database.begin.run()
            do throws(Failure) {
                if try database.room(room) == nil {
                    try database.addRoom.bind(1, Array(room.utf8))
                    try database.addRoom.run()
                }
                guard let found = try database.room(room) else {
                    throw Failure(code: SQLiteLibrary.corrupt, message: "a room that was added is missing")
                }
                if let number = try database.number(of: id, in: found.key) {
                    try database.commit.run()
                    return UInt64(clamping: number)
                }
                let number = found.last + 1
                let first = max(found.first, number + 1 - Int64(clamping: limits.keptPerRoom))
                let add = database.addEntry
                try add.bind(1, found.key)
                try add.bind(2, number)
                try add.bind(3, Array(id.utf8))
                try add.bind(4, Array(sender.utf8))
                try add.run(binding: 5, bytes)
                if first > found.first {
                    try database.dropEntries.bind(1, found.key)
                    try database.dropEntries.bind(2, first)
                    try database.dropEntries.run()
                }
                try database.changeRoom.bind(1, first)
                try database.changeRoom.bind(2, number)
                try database.changeRoom.bind(3, found.key)
                try database.changeRoom.run()
                try database.commit.run()
                return UInt64(clamping: number)
            } catch {
                database.connection.rollBack()
                throw error
            }
        }
    }

    /// Returns the entries after a number.
    ///
    /// - Throws: `.storageFailed` if they cannot be read.
    public func page(
        of room: String,
        after number: UInt64,
        _ limit: HistoryPageLimit
    ) throws(TransportError) -> HistoryPage {
        try withDatabase { database throws(Failure) in
            guard let found = try database.room(room) else { return HistoryPage(entries: [], first: 1, last: 0) }
            let read = database.readEntries
            try read.bind(1, found.key)
            try read.bind(2, Int64(clamping: number))
            try read.bind(3, Int64(max(1, limit.count)))
            var page = PageBuilder(limit)
            var isFull = false
            try read.run { () throws(Failure) in
                guard !isFull else { return }
                isFull = !page.hasRoom(for: read.size(3) ?? 0)
                guard !isFull else { return }
                _ = page.add(
                    HistoryEntry(
                        number: UInt64(clamping: read.number(0)),
                        id: String(decoding: read.bytes(1), as: UTF8.self),
                        sender: String(decoding: read.bytes(2), as: UTF8.self),
                        bytes: read.bytes(3)
                    )
                )
            }
            return HistoryPage(
                entries: page.entries,
                first: UInt64(clamping: found.first),
                last: UInt64(clamping: found.last)
            )
        }
    }

    /// Syncs the database unless the store never does, and closes it.
    public func close() {
        state.withLock { database in
            // There is nobody left to report a failure to.
            if sync != .none { try? database?.connection.checkpoint() }
            database = nil
        }
    }

    private func withDatabase<Result>(
        _ body: (Database) throws(Failure) -> Result
    ) throws(TransportError) -> Result {
        try state.withLock { database throws(TransportError) in
            guard let database else { throw .storeClosed(path) }
            do throws(Failure) { return try body(database) } catch {
                throw .cannotWrite(path, "\(error); \(error.advice), and try again")
            }
        }
    }
}
