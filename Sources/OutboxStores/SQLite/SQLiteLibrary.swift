import SocketIO

/// SQLite, loaded at first use, so that the package does not link with it. Apple's systems have it, and nearly every Linux
/// distribution has a package.
package struct SQLiteLibrary: Sendable {
    /// The system's SQLite; `nil` if there is none.
    package static let shared = SQLiteLibrary(names: names)

    #if canImport(Darwin)
    static let names = ["libsqlite3.dylib", "/usr/lib/libsqlite3.dylib"]
    #else
    static let names = ["libsqlite3.so.0", "libsqlite3.so"]
    #endif

    /// Why nothing works without the library.
    package static let missing =
        "there is no SQLite (\(names.joined(separator: ", "))); install it, on Debian and Ubuntu the package libsqlite3-0"

    let functions: Functions

    /// Loads the first library of these names. Returns `nil` if there is none, or if it is not SQLite 3.
    init?(names: [String]) {
        guard let library = names.lazy.compactMap({ dlopen($0, RTLD_NOW | RTLD_LOCAL) }).first,
            let functions = Functions(library)
        else { return nil }
        self.functions = functions
    }

    // Constants of sqlite3.h.
    static let ok: Int32 = 0
    static let permission: Int32 = 3
    static let busy: Int32 = 5
    static let readOnly: Int32 = 8
    package static let corrupt: Int32 = 11
    static let full: Int32 = 13
    static let cannotOpen: Int32 = 14
    static let tooBig: Int32 = 18
    static let notADatabase: Int32 = 26
    static let row: Int32 = 100
    static let done: Int32 = 101
    /// SQLITE_OPEN_READWRITE, CREATE and FULLMUTEX: two threads use a database, one after the other.
    static let openFlags: Int32 = 0x0000_0002 | 0x0000_0004 | 0x0001_0000
    static let limitOfLength: Int32 = 0
    static let blob: Int32 = 4
    static let passiveCheckpoint: Int32 = 0
    /// SQLITE_TRANSIENT: SQLite copies the bytes.
    nonisolated(unsafe) static let copies = UnsafeRawPointer(bitPattern: -1)

    /// The functions of the library that are called.
    struct Functions: Sendable {
        typealias Pointer = UnsafeMutableRawPointer
        typealias Text = UnsafePointer<CChar>
        typealias Open = @convention(c) (Text, UnsafeMutablePointer<Pointer?>, Int32, Text?) -> Int32
        typealias OnPointer = @convention(c) (Pointer?) -> Int32
        typealias Message = @convention(c) (Pointer?) -> Text?
        typealias WithNumber = @convention(c) (Pointer, Int32) -> Int32
        typealias Limit = @convention(c) (Pointer, Int32, Int32) -> Int32
        typealias Prepare =
            @convention(c) (
                Pointer, Text, Int32, UnsafeMutablePointer<Pointer?>, UnsafeMutablePointer<Text?>?
            ) -> Int32
        typealias BindNumber = @convention(c) (Pointer, Int32, Int64) -> Int32
        typealias BindBytes =
            @convention(c) (Pointer, Int32, UnsafeRawPointer?, Int32, UnsafeRawPointer?) -> Int32
        typealias BindZeros = @convention(c) (Pointer, Int32, Int32) -> Int32
        typealias ColumnNumber = @convention(c) (Pointer, Int32) -> Int64
        typealias ColumnBytes = @convention(c) (Pointer, Int32) -> UnsafeRawPointer?
        typealias Checkpoint =
            @convention(c) (
                Pointer, Text?, Int32, UnsafeMutablePointer<Int32>?, UnsafeMutablePointer<Int32>?
            ) -> Int32

        let open: Open
        let close: OnPointer
        let message: Message
        let code: OnPointer
        let isAutomatic: OnPointer
        let extendedCodes: WithNumber
        let limit: Limit
        let prepare: Prepare
        let finalize: OnPointer
        let step: OnPointer
        let reset: OnPointer
        let bindNumber: BindNumber
        let bindBytes: BindBytes
        let bindZeros: BindZeros
        let columnType: WithNumber
        let columnCount: WithNumber
        let columnNumber: ColumnNumber
        let columnBytes: ColumnBytes
        let checkpoint: Checkpoint

        init?(_ library: UnsafeMutableRawPointer) {
            guard let open = dlsym(library, "sqlite3_open_v2"), let close = dlsym(library, "sqlite3_close_v2"),
                let message = dlsym(library, "sqlite3_errmsg"), let code = dlsym(library, "sqlite3_extended_errcode"),
                let isAutomatic = dlsym(library, "sqlite3_get_autocommit"),
                let extendedCodes = dlsym(library, "sqlite3_extended_result_codes"),
                let limit = dlsym(library, "sqlite3_limit"), let prepare = dlsym(library, "sqlite3_prepare_v2"),
                let finalize = dlsym(library, "sqlite3_finalize"), let step = dlsym(library, "sqlite3_step"),
                let reset = dlsym(library, "sqlite3_reset"), let bindNumber = dlsym(library, "sqlite3_bind_int64"),
                let bindBytes = dlsym(library, "sqlite3_bind_blob"),
                let bindZeros = dlsym(library, "sqlite3_bind_zeroblob"),
                let columnType = dlsym(library, "sqlite3_column_type"),
                let columnCount = dlsym(library, "sqlite3_column_bytes"),
                let columnNumber = dlsym(library, "sqlite3_column_int64"),
                let columnBytes = dlsym(library, "sqlite3_column_blob"),
                let checkpoint = dlsym(library, "sqlite3_wal_checkpoint_v2")
            else { return nil }
            // These are the signatures in sqlite3.h.
            self.open = unsafeBitCast(open, to: Open.self)
            self.close = unsafeBitCast(close, to: OnPointer.self)
            self.message = unsafeBitCast(message, to: Message.self)
            self.code = unsafeBitCast(code, to: OnPointer.self)
            self.isAutomatic = unsafeBitCast(isAutomatic, to: OnPointer.self)
            self.extendedCodes = unsafeBitCast(extendedCodes, to: WithNumber.self)
            self.limit = unsafeBitCast(limit, to: Limit.self)
            self.prepare = unsafeBitCast(prepare, to: Prepare.self)
            self.finalize = unsafeBitCast(finalize, to: OnPointer.self)
            self.step = unsafeBitCast(step, to: OnPointer.self)
            self.reset = unsafeBitCast(reset, to: OnPointer.self)
            self.bindNumber = unsafeBitCast(bindNumber, to: BindNumber.self)
            self.bindBytes = unsafeBitCast(bindBytes, to: BindBytes.self)
            self.bindZeros = unsafeBitCast(bindZeros, to: BindZeros.self)
            self.columnType = unsafeBitCast(columnType, to: WithNumber.self)
            self.columnCount = unsafeBitCast(columnCount, to: WithNumber.self)
            self.columnNumber = unsafeBitCast(columnNumber, to: ColumnNumber.self)
            self.columnBytes = unsafeBitCast(columnBytes, to: ColumnBytes.self)
            self.checkpoint = unsafeBitCast(checkpoint, to: Checkpoint.self)
        }
    }
}
