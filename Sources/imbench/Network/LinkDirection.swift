import TransportAPI

/// One direction of a link. It decides about each packet when it arrives: whether it is lost, and when it leaves. It has no
/// clock and no sockets.
struct LinkDirection: Sendable {
    /// The most packets in one direction, and so about 48 MiB of memory.
    static let mostPackets = 32_768
    /// The numbers of this many lost packets are kept.
    static let rememberedLosses = 1000

    /// The fate of a packet.
    enum Fate: Sendable, Hashable {
        /// It leaves at this time, in nanoseconds.
        case leaves(at: Int64)
        case lost
        /// There was no room for it.
        case overflow
    }

    /// The counts of the packets of one direction.
    struct Counts: Sendable, Hashable {
        var packets = 0
        var bytes = 0
        var lost = 0
        var overflowed = 0
        var reordered = 0
        /// The packets for which the NAT had no mapping.
        var untranslated = 0
        /// The packets that this machine could not send.
        var unsent = 0
        /// The numbers of the first lost packets.
        var lostNumbers: [Int] = []
    }

    private let delay: Int64
    private let jitter: Int64
    private let loss: Double
    private let reordering: Double
    private let nanosecondsPerByte: Double
    private let queue: Int
    private let seed: UInt64
    private(set) var counts = Counts()
    /// When the last packet has left the bottleneck.
    private var freeAt: Int64 = 0
    /// When the packets in the bottleneck leave it, in ascending order.
    private var departures = Departures()
    /// When the last packet that keeps the order arrives.
    private var lastArrival: Int64 = 0

    init(_ network: Network, rate: Double?, seed: UInt64) {
        delay = network.delay.wholeNanoseconds
        jitter = network.jitter.wholeNanoseconds
        (loss, reordering, queue) = (network.loss, network.reordering, network.queue)
        nanosecondsPerByte = rate.map { 8e9 / $0 } ?? 0
        self.seed = seed
    }

    /// Decides about the next packet.
    ///
    /// - Parameters:
    ///   - length: the length of the IP packet in bytes.
    ///   - inFlight: how many packets of this direction have not left.
    mutating func admit(_ length: Int, at now: Int64, inFlight: Int) -> Fate {
        // The fate of a packet depends on the seed and its number alone, so a run with the same seed loses the same packets.
        // The factor is not the step of the generator, so no packet has the numbers of another one.
        var random = RandomSource.seeded(seed &+ UInt64(counts.packets) &* 0xd134_2543_de82_ef95)
        counts.packets += 1
        counts.bytes += length
        if loss > 0, Double.random(in: 0..<1, using: &random) < loss {
            counts.lost += 1
            if counts.lostNumbers.count < Self.rememberedLosses { counts.lostNumbers.append(counts.packets) }
            return .lost
        }
        departures.removeAll(until: now)
        guard nanosecondsPerByte == 0 || departures.count < queue, inFlight < Self.mostPackets else {
            counts.overflowed += 1
            return .overflow
        }
        var arrival = now
        if nanosecondsPerByte > 0 {
            freeAt = max(now, freeAt) + Int64((Double(length) * nanosecondsPerByte).rounded())
            departures.append(freeAt)
            arrival = freeAt
        }
        arrival += delay
        if jitter > 0 { arrival += Int64.random(in: -jitter...jitter, using: &random) }
        if reordering > 0, Double.random(in: 0..<1, using: &random) < reordering {
            counts.reordered += 1
            return .leaves(at: arrival + max(2_000_000, delay / 2))
        }
        lastArrival = max(arrival, lastArrival)
        return .leaves(at: lastArrival)
    }

    /// Counts a packet that this machine could not send.
    mutating func countUnsent() { counts.unsent += 1 }

    /// Counts a packet for which the NAT had no mapping.
    mutating func countUntranslated() { counts.untranslated += 1 }

    /// A queue of times. Removed ones stay at the front of the array until they are half of it.
    private struct Departures: Sendable {
        private var times: [Int64] = []
        private var first = 0

        var count: Int { times.count - first }

        mutating func append(_ time: Int64) { times.append(time) }

        mutating func removeAll(until now: Int64) {
            while first < times.count, times[first] <= now { first += 1 }
            if first > 64, first * 2 > times.count {
                times.removeFirst(first)
                first = 0
            }
        }
    }
}

/// A packet that was recorded on a link.
struct LinkRecord: Sendable, Hashable {
    var isFromClient: Bool
    /// Its content in a few words.
    var summary: String
    /// The length of the IP packet in bytes.
    var bytes: Int
}

/// The counts of the packets of a link.
struct LinkCounts: Sendable, Hashable {
    var toServer = LinkDirection.Counts()
    var toClient = LinkDirection.Counts()
    /// The mappings that the NAT has forgotten.
    var forgottenMappings = 0
    /// The same for each port of the server.
    var forgottenByServer: [AddressTranslation.Server: Int] = [:]
    /// The packets that this machine dropped before the link had them, because it was busy.
    var missed = 0

    /// The packets that were lost against the description of the network.
    var lostByMachine: Int { missed + toServer.unsent + toClient.unsent }
}
