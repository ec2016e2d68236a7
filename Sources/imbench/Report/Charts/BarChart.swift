/// Horizontal bars over one axis: single bars, stacks of layers, intervals, and timelines. Each row has its name, its spans,
/// and its value as a text.
struct BarChart: Chart {
    /// The meaning of a span, which selects its colour in the style of the page, and its shape.
    enum Kind: String, Sendable, Hashable {
        /// The spans of a stack, or a single bar.
        case first, second, third, fourth
        /// Behind a bar, such as the 99th percentile behind the median.
        case tail
        /// A thin line: an interval.
        case interval
        /// A vertical line: a single value for comparison.
        case mark
        /// One of the lines that cross all rows, for the legend.
        case reference
        case better, worse, noise
        /// The states of a connection in a timeline. They differ in height too.
        case connected, undetected, reconnecting
    }

    /// A rectangle from one value to another.
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
    /// The ends of the axis, where spans are cut and marked; `nil` fits all spans.
    var range: ClosedRange<Double>?
    /// The values at which a line crosses all rows, above their spans.
    var lines: [Double] = []
    /// How the ticks are written.
    var unit = Axis.Unit.plain

    var isEmpty: Bool { rows.isEmpty }
    var names: [String] { rows.map(\.label) }
    var keys: [ChartKey] { legend.map { ChartKey(swatch: .bar($0.kind), meaning: $0.meaning) } }

    func drawing(width: Double) -> SVGDrawing {
        let layout = Layout(self, width)
        var drawing = SVGDrawing(width: width, height: layout.bottom + 20)
        let axis = Axis(unit: unit, range: range).fitted(
            to: rows.flatMap(\.spans).flatMap { [$0.from, $0.to] } + lines
        )
        layout.drawTicks(of: axis, &drawing)
        for (index, row) in rows.enumerated() {
            let top = layout.top(of: index)
            let base = (layout.isStacked ? top : top + layout.barHeight / 2) + 4
            let labelX = layout.isStacked ? 0 : layout.left - Layout.gap
            let anchor = layout.isStacked ? SVGDrawing.Anchor.start : .end
            let textBase = layout.isStacked ? base - 9 : base
            drawing.text(row.label, at: (labelX, textBase), anchor: anchor, within: layout.labelWidth)
            drawing.text(row.value, at: (width, textBase), "value", anchor: .end, within: layout.valueWidth)
            let box = Box(left: layout.left, right: layout.right, top: top, height: layout.barHeight, name: row.label)
            for span in row.spans { box.draw(span, on: axis, &drawing) }
            box.drawClipMarks(row.spans, on: axis, &drawing)
        }
        for value in lines {
            guard let place = axis.place(value), (0...1).contains(place) else { continue }
            let x = layout.left + place * (layout.right - layout.left)
            // The dots are visible on bars too.
            drawing.line((x, 0), (x, layout.bottom), "under")
            drawing.line((x, 0), (x, layout.bottom), "reference")
        }
        return drawing
    }

    /// The places of rows and columns.
    private struct Layout {
        static let gap = 8.0

        /// Whether the texts of a row stand above its bar, because the width has no room for columns of texts.
        let isStacked: Bool
        let labelWidth: Double
        let valueWidth: Double
        /// The ends of the bars.
        let left: Double
        let right: Double
        let bottom: Double
        let barHeight = 13.0
        private let rowHeight: Double

        init(_ chart: BarChart, _ width: Double) {
            let label = chart.rows.map { SVGDrawing.width(of: $0.label) }.max() ?? 0
            let value = chart.rows.map { SVGDrawing.width(of: $0.value) }.max() ?? 0
            // Beside its texts, a bar has at least 45 % of the width.
            isStacked = label + value + 2 * Self.gap > width * 0.55
            if isStacked {
                (left, right) = (0, width)
                valueWidth = min(value, width / 2)
                labelWidth = width - valueWidth - Self.gap
            } else {
                (labelWidth, valueWidth) = (label, value)
                (left, right) = (label + Self.gap, width - (value > 0 ? value + Self.gap : 0))
            }
            rowHeight = isStacked ? 36 : 21
            bottom = Double(chart.rows.count) * rowHeight + 3
        }

