/// One direction of a network path. It decides about each packet when the packet enters: whether it is lost, and otherwise
/// when it arrives. It has no clock and does no I/O; times are nanoseconds of one clock.
///
/// A packet passes these stages, in this order: random loss, the queue before the rate, the rate, and then the delay with its
/// jitter. One that is duplicated passes the rate and the delay twice. One that is late takes longer, and packets after it do
/// not wait for it.
///
/// Every packet uses the same random numbers (``Draw``), whatever the parameters are. So a change of the delay, say, does not
/// change which packets are lost.
package struct PathModel: Sendable {
    /// The properties of a path. Times are nanoseconds.
    package struct Parameters: Sendable, Hashable {
        /// The time from one end to the other.
        package var delay: Int64 = 0
        /// The random addition to the delay, evenly distributed. It may be negative, but no packet takes less than no time.
        package var jitter: ClosedRange<Int64> = 0...0
        /// Bytes per second, above 0; `nil` without a limit. A packet arrives when its last byte has passed.
        package var bytesPerSecond: Double?
        /// How many packets wait for the rate at most, with the one that is passing; `nil` without a limit. Further ones are
        /// dropped.
        package var queue: Int?
        /// The shares of the packets that are lost, arrive twice, or are late, from 0 to 1.
        package var loss = 0.0
        package var duplication = 0.0
        package var reordering = 0.0
        /// How much longer a late packet takes; `nil` for half of the delay, but at least 2 ms.
        package var lateness: Int64?
        /// Whether jitter keeps the order of the packets. Then a packet arrives no earlier than the one before.
        package var keepsOrder = true

        package init() {}

        /// The longest time that a packet takes after the rate, unless it is late.
        package var longestTransit: Int64 { max(0, delay + jitter.upperBound) }

        /// The time that a packet takes after the rate, without the wait for packets before it.
        ///
        /// - Parameter spread: the place of its delay in the range of the jitter, from 0 to 1.
        package func transit(_ spread: Double, isLate: Bool = false) -> Int64 {
            let width = Double(jitter.upperBound - jitter.lowerBound)
            let addition = min(jitter.upperBound, jitter.lowerBound + Int64((width + 1) * spread))
            return max(0, delay + addition) + (isLate ? lateness ?? max(2_000_000, delay / 2) : 0)
        }
    }

    /// The random numbers of one packet, each from 0 to 1.
    package struct Draw: Sendable, Hashable {
        package var loss: Double
        package var duplication: Double
        package var reordering: Double
        /// The places in the range of the jitter, for the packet and for its duplicate.
        package var spread: Double
        package var copySpread: Double

        @inlinable
        package init(using random: inout some RandomNumberGenerator) {
            loss = PathModel.fraction(using: &random)
            duplication = PathModel.fraction(using: &random)
            reordering = PathModel.fraction(using: &random)
            spread = PathModel.fraction(using: &random)
            copySpread = PathModel.fraction(using: &random)
        }
    }

    /// The way of a packet that arrives.
    package struct Passage: Sendable, Hashable {
        /// When the rate begins to pass its bytes, and when it has passed the last one.
        package var start: Int64
        package var departure: Int64
        package var arrival: Int64
        package var spread: Double
        /// Whether later packets do not wait for it.
        package var isLate = false

        /// When its first byte arrives. A stream has the others from then on at the rate.
        package var firstArrival: Int64 { arrival - (departure - start) }
    }

    /// What happens to a packet.
    package enum Fate: Sendable, Hashable {
        case lost
        /// There is no room for it.
        case overflow
        /// It arrives, and so does its duplicate if there is one.
        case arrives(Passage, copy: Passage?)
    }

    /// A change does not affect packets on their way; see ``change(to:at:)``.
    package var parameters: Parameters
    /// When the rate has passed all packets so far.
    package private(set) var freeAt = Int64.min
    /// The last arrival among the packets that are not late, or the end of a stall if that is later. With
    /// ``Parameters/keepsOrder``, no other one arrives before it.
    package private(set) var lastArrival = Int64.min
    /// Nothing arrives before this time.
    private var stalledUntil = Int64.min
    private var rateChangedAt = Int64.min
    /// When the packets leave the queue, in ascending order. It is empty without a limit.
    private var departures = Deque<Int64>()

    package init(_ parameters: Parameters = Parameters()) {
        self.parameters = parameters
    }

    /// A random number from 0 to 1, evenly distributed. It is much faster than `Double.random`, which other modules run
    /// unspecialized.
    @inlinable
    package static func fraction(using random: inout some RandomNumberGenerator) -> Double {
        Double(random.next() >> 11) * 0x1p-53
    }

    /// Decides about a packet that enters the path now.
    ///
    /// - Parameters:
    ///   - bytes: its length.
    ///   - draw: its random numbers.
    ///   - hasRoom: `false` if the caller cannot keep one more packet.
    package mutating func admit(_ bytes: Int, _ draw: Draw, at now: Int64, hasRoom: Bool = true) -> Fate {
        guard draw.loss >= parameters.loss else { return .lost }
        guard hasRoom, hasPlace(at: now) else { return .overflow }
        let isLate = draw.reordering < parameters.reordering
        let passage = send(bytes, draw.spread, isLate: isLate, at: now)
        guard draw.duplication < parameters.duplication, hasPlace(at: now) else { return .arrives(passage, copy: nil) }
        return .arrives(passage, copy: send(bytes, draw.copySpread, isLate: false, at: now))
    }

    /// Lets the rate pass `bytes`, which enter now. Returns when it begins and ends.
    package mutating func pass(_ bytes: Int, at now: Int64) -> (start: Int64, departure: Int64) {
        guard let rate = parameters.bytesPerSecond else { return (now, now) }
        let start = max(now, freeAt)
        freeAt = start + Int64((Double(bytes) * (1e9 / rate)).rounded())
        if parameters.queue != nil { departures.append(freeAt) }
        return (start, freeAt)
    }

    /// Holds the path until `time`. What would arrive before, arrives then.
    package mutating func stall(until time: Int64) {
        stalledUntil = max(stalledUntil, time)
        lastArrival = max(lastArrival, time)
    }

    /// Changes the path. The caller passes each packet on its way to ``again(_:bytes:at:)`` afterwards, in their order.
    package mutating func change(to parameters: Parameters, at now: Int64) {
        let isOtherRate = parameters.bytesPerSecond != self.parameters.bytesPerSecond
        rateChangedAt = isOtherRate ? now : .min
        if isOtherRate { (freeAt, departures) = (now, Deque()) }
        self.parameters = parameters
        lastArrival = .min
    }

    /// Returns the way of a packet after a change of the path at `now`. Its delay is the new one, from the time at which it
    /// has passed the rate. If it has not passed the former rate, it passes the new one from now on.
    ///
    /// - Parameter bytes: those of its bytes that have not arrived.
    package mutating func again(_ passage: Passage, bytes: Int, at now: Int64) -> Passage {
        var (start, departure) = (passage.start, passage.departure)
        if rateChangedAt == now, departure > now { (start, departure) = pass(bytes, at: now) }
        return arrive(start, departure, passage.spread, isLate: passage.isLate)
    }

    /// Whether the queue has a place.
    private mutating func hasPlace(at now: Int64) -> Bool {
        guard let queue = parameters.queue, parameters.bytesPerSecond != nil else { return true }
        while let first = departures.first, first <= now { _ = departures.popFirst() }
        return departures.count < queue
    }

    private mutating func send(_ bytes: Int, _ spread: Double, isLate: Bool, at now: Int64) -> Passage {
        let (start, departure) = pass(bytes, at: now)
        return arrive(start, departure, spread, isLate: isLate)
    }

    private mutating func arrive(_ start: Int64, _ departure: Int64, _ spread: Double, isLate: Bool) -> Passage {
        var arrival = max(departure + parameters.transit(spread, isLate: isLate), stalledUntil)
        if !isLate {
            if parameters.keepsOrder { arrival = max(arrival, lastArrival) }
            lastArrival = max(arrival, lastArrival)
        }
        return Passage(start: start, departure: departure, arrival: arrival, spread: spread, isLate: isLate)
    }
}
