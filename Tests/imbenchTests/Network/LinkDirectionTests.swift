import Testing

@testable import CommandSupport
@testable import EmulatedNetworks
@testable import imbench

/// The fate of each packet on a link, in virtual time.
@Suite("One direction of a link")
struct LinkDirectionTests {
    private static let millisecond: Int64 = 1_000_000

    private func direction(_ text: String, seed: UInt64 = 1) throws -> LinkDirection {
        let network = try Network(text)
        return LinkDirection(network, rate: network.rateToServer, seed: seed)
    }

    @Test("A packet leaves after the delay")
    func delay() throws {
        var link = try direction("delay=25ms")
        #expect(link.admit(100, at: 7, inFlight: 0) == 7 + 25 * Self.millisecond)
    }

    @Test("The share of lost packets is as described, and the same seed loses the same packets")
    func loss() throws {
        var (first, again, other) = (
            try direction("loss=2%", seed: 5), try direction("loss=2%", seed: 5), try direction("loss=2%", seed: 6)
        )
        for number in 0..<20_000 as Range<Int64> {
            _ = first.admit(100, at: number, inFlight: 0)
            // Times and lengths do not matter.
            _ = again.admit(1500, at: number * 1000, inFlight: 3)
            _ = other.admit(100, at: number, inFlight: 0)
        }
        // Five standard deviations of the binomial distribution are 99.
        #expect((301...499).contains(first.counts.lost))
        #expect(first.counts.lostNumbers == again.counts.lostNumbers)
        #expect(first.counts.lostNumbers != other.counts.lostNumbers)
        #expect(first.counts.lostNumbers.count == first.counts.lost && first.counts.packets == 20_000)
    }

    @Test("A limited rate delays packets by their length, and drops those for which the queue is full")
    func rate() throws {
        var link = try direction("rate=1mbit,queue=3")
        // 1000 bytes take 8 ms.
        #expect(link.admit(1000, at: 0, inFlight: 0) == 8 * Self.millisecond)
        #expect(link.admit(1000, at: 0, inFlight: 1) == 16 * Self.millisecond)
        #expect(link.admit(500, at: 0, inFlight: 2) == 20 * Self.millisecond)
        #expect(link.admit(500, at: 0, inFlight: 3) == nil)
        #expect(link.admit(1000, at: 8 * Self.millisecond, inFlight: 2) == 28 * Self.millisecond)
        #expect(link.admit(1000, at: 100 * Self.millisecond, inFlight: 0) == 108 * Self.millisecond)
        #expect(link.counts.overflowed == 1)
    }

    @Test("Packets with jitter stay within it and keep their order, and reordered ones are overtaken")
    func order() throws {
        var link = try direction("delay=20ms±5ms")
        var last: Int64 = 0
        for number in 0..<1000 as Range<Int64> {
            let now = number * 100_000
            guard let time = link.admit(100, at: now, inFlight: 0) else {
                Issue.record("a packet was dropped")
                return
            }
            #expect(time >= last && time - now >= 15 * Self.millisecond && time - now <= 25 * Self.millisecond)
            last = time
        }
        var reordering = try direction("delay=20ms,reorder=10%")
        for number in 0..<1000 as Range<Int64> { _ = reordering.admit(100, at: number, inFlight: 0) }
        #expect((50...160).contains(reordering.counts.reordered))
    }

    @Test("Losses do not depend on reordering of the packet before")
    func independence() throws {
        var link = try direction("delay=20ms,loss=10%,reorder=10%")
        var (reordered, lostNext, wasReordered) = (0, 0, false)
        for number in 0..<50_000 as Range<Int64> {
            let before = link.counts
            _ = link.admit(100, at: number, inFlight: 0)
            if wasReordered {
                reordered += 1
                if link.counts.lost > before.lost { lostNext += 1 }
            }
            wasReordered = link.counts.reordered > before.reordered
        }
        // Five standard deviations are 2.3 %.
        #expect(Double(lostNext) > Double(reordered) * 0.075 && Double(lostNext) < Double(reordered) * 0.125)
    }

    @Test("No more packets are in flight than the limit")
    func limit() throws {
        var link = try direction("delay=25ms")
        #expect(link.admit(100, at: 0, inFlight: LinkDirection.mostPackets) == nil)
    }
}
