import Codecs
import Primitives
import SocketIO
import TransportAPI

/// Keeps the messages of rooms in memory, for servers whose rooms end with them.
public final class MemoryHistory: HistoryStore {
    private struct Room {
        var entries = Deque<HistoryEntry>()
        var numbers: [UTF8Key: UInt64] = [:]
        var last: UInt64 = 0

        var first: UInt64 { last + 1 - UInt64(entries.count) }
    }

    private struct State {
        var rooms: [UTF8Key: Room] = [:]
        var bytes = 0
    }

    private let limits: HistoryLimits
    private let maximumBytes: Int
    private let state = Locked(State())
    /// What an entry and a room count beside their bytes.
    private static let overhead = 128

    /// Makes an empty store.
    ///
    /// - Parameters:
    ///   - limits: The limits of a room.
    ///   - maximumBytes: The most bytes of all messages, with 128 for each one. A message beyond it is refused. Default 64 MiB.
    public init(_ limits: HistoryLimits = .init(), maximumBytes: Int = 64 << 20) {
        (self.limits, self.maximumBytes) = (limits, maximumBytes)
    }

    /// Does nothing.
    public func open() throws(TransportError) {}

    /// Adds a message.
    ///
    /// - Throws: `.messageTooLarge` or `.invalidConfiguration` for a message or a name beyond the limits, `.storageFailed` if all
    ///   messages have too many bytes.
    public func append(
        _ bytes: [UInt8],
        id: String,
        sender: String,
        to room: String
    ) throws(TransportError) -> UInt64 {
        try limits.check(bytes, id: id, sender: sender, room: room)
        return try state.withLock { state throws(TransportError) in
            let (roomKey, key) = (UTF8Key(room), UTF8Key(id))
            if let number = state.rooms[roomKey]?.numbers[key] { return number }
            let entry = { HistoryEntry(number: $0, id: id, sender: sender, bytes: bytes) }
            let size = Self.size(entry(0)) + (state.rooms[roomKey] == nil ? room.utf8.count + Self.overhead : 0)
            guard state.bytes + size <= maximumBytes else {
                let sentence = "the history would have \(state.bytes + size) bytes, and \(maximumBytes) are allowed"
                throw TransportError(.storageFailed, .open, "\(sentence): raise maximumBytes, or keep fewer entries")
            }
            var kept = state.rooms.removeValue(forKey: roomKey) ?? Room()
            kept.last += 1
            kept.entries.append(entry(kept.last))
            kept.numbers[key] = kept.last
            state.bytes += size
            while UInt64(kept.entries.count) > limits.keptPerRoom, let oldest = kept.entries.popFirst() {
                kept.numbers[UTF8Key(oldest.id)] = nil
                state.bytes -= Self.size(oldest)
            }
            state.rooms[roomKey] = kept
            return kept.last
        }
    }

    /// Returns the entries after a number.
    public func page(
        of room: String,
        after number: UInt64,
        _ limit: HistoryPageLimit
    ) throws(TransportError) -> HistoryPage {
        state.withLock { state in
            guard let room = state.rooms[UTF8Key(room)] else { return HistoryPage(entries: [], first: 1, last: 0) }
            var page = PageBuilder(limit)
            var next = max(number, room.first - 1)
            while next < room.last, page.add(room.entries[Int(next + 1 - room.first)]) { next += 1 }
            return HistoryPage(entries: page.entries, first: room.first, last: room.last)
        }
    }

    /// Does nothing, so that the next ``open()`` finds all messages.
    public func close() {}

    private static func size(_ entry: HistoryEntry) -> Int {
        entry.bytes.count + entry.id.utf8.count + entry.sender.utf8.count + overhead
    }
}

/// Collects entries within a limit.
struct PageBuilder {
    private let limit: HistoryPageLimit
    private var bytes = 0
    private(set) var entries: [HistoryEntry] = []

    init(_ limit: HistoryPageLimit) { self.limit = limit }

    /// Whether an entry with so many bytes has room.
    func hasRoom(for count: Int) -> Bool {
        entries.isEmpty || entries.count < limit.count && count <= limit.bytes - bytes
    }

    /// Adds an entry if it has room. Returns whether it had.
    mutating func add(_ entry: HistoryEntry) -> Bool {
        guard hasRoom(for: entry.bytes.count) else { return false }
        bytes += entry.bytes.count
        entries.append(entry)
        return true
    }
}
