import Testing
import TransportAPI

@testable import Protocols

@Suite("Number ranges")
struct NumberRangesTests {
    @Test("Ranges of numbers join and detect duplicates, whatever the order", arguments: [1, 3, 40])
    func ranges(longest: UInt64) {
        var random = RandomSource.seeded(longest)
        for _ in 0..<50 {
            var ranges = NumberRanges()
            var set: Set<UInt64> = []
            for _ in 0..<100 {
                let first = random.next() % 100
                let wanted = first...first + random.next() % longest
                let before = set.count
                #expect(ranges.contains(wanted) == wanted.allSatisfy(set.contains))
                set.formUnion(wanted)
                #expect(ranges.insert(wanted) == UInt64(set.count - before))
            }
            #expect(ranges.ranges.flatMap { Array($0) } == set.sorted())
            #expect(zip(ranges.ranges, ranges.ranges.dropFirst()).allSatisfy { $0.upperBound + 1 < $1.lowerBound })
            #expect((0..<150 as Range<UInt64>).allSatisfy { ranges.contains($0) == set.contains($0) })
        }
    }
}
