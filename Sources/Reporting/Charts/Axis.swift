import CommandSupport
import Foundation

/// An axis of a chart: a scale, its ends, and the texts of its ticks.
package struct Axis: Sendable {
    package enum Scale: Sendable, Hashable {
        case linear
        /// Equal ratios have equal lengths. Values must be positive.
        case logarithmic
        /// Percentiles, from 0 to below 100. Each further nine (90, 99, 99.9) has the same length.
        case nines
    }

    /// How ticks are written.
    package enum Unit: Sendable, Hashable {
        /// A number; the title of the axis names the unit.
        case plain
        case percent
        /// Microseconds, written with the unit that fits.
        case microseconds
    }

    /// The quantity, with its unit if ``unit`` is `plain`.
    package var title = ""
    package var scale = Scale.linear
    package var unit = Unit.plain
    /// The ends; `nil` fits all values.
    package var range: ClosedRange<Double>?
    /// Whether a fitted linear axis begins at 0.
    var includesZero = true

    package init(
        title: String = "",
        scale: Scale = Scale.linear,
        unit: Unit = Unit.plain,
        range: ClosedRange<Double>? = nil,
        includesZero: Bool = true
    ) {
        (self.title, self.scale, self.unit, self.range) = (title, scale, unit, range)
        self.includesZero = includesZero
    }

    /// The title, and the scale if equal distances are no equal differences.
    var caption: String { scale == .linear || title.isEmpty ? title : title + " (log scale)" }

    /// The axis with its ends: its own, or those that fit `values`. Values that the scale does not have are ignored.
    func fitted(to values: [Double]) -> FittedAxis {
        if let range, range.lowerBound < range.upperBound, isOnScale(range.lowerBound), isOnScale(range.upperBound) {
            return FittedAxis(axis: self, range: range)
        }
        let own = values.filter(isOnScale)
        var (low, high) = (own.min() ?? 1, own.max() ?? 1)
        switch scale {
        case .linear:
            if includesZero { (low, high) = (min(0, low), max(0, high)) }
            if low == high { high = low + max(1, low.magnitude) }
        case .logarithmic:
            // A range of less than a factor of two would show noise as a difference. No line runs along an end.
            (low, high) = high < low * 2 ? (low / 1.5, high * 1.5) : (low / 1.1, high * 1.1)
        case .nines:
            (low, high) = (0, max(high, 90))
        }
        return FittedAxis(axis: self, range: low...high)
    }

    private func isOnScale(_ value: Double) -> Bool {
        switch scale {
        case .linear: value.isFinite
        case .logarithmic: value.isFinite && value > 0
        case .nines: value >= 0 && value < 100
        }
    }

    /// The unit of a time in microseconds.
    package struct TimeUnit: Sendable {
        package var name: String
        private var microseconds: Double

        /// The unit that fits a number of microseconds.
        package init(_ value: Double) {
            (name, microseconds) =
                value.magnitude >= 1e6 ? ("s", 1e6) : value.magnitude >= 1000 ? ("ms", 1000) : ("µs", 1)
        }

        /// A number of microseconds in this unit, with about three digits, as in tables.
        package func number(_ value: Double) -> String { shown(value / microseconds) }

        fileprivate func label(_ value: Double) -> String {
            value == 0 ? "0" : fixed(value / microseconds, 3, trimmed: true) + " " + name
        }
    }

    /// The text of a tick.
    ///
    /// - Parameter largest: the time whose unit it has, so that all ticks of an axis have one; `nil` for its own unit.
    package func label(_ value: Double, inUnitOf largest: Double? = nil) -> String {
        switch unit {
        case .plain: Self.short(value)
        case .percent: fixed(value, 6, trimmed: true) + " %"
        case .microseconds: TimeUnit(largest ?? value).label(value)
        }
    }

    /// A value with its unit and about three digits, as in tables.
    func value(_ value: Double) -> String {
        switch unit {
        case .plain: shown(value)
        case .percent: shown(value) + " %"
        case .microseconds: TimeUnit(value).number(value) + " " + TimeUnit(value).name
        }
    }

    /// A number with k, M or G for thousands, millions or 10⁹, from ten thousand on.
    private static func short(_ value: Double) -> String {
        let steps: [(least: Double, unit: Double, name: String)] = [(1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")]
        guard let step = steps.first(where: { value.magnitude >= $0.least }) else {
            return fixed(value, 6, trimmed: true)
        }
        return fixed(value / step.unit, 3, trimmed: true) + step.name
    }
}

/// An axis with its ends.
package struct FittedAxis: Sendable {
    package struct Tick: Sendable, Hashable {
        var value: Double
        var label: String
    }

    let axis: Axis
    let range: ClosedRange<Double>

    /// The place of a value as a share of the length. It is below 0 or above 1 outside the ends, and `nil` for a value that
    /// the scale does not have.
    func place(_ value: Double) -> Double? {
        guard let low = linear(range.lowerBound), let high = linear(range.upperBound), let place = linear(value),
            high > low
        else { return nil }
        return (place - low) / (high - low)
    }

    /// Round values between the ends, in ascending order.
    ///
    /// - Parameter limit: the largest number of ticks, of at least two.
    func ticks(atMost limit: Int) -> [Tick] {
        let limit = max(2, limit)
        let candidates: [[Double]] =
            switch axis.scale {
            case .linear: [linearTicks(limit)]
            case .nines: [ninesTicks([0, 50]), ninesTicks([0])]
            case .logarithmic:
                [decades([1, 2, 5]), decades([1, 3]), decades([1]), decades([1], every: 2), decades([1], every: 3)]
            }
        let values = candidates.first { $0.count <= limit } ?? Array(candidates.last?.prefix(limit) ?? [])
        // Within one decade, the ticks of a linear axis are the better ones.
        let isShort = axis.scale == .logarithmic && values.count < 3
        let largest = axis.scale == .linear ? range.upperBound : nil
        return (isShort ? linearTicks(limit) : values).map {
            Tick(value: $0, label: axis.label($0, inUnitOf: largest))
        }
    }

    /// The ticks of a horizontal axis, so few that no label touches another.
    ///
    /// - Parameter length: the length of the axis.
    func ticks(along length: Double) -> [Tick] {
        for limit in stride(from: Int(min(length, 10_000) / 40), to: 2, by: -1) {
            let ticks = ticks(atMost: limit)
            if withoutTouching(ticks, length).count == ticks.count { return ticks }
        }
        return withoutTouching(ticks(atMost: 2), length)
    }

    /// The ticks without those whose label touches the one before.
    private func withoutTouching(_ ticks: [Tick], _ length: Double) -> [Tick] {
        let gap = 8.0
        var end = -Double.infinity
        return ticks.filter { tick in
            guard let place = place(tick.value) else { return false }
            let half = SVGDrawing.width(of: tick.label) / 2
            let start = place * length - half
            guard start >= end + gap else { return false }
            end = start + 2 * half
            return true
        }
    }

    private func linear(_ value: Double) -> Double? {
        guard value.isFinite else { return nil }
        return switch axis.scale {
        case .linear: value
        case .logarithmic: value > 0 ? log10(value) : nil
        case .nines: value >= 0 && value < 100 ? -log10(1 - value / 100) : nil
        }
    }

    /// Multiples of 1, 2 or 5 times a power of ten.
    private func linearTicks(_ limit: Int) -> [Double] {
        let width = range.upperBound - range.lowerBound
        guard width.isFinite, width > 0 else { return [range.lowerBound] }
        var power = pow(10, floor(log10(width / Double(limit))))
        for _ in 0..<3 {
            for factor in [1.0, 2, 5] {
                let step = power * factor
                let (first, last) = (ceil(range.lowerBound / step - 1e-9), floor(range.upperBound / step + 1e-9))
                guard last - first < Double(limit) else { continue }
                return stride(from: first, through: last, by: 1).map { $0 * step }
            }
            power *= 10
        }
        return [range.lowerBound]
    }

    /// The multiples of the powers of ten between the ends.
    private func decades(_ factors: [Double], every step: Int = 1) -> [Double] {
        guard range.lowerBound > 0 else { return [] }
        let exponents = Int(floor(log10(range.lowerBound)))...Int(ceil(log10(range.upperBound)))
        return exponents.filter { $0 % step == 0 }.flatMap { exponent in factors.map { $0 * pow(10, Double(exponent)) }
        }
        .filter { range.contains($0) }
    }

    /// 90, 99, 99.9 and so on, after the given values.
    private func ninesTicks(_ first: [Double]) -> [Double] {
        (first + (1...7).map { 100 - pow(10, Double(2 - $0)) }).filter { range.contains($0) }
    }
}
