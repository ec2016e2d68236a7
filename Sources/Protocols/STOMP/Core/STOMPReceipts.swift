import TransportAPI

/// The frames that asked for a RECEIPT and have none yet. Their receipts are numbers, counted from 1.
///
/// A broker may answer in any order, because a receipt says that its frame was processed (section "RECEIPT").
struct STOMPReceipts: Sendable {
    /// What a frame was.
    enum Kind: Sendable, Hashable {
        /// The SEND of the message with this id.
        case send(UInt64)
        /// The SUBSCRIBE of a destination of the configuration.
        case configured(String)
        /// The SUBSCRIBE of a destination, with the id of its request.
        case subscribe(UInt64, String)
        /// The UNSUBSCRIBE of a destination, with the id of its request and that of the subscription.
        case unsubscribe(UInt64, subscription: UInt32)
        case disconnect
    }

    private struct Entry: Sendable {
        var kind: Kind
        var since: Instant
    }

    /// The most messages that may wait.
    let window: Int
    /// The number of messages that wait.
    private(set) var messages = 0
    /// How long a receipt may take, in nanoseconds, and how long while the broker sends something else.
    private let timeout: Int64
    private let longestTimeout: Int64
    private var entries: [UInt64: Entry] = [:]
    private var last: UInt64 = 0
    /// When to look whether the oldest entry is overdue; `nil` if there is no entry. Entries that were answered since
    /// do not move it.
    private(set) var deadline: Instant?

    init(window: Int, timeout: Int64) {
        self.window = window
        self.timeout = timeout
        let (product, overflow) = timeout.multipliedReportingOverflow(by: 4)
        longestTimeout = overflow ? .max : product
    }

    /// The number of frames that wait.
    var count: Int { entries.count }
    /// Whether another message may be sent.
    var hasRoom: Bool { messages < window }

    /// Takes the number of the next receipt.
    mutating func begin(_ kind: Kind, now: Instant) -> UInt64 {
        last += 1
        entries[last] = Entry(kind: kind, since: now)
        if case .send = kind { messages += 1 }
        if deadline == nil { deadline = now.advanced(byNanoseconds: timeout) }
        return last
    }

    /// A receipt has arrived. Returns what its frame was, or `nil` if no frame waits for it.
    mutating func end(_ name: String) -> Kind? {
        // Only the digits that the client wrote are its receipt.
        guard let number = UInt64(name), "\(number)".utf8.elementsEqual(name.utf8),
            let entry = entries.removeValue(forKey: number)
        else { return nil }
        if case .send = entry.kind { messages -= 1 }
        if entries.isEmpty { deadline = nil }
        return entry.kind
    }

    /// Moves the deadline to when the oldest receipt is overdue. Returns `true` if it is. Reads every entry.
    mutating func isOverdue(_ times: PathTimes, now: Instant) -> Bool {
        guard let oldest = entries.values.lazy.map(\.since).min() else {
            deadline = nil
            return false
        }
        let since = max(oldest, times.unreadUntil, times.outputMoved)
        let latest = since.advanced(byNanoseconds: longestTimeout)
        let due = min(max(since, times.lastReceived).advanced(byNanoseconds: timeout), latest)
        deadline = due
        return due <= now
    }
}
