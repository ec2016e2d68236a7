import CommandSupport
import Workloads

/// Draws the timeline of a storm as text: attempts per second on a logarithmic scale, and the connected clients.
///
/// All policies of a report share both axes, so that they can be compared.
struct StormPlot: Sendable {
    /// The longest line.
    static let width = 80

    private static let margin = 8
    private static let columns = width - margin - 2
    private static let height = 4
    private static let blocks: [Character] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"]
    private static let ascii: [Character] = [" ", ".", ":", "#"]

    /// From an empty cell to a full one.
    private let ramp: [Character]
    private let rule: Character
    /// How many seconds the time axis has, and how many attempts the upper end of the other one.
    private let seconds: Int
    private let top: Int

    /// Axes that have room for all of `timelines`; in blocks of Unicode or in plain ASCII.
    init(_ timelines: [[StormOutcome.Second]], isUnicode: Bool) {
        ramp = isUnicode ? Self.blocks : Self.ascii
        rule = isUnicode ? "│" : "|"
        seconds = max(1, timelines.map(\.count).max() ?? 1)
        var top = 10
        let most = timelines.joined().map(\.attempts).max() ?? 0
        while top < most, top < Int.max / 10 { top *= 10 }
        self.top = top
    }

    /// The lines of one policy.
    func lines(_ timeline: [StormOutcome.Second], clients: Int) -> [String] {
        let ranges = columnRanges
        let attempts = ranges.map { range in
            // The busiest second of a column, because a mean would hide a peak.
            let most = timeline[range.clamped(to: timeline.indices)].map(\.attempts).max() ?? 0
            return most > 0 ? max(logarithm(Double(most)) / logarithm(Double(top)), 0.01) : 0
        }
        let back = ranges.map { range in
            let last = min(range.upperBound, timeline.count) - 1
            let count = last >= 0 ? timeline[last].back : 0
            return Double(count) / Double(max(1, clients))
        }
        return chart(attempts, [short(top), "log", "scale", "1/s"]) + chart(back, ["all", "", "", "back"]) + [
            axis(ranges.count)
        ]
    }

    /// The seconds of each column. A short timeline has fewer columns and is not stretched.
    private var columnRanges: [Range<Int>] {
        let columns = min(Self.columns, seconds)
        return (0..<columns).map { ($0 * seconds / columns)..<(($0 + 1) * seconds / columns) }
    }

    /// - Parameter labels: the texts beside the axis, from top to bottom.
    private func chart(_ values: [Double], _ labels: [String]) -> [String] {
        let steps = ramp.count - 1
        return zip((0..<Self.height).reversed(), labels).map { row, label in
            let cells = values.map { value in
                // A small value is not drawn as 0, and an almost full one not as full.
                let whole = Self.height * steps
                let filled = value < 1 ? min(Int((value * Double(whole)).rounded(.up)), whole - 1) : whole
                return ramp[min(max(filled - row * steps, 0), steps)]
            }
            return label.padded(to: Self.margin, alignedRight: true) + " " + String(rule) + String(cells)
        }
    }

    private func axis(_ columns: Int) -> String {
        let end = "\(seconds) s"
        let line = "0".padded(to: max(1, columns - end.count)) + end
        return String(repeating: " ", count: Self.margin + 2) + line
    }

    private func short(_ value: Int) -> String {
        value >= 1_000_000 ? "\(value / 1_000_000)M/s" : value >= 1000 ? "\(value / 1000)k/s" : "\(value)/s"
    }

    /// An approximation of the binary logarithm: the exponent, and the significand as a straight line.
    private func logarithm(_ value: Double) -> Double {
        value >= 1 ? Double(value.exponent) + (value.significand - 1) : 0
    }
}
