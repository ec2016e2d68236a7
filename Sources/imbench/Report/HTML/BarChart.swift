/// Horizontal bars over one axis, drawn with nothing but the style of the page: each row has its name, what is drawn, and its
/// value in figures, so that it can be read where nothing is drawn.
struct BarChart: Sendable {
    /// What a span means; the page's style gives it a colour.
    enum Kind: String, Sendable, Hashable {
        /// The first of what is stacked, and the only one of what is not.
        case first, second, third, fourth
        /// What lies behind a bar, such as the 99th percentile behind the median.
        case tail
        /// A thin line: an interval.
        case interval
        /// A line across: a single value to hold others against.
        case mark
        case better, worse, noise
    }

    /// What is drawn from one value to another.
    struct Span: Sendable {
        var kind: Kind
        var from: Double
        var to: Double
    }

    struct Row: Sendable {
        var label: String
        /// Later ones lie above earlier ones.
        var spans: [Span]
        var value: String
    }

    var title: String
    var legend: [(kind: Kind, meaning: String)] = []
    var rows: [Row] = []
    /// The ends of the axis, where spans are cut; without them it has room for all.
    var range: ClosedRange<Double>?
    /// The values at which a line goes through all rows, above what they have.
    var lines: [Double] = []

    /// The values at the ends of the axis. It begins at 0, or below it if a span does.
    private var axis: ClosedRange<Double> {
        if let range, range.lowerBound < range.upperBound { return range }
        let ends = rows.flatMap(\.spans).flatMap { [$0.from, $0.to] }.filter(\.isFinite)
        let low = min(0, ends.min() ?? 0)
        let high = max(0, ends.max() ?? 0)
        return low...(high > low ? high : low + 1)
    }

    var html: String {
        let axis = self.axis
        var text = "<figure>\n<figcaption>\(HTMLPage.escaped(title))</figcaption>\n"
        if !legend.isEmpty {
            let keys = legend.map { kind, meaning in
                "<span><i class=\"\(kind.rawValue)\"></i>\(HTMLPage.escaped(meaning))</span>"
            }
            text += "<p class=\"legend\">\(keys.joined())</p>\n"
        }
        text += "<div class=\"bars\">\n"
        for row in rows {
            var drawn = row.spans.map { Self.drawn($0.kind.rawValue, $0.from, $0.to, axis) }
            drawn += lines.map { Self.drawn("line", $0, $0, axis) }
            text += "<span>\(HTMLPage.escaped(row.label))</span>"
            text += "<div aria-hidden=\"true\">\(drawn.joined())</div>"
            text += "<span class=\"number\">\(HTMLPage.escaped(row.value))</span>\n"
        }
        return text + "</div>\n</figure>\n"
    }

    /// A span in percent of the axis; nothing if it lies outside.
    private static func drawn(_ kind: String, _ from: Double, _ to: Double, _ axis: ClosedRange<Double>) -> String {
        guard from.isFinite, to.isFinite, from <= to, axis.overlaps(from...to) else { return "" }
        func percent(_ value: Double) -> Double {
            (min(max(value, axis.lowerBound), axis.upperBound) - axis.lowerBound)
                / (axis.upperBound - axis.lowerBound) * 100
        }
        let (left, right) = (percent(from), percent(to))
        let style = "left:\(fixed(left, 2, trimmed: true))%;width:\(fixed(right - left, 2, trimmed: true))%"
        return "<i class=\"\(kind)\" style=\"\(style)\"></i>"
    }
}

extension BarChart.Row {
    /// One bar from 0, or nothing where nothing was measured.
    init(_ label: String, _ value: Double?, shown: String) {
        self.init(label: label, spans: value.map { [.init(kind: .first, from: 0, to: $0)] } ?? [], value: shown)
    }
}
