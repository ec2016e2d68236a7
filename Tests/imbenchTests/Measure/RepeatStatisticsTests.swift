import Testing

@testable import CommandSupport
@testable import Measuring
@testable import imbench

@Suite struct RepeatStatisticsTests {
    @Test("Five repeats give the whole spread and its probability")
    func five() throws {
        let statistics = try #require(RepeatStatistics([5, 1, 4, 2, 3]))
        #expect(statistics.median == 3)
        #expect(statistics.low == 1)
        #expect(statistics.high == 5)
        #expect(statistics.coverage == 0.9375)
    }

    @Test("The interval is the narrowest that reaches 95 %")
    func twenty() throws {
        // The tables for the sign test give the 6th and the 15th of 20, with 95.86 %.
        let statistics = try #require(RepeatStatistics((1...20).map(Double.init)))
        #expect(statistics.median == 10.5)
        #expect(statistics.low == 6)
        #expect(statistics.high == 15)
        #expect(abs(statistics.coverage - 0.9586) < 0.0001)
    }

    @Test("One repeat has no spread, and no repeats have no statistics")
    func fewRepeats() throws {
        let one = try #require(RepeatStatistics([7]))
        #expect(one.low == 7 && one.high == 7 && one.coverage == 0)
        #expect(one.interval == nil && one.intervalText == "-")
        #expect(RepeatStatistics([]) == nil)
        #expect(RepeatStatistics([.nan]) == nil)
        #expect(RepeatStatistics([3, 1])?.median == 2)
    }

    @Test("The interval of a thousand repeats lies within the sample")
    func many() throws {
        let statistics = try #require(RepeatStatistics((0..<1000).map(Double.init)))
        #expect(statistics.coverage >= 0.95)
        #expect(statistics.low < statistics.median && statistics.median < statistics.high)
        #expect(statistics.high - statistics.low < 70)
    }

    @Test("Ratios pair the values of one repeat, so that a common slowdown cancels out")
    func ratios() {
        #expect(RepeatStatistics.ratios([20, 40, 60, nil, 5], to: [10, 20, 30, 1, 0]) == [2, 2, 2, nil, nil])
    }

    @Test(
        "The ends of an interval have about three digits, and more if they would look alike",
        arguments: [
            (5.0, 4.251, 6.0, "5.00 (4.25–6.00)"), (17.4, 17.12, 17.8, "17.4 (17.1–17.8)"),
            (112, 108.4, 117.2, "112 (108–117)"),
            (141.2, 141.12, 141.34, "141.2 (141.1–141.3)"), (12_345, 12_000, 13_000, "12,345 (12,000–13,000)"),
        ]
    )
    func texts(_ median: Double, _ low: Double, _ high: Double, _ text: String) {
        let statistics = RepeatStatistics(median: median, low: low, high: high, coverage: 0.95, repeats: 30)
        #expect(statistics.text == text)
    }
}

@Suite struct ClocksTests {
    @Test("The processor time of a thread grows while it works")
    func processorTime() {
        let before = Clocks.threadCPU()
        var histogram = Histogram()
        while Clocks.threadCPU() == before { histogram.record(1) }
        #expect(Clocks.threadCPU() > before)
    }
}
