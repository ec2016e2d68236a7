import CommandSupport
import Primitives
import TransportAPI

/// One direction of a link: its path, and the counts of its packets. It has no clock and no sockets.
package struct LinkDirection: Sendable {
    /// The most packets in one direction, and so about 48 MiB of memory.
    static let mostPackets = 32_768
    /// The numbers of this many lost packets are kept.
    static let rememberedLosses = 1000

    /// The counts of the packets of one direction.
    package struct Counts: Sendable, Hashable {
        package var packets = 0
        package var bytes = 0
        package var lost = 0
        package var overflowed = 0
        package var reordered = 0
        /// The packets for which the NAT had no mapping.
        package var untranslated = 0
        /// The packets that this machine could not send.
        package var unsent = 0
        /// The numbers of the first lost packets.
        package var lostNumbers: [Int] = []

        package init(
            packets: Int = 0,
            bytes: Int = 0,
            lost: Int = 0,
            overflowed: Int = 0,
            reordered: Int = 0,
            untranslated: Int = 0,
            unsent: Int = 0,
            lostNumbers: [Int] = []
        ) {
            (self.packets, self.bytes, self.lost, self.overflowed) = (packets, bytes, lost, overflowed)
            (self.reordered, self.untranslated, self.unsent, self.lostNumbers) = (
                reordered, untranslated, unsent, lostNumbers
            )
        }
    }

    private var path: PathModel
    private let seed: UInt64
    package private(set) var counts = Counts()

    package init(_ network: Network, rate: Double?, seed: UInt64) {
        var parameters = PathModel.Parameters()
        parameters.delay = network.delay.wholeNanoseconds
        parameters.jitter = -network.jitter.wholeNanoseconds...network.jitter.wholeNanoseconds
        (parameters.loss, parameters.reordering, parameters.queue) = (network.loss, network.reordering, network.queue)
        parameters.bytesPerSecond = rate.map { $0 / 8 }
        path = PathModel(parameters)
        self.seed = seed
    }

    /// Decides about the next packet. Returns when it arrives, in nanoseconds, or `nil` if it does not.
    ///
    /// - Parameters:
    ///   - length: the length of the IP packet in bytes.
    ///   - inFlight: how many packets of this direction have not left.
    package mutating func admit(_ length: Int, at now: Int64, inFlight: Int) -> Int64? {
        // The fate of a packet depends on the seed and its number alone, so a run with the same seed loses the same packets.
        // The factor is not the step of the generator, so no packet has the numbers of another one.
        var random = RandomSource.seeded(seed &+ UInt64(counts.packets) &* 0xd134_2543_de82_ef95)
        counts.packets += 1
        counts.bytes += length
        let draw = PathModel.Draw(using: &random)
        switch path.admit(length, draw, at: now, hasRoom: inFlight < Self.mostPackets) {
        case .lost:
            counts.lost += 1
            if counts.lostNumbers.count < Self.rememberedLosses { counts.lostNumbers.append(counts.packets) }
            return nil
        case .overflow:
            counts.overflowed += 1
            return nil
        case .arrives(let passage, _):
            if passage.isLate { counts.reordered += 1 }
            return passage.arrival
        }
    }

    /// Counts a packet that this machine could not send.
    mutating func countUnsent() { counts.unsent += 1 }

    /// Counts a packet for which the NAT had no mapping.
    mutating func countUntranslated() { counts.untranslated += 1 }
}

/// A packet that was recorded on a link.
package struct LinkRecord: Sendable, Hashable {
    package var isFromClient: Bool
    /// The client's port, by which the packets of one connection are told apart.
    package var clientPort: UInt16
    /// Its content in a few words.
    package var summary: String
    /// The length of the IP packet in bytes.
    package var bytes: Int
    /// When it came to the link, in nanoseconds of the monotonic clock.
    package var sent: Int64
    /// When the link delivers it; `nil` if it is lost.
    package var arrival: Int64?
}

extension LinkDirection.Counts {
    /// Continues the counts with later ones, whose packets are numbered on.
    static func += (sum: inout Self, later: Self) {
        let room = max(0, LinkDirection.rememberedLosses - sum.lostNumbers.count)
        sum.lostNumbers += later.lostNumbers.prefix(room).map { $0 + sum.packets }
        sum.packets += later.packets
        sum.bytes += later.bytes
        sum.lost += later.lost
        sum.overflowed += later.overflowed
        sum.reordered += later.reordered
        sum.untranslated += later.untranslated
        sum.unsent += later.unsent
    }
}

extension LinkCounts {
    package static func += (sum: inout Self, later: Self) {
        sum.toServer += later.toServer
        sum.toClient += later.toClient
        sum.forgottenMappings += later.forgottenMappings
        sum.forgottenByServer.merge(later.forgottenByServer, uniquingKeysWith: +)
        sum.missed += later.missed
    }
}

/// The counts of the packets of a link.
package struct LinkCounts: Sendable, Hashable {
    package var toServer = LinkDirection.Counts()
    package var toClient = LinkDirection.Counts()
    /// The mappings that the NAT has forgotten.
    package var forgottenMappings = 0
    /// The same for each port of the server.
    package var forgottenByServer: [AddressTranslation.Server: Int] = [:]
    /// The packets that this machine dropped before the link had them, because it was busy.
    package var missed = 0

    /// The packets that were lost against the description of the network.
    package var lostByMachine: Int { missed + toServer.unsent + toClient.unsent }
}
