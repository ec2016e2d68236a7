import Foundation
import SocketIO
import TestSupport
import Testing

@testable import OutboxStores
@testable import TransportAPI

/// System calls of a store that a test can let fail.
final class FailingCalls: Sendable {
    private struct State {
        var writeErrors: [Int32] = []
        var syncErrors: [Int32] = []
        var truncateErrors: [Int32] = []
        var renameErrors: [Int32] = []
        var syncs = 0
    }

    private let state = Locked(State())
    private let most: Int

    /// Calls that write at most this many bytes at a time.
    init(most: Int = .max) { self.most = most }

    /// The number of syncs that the store has requested.
    var syncs: Int { state.withLock { $0.syncs } }

    /// Lets the next calls fail with these numbers; 0 lets one succeed. A write that fails has written half of its bytes before.
    func fail(write: [Int32] = [], sync: [Int32] = [], truncate: [Int32] = [], rename: [Int32] = []) {
        state.withLock { state in
            (state.writeErrors, state.syncErrors) = (write, sync)
            (state.truncateErrors, state.renameErrors) = (truncate, rename)
        }
    }

    private func next(_ errors: WritableKeyPath<State, [Int32]> & Sendable) -> Int32 {
        state.withLock { $0[keyPath: errors].isEmpty ? 0 : $0[keyPath: errors].removeFirst() }
    }

    /// The calls. `onSync` is called after each sync.
    func calls(onSync: @escaping @Sendable () -> Void = {}) -> FileCalls {
        let system = FileCalls()
        var calls = FileCalls()
        calls.write = { [self] file, bytes, offset in
            let number = next(\.writeErrors)
            let count = number == 0 ? min(bytes.count, most) : bytes.count / 2
            let written = system.write(file, UnsafeRawBufferPointer(rebasing: bytes[..<count]), offset)
            guard number != 0 else { return written }
            errno = number
            return -1
        }
        calls.sync = { [self] file in
            let number = next(\.syncErrors)
            state.withLock { $0.syncs += 1 }
            defer { onSync() }
            guard number != 0 else { return system.sync(file) }
            errno = number
            return -1
        }
        calls.truncate = { [self] file, size in
            let number = next(\.truncateErrors)
            guard number != 0 else { return system.truncate(file, size) }
            errno = number
            return -1
        }
        calls.rename = { [self] old, new in
            let number = next(\.renameErrors)
            guard number != 0 else { return system.rename(old, new) }
            errno = number
            return -1
        }
        return calls
    }
}

extension StoreFolder {
    fileprivate func store(
        _ calls: FailingCalls,
        sync: StoreSync = .none,
        onSync: @escaping @Sendable () -> Void = {}
    ) -> FileOutboxStore {
        FileOutboxStore(path: store, sync: sync, maximumBytes: 256 << 20, calls: calls.calls(onSync: onSync))
    }

    fileprivate func open() throws -> [StoredRecord] { try records(FileOutboxStore(path: store)) }
}

