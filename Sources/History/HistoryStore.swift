import TransportAPI

/// One message of a room, with its place in it.
public struct HistoryEntry: Sendable, Hashable {
    /// Its number in the room. The first one is 1, and each one follows the one before without a hole.
    public let number: UInt64
    /// The identifier that its sender gave it.
    public let id: String
    /// The user who has sent it.
    public let sender: String
    /// The message.
    public let bytes: [UInt8]

    /// Creates an entry.
    public init(number: UInt64, id: String, sender: String, bytes: [UInt8]) {
        (self.number, self.id, self.sender, self.bytes) = (number, id, sender, bytes)
    }
}

/// Some entries of a room, in order and without a hole.
public struct HistoryPage: Sendable, Hashable {
    /// The entries.
    public let entries: [HistoryEntry]
    /// The number of the oldest entry that the room still has; one more than ``last`` if it has none.
    public let first: UInt64
    /// The number of the room's last entry; 0 before the first one.
    public let last: UInt64

    /// Creates a page.
    public init(entries: [HistoryEntry], first: UInt64, last: UInt64) {
        (self.entries, self.first, self.last) = (entries, first, last)
    }

    /// Whether there are entries after those of the page.
    public var hasMore: Bool { entries.last.map { $0.number < last } ?? false }
}

/// How much one page has at most.
public struct HistoryPageLimit: Sendable, Hashable {
    /// The number of entries. Default 100; at least 1.
    public var count: Int
    /// Their bytes together. A page has one entry in any case, also a larger one. Default 256 KiB.
    public var bytes: Int

    /// Creates a limit.
    public init(count: Int = 100, bytes: Int = 256 << 10) {
        (self.count, self.bytes) = (count, bytes)
    }
}

/// Keeps the messages of rooms, numbered without a hole, so that a device that was away asks for those after the last number that
/// it has. ``MemoryHistory`` and ``SQLiteHistory`` are stores; an app can have its own, such as the tables of its database.
///
/// All calls come one at a time from a thread that may block, as those of ``History`` do.
public protocol HistoryStore: Sendable {
    /// Opens the store. It is called before all other calls.
    ///
    /// - Throws: `.storageFailed` if it cannot be opened.
    func open() throws(TransportError)

    /// Adds a message to a room, and returns its number. A message whose identifier the room has already is not added again; the
    /// number is that of the first one then, so a sender that does not know whether the server has a message sends it again.
    ///
    /// - Throws: `.storageFailed` if nothing was added.
    func append(_ bytes: [UInt8], id: String, sender: String, to room: String) throws(TransportError) -> UInt64

    /// Returns the entries after a number, oldest first. If the room has dropped some of them, the page begins later; see
    /// ``HistoryPage/first``. A room without entries has an empty page.
    ///
    /// - Throws: `.storageFailed` if they cannot be read.
    func page(of room: String, after number: UInt64, _ limit: HistoryPageLimit) throws(TransportError) -> HistoryPage

    /// Closes the store, so that another process can open it. No call follows but ``open()``.
    func close()
}

/// The limits of a store of the history.
public struct HistoryLimits: Sendable, Hashable {
    /// How many messages a room keeps. The oldest ones are dropped. Default 10,000; at least 1.
    public var entriesPerRoom = 10_000
    /// The bytes of the largest message. A larger one is refused. Default 1 MiB.
    public var largestMessage = 1 << 20
    /// The bytes of the longest name of a room or of a user, and of the longest identifier. Each has one byte at least. Default 128.
    public var longestName = 128

    /// Makes the defaults.
    public init() {}

    /// - Throws: `.messageTooLarge` for the message, `.invalidConfiguration` for a name.
    func check(_ bytes: [UInt8], id: String, sender: String, room: String) throws(TransportError) {
        guard bytes.count <= largestMessage else {
            let sentence = "the message has \(bytes.count) bytes, and the history takes at most \(largestMessage)"
            throw TransportError(.messageTooLarge, .open, "\(sentence): raise largestMessage, or send a smaller one")
        }
        try check("id", id)
        try check("sender", sender)
        try check("room", room)
    }

    private func check(_ what: String, _ name: String) throws(TransportError) {
        try SettingCheck.number("the number of bytes in \(what)", name.utf8.count, 1...max(1, longestName))
    }

    var keptPerRoom: UInt64 { UInt64(clamping: max(1, entriesPerRoom)) }
}
