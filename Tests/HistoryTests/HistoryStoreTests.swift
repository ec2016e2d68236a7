import Foundation
import History
import OutboxStores
import SocketIO
import TestSupport
import Testing
import TransportAPI

/// A kind of store.
enum HistoryKind: String, CaseIterable {
    case memory, sqlite

    static var available: [HistoryKind] { SQLiteLibrary.shared == nil ? [.memory] : allCases }

    func store(_ folder: ScratchFolder, _ limits: HistoryLimits = .init()) -> any HistoryStore {
        switch self {
        case .memory: MemoryHistory(limits)
        case .sqlite: SQLiteHistory(path: "\(folder.path)/history", limits)
        }
    }
}

@Suite("Every store of the history", .ownThread, .timeLimit(.minutes(2))) struct HistoryStoreTests {
    private let folder: ScratchFolder

    init() throws { folder = try ScratchFolder() }

    private func fill(_ store: any HistoryStore, _ count: Int, room: String = "kitchen") throws {
        for number in 1...count {
            #expect(try store.append(Array("\(number)".utf8), id: "m\(number)", sender: "ann", to: room) == number)
        }
    }

    private func error(_ body: () throws -> Void) -> TransportError? {
        do { try body() } catch { return error as? TransportError }
        return nil
    }

    @Test("Rooms count on their own, from 1", arguments: HistoryKind.available)
    func numbers(kind: HistoryKind) throws {
        let store = kind.store(folder)
        try store.open()
        try fill(store, 3)
        try fill(store, 2, room: "garden")
        let page = try store.page(of: "kitchen", after: 1, .init())
        #expect(page.entries.map(\.number) == [2, 3] && page.first == 1 && page.last == 3 && !page.hasMore)
        #expect(page.entries[0] == HistoryEntry(number: 2, id: "m2", sender: "ann", bytes: Array("2".utf8)))
        #expect(try store.page(of: "garden", after: 0, .init()).entries.count == 2)
        #expect(try store.page(of: "cellar", after: 0, .init()) == HistoryPage(entries: [], first: 1, last: 0))
        #expect(try store.page(of: "kitchen", after: .max, .init()).entries == [])
        store.close()
    }

    @Test("A message that is sent again keeps its number, and is there once", arguments: HistoryKind.available)
    func repeated(kind: HistoryKind) throws {
        let store = kind.store(folder)
        try store.open()
        try fill(store, 3)
        #expect(try store.append([9], id: "m2", sender: "ben", to: "kitchen") == 2)
        #expect(try store.append([9], id: "m2", sender: "ben", to: "garden") == 1)
        #expect(try store.page(of: "kitchen", after: 0, .init()).entries.map(\.id) == ["m1", "m2", "m3"])
        store.close()
    }

    @Test("A page ends at its limits, and has one entry at least", arguments: HistoryKind.available)
    func pages(kind: HistoryKind) throws {
        let store = kind.store(folder)
        try store.open()
        for number in 1...5 {
            _ = try store.append([UInt8](repeating: 1, count: 100), id: "m\(number)", sender: "ann", to: "kitchen")
        }
        func numbers(after number: UInt64, _ limit: HistoryPageLimit) throws -> [UInt64] {
            let page = try store.page(of: "kitchen", after: number, limit)
            #expect(page.hasMore == (page.entries.last?.number != 5))
            return page.entries.map(\.number)
        }
        #expect(try numbers(after: 0, HistoryPageLimit(count: 2)) == [1, 2])
        #expect(try numbers(after: 2, HistoryPageLimit(bytes: 250)) == [3, 4])
        #expect(try numbers(after: 4, HistoryPageLimit(bytes: 250)) == [5])
        #expect(try numbers(after: 0, HistoryPageLimit(count: 0, bytes: 0)) == [1])
        store.close()
    }

    @Test("Beyond its limit a room drops the oldest messages, and a page says so", arguments: HistoryKind.available)
    func drops(kind: HistoryKind) throws {
        var limits = HistoryLimits()
        limits.entriesPerRoom = 3
        let store = kind.store(folder, limits)
        try store.open()
        try fill(store, 5)
        let page = try store.page(of: "kitchen", after: 0, .init())
        #expect(page.entries.map(\.number) == [3, 4, 5] && page.first == 3 && page.last == 5)
        store.close()
    }

    @Test("Messages and names beyond the limits are refused, and nothing is added", arguments: HistoryKind.available)
    func refused(kind: HistoryKind) throws {
        var limits = HistoryLimits()
        (limits.largestMessage, limits.longestName) = (10, 5)
        let store = kind.store(folder, limits)
        try store.open()
        let large = error { _ = try store.append([UInt8](repeating: 0, count: 11), id: "a", sender: "a", to: "a") }
        #expect(large?.code == .messageTooLarge && large?.reason.contains("11 bytes") == true)
        for (id, sender, room) in [("toolong", "a", "a"), ("a", "toolong", "a"), ("a", "a", "toolong"), ("", "a", "a")]
        {
            let wrong = error { _ = try store.append([1], id: id, sender: sender, to: room) }
            #expect(wrong?.code == .invalidConfiguration, "\(id) \(sender) \(room)")
        }
        #expect(try store.append([], id: "a", sender: "a", to: "a") == 1)
        #expect(try store.page(of: "a", after: 0, .init()).entries[0].bytes == [])
        store.close()
    }

    @Test("A memory that is full takes nothing more, and keeps what it has")
    func full() throws {
        let store = MemoryHistory(maximumBytes: 1000)
        var count = 0
        while error({ _ = try store.append([1], id: "m\(count)", sender: "ann", to: "kitchen") }) == nil { count += 1 }
        #expect(count == 6)
        #expect(try store.page(of: "kitchen", after: 0, .init()).last == 6)
    }
}

