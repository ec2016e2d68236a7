import TransportAPI

/// The packets that have arrived, and the time at which they have to be acknowledged (RFC 9000, section 13.2).
struct ReceivedPackets: Sendable {
    /// The longest delay of an acknowledgement.
    static let longestDelay = Duration.milliseconds(25)
    /// How many runs are stored. Older packets count as arrived.
    static let maximumRanges = 32
    /// How far back a packet is still accepted.
    static let history: UInt64 = 4096
    /// The number of acknowledgements that contain each arrival, because some of them are lost. Older arrivals are left
    /// out. Otherwise each acknowledgement would contain the gap of every loss (RFC 9000, section 13.2.4).
    static let repetitions = 8

    private var numbers = NumberRanges()
    /// The lowest number of a packet that is still accepted.
    private var floor: UInt64 = 0
    /// The lowest number that has arrived since the last acknowledgement, and the same for each of the earlier
    /// acknowledgements that are repeated.
    private var lowestNew = UInt64.max
    private var lowestTold: [UInt64] = []
    private var largestAt = Instant.zero
    private var unacknowledged = 0
    /// When an acknowledgement has to be sent at the latest.
    private(set) var dueAt: Instant?

    /// The runs of packets for the next acknowledgement, ascending.
    var ranges: ArraySlice<ClosedRange<UInt64>> {
        let lowest = min(lowestNew, lowestTold.min() ?? .max)
        let runs = numbers.ranges
        return runs[(runs.firstIndex { $0.upperBound >= lowest } ?? max(0, runs.count - 1))...]
    }

    /// The time since the largest of them arrived.
    func delay(_ now: Instant) -> Duration { largestAt.duration(to: now) }

    /// Records that a packet has arrived. If it is a duplicate, the caller must ignore it. The peer sends lost content
    /// again under another number.
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

    /// Records that the packet that has just arrived requires an acknowledgement. The acknowledgement is due at once if
    /// this is the second such packet or a packet before it is missing, otherwise within ``longestDelay``.
    mutating func elicits(_ arrival: Arrival, _ now: Instant) {
        unacknowledged += 1
        let isUrgent = unacknowledged >= 2 || arrival == .outOfOrder
        let due = isUrgent ? now : now.advanced(by: Self.longestDelay)
        dueAt = dueAt.map { min($0, due) } ?? due
    }

    /// Makes the next acknowledgement due now, because of the credit in it.
    mutating func hurry(_ now: Instant) {
        if !numbers.ranges.isEmpty { dueAt = now }
    }

    /// Records that an acknowledgement was written.
    mutating func acknowledged() {
        unacknowledged = 0
        dueAt = nil
        lowestTold.append(lowestNew)
        if lowestTold.count >= Self.repetitions { lowestTold.removeFirst() }
        lowestNew = .max
    }

    /// The order in which a packet has arrived.
    enum Arrival {
        /// The next number, another number, or a number that has arrived before.
        case next, outOfOrder, duplicate
    }
}
