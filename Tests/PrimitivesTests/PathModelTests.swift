import Testing

@testable import Primitives

private let millisecond: Int64 = 1_000_000

/// The fate of each packet of a path, in virtual time.
@Suite("A network path")
struct PathModelTests {
    /// A packet that nothing happens to, with the middle of the jitter.
    private let plain = Self.draw()

    private static func draw(
        loss: Double = 1,
        duplication: Double = 1,
        reordering: Double = 1,
        spread: Double = 0.5,
        copySpread: Double = 0.5
    ) -> PathModel.Draw {
        var generator = SystemRandomNumberGenerator()
        var draw = PathModel.Draw(using: &generator)
        (draw.loss, draw.duplication, draw.reordering) = (loss, duplication, reordering)
        (draw.spread, draw.copySpread) = (spread, copySpread)
        return draw
    }

    private func path(_ change: (inout PathModel.Parameters) -> Void) -> PathModel {
        var parameters = PathModel.Parameters()
        change(&parameters)
        return PathModel(parameters)
    }

    /// The arrivals of a packet and of its duplicate; none if it does not arrive.
    private func arrivals(_ fate: PathModel.Fate) -> [Int64] {
        guard case .arrives(let passage, let copy) = fate else { return [] }
        return [passage.arrival] + (copy.map { [$0.arrival] } ?? [])
    }

    @Test("A packet arrives at once on a path without properties, and otherwise after the delay, to the nanosecond")
    func delay() {
        var path = PathModel()
        #expect(arrivals(path.admit(100, plain, at: 7)) == [7])
        path = self.path { $0.delay = 25 * millisecond + 1 }
        #expect(arrivals(path.admit(100, plain, at: 7)) == [25 * millisecond + 8])
    }

    @Test("Losses, duplicates and late packets have their shares, and the same seed repeats them")
    func shares() {
        func run(_ seed: UInt64) -> [PathModel.Fate] {
            var random = TestRandom(seed)
            var path = path { ($0.loss, $0.duplication, $0.reordering) = (0.3, 0.1, 0.05) }
            return (0..<20_000).map { path.admit(100, PathModel.Draw(using: &random), at: $0) }
        }
        let fates = run(1)
        #expect(fates == run(1) && fates != run(2))
        let arrived = fates.compactMap { fate -> (isLate: Bool, isDouble: Bool)? in
            guard case .arrives(let passage, let copy) = fate else { return nil }
            return (passage.isLate, copy != nil)
        }
        // About five standard deviations.
        #expect(abs(arrived.count - 14_000) < 330)
        #expect(abs(arrived.count(where: \.isDouble) - 1400) < 190)
        #expect(abs(arrived.count(where: \.isLate) - 700) < 140)
    }

    @Test("A change of other properties does not change which packets are lost")
    func independence() {
        var (one, other) = (TestRandom(3), TestRandom(3))
        var poor = path { $0.loss = 0.2 }
        var rich = path {
            ($0.loss, $0.duplication, $0.reordering, $0.delay) = (0.2, 0.9, 0.5, millisecond)
            $0.jitter = 0...(9 * millisecond)
        }
        for now in 0..<1000 as Range<Int64> {
            let plain = poor.admit(1, PathModel.Draw(using: &one), at: now)
            let late = rich.admit(1500, PathModel.Draw(using: &other), at: now)
            #expect((plain == .lost) == (late == .lost))
        }
    }

    @Test("A limited rate delays packets by their length, and drops those for which the queue is full")
    func rate() {
        var path = path { ($0.bytesPerSecond, $0.queue) = (125_000, 3) }
        // 1000 bytes take 8 ms.
        #expect(arrivals(path.admit(1000, plain, at: 0)) == [8 * millisecond])
        #expect(arrivals(path.admit(1000, plain, at: 0)) == [16 * millisecond])
        #expect(arrivals(path.admit(500, plain, at: 0)) == [20 * millisecond])
        #expect(path.admit(500, plain, at: 0) == .overflow)
        #expect(arrivals(path.admit(1000, plain, at: 8 * millisecond)) == [28 * millisecond])
        // What has waited counts no longer, and an idle rate saves nothing.
        #expect(arrivals(path.admit(1000, plain, at: 100 * millisecond)) == [108 * millisecond])
    }

    @Test("A path passes its rate of bytes per second", arguments: [1.0, 37, 1000, 1e6, 1.25e10])
    func throughput(rate: Double) {
        var path = path { ($0.bytesPerSecond, $0.delay) = (rate, millisecond) }
        var last: Int64 = 0
        for _ in 0..<1000 { last = arrivals(path.admit(1500, plain, at: 0)).last ?? 0 }
        // Each packet is rounded to a nanosecond.
        #expect(abs(Double(last - millisecond) - 1_500_000 * 1e9 / rate) <= 1000)
    }

