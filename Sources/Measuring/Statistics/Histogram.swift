import CommandSupport
import Foundation

/// A high-dynamic-range histogram of times from 1 ns to 1 h with three significant digits, based on Gil Tene's HdrHistogram.
/// Each power of two is divided into 1024 equal steps, so a value is off by less than 0.1 %.
///
/// Memory is fixed (about 270 kB) and recording allocates nothing. Values outside the range are counted at its ends.
package struct Histogram: Sendable, Equatable {
    /// The largest distinguished time: one hour, in nanoseconds.
    package static let limit: Int64 = 3_600_000_000_000

    // The first 2048 values have a slot each; every later power of two has 1024 slots.
    private static let stepBits = 10
    private static let slots = slot(of: UInt64(limit)) + 1

    private var counts = [UInt64](repeating: 0, count: slots)
    private var total: UInt64 = 0
    private var sum = 0.0
    private var smallest = Int64.max
    private var largest: Int64 = 0

    package init() {}

    /// How many times were recorded.
    package var count: Int { Int(total) }
    /// The shortest time, exactly; `nil` if nothing was recorded.
    package var minimum: Int64? { total == 0 ? nil : smallest }
    /// The longest time, exactly.
    package var maximum: Int64? { total == 0 ? nil : largest }
    /// The arithmetic mean, from the exact values.
    package var mean: Double? { total == 0 ? nil : sum / Double(total) }

    /// Counts one time, in nanoseconds.
    package mutating func record(_ nanoseconds: Int64) {
        let value = min(max(nanoseconds, 1), Self.limit)
        counts[Self.slot(of: UInt64(value))] &+= 1
        total &+= 1
        sum += Double(value)
        if value < smallest { smallest = value }
        if value > largest { largest = value }
    }

    /// Adds all values of `other`.
    package mutating func merge(_ other: Histogram) {
        guard other.total > 0 else { return }
        for index in counts.indices { counts[index] &+= other.counts[index] }
        total &+= other.total
        sum += other.sum
        smallest = min(smallest, other.smallest)
        largest = max(largest, other.largest)
    }

    /// Removes all values and keeps the memory.
    package mutating func reset() {
        for index in counts.indices { counts[index] = 0 }
        total = 0
        sum = 0
        smallest = .max
        largest = 0
    }

    /// The time that `permille` thousandths of the values do not exceed: 500 for the median, 999 for the 99.9th percentile.
    /// `nil` if fewer than `beyond` values lie beyond it, by default ten, because it would then depend mostly on chance.
    package func percentile(_ permille: Int, beyond: UInt64 = 10) -> Int64? {
        let share = UInt64(min(max(permille, 0), 1000))
        // The nearest-rank method: the smallest value with at least that share of the values at or below it.
        let rank = max(1, (total * share + 999) / 1000)
        guard total >= rank, total - rank >= beyond else { return nil }
        var seen: UInt64 = 0
        for index in counts.indices {
            seen += counts[index]
            if seen >= rank { return min(max(Self.highest(inSlot: index), smallest), largest) }
        }
        return nil
    }

    /// The times at the percentiles of ``distributionPercents``, for a chart. It ends where fewer than ten values lie beyond,
    /// under the same rule as every percentile.
    package var distribution: [DistributionPoint] {
        var points: [DistributionPoint] = []
        var (slot, seen) = (0, counts[0])
        for percent in Self.distributionPercents {
            let rank = max(1, UInt64((Double(total) * percent / 100).rounded(.up)))
            guard total >= rank, total - rank >= 10 else { break }
            while seen < rank, slot + 1 < counts.count {
                slot += 1
                seen += counts[slot]
            }
            let time = min(max(Self.highest(inSlot: slot), smallest), largest)
            points.append(DistributionPoint(percent: percent, microseconds: Double(time) / 1000))
        }
        return points
    }

    /// From 0 to 99.99999 in eight steps for each further nine.
    private static let distributionPercents: [Double] = (0...56).map { step in
        // Whole nines are exact.
        (100 - pow(10, 2 - Double(step) / 8)).rounded(toNines: step / 8)
    }

    /// The fewest values that have a median: ten of them lie beyond it.
    package static let fewestForMedian = 20

    /// The median, under the same rule as every percentile.
    package var median: Int64? { percentile(500) }

    private static func slot(of value: UInt64) -> Int {
        let shift = max(0, 63 - value.leadingZeroBitCount - stepBits)
        return (shift << stepBits) + Int(value >> UInt64(shift))
    }

    /// The largest value that is counted in a slot.
    private static func highest(inSlot slot: Int) -> Int64 {
        let shift = max(0, (slot >> stepBits) - 1)
        let step = Int64(slot - (shift << stepBits))
        return ((step + 1) << Int64(shift)) - 1
    }
}

/// One point of a distribution: the time that a share of all values does not exceed.
package struct DistributionPoint: Sendable, Hashable {
    /// From 0 to below 100.
    package var percent: Double
    package var microseconds: Double
}

extension Double {
    /// The percentage with three digits after its `nines`, so that 99.9 is written as 99.9.
    fileprivate func rounded(toNines nines: Int) -> Double {
        let scale = pow(10, Double(nines + 2))
        return (self * scale).rounded() / scale
    }
}
