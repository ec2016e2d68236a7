/// An interval that contains the true factor between the repeats of two runs.
///
/// It is the inverse of the Mann–Whitney test (Annals of Mathematical Statistics 18, 1947), after Moses (Hollander, Wolfe and
/// Chicken, "Nonparametric Statistical Methods"), for factors in place of differences. Consider all ratios of a
/// later value to an earlier one. The true factor lies between the k-th smallest and the k-th largest ratio with probability
/// 1 − 2·P(U < k). So 1 lies outside the interval exactly if the test finds a difference. The only assumption is that both
/// runs have the same distribution, up to the factor.
package struct RatioInterval: Sendable, Hashable {
    package var low: Double
    /// The median of all ratios, as the estimate of the factor (Hodges and Lehmann).
    package var middle: Double
    package var high: Double
    /// The probability that the true factor lies in it; at least ``target``.
    package var coverage: Double

    package init(low: Double, middle: Double, high: Double, coverage: Double) {
        (self.low, self.middle, self.high, self.coverage) = (low, middle, high, coverage)
    }

    /// The intended probability. A lower one would find a difference by chance in every table of a hundred numbers.
    package static let target = 0.99
    /// With fewer repeats on both sides no interval reaches the target: it takes 2 / C(2n, n) ≤ 1 − target.
    package static let neededRepeats = 5

    /// `nil` if there are too few values, or if one of them is not above 0.
    package init?(before: [Double], after: [Double]) {
        guard (before + after).allSatisfy({ $0 > 0 && $0.isFinite }),
            let (rank, coverage) = Self.rank(before.count, after.count)
        else { return nil }
        let (before, after) = (before.sorted(), after.sorted())
        low = Self.ratio(rank, before, after)
        middle = Self.ratio((before.count * after.count + 1) / 2, before, after)
        high = Self.ratio(before.count * after.count + 1 - rank, before, after)
        self.coverage = coverage
    }

    /// Moves both ends outwards by a factor from 1.
    package mutating func widen(by factor: Double) {
        low /= factor
        high *= factor
    }

    /// The greatest k with which the interval reaches the target, and the probability of that interval; `nil` if there is
    /// none.
    package static func rank(_ m: Int, _ n: Int) -> (rank: Int, coverage: Double)? {
        guard m > 0, n > 0 else { return nil }
        // Up to here integers hold all counts. Beyond, the normal distribution is close: its quantile for 99.5 %, and half a
        // step because U is an integer.
        guard m + n <= 60 else {
            let (m, n) = (Double(m), Double(n))
            let rank = Int(m * n / 2 + 0.5 - 2.5758 * (m * n * (m + n + 1) / 12).squareRoot())
            return rank > 0 ? (rank, target) : nil
        }
        let orders = (1...m).reduce(1.0) { $0 * Double(n + $1) / Double($1) }
        var tail = 0.0
        var best: (rank: Int, coverage: Double)?
        for (u, count) in counts(m, n).enumerated() {
            tail += Double(count) / orders
            guard 1 - 2 * tail >= target else { break }
            best = (u + 1, 1 - 2 * tail)
        }
        return best
    }

    /// The number of orders of `m` and `n` values in which U is 0, 1, 2, … up to its middle: the coefficients of the Gaussian
    /// binomial, ∏ (1 − qⁿ⁺ⁱ) / (1 − qⁱ) for i from 1 to m.
    private static func counts(_ m: Int, _ n: Int) -> [Int] {
        var counts = [Int](repeating: 0, count: m * n / 2 + 1)
        counts[0] = 1
        for i in 1...m {
            for u in counts.indices.reversed() where u >= n + i { counts[u] -= counts[u - n - i] }
            for u in counts.indices where u >= i { counts[u] += counts[u - i] }
        }
        return counts
    }

    /// The `rank`-th smallest, counted from 1, of all ratios of a later value to an earlier one; both in ascending order.
    /// A binary search over all positive numbers finds it, so the ratios need no memory.
    private static func ratio(_ rank: Int, _ before: [Double], _ after: [Double]) -> Double {
        // Positive numbers are in the order of their bits.
        var (low, high) = (UInt64(0), Double.infinity.bitPattern)
        while low < high {
            let middle = low + (high - low) / 2
            if count(atMost: Double(bitPattern: middle), before, after) >= rank {
                high = middle
            } else {
                low = middle + 1
            }
        }
        return Double(bitPattern: low)
    }

    /// How many of the ratios are at most `limit`.
    private static func count(atMost limit: Double, _ before: [Double], _ after: [Double]) -> Int {
        var (count, index) = (0, 0)
        for divisor in before {
            while index < after.count, after[index] / divisor <= limit { index += 1 }
            count += index
        }
        return count
    }
}
