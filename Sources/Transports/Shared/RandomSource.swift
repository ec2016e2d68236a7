/// Random numbers for cores, drawn from a pool that is refilled in bulk: from the system's cryptographic source in
/// production, from a seed in tests.
public struct RandomSource: RandomNumberGenerator, Sendable {
    /// Fills the pool anew.
    public typealias Refill = @Sendable (inout [UInt64]) -> Void

    private var pool: [UInt64]
    private var used: Int
    private let refill: Refill

    /// A source that calls `refill` for every `poolSize` words.
    public init(poolSize: Int = 32, refill: @escaping Refill) {
        pool = Array(repeating: 0, count: max(1, poolSize))
        used = pool.count
        self.refill = refill
    }

    /// The next random word.
    public mutating func next() -> UInt64 {
        if used == pool.count {
            refill(&pool)
            used = 0
        }
        used += 1
        return pool[used - 1]
    }

    /// The system's cryptographic source (RFC 6455, section 10.3 asks for one).
    public static func system() -> RandomSource {
        RandomSource { pool in
            var generator = SystemRandomNumberGenerator()
            for index in pool.indices { pool[index] = generator.next() }
        }
    }

    /// The same numbers for the same seed, for tests and simulations. Not for anything secret.
    public static func seeded(_ seed: UInt64) -> RandomSource {
        // Numbers come from a counter alone (SplitMix64), so that the closure needs no state outside the pool.
        RandomSource(poolSize: 1) { [seed] pool in
            let counter = pool[0] == 0 ? seed : pool[0]
            pool[0] = mix(counter &+ 0x9e37_79b9_7f4a_7c15)
        }
    }

    private static func mix(_ value: UInt64) -> UInt64 {
        var z = value
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }
}
