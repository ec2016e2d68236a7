import Foundation
import Testing
import TransportAPI

@testable import Measuring
@testable import imbench

@Suite struct PairedIntervalTests {
    @Test(
        "The rank is that of the tables: one more than the two-sided critical W",
        arguments: [
            (5, 0.95, nil), (6, 0.95, 0), (8, 0.95, 3), (10, 0.95, 8), (20, 0.95, 52), (30, 0.95, 137), (8, 0.99, 0),
            (10, 0.99, 3), (20, 0.99, 37), (50, 0.99, 373), (0, 0.95, nil),
        ] as [(Int, Double, Int?)]
    )
    func ranks(_ count: Int, _ target: Double, _ critical: Int?) {
        #expect(PairedInterval.rank(count, target) == critical.map { $0 + 1 })
    }

    @Test("The approximation for many repeats continues the exact ranks for few")
    func normal() throws {
        let exact = try #require(PairedInterval.rank(60, 0.99))
        let near = try #require(PairedInterval.rank(61, 0.99))
        #expect(near > exact && near < exact + 40)
    }

    @Test("neededRepeats is the smallest number of repeats that has an interval")
    func neededRepeats() {
        #expect(PairedInterval.neededRepeats(0.95) == 6)
        #expect(PairedInterval.neededRepeats(0.99) == 8)
        #expect(PairedInterval([1, 1, 1, 1, 1, 1, 1], target: 0.99) == nil)
        #expect(PairedInterval([1, 1, 1, 1, 1, 1, 0, 1], target: 0.99) == nil)
    }

    @Test("The ends are geometric means of two ratios")
    func ends() throws {
        let interval = try #require(PairedInterval([1, 2, 4, 8, 16, 32], target: 0.95))
        #expect(abs(interval.low - 1) < 1e-9 && abs(interval.high - 32) < 1e-9)
    }

    @Test("The estimate is the median of the geometric means, which one odd ratio does not move")
    func middle() throws {
        let even = try #require(PairedInterval([1, 2, 4, 8, 16, 32], target: 0.95))
        #expect(abs(even.middle - 32.0.squareRoot()) < 1e-9)
        let odd = try #require(PairedInterval([2, 2, 2, 2, 2, 2, 1000], target: 0.95))
        #expect(abs(odd.middle - 2) < 1e-9 && odd.low <= odd.middle && odd.middle <= odd.high)
    }

    @Test("The interval contains the true factor as often as its probability says")
    func coverage() throws {
        var generator = RandomSource.seeded(6)
        var missed = 0
        for _ in 0..<1000 {
            // Skewed noise of both rows, with a factor of 1.5.
            let ratios = (0..<20).map { _ in
                let (noise, other) = (
                    Double.random(in: 1...2, using: &generator), Double.random(in: 1...2, using: &generator)
                )
                return 1.5 * noise * noise / (other * other)
            }
            let interval = try #require(PairedInterval(ratios, target: 0.95))
            if interval.low > 1.5 || interval.high < 1.5 { missed += 1 }
        }
        #expect((20...70).contains(missed))
    }
}
