/// The median of the repeats of one measurement, and an interval that contains the true median.
///
/// The interval comes from order statistics, as the inverse of the sign test. The true median lies between the k-th smallest
/// and the k-th largest of n repeats with probability 1 − 2·P(Binomial(n, ½) < k). It assumes no distribution of the values,
/// because times are skewed. It is the narrowest interval that reaches 95 %. With fewer than six repeats none does, and the
/// interval is the whole spread with its own probability (93.75 % for five).
struct RepeatStatistics: Sendable, Hashable {
    var median: Double
    /// The ends of the interval; equal to the median if there is one repeat only.
    var low: Double
    var high: Double
    /// The probability that the true median lies in the interval, from 0 (one repeat) to 1.
    var coverage: Double
    var repeats: Int

    /// The intended probability.
    static let target = 0.95

    /// `nil` if there are no values. Values that are no numbers are omitted.
    init?(_ values: [Double]) {
        let sorted = values.filter { !$0.isNaN }.sorted()
        let count = sorted.count
        guard let first = sorted.first, let last = sorted.last else { return nil }
        let middle = count / 2
        median = count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
        repeats = count
        (low, high) = (first, last)
        coverage = 0

        // P(Binomial(n, ½) < k), built up term by term from 2^−n.
        var term = 1.0
        for _ in 0..<count { term /= 2 }
        var tail = 0.0
        for k in 1...max(1, (count + 1) / 2) where count > 1 {
            tail += term
            term *= Double(count - k + 1) / Double(k)
            let probability = 1 - 2 * tail
            guard k == 1 || probability >= Self.target else { break }
            (low, high, coverage) = (sorted[k - 1], sorted[count - k], probability)
        }
    }

    /// Half the width of the interval as a share of the median; `nil` if the median is 0 or there is one repeat only.
    var relativeSpread: Double? {
        median > 0 && repeats > 1 ? (high - low) / 2 / median : nil
    }

    /// The ratios of values that were measured in the same repeat, so that a slow phase of the machine cancels out.
    /// `nil` for repeats in which either is missing or the divisor is 0.
    static func ratios(_ values: [Double?], to divisors: [Double?]) -> [Double?] {
        zip(values, divisors).map { value, divisor in
            guard let value, let divisor, divisor > 0 else { return nil }
            return value / divisor
        }
    }
}

/// A number that each repeat of a row has, by its name in `--assert`. `imbench compare` compares these, because their repeats
/// show the effect of chance.
enum RepeatedMetric: String, Sendable, Hashable, CaseIterable {
    case p50 = "rtt.p50_us"
    case p99 = "rtt.p99_us"
    case ratioToFloor = "ratio_to_floor_p50"
    case throughput = "throughput_msgs_per_s"
    case cpu = "cpu_us_per_msg"

    /// The name of its values in JSON.
    var key: String { rawValue.split(separator: ".").joined(separator: "_") }

    /// Whether a larger value is better.
    var isBetterWhenLarger: Bool { self == .throughput }
}

/// The values of every repeat, in the order of the repeats; `nil` where there is none, or too few samples support it.
typealias RepeatedValues = [RepeatedMetric: [Double?]]

extension RepeatedValues {
    /// The values of the repeats that have one.
    func known(_ metric: RepeatedMetric) -> [Double] { (self[metric] ?? []).compactMap { $0 } }
}
