import CommandSupport

/// The median of the repeats of one measurement, and an interval that contains the true median.
///
/// The interval comes from order statistics, as the inverse of the sign test. The true median lies between the k-th smallest
/// and the k-th largest of n repeats with probability 1 − 2·P(Binomial(n, ½) < k). It assumes no distribution of the values,
/// because times are skewed. It is the narrowest interval that reaches 95 %. With fewer than six repeats none does, and the
/// interval is the whole spread with its own probability (93.75 % for five).
package struct RepeatStatistics: Sendable, Hashable {
    package var median: Double
    /// The ends of the interval; equal to the median if there is one repeat only.
    package var low: Double
    package var high: Double
    /// The probability that the true median lies in the interval, from 0 (one repeat) to 1.
    package var coverage: Double
    package var repeats: Int

    package init(median: Double, low: Double, high: Double, coverage: Double, repeats: Int) {
        (self.median, self.low, self.high, self.coverage) = (median, low, high, coverage)
        self.repeats = repeats
    }

    /// The intended probability.
    package static let target = 0.95

    /// `nil` if there are no values. Values that are no numbers are omitted.
    package init?(_ values: [Double]) {
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

    /// The interval; `nil` if there is one repeat only.
    package var interval: (low: Double, high: Double)? { repeats > 1 ? (low, high) : nil }

    /// The interval as a text, as in `108–117`; a dash if there is none.
    package var intervalText: String {
        interval.map { "\(text($0.low))–\(text($0.high))" } ?? "-"
    }

    /// The median with its interval, as in `112 (108–117)`.
    package var text: String { text(median) + (interval == nil ? "" : " (\(intervalText))") }

    /// A number with about three digits, or with more if the ends would look alike. All of one text have as many decimals.
    private func text(_ value: Double) -> String {
        let least = high < 9.995 ? 2 : high < 99.95 ? 1 : 0
        let digits = (least...2).first { low == high || fixed(low, $0) != fixed(high, $0) } ?? 2
        return grouped(fixed(value, digits))
    }

    /// The ratios of values that were measured in the same repeat, so that a slow phase of the machine cancels out.
    /// `nil` for repeats in which either is missing or the divisor is 0.
    package static func ratios(_ values: [Double?], to divisors: [Double?]) -> [Double?] {
        zip(values, divisors).map { value, divisor in
            guard let value, let divisor, divisor > 0 else { return nil }
            return value / divisor
        }
    }
}

/// A number that each repeat of a row has, by its name in `--assert`. `imbench compare` compares these, because their repeats
/// show the effect of chance.
package enum RepeatedMetric: String, Sendable, Hashable, CaseIterable {
    case p50 = "rtt.p50_us"
    case p99 = "rtt.p99_us"
    case ratioToFloor = "ratio_to_floor_p50"
    case throughput = "throughput_msgs_per_s"
    case cpu = "cpu_us_per_msg"

    /// The name of its values in JSON.
    package var key: String { rawValue.split(separator: ".").joined(separator: "_") }

    /// Whether a larger value is better.
    package var isBetterWhenLarger: Bool { self == .throughput }
}

/// The values of every repeat, in the order of the repeats; `nil` where there is none, or too few samples support it.
package typealias RepeatedValues = [RepeatedMetric: [Double?]]

extension RepeatedValues {
    /// The values of the repeats that have one.
    package func known(_ metric: RepeatedMetric) -> [Double] { (self[metric] ?? []).compactMap { $0 } }
}
