import Foundation
import SocketIO
import TestSupport
import Testing

@testable import OutboxStores
@testable import TransportAPI

@Suite("Every store of an outbox") struct OutboxStoreTests {
    @Test("A new store has no records, and its file is readable by its user only", arguments: StoreKind.available)
    func empty(kind: StoreKind) throws {
        let folder = try StoreFolder()
        let store = kind.store(folder.store)
        #expect(try store.open() == [])
        try store.write([put(1, 1, "a")])
        for name in try folder.names {
            var status = stat()
            #expect(stat(folder.path + "/" + name, &status) == 0 && status.st_mode & 0o777 == 0o600, "\(name)")
        }
        store.close()
        #expect(try records(kind.store(folder.store)) == [record(1, 1, "a")])
    }

    @Test("A store returns what was written, in the order of the keys", arguments: StoreKind.available)
    func order(kind: StoreKind) throws {
        let folder = try StoreFolder()
        let written = [
            record(0, 0, ""), record(0, .max, "last of its kind"), record(1, 7, "\0"),
            record(1, 1 << 63, "large number"),
            StoredRecord(StoredRecord.Key(kind: 255, number: 3), (0...255).map { UInt8($0) }),
        ]
        let store = kind.store(folder.store)
        #expect(try store.open() == [])
        try store.write(written.reversed().map { .put($0) })
        store.close()
        #expect(try store.open() == written)
        store.close()
        #expect(try records(kind.store(folder.store)) == written)
    }

    @Test("A later change replaces or removes a record, also in the same write", arguments: StoreKind.available)
    func replacing(kind: StoreKind) throws {
        let folder = try StoreFolder()
        let store = kind.store(folder.store, sync: .always)
        _ = try store.open()
        try store.write([])
        try store.write([put(1, 1, "one"), put(1, 2, "two"), put(1, 3, "three")])
        try store.write([remove(1, 2), put(1, 1, "uno"), remove(9, 9)])
        try store.write([put(1, 4, "four"), put(1, 4, "quattro"), put(1, 5, "five"), remove(1, 5)])
        try store.write([remove(1, 3), put(1, 3, "tre")])
        store.close()
        #expect(try records(store) == [record(1, 1, "uno"), record(1, 3, "tre"), record(1, 4, "quattro")])
    }

    @Test("A second store on the same path is refused until the first is closed", arguments: StoreKind.available)
    func second(kind: StoreKind) throws {
        let folder = try StoreFolder()
        let (first, second) = (kind.store(folder.store), kind.store(folder.store))
        _ = try first.open()
        try first.write([put(1, 1, "a")])
        for _ in 0..<2 {
            let error = try #require(openError(second))
            #expect(error.code == .storageFailed && error.reason.contains("has it open"))
        }
        #expect(openError(first)?.code == .storageFailed)
        try first.write([put(1, 2, "b")])
        first.close()
        #expect(try second.open() == [record(1, 1, "a"), record(1, 2, "b")])
        #expect(openError(first)?.code == .storageFailed)
    }

    @Test("A store that is released without a close lets another one in", arguments: StoreKind.available)
    func released(kind: StoreKind) throws {
        let folder = try StoreFolder()
        do {
            let store = kind.store(folder.store)
            _ = try store.open()
            try store.write([put(1, 1, "a")])
        }
        #expect(try records(kind.store(folder.store)) == [record(1, 1, "a")])
    }

    @Test("A write to a store that is not open is refused", arguments: StoreKind.available)
    func closed(kind: StoreKind) throws {
        let folder = try StoreFolder()
        let store = kind.store(folder.store)
        store.close()
        #expect(writeError(store, [])?.reason.contains("not open") == true)
        _ = try store.open()
        store.close()
        store.close()
        #expect(writeError(store, [put(1, 1, "")])?.code == .storageFailed)
    }

