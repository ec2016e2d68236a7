import Testing
import TransportAPI

@testable import CommandSupport
@testable import Measuring
@testable import imbench

@Suite struct HistogramTests {
    @Test("Percentiles are within a thousandth of those of the sorted samples", arguments: [1, 2, 3] as [UInt64])
    func againstSortedSamples(_ seed: UInt64) throws {
        var generator = RandomSource.seeded(seed)
        var histogram = Histogram()
        var samples: [Int64] = []
        for _ in 0..<50_000 {
            // Evenly distributed over the orders of magnitude, from nanoseconds to more than a minute.
            let magnitude = Int64(1) << Int64.random(in: 0...36, using: &generator)
            let sample = Int64.random(in: magnitude...(magnitude * 2), using: &generator)
            samples.append(sample)
            histogram.record(sample)
        }
        samples.sort()
        for permille in [1, 100, 500, 900, 990, 999] {
            let exact = samples[(samples.count * permille + 999) / 1000 - 1]
            let found = try #require(histogram.percentile(permille))
            #expect(Double(abs(found - exact)) <= Double(exact) / 1000 + 0.5)
        }
        #expect(histogram.minimum == samples.first)
        #expect(histogram.maximum == samples.last)
        let mean = samples.reduce(0.0) { $0 + Double($1) } / Double(samples.count)
        #expect(abs(try #require(histogram.mean) - mean) < mean * 1e-9)
    }

    @Test("Values below 2048 ns are exact")
    func exactSmallValues() {
        for value in [1, 2, 1023, 1024, 2047] as [Int64] {
            var histogram = Histogram()
            histogram.record(1)
            for _ in 0..<30 { histogram.record(value) }
            histogram.record(3000)
            #expect(histogram.percentile(500) == value)
        }
    }

    @Test("A percentile with fewer than ten samples beyond it is nil")
    func tooFewSamples() {
        var histogram = Histogram()
        #expect(histogram.percentile(500) == nil)
        for value in 1...19 { histogram.record(Int64(value)) }
        #expect(histogram.percentile(500) == nil)
        histogram.record(20)
        #expect(histogram.percentile(500) == 10)
        #expect(histogram.percentile(900) == nil)
        for value in 21...999 { histogram.record(Int64(value)) }
        #expect(histogram.percentile(990) == nil)
        histogram.record(1000)
        #expect(histogram.percentile(990) == 990)
        #expect(histogram.percentile(1000) == nil)
    }

    @Test("A median of few samples is there on request")
    func fewSamples() {
        var histogram = Histogram()
        #expect(histogram.percentile(500, beyond: 0) == nil)
        histogram.record(3)
        #expect(histogram.percentile(500, beyond: 0) == 3)
        for value in [1, 9] as [Int64] { histogram.record(value) }
        #expect(histogram.percentile(500, beyond: 0) == 3 && histogram.percentile(500) == nil)
    }

    @Test("Values outside the range are counted at its ends")
    func outOfRange() {
        var histogram = Histogram()
        histogram.record(-5)
        histogram.record(0)
        histogram.record(.max)
        #expect(histogram.count == 3)
        #expect(histogram.minimum == 1)
        #expect(histogram.maximum == Histogram.limit)
    }

    @Test("Two merged halves equal the whole, and a reset histogram is empty")
    func mergeAndReset() {
        var whole = Histogram()
        var left = Histogram()
        var right = Histogram()
        for value in 1...5000 as ClosedRange<Int64> {
            whole.record(value * 77)
            if value % 3 == 0 { left.record(value * 77) } else { right.record(value * 77) }
        }
        left.merge(right)
        left.merge(Histogram())
        #expect(left == whole)
        left.reset()
        #expect(left == Histogram())
    }

    @Test("The distribution agrees with the percentiles, and ends where fewer than ten values are slower")
    func distribution() throws {
        var histogram = Histogram()
        #expect(histogram.distribution.isEmpty)
        for value in 1...20_000 as ClosedRange<Int64> { histogram.record(value * 1000) }
        let points = histogram.distribution
        #expect(points.first?.percent == 0 && points.first?.microseconds == 1)
        for (percent, permille) in [(90.0, 900), (99, 990), (99.9, 999)] {
            let point = try #require(points.first { $0.percent == percent })
            #expect(Int64(point.microseconds * 1000) == histogram.percentile(permille))
        }
        #expect(points.map(\.percent) == points.map(\.percent).sorted())
        #expect(points.map(\.microseconds) == points.map(\.microseconds).sorted())
        #expect(try #require(points.last).percent <= 99.95)
        #expect(points.count < 60)
    }
}
