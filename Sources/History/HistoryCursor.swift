/// How far a device is in a room. It brings the messages that arrive and the pages that the device asks for into one order,
/// without a gap and each once.
///
/// Give it each entry that arrives, and each page. It returns what to show, and after which number to ask for a page.
public struct HistoryCursor: Sendable {
    /// What follows from an entry or a page.
    public struct Step: Sendable, Hashable {
        /// What to show, in order.
        public var entries: [HistoryEntry] = []
        /// The numbers of entries that the server has dropped, before ``entries``. The device will never have them.
        public var missing: ClosedRange<UInt64>?
        /// Whether the server has another history than before, for example because its store was lost. The device's entries have
        /// numbers that the server gives to other messages now, so forget the numbers; the cursor begins before the first entry.
        public var hasRestarted = false
        /// Ask for the page after this number; `nil` if there is nothing to ask for, or if the answer is on its way.
        public var request: UInt64?

        /// Creates a step. By default nothing follows.
        public init(
            entries: [HistoryEntry] = [],
            missing: ClosedRange<UInt64>? = nil,
            hasRestarted: Bool = false,
            request: UInt64? = nil
        ) {
            (self.entries, self.missing, self.hasRestarted, self.request) = (entries, missing, hasRestarted, request)
        }
    }

    /// The number of the last entry that was shown. Keep it, and begin with it in the next process.
    public private(set) var last: UInt64
    private let limit: HistoryPageLimit
    /// The largest number. A store never gets there, and a server that says more does not make the next number overflow.
    private static let largest = UInt64(Int64.max)
    /// Entries that arrived before those in front of them.
    private var early: [UInt64: HistoryEntry] = [:]
    private var earlyBytes = 0
    /// The number after which a page was asked for that has not arrived; `nil` if there is none.
    private var asked: UInt64?

    /// Begins after a number.
    ///
    /// - Parameters:
    ///   - last: The number of the last entry that the device has; 0 for none.
    ///   - limit: How many entries may wait for a page. More are dropped, and come with a later page.
    public init(after last: UInt64 = 0, _ limit: HistoryPageLimit = .init()) {
        (self.last, self.limit) = (min(last, Self.largest), limit)
    }

    /// The device has connected, so it may have missed entries. Without a connection, an answer that was on its way does not
    /// come any more.
    public mutating func connected() -> Step {
        asked = last
        return Step(request: last)
    }

    /// Takes an entry that has arrived.
    public mutating func receive(_ entry: HistoryEntry) -> Step {
        guard entry.number > last, entry.number <= Self.largest else { return Step() }
        if entry.number > last + 1 {
            keep(entry)
            guard asked == nil else { return Step() }
            asked = last
            return Step(request: last)
        }
        var step = Step()
        show(entry, &step)
        return step
    }

    /// Takes the page that ``Step/request`` or ``connected()`` has asked for.
    public mutating func receive(_ page: HistoryPage) -> Step {
        var step = Step()
        // Entries that have arrived meanwhile may be newer than the page.
        if let asked, page.last < asked {
            (last, early, earlyBytes, self.asked) = (0, [:], 0, 0)
            return Step(hasRestarted: true, request: 0)
        }
        asked = nil
        let first = min(page.first, Self.largest)
        if first > last + 1 {
            step.missing = last + 1...first - 1
            last = first - 1
        }
        for entry in page.entries where entry.number == last + 1 && entry.number <= Self.largest { show(entry, &step) }
        showEarly(&step)
        // What arrives later is asked for then. A page that brings nothing is not asked for again at once.
        if page.last > last, !step.entries.isEmpty || step.missing != nil {
            asked = last
            step.request = last
        }
        return step
    }

    private mutating func show(_ entry: HistoryEntry, _ step: inout Step) {
        step.entries.append(entry)
        last = entry.number
        showEarly(&step)
    }

    private mutating func showEarly(_ step: inout Step) {
        while let next = early.removeValue(forKey: last + 1) {
            earlyBytes -= next.bytes.count
            last = next.number
            step.entries.append(next)
        }
        // Those before it were shown from a page.
        if early.keys.contains(where: { $0 <= last }) {
            early = early.filter { $0.key > last }
            earlyBytes = early.values.reduce(0) { $0 + $1.bytes.count }
        }
    }

    private mutating func keep(_ entry: HistoryEntry) {
        guard early[entry.number] == nil, early.count < limit.count, entry.bytes.count <= limit.bytes - earlyBytes
        else { return }
        early[entry.number] = entry
        earlyBytes += entry.bytes.count
    }
}
