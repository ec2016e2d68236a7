import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// Packets that await their acknowledgement.
@Suite("UDP reliable mode: acknowledgements")
struct SentPacketsTests {
    /// An acknowledgement of these numbers, as it is read from a packet.
    private static func acknowledgement(of numbers: [UInt64]) throws -> Acknowledgement {
        var ranges = NumberRanges()
        for number in numbers { _ = ranges.insert(number) }
        var output = ByteBuffer()
        let size = ReliableFrame.append(
            acknowledgementOf: ranges.ranges[...],
            delay: .zero,
            credit: 0,
            room: 1180,
            to: &output
        )
        try #require(size > 0 && ranges.ranges.count <= ReceivedPackets.maximumRanges)
        var offset = 1
        let news = Acknowledgement(output, at: &offset)
        return try #require(news)
    }

    private static func packet(_ number: UInt64) -> SentPacket {
        SentPacket(number: number, sentAt: .zero, size: 100, pieces: [])
    }

    @Test("Acknowledged packets are removed, and all others stay in their order", arguments: 0..<20 as Range<UInt64>)
    func model(seed: UInt64) throws {
        var random = RandomSource.seeded(seed)
        var packets = SentPackets()
        var model: [UInt64] = []
        var next: UInt64 = 0
        for _ in 0..<40 {
            for _ in 0..<Int.random(in: 0...30, using: &random) {
                // Some numbers are those of packets that need no acknowledgement.
                next += UInt64.random(in: 1...3, using: &random)
                packets.append(Self.packet(next))
                model.append(next)
            }
            guard next > 0 else { continue }
            var named: Set<UInt64> = []
            for _ in 0..<Int.random(in: 1...30, using: &random) {
                named.insert(UInt64.random(in: 0...next, using: &random))
            }
            let (arrived, late) = packets.take(try Self.acknowledgement(of: Array(named)))
            #expect(arrived.map(\.number) == model.filter { named.contains($0) } && late.isEmpty)
            model.removeAll { named.contains($0) }
            #expect(packets.waiting.map(\.number) == model)
        }
    }

    @Test("An acknowledgement contains exactly the numbers of its runs")
    func contains() throws {
        let numbers: [UInt64] = [0, 1, 2, 7, 9, 10, 40]
        let news = try Self.acknowledgement(of: numbers)
        #expect((0...50 as ClosedRange<UInt64>).filter { news.contains($0) } == numbers)
    }

    private static let frame: [UInt8] = [3] + [UInt8](repeating: 0, count: 25)

    @Test("A second acknowledgement in a packet ends the session")
    func two() throws {
        var pair = try ReliablePair()
        #expect(try pair.client.send(Payload([1])) == .written)
        pair.client.feed(datagram: pair.packet(0, Self.frame))
        #expect(pair.client.failure == nil && pair.client.core.reliable?.sender.isIdle == true)
        pair.client.feed(datagram: pair.packet(1, Self.frame + Self.frame))
        #expect(pair.client.failure?.code == .protocolViolation)
    }

    @Test("Acknowledgements without news count as control work, beyond one for each packet")
    func withoutNews() throws {
        var pair = try ReliablePair()
        for byte in 0..<3 as Range<UInt8> { #expect(try pair.client.send(Payload([byte])) == .written) }
        for number in 0..<10 as Range<UInt8> { pair.client.feed(datagram: pair.packet(number, Self.frame)) }
        // The first one is news, and three more are allowed as late ones.
        #expect(pair.client.context.counters.controlWork == 6 && pair.client.failure == nil)
    }
}