    @Test("A path that is no place for a file is refused with the reason", arguments: StoreKind.available)
    func paths(kind: StoreKind) throws {
        let folder = try StoreFolder()
        try folder.write([])
        let link = folder.path + "/link"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: folder.store)
        let cases = [
            ("", "no path"), ("a\0b", "no path"), (folder.path, "it is a folder, and not a file"),
            (folder.path + "/missing/outbox", "does not exist; create it first"),
            (folder.store + "/outbox", "is not a folder"), (link, "symbolic link"), ("/dev/null", "a device"),
        ]
        for (path, reason) in cases {
            let error = try #require(openError(kind.store(path)))
            #expect(error.code == .storageFailed && error.reason.contains(reason), "\(error)")
            #expect(!error.reason.contains("\n") && error.phase == .configure)
        }
        #expect(try folder.names == ["link", "outbox"])
    }

    @Test("A folder that cannot be written to is refused", arguments: StoreKind.available)
    func readOnly(kind: StoreKind) throws {
        // Nobody can create a file there, not even root.
        var path = "/sys/outbox"
        let folder = try StoreFolder()
        if !FileManager.default.fileExists(atPath: "/sys/kernel") {
            guard geteuid() != 0 else { return }
            chmod(folder.path, 0o500)
            path = folder.store
        }
        let error = try #require(openError(kind.store(path)))
        #expect(error.code == .storageFailed && error.detail != nil && error.reason.contains(path), "\(error)")
        chmod(folder.path, 0o700)
    }

    @Test("A file of something else is refused and stays as it is", arguments: StoreKind.available)
    func foreign(kind: StoreKind) throws {
        let folder = try StoreFolder()
        for text in ["xy", "Dear diary,\n", String(repeating: "Dear diary,\n", count: 1000)] {
            try folder.write(text.utf8)
            let error = try #require(openError(kind.store(folder.store)))
            #expect(error.code == .storageFailed && error.reason.contains("choose another path"), "\(error)")
            #expect(try folder.bytes == Array(text.utf8))
        }
        try folder.write([])
        #expect(try records(kind.store(folder.store)) == [])
    }

    @Test("Records beyond the limit are refused in writing and in reading", arguments: StoreKind.available)
    func limit(kind: StoreKind) throws {
        let folder = try StoreFolder()
        let (a, b) = (StoredRecord.Key(kind: 1, number: 1), StoredRecord.Key(kind: 1, number: 2))
        let value = [UInt8](repeating: 1, count: 5000 - 14)
        let store = kind.store(folder.store, maximumBytes: 10_000)
        _ = try store.open()
        try store.write([.put(StoredRecord(a, value))])
        let large = StoreChange.put(StoredRecord(b, value + [1]))
        let error = try #require(writeError(store, [large]))
        #expect(error.code == .storageFailed && error.reason.contains("10001 bytes, and 10000 are allowed"), "\(error)")
        try store.write([.put(StoredRecord(b, value))])
        store.close()

        let smaller = kind.store(folder.store, maximumBytes: 9_999)
        let refusal = try #require(openError(smaller))
        #expect(refusal.code == .storageFailed && refusal.reason.contains("raise maximumBytes"), "\(refusal)")
        #expect(try store.open().count == 2)
        try store.write([.remove(a), large])
        store.close()
        #expect(try records(store) == [StoredRecord(b, value + [1])])
    }

    @Test("Any sequence of writes and reopenings keeps what a dictionary keeps", arguments: StoreKind.available, 1...3)
    func model(kind: StoreKind, seed: UInt64) throws {
        let folder = try StoreFolder()
        var random = RandomSource.seeded(seed)
        var model: [StoredRecord.Key: [UInt8]] = [:]
        var store = kind.store(folder.store, sync: .none)
        _ = try store.open()
        for step in 0..<1500 {
            let changes = (0..<Int.random(in: 0...4, using: &random)).map { _ -> StoreChange in
                let key = StoredRecord.Key(
                    kind: UInt8.random(in: 0...3, using: &random),
                    number: UInt64.random(in: 0...9, using: &random)
                )
                guard Bool.random(using: &random) else { return .remove(key) }
                let value = [UInt8](
                    repeating: UInt8.random(in: 0...255, using: &random),
                    count: Int.random(in: 0...4000, using: &random)
                )
                return .put(StoredRecord(key, value))
            }
            try store.write(changes)
            for change in changes {
                switch change {
                case .put(let record): model[record.key] = record.value
                case .remove(let key): model[key] = nil
                }
            }
            guard Int.random(in: 0..<50, using: &random) == 0 else { continue }
            store.close()
            store = kind.store(folder.store, sync: .none)
            let expected = model.map { StoredRecord($0.key, $0.value) }.sorted { $0.key < $1.key }
            try #require(try store.open() == expected, "seed \(seed), step \(step)")
        }
    }
}
