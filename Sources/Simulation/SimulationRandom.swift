/// A random number generator with a seed: SplitMix64 (Steele, Lea and Flood, 2014).
package struct SimulationRandom: RandomNumberGenerator {
    private var state: UInt64

    /// Seeds the generator. Different values of `stream` give independent numbers for the same seed.
    package init(seed: UInt64, stream: UInt64 = 0) {
        state = seed &* 0x2545_f491_4f6c_dd1d &+ stream &* 0xda94_2042_e4dd_58b5
        for _ in 0..<2 { _ = next() }
    }

    /// The next random word.
    package mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var z = state
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }

    /// A number in `range`.
    package mutating func int(_ range: ClosedRange<Int>) -> Int {
        range.lowerBound + Int(next() % UInt64(range.upperBound - range.lowerBound + 1))
    }

    /// A number in `range`, where each order of magnitude has the same chance.
    package mutating func magnitude(_ range: ClosedRange<Int>) -> Int {
        guard range.lowerBound < range.upperBound else { return range.lowerBound }
        var low = max(1, range.lowerBound)
        var steps: [Int] = [low]
        while low < range.upperBound {
            low = min(range.upperBound, low &* 2)
            steps.append(low)
        }
        let index = int(0...steps.count - 2)
        return int(steps[index]...steps[index + 1])
    }

    /// Returns `true` `percent` times out of a hundred.
    package mutating func chance(_ percent: Int) -> Bool {
        Int(next() % 100) < percent
    }

    /// One of `values`, which must not be empty.
    package mutating func one<Value>(of values: [Value]) -> Value {
        values[int(0...values.count - 1)]
    }
}