    @Test("A packet for which the caller has no room does not use the rate")
    func noRoom() {
        var path = path { ($0.bytesPerSecond, $0.loss) = (1000, 0.5) }
        #expect(path.admit(1000, plain, at: 0, hasRoom: false) == .overflow)
        #expect(path.admit(1000, Self.draw(loss: 0.1), at: 0, hasRoom: false) == .lost)
        #expect(path.admit(1000, Self.draw(loss: 0.1), at: 0) == .lost)
        #expect(arrivals(path.admit(1, plain, at: 0)) == [millisecond])
    }

    @Test("Jitter stays in its range, which may begin before the delay, and keeps the order only if told to")
    func jitter() {
        var ordered = path { ($0.delay, $0.jitter) = (20, -5...5) }
        var free = ordered
        free.parameters.keepsOrder = false
        for (spread, time, first) in [(0.0, 15, 15), (1, 25, 25), (0.5, 20, 25), (0, 15, 25)]
            as [(Double, Int64, Int64)]
        {
            let draw = Self.draw(spread: spread)
            #expect(arrivals(free.admit(1, draw, at: 0)) == [time])
            #expect(arrivals(ordered.admit(1, draw, at: 0)) == [first])
        }
        var random = TestRandom(1)
        var seen: Set<Int64> = []
        for _ in 0..<1000 { seen.formUnion(arrivals(free.admit(1, PathModel.Draw(using: &random), at: 0))) }
        #expect(seen == Set(15...25))
    }

    @Test("A late packet is overtaken, although the path keeps the order")
    func lateness() {
        var path = path { ($0.delay, $0.reordering) = (20 * millisecond, 0.1) }
        #expect(arrivals(path.admit(1, Self.draw(reordering: 0), at: 0)) == [30 * millisecond])
        #expect(arrivals(path.admit(1, plain, at: 1)) == [20 * millisecond + 1])
        // Half of a short delay would not let anything pass.
        path.parameters.delay = 0
        #expect(arrivals(path.admit(1, Self.draw(reordering: 0), at: 2)) == [2 * millisecond + 2])
        path.parameters.lateness = 5
        #expect(arrivals(path.admit(1, Self.draw(reordering: 0), at: 2)) == [7])
    }

    @Test("A duplicate is a packet of its own, with its part of the rate and of the jitter")
    func duplicate() {
        var path = path {
            ($0.bytesPerSecond, $0.duplication, $0.delay) = (1000, 0.1, 100)
            ($0.jitter, $0.keepsOrder) = (0...10, false)
        }
        let fate = path.admit(1, Self.draw(duplication: 0, spread: 1, copySpread: 0), at: 0)
        #expect(arrivals(fate) == [millisecond + 110, 2 * millisecond + 100])
    }

    @Test("Nothing arrives while a path is stalled")
    func stall() {
        for keepsOrder in [true, false] {
            var path = path { ($0.delay, $0.keepsOrder) = (5, keepsOrder) }
            path.stall(until: 100)
            #expect(arrivals(path.admit(1, plain, at: 0)) == [100])
            #expect(arrivals(path.admit(1, plain, at: 98)) == [103])
        }
    }

    @Test("The bytes of a packet arrive one after the other")
    func firstArrival() {
        var path = path { ($0.bytesPerSecond, $0.delay) = (1000, 50) }
        guard case .arrives(let passage, _) = path.admit(10, plain, at: 7) else {
            Issue.record("it was lost")
            return
        }
        #expect(passage.firstArrival == 57 && passage.arrival == 57 + 10 * millisecond)
    }

    @Test("A change of the delay applies to all packets on their way, and one of the rate to those that wait for it")
    func change() {
        var path = path { ($0.bytesPerSecond, $0.delay) = (1000, 3600 * 1000 * millisecond) }
        var ways: [PathModel.Passage] = []
        for _ in 0..<3 {
            if case .arrives(let passage, _) = path.admit(10, plain, at: 0) { ways.append(passage) }
        }
        // The first packet has passed the rate after 10 ms.
        var next = path.parameters
        next.delay = 5 * millisecond
        path.change(to: next, at: 10 * millisecond)
        ways = ways.map { path.again($0, bytes: 10, at: 10 * millisecond) }
        #expect(ways.map(\.arrival) == [15 * millisecond, 25 * millisecond, 35 * millisecond])
        next.bytesPerSecond = 10_000
        for _ in 0..<2 {
            // The second change is none.
            path.change(to: next, at: 12 * millisecond)
            ways = ways.map { path.again($0, bytes: 10, at: 12 * millisecond) }
            #expect(ways.map(\.arrival) == [15 * millisecond, 18 * millisecond, 19 * millisecond])
        }
        next.bytesPerSecond = nil
        path.change(to: next, at: 12 * millisecond)
        ways = ways.map { path.again($0, bytes: 10, at: 12 * millisecond) }
        #expect(ways.map(\.arrival) == [15 * millisecond, 17 * millisecond, 17 * millisecond])
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
private struct TestRandom: RandomNumberGenerator {
    private var state: UInt64

    init(_ seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var z = state
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }
}
