import SocketIO

/// An open database. It is used by one thread at a time.
package final class SQLiteConnection {
    /// The error of a call of SQLite.
    package struct Failure: Error, CustomStringConvertible {
        /// The extended result code; its low byte is the primary one.
        package let code: Int32
        let message: String

        package init(code: Int32, message: String) { (self.code, self.message) = (code, message) }

        package var primary: Int32 { code & 0xff }
        package var description: String { "\(message) (SQLite \(code))" }
    }

    /// A prepared statement, which may be run many times.
    package final class Statement {
        private let functions: SQLiteLibrary.Functions
        fileprivate let raw: UnsafeMutableRawPointer
        private unowned let connection: SQLiteConnection

        fileprivate init(_ raw: UnsafeMutableRawPointer, _ connection: SQLiteConnection) {
            (self.raw, self.connection, functions) = (raw, connection, connection.functions)
        }

        deinit { _ = functions.finalize(raw) }

        /// Sets the parameter of this place, which begins at 1.
        package func bind(_ place: Int32, _ number: Int64) throws(Failure) {
            try connection.check(functions.bindNumber(raw, place, number))
        }

        /// Sets the parameter of this place to a copy of these bytes.
        package func bind(_ place: Int32, _ bytes: [UInt8]) throws(Failure) {
            let result = bytes.withUnsafeBytes { bytes -> Int32 in
                // A pointer without bytes would be NULL.
                bytes.isEmpty
                    ? functions.bindZeros(raw, place, 0)
                    : functions.bindBytes(
                        raw,
                        place,
                        bytes.baseAddress,
                        Int32(truncatingIfNeeded: bytes.count),
                        SQLiteLibrary.copies
                    )
            }
            try connection.check(result)
        }

        /// Runs the statement once with `bytes` as the parameter of this place. They are not copied.
        package func run(binding place: Int32, _ bytes: [UInt8]) throws(Failure) {
            let result = bytes.withUnsafeBytes { bytes -> Int32 in
                // A pointer without bytes would be NULL.
                let bound =
                    bytes.isEmpty
                    ? functions.bindZeros(raw, place, 0)
                    : functions.bindBytes(raw, place, bytes.baseAddress, Int32(truncatingIfNeeded: bytes.count), nil)
                return bound == SQLiteLibrary.ok ? functions.step(raw) : bound
            }
            try end(result)
        }

        /// Runs the statement once, for all its rows.
        package func run(_ row: () throws(Failure) -> Void = {}) throws(Failure) {
            var result = functions.step(raw)
            while result == SQLiteLibrary.row {
                do throws(Failure) { try row() } catch {
                    _ = functions.reset(raw)
                    throw error
                }
                result = functions.step(raw)
            }
            try end(result)
        }

        private func end(_ result: Int32) throws(Failure) {
            if result == SQLiteLibrary.done || result == SQLiteLibrary.row {
                _ = functions.reset(raw)
                return
            }
            let failure = connection.failure(result)
            _ = functions.reset(raw)
            throw failure
        }

        /// The number in a column of the current row. Columns begin at 0.
        package func number(_ column: Int32) -> Int64 { functions.columnNumber(raw, column) }

        /// The size of the bytes in a column; `nil` if it has something else.
        package func size(_ column: Int32) -> Int? {
            guard functions.columnType(raw, column) == SQLiteLibrary.blob else { return nil }
            return Int(functions.columnCount(raw, column))
        }

        /// The bytes in a column.
        package func bytes(_ column: Int32) -> [UInt8] {
            let start = functions.columnBytes(raw, column)
            return Array(
                UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : Int(functions.columnCount(raw, column)))
            )
        }
    }

    private let functions: SQLiteLibrary.Functions
    private let raw: UnsafeMutableRawPointer

    /// Opens or creates the database at a path.
    init(_ path: String, _ library: SQLiteLibrary) throws(Failure) {
        let functions = library.functions
        var raw: UnsafeMutableRawPointer?
        let result = functions.open(path, &raw, SQLiteLibrary.openFlags, nil)
        guard let raw, result == SQLiteLibrary.ok else {
            let message = raw.flatMap { functions.message($0) }.map { String(cString: $0) } ?? "out of memory"
            let code = raw.map { functions.code($0) } ?? result
            _ = functions.close(raw)
            throw Failure(code: code, message: message)
        }
        (self.raw, self.functions) = (raw, functions)
        _ = functions.extendedCodes(raw, 1)
    }

    deinit { _ = functions.close(raw) }

    /// Limits the size of a value and of a row.
    package func limitLength(_ bytes: Int) {
        _ = functions.limit(raw, SQLiteLibrary.limitOfLength, Int32(clamping: bytes))
    }

    /// Prepares a statement.
    package func prepare(_ text: String) throws(Failure) -> Statement {
        var statement: UnsafeMutableRawPointer?
        try check(functions.prepare(raw, text, -1, &statement, nil))
        guard let statement else { throw Failure(code: 1, message: "no statement in '\(text)'") }
        return Statement(statement, self)
    }

    /// Runs one statement once.
    package func run(_ text: String) throws(Failure) {
        try prepare(text).run()
    }

    /// Runs one statement, and returns the number in its first row; 0 without a row.
    package func number(_ text: String) throws(Failure) -> Int64 {
        let statement = try prepare(text)
        var number: Int64 = 0
        try statement.run { () throws(Failure) in number = statement.number(0) }
        return number
    }

    /// Undoes the transaction if there is one.
    package func rollBack() {
        // Some errors have done it already.
        if functions.isAutomatic(raw) == 0 { try? run("ROLLBACK") }
    }

    /// Syncs the log of writes, and copies it to the database.
    package func checkpoint() throws(Failure) {
        try check(functions.checkpoint(raw, nil, SQLiteLibrary.passiveCheckpoint, nil, nil))
    }

    fileprivate func check(_ result: Int32) throws(Failure) {
        if result != SQLiteLibrary.ok { throw failure(result) }
    }

    fileprivate func failure(_ result: Int32) -> Failure {
        let code = functions.code(raw)
        guard code & 0xff == result & 0xff, let message = functions.message(raw) else {
            return Failure(code: result, message: "unknown error")
        }
        return Failure(code: code, message: String(cString: message))
    }
}