@Suite("The history in SQLite", .enabled(if: SQLiteLibrary.shared != nil), .ownThread, .timeLimit(.minutes(2)))
struct SQLiteHistoryTests {
    private let folder: ScratchFolder
    private var path: String { "\(folder.path)/history" }

    init() throws { folder = try ScratchFolder() }

    private func error(_ body: () throws -> Void) -> TransportError? {
        do { try body() } catch { return error as? TransportError }
        return nil
    }

    @Test("What was numbered is there after a kill, and after a close")
    func kills() throws {
        let store = SQLiteHistory(path: path)
        try store.open()
        for number in 1...100 { _ = try store.append([UInt8(number)], id: "\(number)", sender: "ann", to: "kitchen") }
        // What a killed process leaves: its files as they are.
        let copy = "\(folder.path)/killed"
        for end in ["", "-wal"] { try FileManager.default.copyItem(atPath: path + end, toPath: copy + end) }
        for path in [copy, path] {
            if path == self.path { store.close() }
            let next = SQLiteHistory(path: path)
            try next.open()
            #expect(
                try next.page(of: "kitchen", after: 0, .init()).entries.map(\.bytes) == (1...100).map { [UInt8($0)] }
            )
            #expect(try next.append([0], id: "50", sender: "ann", to: "kitchen") == 50)
            #expect(try next.append([0], id: "101", sender: "ann", to: "kitchen") == 101)
            next.close()
        }
    }

    @Test("Two stores on one path, another database and a missing folder are refused with what to do")
    func refused() throws {
        let store = SQLiteHistory(path: path)
        try store.open()
        #expect(error { try SQLiteHistory(path: path).open() }?.reason.contains("has it open") == true)
        store.close()
        let outbox = SQLiteOutboxStore(path: "\(folder.path)/outbox")
        _ = try outbox.open()
        outbox.close()
        let other = error { try SQLiteHistory(path: "\(folder.path)/outbox").open() }
        #expect(other?.code == .storageFailed && other?.reason.contains("another application") == true)
        let missing = error { try SQLiteHistory(path: "\(folder.path)/none/history").open() }
        #expect(missing?.reason.contains("does not exist") == true)
        let closed = error { _ = try store.page(of: "a", after: 0, .init()) }
        #expect(closed?.reason.contains("not open") == true)
    }
}
