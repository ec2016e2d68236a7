import TransportAPI

/// Which packets have arrived, and when that is to be acknowledged (RFC 9000, section 13.2).
struct ReceivedPackets: Sendable {
    /// The longest time for which an acknowledgement waits for company.
    static let longestDelay = Duration.milliseconds(25)
    /// How many runs are held; what is older counts as arrived.
    static let maximumRanges = 32
    /// How far back a packet is still taken.
    static let history: UInt64 = 4096
    /// In how many acknowledgements each arrival is told, since some of them get lost. What was told so often is left out, or
    /// each would name the gap of every loss there was (RFC 9000, section 13.2.4).
    static let repetitions = 8

    private var numbers = NumberRanges()
    /// Packets below are not taken any more.
    private var floor: UInt64 = 0
    /// The lowest number that has arrived since the last acknowledgement, and before each of those that repeat it.
    private var lowestNew = UInt64.max
    private var lowestTold: [UInt64] = []
    private var largestAt = Instant.zero
    private var unacknowledged = 0
    /// When an acknowledgement is to leave at the latest.
    private(set) var dueAt: Instant?

    /// The runs of packets that an acknowledgement is to name, ascending.
    var ranges: ArraySlice<ClosedRange<UInt64>> {
        let lowest = min(lowestNew, lowestTold.min() ?? .max)
        let runs = numbers.ranges
        return runs[(runs.firstIndex { $0.upperBound >= lowest } ?? max(0, runs.count - 1))...]
    }

    /// How long ago the largest of them came.
    func delay(_ now: Instant) -> Duration { largestAt.duration(to: now) }

    /// A packet has arrived. `false` if it had before: the peer repeats what is lost under another number, so nothing
    /// is to be done then.
    mutating func insert(_ number: UInt64, _ now: Instant) -> Arrival {
        guard number >= floor, number < .max else { return .duplicate }
        let largest = numbers.ranges.last?.upperBound
        guard numbers.insert(number) else { return .duplicate }
        let isNext = largest.map { number == $0 + 1 } ?? (number == 0)
        if largest.map({ number > $0 }) ?? true { largestAt = now }
        lowestNew = min(lowestNew, number)
        while let first = numbers.ranges.first, let last = numbers.ranges.last,
            numbers.ranges.count > Self.maximumRanges || last.upperBound - first.upperBound > Self.history
        {
            floor = first.upperBound + 1
            numbers.removeFirst()
        }
        return isNext ? .next : .outOfOrder
    }

    /// The packet that has just arrived asks for an acknowledgement: at once if it is the second one or something is
    /// missing before it, otherwise within ``longestDelay``.
    mutating func elicits(_ arrival: Arrival, _ now: Instant) {
        unacknowledged += 1
        let isUrgent = unacknowledged >= 2 || arrival == .outOfOrder
        let due = isUrgent ? now : now.advanced(by: Self.longestDelay)
        dueAt = dueAt.map { min($0, due) } ?? due
    }

    /// An acknowledgement is to leave now, for the sake of the credit in it.
    mutating func hurry(_ now: Instant) {
        if !numbers.ranges.isEmpty { dueAt = now }
    }

    /// An acknowledgement has been written.
    mutating func acknowledged() {
        unacknowledged = 0
        dueAt = nil
        lowestTold.append(lowestNew)
        if lowestTold.count >= Self.repetitions { lowestTold.removeFirst() }
        lowestNew = .max
    }

    /// How a packet came.
    enum Arrival {
        case next, outOfOrder, duplicate
    }
}
