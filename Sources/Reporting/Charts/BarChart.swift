import CommandSupport

/// Horizontal bars over one axis: single bars, stacks of layers, intervals, and timelines. Each row has its name, its spans,
/// and its value as a text.
package struct BarChart: Chart {
    /// The meaning of a span, which selects its colour in the style of the page, and its shape.
    package enum Kind: String, Sendable, Hashable {
        /// The spans of a stack.
        case first, second, third, fourth
        /// Behind a bar, such as a time with an attack behind the time without it.
        case tail
        /// A single bar in the style of its row, and one behind it.
        case own
        case ownTail = "own-tail"
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
    package struct Span: Sendable {
        package var kind: Kind
        package var from: Double
        package var to: Double

        package init(kind: Kind, from: Double, to: Double) {
            (self.kind, self.from, self.to) = (kind, from, to)
        }
    }

    package struct Row: Sendable {
        package var label: String
        /// Later ones lie above earlier ones.
        package var spans: [Span]
        package var value: String
        /// The colour of spans of the kinds `own` and `ownTail`.
        package var style: SeriesStyle

        package init(label: String, spans: [Span], value: String, style: SeriesStyle = SeriesStyle(0)) {
            (self.label, self.spans, self.value, self.style) = (label, spans, value, style)
        }
    }

    package var title: String
    package var legend: [(kind: Kind, meaning: String)] = []
    package var rows: [Row] = []
    /// The ends of the axis, where spans are cut and marked; `nil` fits all spans.
    package var range: ClosedRange<Double>?
    /// The values at which a line crosses all rows, above their spans.
    package var lines: [Double] = []
    /// How the ticks are written.
    package var unit = Axis.Unit.plain

    package init(
        title: String,
        legend: [(kind: Kind, meaning: String)] = [],
        rows: [Row] = [],
        range: ClosedRange<Double>? = nil,
        lines: [Double] = [],
        unit: Axis.Unit = Axis.Unit.plain
    ) {
        (self.title, self.legend, self.rows, self.range) = (title, legend, rows, range)
        (self.lines, self.unit) = (lines, unit)
    }

    /// A single bar has nothing beside which it is long or short.
    package var isEmpty: Bool { rows.count < 2 }
    package var names: [String] { rows.map(\.label) }
    package var keys: [ChartKey] { legend.map { ChartKey(swatch: .bar($0.kind), meaning: $0.meaning) } }

    package func drawing(width: Double) -> SVGDrawing {
        let layout = Layout(self, width)
        var drawing = SVGDrawing(width: width, height: layout.bottom + 20)
        let axis = Axis(unit: unit, range: range).fitted(
            to: rows.flatMap(\.spans).flatMap { [$0.from, $0.to] } + lines
        )
        layout.drawTicks(of: axis, &drawing)
        let boxes = rows.indices.map { layout.box(of: $0, rows[$0]) }
        for (row, box) in zip(rows, boxes) {
            for span in row.spans { box.draw(span, on: axis, &drawing) }
        }
        for value in lines {
            guard let place = axis.place(value), (0...1).contains(place) else { continue }
            let x = layout.left + place * (layout.right - layout.left)
            for (from, to) in layout.spansOfLines {
                // The dots are visible on bars too.
                drawing.line((x, from), (x, to), "under")
                drawing.line((x, from), (x, to), "reference")
            }
        }
        for (index, (row, box)) in zip(rows, boxes).enumerated() {
            layout.drawHover(of: index, "\(row.label): \(values(of: row, on: axis))", &drawing)
            box.drawClipMarks(row.spans, on: axis, &drawing)
            layout.drawTexts(of: index, row, &drawing)
        }
        return drawing
    }

    /// The values of the spans of a row, with their meanings in the legend.
    private func values(of row: Row, on axis: FittedAxis) -> String {
        let texts = row.spans.filter { $0.from.isFinite && $0.to.isFinite }.map { span in
            let (from, to) = (axis.axis.value(span.from), axis.axis.value(span.to))
            let value = span.from == 0 || span.from == span.to ? to : "\(from) to \(to)"
            return (legend.first { $0.kind == span.kind }.map { $0.meaning + " " } ?? "") + value
        }
        return texts.isEmpty ? row.value : texts.joined(separator: ", ")
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

        /// The heights at which a line crosses the rows. It leaves out texts that stand above their bars.
        var spansOfLines: [(from: Double, to: Double)] {
            guard isStacked else { return [(0, bottom)] }
            return stride(from: 0, to: bottom - 3, by: rowHeight).map { ($0 + 17, $0 + rowHeight + 1) }
        }

        func box(of index: Int, _ row: Row) -> Box {
            let top = Double(index) * rowHeight + (isStacked ? 18 : 4)
            return Box(left: left, right: right, top: top, height: barHeight, style: row.style)
        }

        /// The name and the value of a row.
        func drawTexts(of index: Int, _ row: Row, _ drawing: inout SVGDrawing) {
            let base = Double(index) * rowHeight + (isStacked ? 13 : 4 + barHeight / 2 + 4)
            let (x, anchor) = isStacked ? (0, SVGDrawing.Anchor.start) : (left - Self.gap, .end)
            drawing.text(row.label, at: (x, base), "label halo", anchor: anchor, within: labelWidth)
            drawing.text(row.value, at: (drawing.width, base), "value halo", anchor: .end, within: valueWidth)
        }

        /// The area of a row over which the page shows a text.
        func drawHover(of index: Int, _ text: String, _ drawing: inout SVGDrawing) {
            let y = Double(index) * rowHeight
            drawing.rectangle(x: 0, y: y, width: drawing.width, height: rowHeight, "hover", title: text)
        }

        /// Lines behind the bars, with their values below.
        func drawTicks(of axis: FittedAxis, _ drawing: inout SVGDrawing) {
            for tick in axis.ticks(along: right - left) {
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
        let style: SeriesStyle

        /// Draws the part of a span that is on the axis. Numbers that are not finite are not drawn.
        func draw(_ span: Span, on axis: FittedAxis, _ drawing: inout SVGDrawing) {
            guard let (from, to) = places(span, axis) else { return }
            let (start, end) = (x(from), x(to))
            let middle = top + height / 2
            switch span.kind {
            case .interval:
                drawing.line((start, middle), (end, middle), "outline")
                drawing.line((start, middle), (end, middle), "interval")
                for (place, x) in [(from, start), (to, end)] where (0...1).contains(place) {
                    drawing.line((x, middle - 3), (x, middle + 3), "interval")
                }
            case .mark, .reference:
                guard (0...1).contains(from) else { return }
                drawing.rectangle(x: start - 1, y: top - 1, width: 2, height: height + 2, "mark")
            default:
                let inset = inset(of: span.kind)
                // A small difference is still visible, and so is a short moment.
                let least = [.better, .worse, .noise].contains(span.kind) ? 3.0 : span.to > span.from ? 1 : 0
                drawing.rectangle(
                    x: start,
                    y: top + inset,
                    width: max(end - start, least),
                    height: height - 2 * inset,
                    span.kind == .own || span.kind == .ownTail
                        ? "\(span.kind.rawValue) \(style.colourClass)" : span.kind.rawValue
                )
            }
        }

        /// Marks the ends of the axis beyond which a span continues: the span has a gap there, and an arrow.
        func drawClipMarks(_ spans: [Span], on axis: FittedAxis, _ drawing: inout SVGDrawing) {
            let middle = top + height / 2
            let drawn = spans.filter { places($0, axis) != nil }
            if let most = drawn.map(\.to).max(), axis.place(most).map({ $0 > 1 }) == true {
                drawing.line((right - 18, top + height + 1), (right - 12, top - 1), "cut")
                drawing.clipMark(at: (right, middle), towards: .right)
            }
            if let least = drawn.map(\.from).min(), axis.place(least).map({ $0 < 0 }) == true {
                drawing.line((left + 12, top + height + 1), (left + 18, top - 1), "cut")
                drawing.clipMark(at: (left, middle), towards: .left)
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
    package init(_ label: String, _ value: Double?, shown: String, style: SeriesStyle = SeriesStyle(0)) {
        let spans = value.map { [BarChart.Span(kind: .own, from: 0, to: $0)] } ?? []
        self.init(label: label, spans: spans, value: shown, style: style)
    }
}
