import Primitives
import TransportAPI

/// A packet that requires an acknowledgement, as it was sent.
struct SentPacket: Sendable {
    var number: UInt64
    var sentAt: Instant
    /// The size of the datagram, in bytes.
    var size: Int
    var pieces: [ReliablePieces.Piece]
    /// The time of the reduction of the congestion window to which its loss belongs; `nil` if it is not lost, or if the
    /// reason is not congestion.
    var answer: Instant?
}

/// The packets that wait for acknowledgement, and those that count as lost but may still turn out to have arrived.
///
/// A packet is lost if one has arrived that was sent three packets later, or 9/8 of a round trip later (RFC 9002,
/// section 6.1). If the path reorders packets more than that, both limits grow with each mistake, up to eightfold and
/// two round trips.
struct SentPackets: Sendable {
    /// The most packets that wait, however small they are.
    static let maximum = 4096
    /// How many lost packets are remembered.
    static let remembered = 128
    /// The packet threshold of RFC 9002, section 6.1.1.
    static let threshold: UInt64 = 3
    /// The highest value of `leniency`. The limits of RFC 9002 have the value 1.
    static let largestLeniency = 8

    /// The packets that wait for acknowledgement, in the order of sending.
    private(set) var waiting: [SentPacket] = []
    private var lost = Deque<SentPacket>()
    private var leniency = 1
    private var largestAcknowledged: UInt64?
    /// When the next packet counts as lost, unless an acknowledgement arrives before.
    private(set) var lossAt: Instant?

    var isEmpty: Bool { waiting.isEmpty }

    mutating func append(_ packet: SentPacket) {
        waiting.append(packet)
    }

    /// Removes and returns all packets that wait.
    mutating func takeAll() -> [SentPacket] {
        defer { waiting = [] }
        lossAt = nil
        return waiting
    }

    /// Removes and returns the packets that have arrived: those that waited, and those that counted as lost. An
    /// acknowledgement without news costs almost nothing, however many packets wait.
    mutating func take(_ news: Acknowledgement) -> (arrived: [SentPacket], late: [SentPacket]) {
        var arrived: [SentPacket] = []
        // Packets before `kept` stay. Those from `kept` to `next` are removed.
        var (kept, next) = (0, 0)
        for run in news.runs.reversed() {
            let start = place(of: run.lowerBound, from: next)
            let end = run.upperBound == .max ? waiting.count : place(of: run.upperBound + 1, from: start)
            guard start < end else { continue }
            if arrived.isEmpty { (kept, next) = (start, start) }
            arrived.append(contentsOf: waiting[start..<end])
            while next < start {
                waiting[kept] = waiting[next]
                (kept, next) = (kept + 1, next + 1)
            }
            next = end
        }
        if kept < next { waiting.removeSubrange(kept..<next) }
        let late = takeLate(news)
        if !arrived.isEmpty || !late.isEmpty { largestAcknowledged = max(largestAcknowledged ?? 0, news.largest) }
        return (arrived, late)
    }

    /// The place of the first waiting packet from `start` on with this number or a higher one.
    private func place(of number: UInt64, from start: Int) -> Int {
        var (low, high) = (start, waiting.count)
        while low < high {
            let middle = (low + high) / 2
            if waiting[middle].number < number { low = middle + 1 } else { high = middle }
        }
        return low
    }

    private mutating func takeLate(_ news: Acknowledgement) -> [SentPacket] {
        guard (0..<lost.count).contains(where: { news.contains(lost[$0].number) }) else { return [] }
        var late: [SentPacket] = []
        for _ in 0..<lost.count {
            guard let packet = lost.popFirst() else { break }
            if news.contains(packet.number) { late.append(packet) } else { lost.append(packet) }
        }
        if !late.isEmpty { leniency = min(leniency + 1, Self.largestLeniency) }
        return late
    }

    /// Remembers a lost packet, in case it turns out to have arrived.
    mutating func remember(_ packet: SentPacket) {
        lost.append(packet)
        while lost.count > Self.remembered { _ = lost.popFirst() }
    }

    /// Removes and returns the packets that are lost by now. The caller passes them to ``remember(_:)``. `roundTrip` is
    /// the longest round trip to be expected.
    mutating func takeLost(_ now: Instant, roundTrip: Duration) -> [SentPacket] {
        lossAt = nil
        guard let largestAcknowledged else { return [] }
        let limit = max(roundTrip * (8 + leniency) / 8, .milliseconds(1))
        var found: [SentPacket] = []
        var (kept, index) = (0, 0)
        while index < waiting.count, waiting[index].number < largestAcknowledged {
            let packet = waiting[index]
            let deadline = packet.sentAt.advanced(by: limit)
            if packet.number + Self.threshold * UInt64(leniency) <= largestAcknowledged || deadline <= now {
                found.append(packet)
            } else {
                lossAt = lossAt.map { min($0, deadline) } ?? deadline
                if kept != index { waiting[kept] = packet }
                kept += 1
            }
            index += 1
        }
        if !found.isEmpty { waiting.removeSubrange(kept..<index) }
        return found
    }
}
