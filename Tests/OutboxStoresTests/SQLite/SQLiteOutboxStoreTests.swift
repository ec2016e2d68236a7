import Foundation
import SocketIO
import TestSupport
import Testing

@testable import OutboxStores
@testable import TransportAPI

@Suite("The store in SQLite", .enabled(if: SQLiteLibrary.shared != nil), .ownThread, .timeLimit(.minutes(5)))
struct SQLiteOutboxStoreTests {
    /// Runs statements on a database.
    private static func run(_ statements: [String], on path: String) throws {
        let connection = try SQLiteConnection(path, try #require(SQLiteLibrary.shared))
        for statement in statements { try connection.run(statement) }
    }

    private static func refusal(_ path: String) -> TransportError? {
        openError(SQLiteOutboxStore(path: path))
    }

    @Test("Without SQLite, the error says what to install")
    func missing() throws {
        #expect(SQLiteLibrary(names: ["libno-such-library.so"]) == nil)
        let folder = try StoreFolder()
        let store = SQLiteOutboxStore(path: folder.store, sync: .default, maximumBytes: 1000, library: nil)
        let error = try #require(openError(store))
        #expect(
            error.code == .storageFailed && error.reason.contains("libsqlite3-0") && !error.reason.contains("\n"),
            "\(error)"
        )
        #expect(try folder.names == [])
    }

    @Test("A database of another application is refused and not changed")
    func foreign() throws {
        for statement in ["CREATE TABLE t (a)", "PRAGMA application_id = 7", "PRAGMA user_version = 1"] {
            let folder = try StoreFolder()
            try Self.run(["CREATE TABLE x (a)", "DROP TABLE x", statement], on: folder.store)
            let before = try folder.bytes
            let error = try #require(Self.refusal(folder.store))
            #expect(error.code == .storageFailed && error.reason.contains("another application"), "\(error)")
            #expect(try folder.bytes == before)
        }
    }

    @Test("A database of another version is refused, and says which")
    func version() throws {
        let folder = try StoreFolder()
        _ = try records(SQLiteOutboxStore(path: folder.store))
        try Self.run(["PRAGMA user_version = 7"], on: folder.store)
        let error = try #require(Self.refusal(folder.store))
        #expect(error.code == .storageFailed && error.reason.contains("version 7, and this program knows version 1"))
    }

    @Test("A row that is no record is refused")
    func rows() throws {
        for values in ["256, 1, x'00'", "-1, 1, x'00'", "1, 1, 'text'", "1, 1, 5"] {
            let folder = try StoreFolder()
            _ = try records(SQLiteOutboxStore(path: folder.store))
            try Self.run(["INSERT INTO records VALUES (\(values))"], on: folder.store)
            #expect(Self.refusal(folder.store)?.reason.contains("no record") == true, "\(values)")
        }
    }

    @Test("A damaged database is refused")
    func damage() throws {
        let folder = try StoreFolder()
        let store = SQLiteOutboxStore(path: folder.store)
        _ = try store.open()
        for number in UInt64(0)..<200 { try store.write([put(1, number, String(repeating: "a", count: 500))]) }
        store.close()
        var bytes = try folder.bytes
        // Every page but the first.
        for index in 4096..<bytes.count where index % 4096 < 100 { bytes[index] = 0xa5 }
        try folder.write(bytes)
        #expect(Self.refusal(folder.store)?.reason.contains("malformed") == true)
    }

    @Test("A write that finds the disk full changes nothing, and a later one succeeds")
    func full() throws {
        let folder = try StoreFolder()
        let store = SQLiteOutboxStore(path: folder.store)
        _ = try store.open()
        try store.write([put(1, 1, "a")])
        try store.withConnection { _ = try $0.number("PRAGMA max_page_count = 20") }
        let changes = [remove(1, 1)] + (0..<40).map { put(2, $0, String(repeating: "b", count: 4000)) }
        for _ in 0..<2 {
            let error = try #require(writeError(store, changes))
            #expect(error.code == .storageFailed && error.reason.contains("SQLite 13"), "\(error)")
        }
        try store.write([put(1, 2, "c")])
        try store.withConnection { _ = try $0.number("PRAGMA max_page_count = 100000") }
        try store.write(changes)
        store.close()
        let kept = try store.open()
        #expect(kept.count == 41 && kept.first == record(1, 2, "c"))
    }

    @Test("The database has the modes of its policy", arguments: [StoreSync.always, .default, .none])
    func modes(sync: StoreSync) throws {
        let folder = try StoreFolder()
        let store = SQLiteOutboxStore(path: folder.store, sync: sync)
        _ = try store.open()
        try store.write([put(1, 1, "a")])
        #expect(try store.withConnection { try $0.number("PRAGMA synchronous") } == (sync == .always ? 2 : 1))
        #expect(try folder.names.contains("outbox-wal"))
        #expect(try !folder.names.contains("outbox-shm"))
        store.close()
        #expect(try folder.names == ["outbox"])
    }

    @Test("What a killed process has written is there")
    func copy() throws {
        let folder = try StoreFolder()
        let other = try StoreFolder()
        let store = SQLiteOutboxStore(path: folder.store, sync: .none)
        _ = try store.open()
        for number in UInt64(0)..<20 {
            try store.write([put(1, number, "a")])
            // A copy of the files is what a killed process leaves.
            for name in ["outbox", "outbox-wal"] {
                try? FileManager.default.removeItem(atPath: other.path + "/" + name)
                try FileManager.default.copyItem(atPath: folder.path + "/" + name, toPath: other.path + "/" + name)
            }
            #expect(try records(SQLiteOutboxStore(path: other.store)).count == Int(number) + 1)
        }
    }

    @Test("A database that another process uses is refused", .enabled(if: Peers.python != nil))
    func otherProcess() throws {
        let folder = try StoreFolder()
        _ = try records(SQLiteOutboxStore(path: folder.store))
        let script = """
            import sqlite3, sys
            database = sqlite3.connect(sys.argv[1], isolation_level=None)
            database.execute("BEGIN IMMEDIATE")
            print("locked", flush=True)
            sys.stdin.read()
            """
        let peer = try Peer(try #require(Peers.python), ["-c", script, folder.store])
        #expect(peer.line() == "locked")
        let error = try #require(Self.refusal(folder.store))
        #expect(error.code == .storageFailed && error.reason.contains("has it open"), "\(error)")
        peer.destroy()
        _ = try peer.finish()
        #expect(try records(SQLiteOutboxStore(path: folder.store)) == [])
    }
}
