import Testing
import TransportAPI

@testable import Measuring
@testable import imbench

@Suite struct RatioIntervalTests {
    @Test(
        "The rank is that of the tables: one more than the two-sided critical U at 1 %",
        arguments: [
            (4, 4, nil), (4, 5, nil), (5, 5, 0), (4, 6, 0), (8, 8, 7), (7, 12, 12), (10, 10, 16), (15, 15, 51),
            (20, 20, 105), (1, 59, nil), (1, 1, nil), (0, 9, nil),
        ] as [(Int, Int, Int?)]
    )
    func ranks(_ m: Int, _ n: Int, _ critical: Int?) {
        #expect(RatioInterval.rank(m, n)?.rank == critical.map { $0 + 1 })
        #expect(RatioInterval.rank(n, m)?.rank == critical.map { $0 + 1 })
    }

    @Test("neededRepeats is the smallest number of repeats that has an interval")
    func neededRepeats() throws {
        let needed = RatioInterval.neededRepeats
        #expect(RatioInterval.rank(needed - 1, needed - 1) == nil)
        let coverage = try #require(RatioInterval.rank(needed, needed)).coverage
        #expect(abs(coverage - (1 - 2.0 / 252)) < 1e-12)
    }

    @Test("The approximation for many repeats continues the exact ranks for few")
    func normal() throws {
        let exact = try #require(RatioInterval.rank(30, 30)).rank
        let near = try #require(RatioInterval.rank(30, 31)).rank
        #expect(near >= exact && near < exact + 15)
        #expect(try #require(RatioInterval.rank(1000, 1000)).rank > 450_000)
    }

    @Test("With five repeats in each run, the interval reaches from the smallest ratio to the largest")
    func five() throws {
        let interval = try #require(RatioInterval(before: [10, 12, 11, 14, 13], after: [20, 22, 21, 24, 23]))
        #expect(interval.low == 20.0 / 14 && interval.high == 2.4)
        #expect(interval.coverage >= RatioInterval.target)
    }

    @Test("The ends are those of all ratios in ascending order")
    func sorted() throws {
        var generator = RandomSource.seeded(5)
        let before = (0..<17).map { _ in Double.random(in: 1...2, using: &generator) }
        let after = (0..<23).map { _ in Double.random(in: 1...2, using: &generator) }
        let ratios = before.flatMap { divisor in after.map { $0 / divisor } }.sorted()
        let rank = try #require(RatioInterval.rank(17, 23)).rank
        let interval = try #require(RatioInterval(before: before, after: after))
        #expect(interval.low == ratios[rank - 1] && interval.high == ratios[ratios.count - rank])
    }

    @Test("Runs without a difference show one only as often as chance allows")
    func falseAlarms() throws {
        var generator = RandomSource.seeded(1)
        var alarms = 0
        for _ in 0..<2000 {
            // The values are skewed, as times are.
            let values = (0..<10).map { _ in
                let value = Double.random(in: 1...2, using: &generator)
                return value * value * value
            }
            let interval = try #require(
                RatioInterval(before: Array(values.prefix(5)), after: Array(values.suffix(5)))
            )
            if interval.low > 1 || interval.high < 1 { alarms += 1 }
        }
        #expect((1...30).contains(alarms))
    }

    @Test("Equal values have one ratio")
    func ties() throws {
        let same = [Double](repeating: 3, count: 6)
        let interval = try #require(RatioInterval(before: same, after: same))
        #expect(interval.low == 1 && interval.high == 1)
    }

    @Test("Values without a ratio have no interval, and the largest numbers have one")
    func extremes() throws {
        #expect(RatioInterval(before: [0, 1, 2, 3, 4], after: [1, 2, 3, 4, 5]) == nil)
        #expect(RatioInterval(before: [], after: [1]) == nil)
        let (small, large) = ([Double](repeating: 1e-300, count: 5), [Double](repeating: 1e300, count: 5))
        #expect(try #require(RatioInterval(before: small, after: large)).low == .infinity)
        #expect(try #require(RatioInterval(before: large, after: small)).high == 0)
    }
}