@Suite("The store in a file", .ownThread, .timeLimit(.minutes(5))) struct FileOutboxStoreTests {
    @Test("A file that was cut at any length is repaired, and can be written again")
    func cut() throws {
        let log = SmallLog.small
        let folder = try StoreFolder()
        for length in 0...log.bytes.count {
            try folder.write(log.bytes[..<length])
            let frame = log.ends.lastIndex { $0 <= length }
            let store = FileOutboxStore(path: folder.store, sync: .none)
            #expect(try store.open() == frame.map { log.records[$0] } ?? [])
            #expect(try folder.bytes == Array(log.bytes[..<log.ends[frame ?? 0]]))
            try store.write([put(9, 9, "later")])
            store.close()
            #expect(try folder.open() == (frame.map { log.records[$0] } ?? []) + [record(9, 9, "later")])
        }
    }

    @Test("Zeros after the last frame are removed", arguments: [1, 100, 1 << 20])
    func zeros(count: Int) throws {
        let log = SmallLog.small
        let folder = try StoreFolder()
        try folder.write(log.bytes + [UInt8](repeating: 0, count: count))
        #expect(try folder.open() == log.records.last)
        #expect(try folder.bytes == log.bytes)
    }

    @Test("Damage is refused with its offset and with what to do, and the file stays as it is")
    func damage() throws {
        let log = SmallLog.small
        let folder = try StoreFolder()
        for index in log.ends[1]..<log.ends[2] {
            var bytes = log.bytes
            bytes[index] ^= 0x40
            try folder.write(bytes)
            let error = try #require(openError(FileOutboxStore(path: folder.store)))
            #expect(
                error.code == .storageFailed && error.reason.contains("the frame at byte \(log.ends[1]) is damaged")
            )
            #expect(error.reason.contains("move it away") && !error.reason.contains("\n"), "\(error)")
            #expect(try folder.bytes == bytes)
        }
    }

    @Test("A file of another version is refused, and says which")
    func version() throws {
        let folder = try StoreFolder()
        var bytes = SmallLog.small.bytes
        bytes[11] = 7
        try folder.write(bytes)
        let error = try #require(openError(FileOutboxStore(path: folder.store)))
        #expect(error.code == .storageFailed && error.reason.contains("version 7, and this program knows version 1"))
        #expect(try folder.bytes == bytes)
    }

    @Test("A write is one frame after the others")
    func frames() throws {
        let folder = try StoreFolder()
        let store = FileOutboxStore(path: folder.store)
        _ = try store.open()
        try store.write([put(1, 1, "first")])
        try store.write([put(1, 2, "second"), put(2, 1, "")])
        try store.write([remove(1, 1), put(1, 3, "zeros: \0\0\0")])
        try store.write([put(1, 4, "fourth")])
        store.close()
        #expect(try folder.bytes == SmallLog.small.bytes)
    }

    @Test("The system may write any part of a frame at a time")
    func shortWrites() throws {
        let folder = try StoreFolder()
        let store = folder.store(FailingCalls(most: 7))
        _ = try store.open()
        try store.write([put(1, 1, String(repeating: "a", count: 1000))])
        try store.write([put(1, 2, "b")])
        store.close()
        #expect(try folder.open() == [record(1, 1, String(repeating: "a", count: 1000)), record(1, 2, "b")])
    }

    @Test(
        "A write that fails changes nothing, and the next one succeeds",
        arguments: [ENOSPC, EIO, EDQUOT, EROFS, EFBIG]
    )
    func failedWrite(number: Int32) throws {
        let folder = try StoreFolder()
        let calls = FailingCalls()
        let store = folder.store(calls)
        _ = try store.open()
        try store.write([put(1, 1, "a")])
        let before = try folder.bytes
        calls.fail(write: [number])
        let error = try #require(writeError(store, [put(1, 2, "lost")]))
        #expect(error.code == .storageFailed && error.detail == Int(number) && !error.reason.contains("\n"), "\(error)")
        #expect(try folder.bytes == before)
        try store.write([put(1, 3, "b")])
        store.close()
        #expect(try folder.open() == [record(1, 1, "a"), record(1, 3, "b")])
    }

    @Test("A call that a signal interrupts is repeated")
    func interrupted() throws {
        let folder = try StoreFolder()
        let calls = FailingCalls()
        let store = folder.store(calls)
        _ = try store.open()
        calls.fail(write: [EINTR, EINTR])
        try store.write([put(1, 1, "a")])
        store.close()
        #expect(try folder.open() == [record(1, 1, "a")])
    }

    @Test("Half a frame that cannot be removed is removed by the next write, or when the file is opened")
    func failedTruncation() throws {
        let folder = try StoreFolder()
        let calls = FailingCalls()
        let store = folder.store(calls)
        _ = try store.open()
        try store.write([put(1, 1, "a")])
        let before = try folder.bytes
        calls.fail(write: [ENOSPC], truncate: [EIO, EIO])
        #expect(writeError(store, [put(1, 2, "a long text")])?.detail == Int(ENOSPC))
        let torn = try folder.bytes
        #expect(torn.count > before.count)
        #expect(writeError(store, [put(1, 2, "a long text")])?.detail == Int(EIO))
        try store.write([put(1, 3, "b")])
        store.close()
        #expect(try folder.open() == [record(1, 1, "a"), record(1, 3, "b")])

        try folder.write(torn)
        #expect(try folder.open() == [record(1, 1, "a")])
        #expect(try folder.bytes == before)
    }

    @Test("After a failed fsync a write fails, and the next one begins a new file")
    func failedSync() throws {
        let folder = try StoreFolder()
        let calls = FailingCalls()
        let store = folder.store(calls, sync: .always)
        _ = try store.open()
        try store.write([put(1, 1, "a")])
        let inode = folder.status.st_ino
        calls.fail(sync: [EIO])
        #expect(writeError(store, [put(1, 2, "lost")])?.detail == Int(EIO))
        // The new file cannot be synced either.
        calls.fail(sync: [EIO])
        #expect(writeError(store, [put(1, 2, "lost")])?.detail == Int(EIO))
        #expect(folder.status.st_ino == inode)
        #expect(try folder.names == ["outbox", "outbox.lock"])
        try store.write([put(1, 3, "b")])
        #expect(folder.status.st_ino != inode)
        store.close()
        #expect(try folder.open() == [record(1, 1, "a"), record(1, 3, "b")])
    }

    @Test("A value that the disk has lost is noticed when the file is rewritten")
    func lostValue() throws {
        let folder = try StoreFolder()
        let calls = FailingCalls()
        let store = folder.store(calls, sync: .always)
        _ = try store.open()
        try store.write([put(1, 1, "a")])
        calls.fail(sync: [EIO])
        #expect(writeError(store, [put(1, 2, "b")])?.detail == Int(EIO))
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: folder.store))
        try handle.seek(toOffset: UInt64(try folder.bytes.count - 1))
        try handle.write(contentsOf: Data([0]))
        try handle.close()
        let error = try #require(writeError(store, [put(1, 2, "b")]))
        #expect(error.reason.contains("has changed since it was written"), "\(error)")
    }

    @Test("With an interval, the file is synced although no further write comes")
    func interval() async throws {
        let folder = try StoreFolder()
        let calls = FailingCalls()
        let (synced, continuation) = AsyncStream.makeStream(of: Void.self)
        let store = folder.store(calls, sync: .interval(.milliseconds(1))) { continuation.yield() }
        _ = try store.open()
        var iterator = synced.makeAsyncIterator()
        // The new file and its folder.
        await iterator.next()
        await iterator.next()
        #expect(calls.syncs == 2)
        try store.write([put(1, 1, "a")])
        await iterator.next()
        let inode = folder.status.st_ino
        calls.fail(sync: [EIO])
        try store.write([put(1, 2, "b")])
        await iterator.next()
        try store.write([put(1, 3, "c")])
        #expect(folder.status.st_ino != inode)
        store.close()
        #expect(try folder.open() == [record(1, 1, "a"), record(1, 2, "b"), record(1, 3, "c")])
    }

    @Test("A store syncs as often as its policy says")
    func policies() throws {
        let folder = try StoreFolder()
        for (sync, expected) in [(StoreSync.none, 0), (.always, 3), (.interval(.seconds(3600)), 1)] {
            let calls = FailingCalls()
            let store = folder.store(calls, sync: sync)
            _ = try store.open()
            let before = calls.syncs
            for number in 0..<3 { try store.write([put(1, UInt64(number), "a")]) }
            store.close()
            #expect(calls.syncs - before == expected, "\(sync)")
        }
    }

    /// Writes and removes records of 64 KiB. The file is rewritten first after 16 of them.
    private static func fill(_ store: FileOutboxStore, count: UInt64 = 17) throws {
        try store.write([put(1, 1, "kept"), put(2, 1, "also kept")])
        let value = [UInt8](repeating: 7, count: 1 << 16)
        for number in 100..<100 + count {
            try store.write([.put(StoredRecord(StoredRecord.Key(kind: 1, number: number), value))])
            try store.write([remove(1, number)])
        }
    }

    @Test("A file with mostly dead bytes is rewritten with the same records")
    func compaction() throws {
        let folder = try StoreFolder()
        let store = FileOutboxStore(path: folder.store, sync: .none)
        _ = try store.open()
        try Self.fill(store)
        #expect(folder.status.st_size < 1_200_000)
        #expect(folder.status.st_mode & 0o777 == 0o600)
        #expect(try folder.names == ["outbox", "outbox.lock"])
        // The lock survives the rewriting.
        let second = FileOutboxStore(path: folder.store)
        #expect(openError(second)?.reason.contains("has it open") == true)
        try store.write([put(3, 1, "later")])
        store.close()
        #expect(try second.open() == [record(1, 1, "kept"), record(2, 1, "also kept"), record(3, 1, "later")])
    }

    @Test("Large records are copied whole")
    func largeRecords() throws {
        let folder = try StoreFolder()
        let store = FileOutboxStore(path: folder.store, sync: .none)
        _ = try store.open()
        let large = (0..<3).map {
            StoredRecord(StoredRecord.Key(kind: 5, number: $0), [UInt8](repeating: UInt8($0), count: 300_000))
        }
        try store.write(large.map { .put($0) })
        try Self.fill(store)
        store.close()
        #expect(try store.open() == [record(1, 1, "kept"), record(2, 1, "also kept")] + large)
    }

    @Test("A write succeeds although the file cannot be rewritten")
    func failedCompaction() throws {
        for kind in ["write", "sync", "rename"] {
            let folder = try StoreFolder()
            let calls = FailingCalls()
            let store = folder.store(calls)
            _ = try store.open()
            switch kind {
            // One write and two for each of 16 records, and then the header of the new file.
            case "write": calls.fail(write: (0..<200).map { $0 == 33 ? ENOSPC : 0 })
            case "sync": calls.fail(sync: [EIO])
            default: calls.fail(rename: [EIO])
            }
            try Self.fill(store, count: 34)
            // The next attempt came when twice as much was dead.
            #expect(folder.status.st_size < 2_000_000, "\(kind)")
            #expect(try folder.names == ["outbox", "outbox.lock"], "\(kind)")
            store.close()
            #expect(try folder.open() == [record(1, 1, "kept"), record(2, 1, "also kept")], "\(kind)")
        }
    }

    @Test("What an interrupted rewriting has left is deleted")
    func leftover() throws {
        let folder = try StoreFolder()
        try folder.write(SmallLog.small.bytes)
        try Data("imoutbox".utf8).write(to: URL(fileURLWithPath: folder.store + ".new"))
        #expect(try folder.open() == SmallLog.small.records.last)
        #expect(try folder.names == ["outbox", "outbox.lock"])
    }

    @Test("A store that another process has open is refused, and names the process", .enabled(if: Peers.python != nil))
    func otherProcess() throws {
        let folder = try StoreFolder()
        let script = """
            import fcntl, os, sys
            file = open(sys.argv[1], "w")
            fcntl.flock(file, fcntl.LOCK_EX)
            fcntl.lockf(file, fcntl.LOCK_EX)
            print(os.getpid(), flush=True)
            sys.stdin.read()
            """
        let peer = try Peer(try #require(Peers.python), ["-c", script, folder.store + ".lock"])
        let identifier = try #require(peer.line())
        let store = FileOutboxStore(path: folder.store)
        let error = try #require(openError(store))
        #expect(error.code == .storageFailed && error.reason.contains("process \(identifier) has it open"), "\(error)")
        peer.destroy()
        _ = try peer.finish()
        #expect(try store.open() == [])
    }
}