        /// The upper end of the bars of a row.
        func top(of row: Int) -> Double { Double(row) * rowHeight + (isStacked ? 18 : 4) }

        /// Lines behind the bars, with their values below.
        func drawTicks(of axis: FittedAxis, _ drawing: inout SVGDrawing) {
            for tick in axis.ticks(atMost: Int((right - left) / 52)) {
                guard let place = axis.place(tick.value) else { continue }
                let x = left + place * (right - left)
                drawing.line((x, 0), (x, bottom), "grid")
                let half = SVGDrawing.width(of: tick.label) / 2
                let anchor: SVGDrawing.Anchor = x - half < 0 ? .start : x + half > drawing.width ? .end : .middle
                drawing.text(tick.label, at: (x, bottom + 15), "tick", anchor: anchor)
            }
        }
    }

    /// The place of the spans of one row.
    private struct Box {
        let left: Double
        let right: Double
        let top: Double
        let height: Double
        let name: String

        /// Draws the part of a span that is on the axis. Numbers that are not finite are not drawn.
        func draw(_ span: Span, on axis: FittedAxis, _ drawing: inout SVGDrawing) {
            guard let (from, to) = places(span, axis) else { return }
            let (start, end) = (x(from), x(to))
            let middle = top + height / 2
            switch span.kind {
            case .interval:
                drawing.line((start, middle), (end, middle), "interval")
                for (place, x) in [(from, start), (to, end)] where (0...1).contains(place) {
                    drawing.line((x, middle - 3), (x, middle + 3), "interval")
                }
            case .mark, .reference:
                guard (0...1).contains(from) else { return }
                drawing.rectangle(x: start - 1, y: top - 1, width: 2, height: height + 2, "mark")
            default:
                let inset = inset(of: span.kind)
                // A small difference is still visible.
                let least = [.better, .worse, .noise].contains(span.kind) ? 3.0 : 0
                drawing.rectangle(
                    x: start,
                    y: top + inset,
                    width: max(end - start, least),
                    height: height - 2 * inset,
                    span.kind.rawValue
                )
            }
        }

        /// Marks the ends of the axis beyond which a span continues.
        func drawClipMarks(_ spans: [Span], on axis: FittedAxis, _ drawing: inout SVGDrawing) {
            let middle = top + height / 2
            let drawn = spans.filter { places($0, axis) != nil }
            if let most = drawn.map(\.to).max(), axis.place(most).map({ $0 > 1 }) == true {
                drawing.clipMark(at: (right, middle), towards: .right, title: "\(name): up to \(shown(most))")
            }
            if let least = drawn.map(\.from).min(), axis.place(least).map({ $0 < 0 }) == true {
                drawing.clipMark(at: (left, middle), towards: .left, title: "\(name): from \(shown(least))")
            }
        }

        private func places(_ span: Span, _ axis: FittedAxis) -> (from: Double, to: Double)? {
            guard span.from <= span.to, let from = axis.place(span.from), let to = axis.place(span.to) else {
                return nil
            }
            return (from, to)
        }

        private func x(_ place: Double) -> Double { left + min(max(place, 0), 1) * (right - left) }

        private func inset(of kind: Kind) -> Double {
            switch kind {
            case .better, .worse, .noise: height / 4
            case .reconnecting: height / 2 - 2
            case .connected: 2
            default: 0
            }
        }
    }
}

extension BarChart.Row {
    /// One bar from 0, or none if nothing was measured.
    init(_ label: String, _ value: Double?, shown: String) {
        self.init(label: label, spans: value.map { [.init(kind: .first, from: 0, to: $0)] } ?? [], value: shown)
    }
}
