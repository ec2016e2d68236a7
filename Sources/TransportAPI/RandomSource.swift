/// Random numbers for state machines that do not call the system. They come from a pool that is refilled in batches,
/// from the system's cryptographic source in production, or from a seed in tests.
public struct RandomSource: RandomNumberGenerator, Sendable {
    /// Refills each word of the pool. It must not leave the pool empty.
    package typealias Refill = @Sendable (inout [UInt64]) -> Void

    private enum Source: Sendable {
        case refill(Refill)
        /// The state of SplitMix64: a counter that each word advances by one step.
        case counter(UInt64)
    }

    private var pool: [UInt64]
    private var used: Int
    private var source: Source

    /// Creates a source that calls `refill` for every `poolSize` words.
    package init(poolSize: Int = 32, refill: @escaping Refill) {
        self.init(poolSize: poolSize, .refill(refill))
    }

    private init(poolSize: Int, _ source: Source) {
        pool = Array(repeating: 0, count: max(1, poolSize))
        used = pool.count
        self.source = source
    }

    /// Returns the next random word.
    public mutating func next() -> UInt64 {
        if used >= pool.count {
            refillPool()
            used = 0
        }
        used += 1
        return pool[used - 1]
    }

    private mutating func refillPool() {
        switch source {
        case .refill(let refill):
            refill(&pool)
        case .counter(var counter):
            for index in pool.indices {
                counter &+= 0x9e37_79b9_7f4a_7c15
                pool[index] = Self.mix(counter)
            }
            source = .counter(counter)
        }
    }

    /// Returns a source with the same numbers for the same seed, for tests and simulations: SplitMix64 (Steele, Lea and
    /// Flood, "Fast splittable pseudorandom number generators", 2014). Do not use it for secrets.
    public static func seeded(_ seed: UInt64) -> RandomSource {
        RandomSource(poolSize: 32, .counter(seed))
    }

    private static func mix(_ value: UInt64) -> UInt64 {
        var z = value
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }
}
