/// How far a compressed message may expand. A message that expands further is probably an attack.
package struct ExpansionLimit: Sendable, Hashable {
    /// How many times its compressed size it may expand to; 100 by default. DEFLATE itself can reach 1,032.
    package var factor: Int
    /// How many bytes it may expand to, whatever its compressed size is; 1 MiB by default.
    package var free: Int

    package init(factor: Int = 100, free: Int = 1 << 20) {
        (self.factor, self.free) = (factor, free)
    }

    /// How many bytes the first `arrived` bytes of a compressed message may expand to.
    package func most(after arrived: Int) -> Int { max(free, arrived.multipliedSaturated(factor)) }
}
