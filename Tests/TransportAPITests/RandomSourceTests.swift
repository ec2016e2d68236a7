import Testing

@testable import TransportAPI

@Suite("Random numbers")
struct RandomSourceTests {
    @Test("A seeded source returns the known numbers of SplitMix64")
    func splitMix() {
        var source = RandomSource.seeded(1_234_567)
        #expect(
            (0..<5).map { _ in source.next() } == [
                6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423,
                4_593_380_528_125_082_431, 16_408_922_859_458_223_821,
            ]
        )
    }

    @Test("The same seed gives the same numbers, other seeds give other numbers, and none repeats")
    func seeds() {
        var (first, second, other) = (RandomSource.seeded(0), RandomSource.seeded(0), RandomSource.seeded(1))
        let numbers = (0..<1000).map { _ in first.next() }
        #expect(numbers == (0..<1000).map { _ in second.next() })
        #expect(numbers != (0..<1000).map { _ in other.next() })
        #expect(Set(numbers).count == 1000)
    }

    @Test("The pool is refilled when it is used up, even if it was created empty")
    func refill() {
        var source = RandomSource(poolSize: 2) { pool in for index in pool.indices { pool[index] &+= UInt64(index) + 1 }
        }
        #expect((0..<6).map { _ in source.next() } == [1, 2, 2, 4, 3, 6])
        var single = RandomSource(poolSize: 0) { $0[0] = 9 }
        #expect(single.next() == 9 && single.next() == 9)
    }
}
