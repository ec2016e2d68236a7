import Primitives
import TransportAPI

/// A packet that asks for an acknowledgement, as it was sent.
struct SentPacket: Sendable {
    var number: UInt64
    var sentAt: Instant
    /// Bytes of the datagram.
    var size: Int
    var pieces: [ReliablePieces.Piece]
    /// To which answer of the congestion window its loss belongs; `nil` if it is not lost, or not for congestion.
    var answer: Instant?
}

/// The packets that wait for acknowledgement, and those that count as lost but may still turn out to have arrived.
///
/// A packet is lost once one has arrived that was sent three later, or 9/8 of a round trip later (RFC 9002, section 6.1). On a
/// path that changes the order more than that, both bounds grow with each mistake, up to eightfold and two round trips.
struct SentPackets: Sendable {
    /// How many may wait, however small they are.
    static let maximum = 4096
    /// How many of those that are lost are remembered.
    static let remembered = 128
    /// RFC 9002, section 6.1.1.
    static let threshold: UInt64 = 3
    /// The bounds of RFC 9002 are 1.
    static let largestLeniency = 8

    /// In the order of sending.
    private(set) var waiting: [SentPacket] = []
    private var lost = Deque<SentPacket>()
    private var leniency = 1
    private var largestAcknowledged: UInt64?
    /// When the next one counts as lost, if nothing is heard until then.
    private(set) var lossAt: Instant?

    var isEmpty: Bool { waiting.isEmpty }

    mutating func append(_ packet: SentPacket) {
        waiting.append(packet)
    }

    /// Takes out all that wait.
    mutating func takeAll() -> [SentPacket] {
        defer { waiting = [] }
        lossAt = nil
        return waiting
    }

    /// Takes out what has arrived: of those that wait, and of those that counted as lost. What tells nothing costs next to
    /// nothing, however many wait.
    mutating func take(_ news: Acknowledgement) -> (arrived: [SentPacket], late: [SentPacket]) {
        var arrived: [SentPacket] = []
        // The places before `kept` hold those that stay, those up to `next` what has gone.
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

    /// The place of the first that waits behind `start` with this number or a higher one.
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

    /// Remembers a packet that is lost, in case it turns out to have arrived.
    mutating func remember(_ packet: SentPacket) {
        lost.append(packet)
        while lost.count > Self.remembered { _ = lost.popFirst() }
    }

    /// Takes out what is lost by now; what ``remember(_:)`` is then to hear of.
    ///
    /// - Parameter roundTrip: the longest that is to be expected.
    mutating func takeLost(_ now: Instant, roundTrip: Duration) -> [SentPacket] {
        lossAt = nil
        guard let largestAcknowledged else { return [] }
        let patience = max(roundTrip * (8 + leniency) / 8, .milliseconds(1))
        var found: [SentPacket] = []
        var (kept, index) = (0, 0)
        while index < waiting.count, waiting[index].number < largestAcknowledged {
            let packet = waiting[index]
            let deadline = packet.sentAt.advanced(by: patience)
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
