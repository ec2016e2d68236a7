import SocketIO
import TransportAPI

/// A database of this package, and how it is opened: by one process at a time, with a write-ahead log.
package struct SQLiteFile {
    package typealias Failure = SQLiteConnection.Failure

    private let path: String
    private let sync: StoreSync
    private let applicationID: Int64
    private let version: Int64
    private let content: String
    private let schema: [String]

    /// Describes a database.
    ///
    /// - Parameters:
    ///   - path: Its path. The folder must exist.
    ///   - sync: When SQLite syncs.
    ///   - applicationID: What `PRAGMA application_id` has. A database of another application is not touched.
    ///   - version: The version of the tables, in `PRAGMA user_version`.
    ///   - content: What it has, with its article, for errors.
    ///   - schema: The statements that create the tables.
    package init(
        path: String,
        sync: StoreSync,
        applicationID: Int64,
        version: Int64,
        content: String,
        schema: [String]
    ) {
        (self.path, self.sync, self.applicationID) = (path, sync, applicationID)
        (self.version, self.content, self.schema) = (version, content, schema)
    }

    /// Opens the database, or creates it.
    ///
    /// - Parameter longest: The largest size of a row in bytes.
    package func open(_ library: SQLiteLibrary, longest: Int) throws(TransportError) -> SQLiteConnection {
        try checkStorePath(path)
        try createFile()
        let connection = try opening { () throws(Failure) in try SQLiteConnection(path, library) }
        connection.limitLength(longest)
        try setUp(connection)
        return connection
    }

    /// Calls `body`, and turns its error into that of a store that cannot be opened.
    package func opening<Result>(_ body: () throws(Failure) -> Result) throws(TransportError) -> Result {
        do throws(Failure) { return try body() } catch {
            if error.primary == SQLiteLibrary.busy {
                throw .inUse(path, by: "another process, or another store of this one,")
            }
            throw .cannotOpen(path, "\(error); \(error.advice)")
        }
    }

    /// Creates the file of the database, which SQLite itself would let others read. Its other files get the same mode.
    private func createFile() throws(TransportError) {
        // A file that exists is not opened, because closing it would release the locks of another store of this process
        // (fcntl(2)).
        let raw = SocketIO.open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        if raw >= 0 {
            _ = Descriptor(raw)
        } else if errno != EEXIST {
            let error = StoreFailure("open")
            throw .cannotOpen(path, "\(error)", number: error.number)
        }
    }

    /// Locks the database, checks what it is, and sets its modes.
    private func setUp(_ connection: SQLiteConnection) throws(TransportError) {
        try opening { () throws(Failure) in
            // The lock that the first transaction takes is kept. Without other processes, the log needs no shared memory.
            try connection.run("PRAGMA locking_mode = EXCLUSIVE")
            try connection.run("BEGIN EXCLUSIVE")
        }
        do throws(TransportError) {
            try check(connection)
            try opening { () throws(Failure) in try connection.run("COMMIT") }
        } catch {
            connection.rollBack()
            throw error
        }
        try opening { () throws(Failure) in
            try connection.run("PRAGMA journal_mode = WAL")
            try connection.run("PRAGMA synchronous = \(sync == .always ? "FULL" : "NORMAL")")
            // These have an effect on Apple's systems alone.
            try connection.run("PRAGMA fullfsync = ON")
            try connection.run("PRAGMA checkpoint_fullfsync = ON")
        }
    }

    /// Creates the tables in a new database, and refuses one of another application or version. It is not searched for damage
    /// (`PRAGMA quick_check`), which would read all of it.
    private func check(_ connection: SQLiteConnection) throws(TransportError) {
        let (application, version, tables) = try opening { () throws(Failure) in
            (
                try connection.number("PRAGMA application_id"), try connection.number("PRAGMA user_version"),
                try connection.number("SELECT count(*) FROM sqlite_master")
            )
        }
        if (application, version, tables) == (0, 0, 0) {
            return try opening { () throws(Failure) in
                for statement in schema { try connection.run(statement) }
                try connection.run("PRAGMA application_id = \(applicationID)")
                try connection.run("PRAGMA user_version = \(self.version)")
            }
        }
        guard application == applicationID else {
            throw .cannotOpen(
                path,
                """
                it is a database of another application: its application_id is \(application), and that of \(content) is \
                \(applicationID); choose another path
                """
            )
        }
        guard version == self.version else { throw .otherVersion(path, version, expected: self.version) }
    }
}

extension SQLiteConnection.Failure {
    /// What to do about the error.
    package var advice: String {
        switch primary {
        case SQLiteLibrary.full: "free space on the disk"
        case SQLiteLibrary.permission, SQLiteLibrary.readOnly, SQLiteLibrary.cannotOpen:
            "allow this process to write to the file and its folder"
        case SQLiteLibrary.corrupt: "restore the database from a copy, or move it away to begin with an empty one"
        case SQLiteLibrary.notADatabase: "choose another path"
        case SQLiteLibrary.tooBig: "raise maximumBytes"
        default: "check the disk"
        }
    }
}
