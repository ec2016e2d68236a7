import Foundation
import SocketIO
import Testing

@testable import OutboxStores
@testable import TransportAPI

/// A new folder for one test.
struct StoreFolder: ~Copyable {
    let path: String

    init() throws {
        path = FileManager.default.temporaryDirectory.path + "/stores-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// The path of the store in it.
    var store: String { path + "/outbox" }

    /// The bytes of the store's file.
    var bytes: [UInt8] {
        get throws { [UInt8](try Data(contentsOf: URL(fileURLWithPath: store))) }
    }

    /// Replaces the store's file.
    func write(_ bytes: some Collection<UInt8>) throws { try Data(bytes).write(to: URL(fileURLWithPath: store)) }

    /// The names of the files.
    var names: Set<String> {
        get throws { Set(try FileManager.default.contentsOfDirectory(atPath: path)) }
    }

    /// The properties of the store's file.
    var status: stat {
        var status = stat()
        _ = stat(store, &status)
        return status
    }
}

/// The stores that the tests of all stores run with.
enum StoreKind: String, CaseIterable, CustomTestStringConvertible {
    case file, sqlite

    /// Those that this machine has the libraries for.
    static let available = allCases.filter { $0 == .file || SQLiteLibrary.shared != nil }

    var testDescription: String { rawValue }

    func store(_ path: String, sync: StoreSync = .default, maximumBytes: Int = 256 << 20) -> any OutboxStore {
        switch self {
        case .file: FileOutboxStore(path: path, sync: sync, maximumBytes: maximumBytes)
        case .sqlite: SQLiteOutboxStore(path: path, sync: sync, maximumBytes: maximumBytes)
        }
    }
}

/// A record whose value is a text.
func record(_ kind: UInt8, _ number: UInt64, _ text: String) -> StoredRecord {
    StoredRecord(StoredRecord.Key(kind: kind, number: number), Array(text.utf8))
}

/// A change that adds a record.
func put(_ kind: UInt8, _ number: UInt64, _ text: String) -> StoreChange { .put(record(kind, number, text)) }

/// A change that removes a record.
func remove(_ kind: UInt8, _ number: UInt64) -> StoreChange { .remove(StoredRecord.Key(kind: kind, number: number)) }

/// Opens a store, and returns its error; `nil` if it throws none.
func openError(_ store: any OutboxStore) -> TransportError? {
    do throws(TransportError) {
        _ = try store.open()
        return nil
    } catch {
        return error
    }
}

/// Writes to a store, and returns its error; `nil` if it throws none.
func writeError(_ store: any OutboxStore, _ changes: [StoreChange]) -> TransportError? {
    do throws(TransportError) {
        try store.write(changes)
        return nil
    } catch {
        return error
    }
}

/// Opens a store, closes it, and returns its records.
func records(_ store: any OutboxStore) throws -> [StoredRecord] {
    let records = try store.open()
    store.close()
    return records
}
