import CommandTestSupport
import Testing

@testable import CommandSupport
@testable import Measuring
@testable import imbench

@Suite struct FloorTests {
    @Test("Every floor makes the requested round trips in every slice", arguments: FloorKind.allCases)
    func slices(_ kind: FloorKind) throws {
        let floor = try kind.open(bytes: 8)
        var histogram = Histogram()
        for _ in 0..<3 { try floor.run(FloorSlice(rounds: 50), into: &histogram) }
        #expect(histogram.count == 150)
        #expect(try #require(histogram.minimum) > 100)
    }

    @Test("A slice ends at its deadline", arguments: FloorKind.allCases)
    func deadline(_ kind: FloorKind) throws {
        var histogram = Histogram()
        try kind.open(bytes: 8).run(FloorSlice(deadline: Clocks.monotonic()), into: &histogram)
        #expect(histogram.count == 1)
    }

    @Test(
        "Messages far larger than the socket buffers return completely",
        arguments: [FloorKind.tcpBlocking, .tcpEpoll]
    )
    func large(_ kind: FloorKind) throws {
        var histogram = Histogram()
        try kind.open(bytes: 1 << 23).run(FloorSlice(rounds: 3), into: &histogram)
        #expect(histogram.count == 3)
    }

    @Test("The largest datagram fits", arguments: [FloorKind.udpBlocking, .udpEpoll])
    func largestDatagram(_ kind: FloorKind) throws {
        var histogram = Histogram()
        try kind.open(bytes: kind.maximumSize).run(FloorSlice(rounds: 20), into: &histogram)
        #expect(histogram.count == 20)
    }

    @Test("A size over the limit is rejected with a sentence", arguments: FloorKind.allCases)
    func overLimit(_ kind: FloorKind) {
        let size = kind.maximumSize + 1
        let sentence = "message of \(size) bytes is over the limit of \(kind.maximumSize) of \(kind.rawValue)"
        #expect(throws: SystemFailure(sentence)) { try kind.open(bytes: size) }
    }

    @Test("The bench keeps the medians of each repeat, and the reason of a missing floor")
    func bench() throws {
        let bench = FloorBench(kinds: FloorKind.allCases, sizes: [32, 70_000])
        #expect(bench.keys.count == 9)
        for _ in 0..<2 {
            for key in bench.keys { bench.measure(key, duration: .seconds(10), rounds: 30) }
        }
        let small = FloorBench.Key(kind: .udpEpoll, size: 32)
        #expect(bench.result(small)?.repeats.known(.p50).count == 2)
        let results = bench.results
        #expect(results.filter { $0.reason == nil }.allSatisfy { $0.rtt.count == 60 && $0.p50Spread?.repeats == 2 })
        #expect(results.filter { $0.reason != nil }.map(\.kind) == [.udpBlocking, .udpEpoll])
    }

    @Test("After a measurement with a placement, the calling thread has its former cores")
    func placement() throws {
        let before = CoreMask.ofThisThread()
        let bench = FloorBench(kinds: [.wakeUp], sizes: [], placement: ThreadPlacement.apart())
        let key = try #require(bench.keys.first)
        bench.measure(key, duration: .seconds(10), rounds: 100)
        #expect(bench.results.first?.rtt.count == 100)
        #expect(CoreMask.ofThisThread() == before)
    }
}
