import Foundation

/// An interval that contains the true factor between two rows that were measured alternately, from the ratio in each repeat.
///
/// It is the inverse of Wilcoxon's signed-rank test (Biometrics Bulletin 1, 1945), after Tukey (Hollander, Wolfe and Chicken,
/// "Nonparametric Statistical Methods"), for factors in place of differences. Consider the geometric means of all
/// pairs of ratios, each ratio with itself included. The true factor lies between the k-th smallest and the k-th largest mean
/// with probability 1 − 2·P(W < k). The only assumption is that the logarithms of the ratios lie symmetrically around the
/// true one. They do if the noise of both rows has the same distribution.
package struct PairedInterval: Sendable, Hashable {
    package var low: Double
    package var high: Double
    /// The estimate of the true factor, which is the median of the geometric means (Hodges and Lehmann, 1963).
    package var middle: Double

    /// - Parameter middle: The middle of the logarithms by default.
    package init(low: Double, high: Double, middle: Double? = nil) {
        (self.low, self.high, self.middle) = (low, high, middle ?? (low * high).squareRoot())
    }

    /// `nil` if there are too few ratios for a probability of at least `target`, or if one of them is not above 0.
    package init?(_ ratios: [Double], target: Double) {
        guard let rank = Self.rank(ratios.count, target) else { return nil }
        self.init(ratios, rank: rank)
    }

    /// - Parameter rank: the ``rank(_:_:)`` of as many ratios. `nil` if one of them is not above 0.
    package init?(_ ratios: [Double], rank: Int) {
        guard ratios.allSatisfy({ $0 > 0 && $0.isFinite }) else { return nil }
        let logarithms = ratios.map { log($0) }
        var sums: [Double] = []
        sums.reserveCapacity(ratios.count * (ratios.count + 1) / 2)
        for (index, first) in logarithms.enumerated() {
            for second in logarithms[index...] { sums.append(first + second) }
        }
        sums.sort()
        low = exp(sums[rank - 1] / 2)
        high = exp(sums[sums.count - rank] / 2)
        middle = exp((sums[(sums.count - 1) / 2] + sums[sums.count / 2]) / 4)
    }

    /// The greatest k whose interval reaches the target; `nil` if there is none.
    package static func rank(_ count: Int, _ target: Double) -> Int? {
        guard count > 0 else { return nil }
        let tail = (1 - target) / 2
        // Beyond, the normal distribution is close.
        guard count <= 60 else {
            let (n, z) = (Double(count), quantile(tail))
            let rank = Int(n * (n + 1) / 4 - z * (n * (n + 1) * (2 * n + 1) / 24).squareRoot())
            return rank > 0 ? rank : nil
        }
        // The probabilities of W, the sum of the ranks with a positive sign: each rank has one with probability ½.
        var chances = [Double](repeating: 0, count: count * (count + 1) / 2 + 1)
        chances[0] = 1
        for rank in 1...count {
            for sum in chances.indices.reversed() {
                chances[sum] = (chances[sum] + (sum >= rank ? chances[sum - rank] : 0)) / 2
            }
        }
        var (below, best) = (0.0, 0)
        while best < chances.count {
            below += chances[best]
            guard below <= tail else { break }
            best += 1
        }
        return best > 0 ? best : nil
    }

    /// The fewest ratios that have an interval: 2·2⁻ⁿ ≤ 1 − target.
    package static func neededRepeats(_ target: Double) -> Int {
        (1...60).first { rank($0, target) != nil } ?? 60
    }

    /// The z that a standard normal number exceeds with this probability.
    private static func quantile(_ tail: Double) -> Double {
        var (low, high) = (0.0, 40.0)
        for _ in 0..<60 {
            let middle = (low + high) / 2
            if erfc(middle / 2.0.squareRoot()) / 2 > tail { low = middle } else { high = middle }
        }
        return high
    }
}
