/// Lines over two axes: distributions, a quantity against a cause such as loss, or counts over time. Each line differs from
/// the others by colour and dashes, and has its name beside it.
struct LineChart: Chart {
    struct Point: Sendable {
        var x: Double
        var y: Double
        /// The ends of an interval around `y`, if it is known.
        var interval: ClosedRange<Double>?

        init(_ x: Double, _ y: Double, interval: ClosedRange<Double>? = nil) {
            (self.x, self.y, self.interval) = (x, y, interval)
        }
    }

    struct Series: Sendable {
        var label: String
        var style: SeriesStyle
        /// In ascending order of x.
        var points: [Point]
        /// Whether each point is marked, because it was measured and the line between points was not.
        var hasMarks = false
    }

    /// A line across the chart at one value, with a text.
    struct Reference: Sendable {
        enum Direction: Sendable { case horizontal, vertical }
        var direction: Direction
        var value: Double
        var label: String
    }

    /// The place of the names of lines.
    enum Labels: Sendable {
        /// Behind the last points, for lines that end at different heights.
        case atEnd
        /// Within the chart, for lines that end at the same height. A name for which no place is free is in the legend only.
        case along
    }

    var title: String
    var x: Axis
    var y: Axis
    var series: [Series] = []
    var references: [Reference] = []
    var labels = Labels.atEnd

    var isEmpty: Bool { series.allSatisfy(\.points.isEmpty) }
    var names: [String] { series.map(\.label) }
    var keys: [ChartKey] { series.map { ChartKey(swatch: .line($0.style), meaning: $0.label) } }

    func drawing(width: Double) -> SVGDrawing {
        let points = series.flatMap(\.points)
        let intervals = points.compactMap(\.interval).flatMap { [$0.lowerBound, $0.upperBound] }
        let horizontals = references.filter { $0.direction == .horizontal }.map(\.value)
        let verticals = references.filter { $0.direction == .vertical }.map(\.value)
        let plot = Plot(
            self,
            x: x.fitted(to: points.map(\.x) + verticals),
            y: y.fitted(to: points.map(\.y) + intervals + horizontals),
            width
        )
        var drawing = SVGDrawing(width: width, height: plot.bottom + 38)
        plot.drawAxes(&drawing)
        for line in series { plot.draw(line, &drawing) }
        plot.draw(references, &drawing)
        switch labels {
        case .atEnd: plot.drawLabelsAtEnd(series, &drawing)
        case .along: plot.drawLabelsAlong(series, besides: verticals, &drawing)
        }
        return drawing
    }
}

extension LineChart {
    /// The rectangle between the axes.
    private struct Plot {
        private static let lineHeight = 14.0

        let x: FittedAxis
        let y: FittedAxis
        let left: Double
        let right: Double
        let top: Double
        let bottom: Double
        private let yTicks: [FittedAxis.Tick]

        init(_ chart: LineChart, x: FittedAxis, y: FittedAxis, _ width: Double) {
            (self.x, self.y) = (x, y)
            let height = width > LineChart.narrow ? 250.0 : 220
            // The names of vertical lines stand between the axis and its title.
            top = chart.references.contains { $0.direction == .vertical } ? 32 : 22
            bottom = top + max(height, chart.labels == .atEnd ? Double(chart.series.count) * Self.lineHeight : 0)
            yTicks = y.ticks(atMost: Int(height / 30))
            left = (yTicks.map { SVGDrawing.width(of: $0.label) }.max() ?? 0) + 8
            // Names are bold.
            let names = 1.1 * (chart.series.map { SVGDrawing.width(of: $0.label) }.max() ?? 0)
            right = width - (chart.labels == .atEnd ? min(names + 12, width * 0.38) : 8)
        }

        func drawAxes(_ drawing: inout SVGDrawing) {
            drawing.text(y.axis.title, at: (0, 11), "axis", within: drawing.width)
            for tick in yTicks {
                guard let place = y.place(tick.value) else { continue }
                let height = bottom - place * (bottom - top)
                drawing.line((left, height), (right, height), "grid")
                drawing.text(tick.label, at: (left - 6, height + 4), "tick", anchor: .end)
            }
            for tick in x.ticks(atMost: Int((right - left) / 56)) {
                guard let place = x.place(tick.value) else { continue }
                let side = left + place * (right - left)
                drawing.line((side, top), (side, bottom + 4), "grid")
                let half = SVGDrawing.width(of: tick.label) / 2
                let middle = max(half, min(side, drawing.width - half))
                drawing.text(tick.label, at: (middle, bottom + 17), "tick", anchor: .middle)
            }
            drawing.line((left, bottom), (right, bottom), "base")
            drawing.text(x.axis.title, at: (right, bottom + 33), "axis", anchor: .end, within: right)
        }

        /// Lines across the chart. The names of horizontal ones stand at their right ends, where rising lines are high, and
        /// above each other, because such lines can be close together.
        func draw(_ references: [Reference], _ drawing: inout SVGDrawing) {
            var names: [(label: String, height: Double)] = []
            for reference in references.sorted(by: { $0.value < $1.value }) {
                switch reference.direction {
                case .horizontal:
                    guard let place = y.place(reference.value), (0...1).contains(place) else { continue }
                    let height = bottom - place * (bottom - top)
                    drawing.line((left, height), (right, height), "reference")
                    let below = names.last?.height ?? .infinity
                    names.append((reference.label, max(top + 11, min(height - 4, below - Self.lineHeight))))
                case .vertical:
                    guard let place = x.place(reference.value), (0...1).contains(place) else { continue }
                    let side = left + place * (right - left)
                    drawing.line((side, top), (side, bottom), "reference")
                    drawText(reference.label, beside: (side, top - 4), "", &drawing)
                }
            }
            for (label, height) in names {
                drawing.text(label, at: (right - 2, height), "halo", anchor: .end, within: right - left - 2)
            }
        }

        /// A line with its intervals. A part that is outside is drawn at the end of the axis, and marked once.
        func draw(_ line: Series, _ drawing: inout SVGDrawing) {
            var points: [SVGDrawing.Point] = []
            var wasOutside = false
            for point in line.points {
                guard let placeX = x.place(point.x), let placeY = y.place(point.y), (0...1).contains(placeX) else {
                    continue
                }
                let at = position(placeX, placeY)
                points.append(at)
                let text = "\(line.label): \(y.axis.label(point.y)) at \(x.axis.label(point.x))"
                let isOutside = !(0...1).contains(placeY)
                if isOutside, !wasOutside {
                    drawing.clipMark(at: at, towards: placeY > 1 ? .up : .down, title: text)
                }
                wasOutside = isOutside
                if let interval = point.interval {
                    draw(interval, at, line, &drawing)
                    if !isOutside { mark(interval, at, "\(line.label): ", &drawing) }
                }
                if line.hasMarks, !isOutside {
                    drawing.circle(at, radius: 3, "point \(line.style.classes)", title: text)
                }
            }
            drawing.polyline(points, "series \(line.style.classes)")
        }

        private func draw(
            _ interval: ClosedRange<Double>,
            _ at: SVGDrawing.Point,
            _ line: Series,
            _ drawing: inout SVGDrawing
        ) {
            guard let low = y.place(interval.lowerBound), let high = y.place(interval.upperBound), high >= 0, low <= 1
            else { return }
            let style = "bounds \(line.style.classes)"
            let (from, to) = (position(0, low).y, position(0, high).y)
            drawing.line((at.x, from), (at.x, to), style)
            for (place, height) in [(low, from), (high, to)] where (0...1).contains(place) {
                drawing.line((at.x - 3, height), (at.x + 3, height), style)
            }
        }

        /// Marks the ends of the axis beyond which an interval continues.
        private func mark(
            _ interval: ClosedRange<Double>,
            _ at: SVGDrawing.Point,
            _ name: String,
            _ drawing: inout SVGDrawing
        ) {
            if let high = y.place(interval.upperBound), high > 1 {
                let title = name + "up to " + y.axis.label(interval.upperBound)
                drawing.clipMark(at: (at.x, top), towards: .up, title: title)
            }
            if let low = y.place(interval.lowerBound), low < 0 {
                let title = name + "from " + y.axis.label(interval.lowerBound)
                drawing.clipMark(at: (at.x, bottom), towards: .down, title: title)
            }
        }

        /// The place in the drawing, moved to the nearest end if it is outside.
        private func position(_ x: Double, _ y: Double) -> SVGDrawing.Point {
            (left + min(max(x, 0), 1) * (right - left), bottom - min(max(y, 0), 1) * (bottom - top))
        }

        /// The last point of a line that has a place.
        private func end(of line: Series) -> SVGDrawing.Point? {
            for point in line.points.reversed() {
                guard let placeX = x.place(point.x), let placeY = y.place(point.y), (0...1).contains(placeX) else {
                    continue
                }
                return position(placeX, placeY)
            }
            return nil
        }

        /// Names beside the last points, moved apart where they would overlap.
        func drawLabelsAtEnd(_ series: [Series], _ drawing: inout SVGDrawing) {
            let ends = series.compactMap { line in end(of: line).map { (line: line, end: $0) } }
                .sorted { $0.end.y < $1.end.y }
            var heights = ends.map(\.end.y)
            for index in heights.indices.dropFirst() {
                heights[index] = max(heights[index], heights[index - 1] + Self.lineHeight)
            }
            // Names that would be below the chart are moved up, and the ones above them with them.
            var limit = bottom
            for index in heights.indices.reversed() {
                heights[index] = min(heights[index], limit)
                limit = heights[index] - Self.lineHeight
            }
            for ((line, end), height) in zip(ends, heights) {
                if end.x < right || abs(height - end.y) > 1 {
                    drawing.line(end, (right + 6, height), "leader \(line.style.classes)")
                }
                let width = drawing.width - right - 9
                drawing.text(
                    line.label,
                    at: (right + 9, height + 4),
                    "name \(line.style.classes)",
                    within: width
                )
            }
        }

        /// Names beside the lines, where they cover neither a line nor another name. The first line to rise has the highest
        /// name, because the other lines are still low there.
        func drawLabelsAlong(_ series: [Series], besides verticals: [Double], _ drawing: inout SVGDrawing) {
            let lines = series.map { line in
                line.points.compactMap { point -> SVGDrawing.Point? in
                    guard let placeX = x.place(point.x), let placeY = y.place(point.y), (0...1).contains(placeX)
                    else { return nil }
                    return position(placeX, placeY)
                }
            }
            let walls = verticals.compactMap { value in
                x.place(value).map { [position($0, 0), position($0, 1)] }
            }
            var taken = (lines + walls).flatMap(Self.dots)
            let named = zip(series, lines).compactMap { series, line in
                line.last.map { (label: series.label, style: series.style, line: line, end: $0) }
            }
            func rise(_ line: [SVGDrawing.Point]) -> Double {
                Self.crossing(line, at: (top + bottom) / 2)?.x ?? .infinity
            }
            for (label, style, line, end) in named.sorted(by: { rise($0.line) < rise($1.line) }) {
                let width = SVGDrawing.width(of: label) * 1.1
                let heights = stride(from: top + 12, to: bottom, by: 8)
                let places = heights.compactMap { Self.crossing(line, at: $0) } + [end]
                // Beside the line, or below it.
                let starts = places.flatMap { place -> [SVGDrawing.Point] in
                    [(place.x + 6, place.y + 4), (place.x + 6, place.y + 13)]
                }
                let room = drawing.width
                let free = starts.first { start in
                    let columns = (start.x - 3)...(start.x + width)
                    let rows = (start.y - 11)...(start.y + 4)
                    guard columns.upperBound <= room, rows.lowerBound >= top, rows.upperBound <= bottom else {
                        return false
                    }
                    return !taken.contains { columns.contains($0.x) && rows.contains($0.y) }
                }
                guard let free else { continue }
                drawing.text(label, at: free, "name halo \(style.classes)")
                taken += Self.dots([(free.x, free.y - 4), (free.x + width, free.y - 4)])
            }
        }

        /// Where a line that goes up crosses a height.
        private static func crossing(_ line: [SVGDrawing.Point], at height: Double) -> SVGDrawing.Point? {
            for (from, to) in zip(line, line.dropFirst()) where from.y > height && to.y <= height {
                return (from.x + (to.x - from.x) * (from.y - height) / (from.y - to.y), height)
            }
            return nil
        }

        /// Places along a line, so close to each other that no text fits between them.
        private static func dots(_ line: [SVGDrawing.Point]) -> [SVGDrawing.Point] {
            zip(line, line.dropFirst()).flatMap { from, to in
                let count = max(1, Int(max(abs(to.x - from.x), abs(to.y - from.y)) / 3))
                return (0...count).map { step -> SVGDrawing.Point in
                    let share = Double(step) / Double(count)
                    return (from.x + (to.x - from.x) * share, from.y + (to.y - from.y) * share)
                }
            }
        }

        /// A text to the right of a place, or to the left if only there is room.
        private func drawText(
            _ text: String,
            beside at: SVGDrawing.Point,
            _ style: String,
            _ drawing: inout SVGDrawing
        ) {
            let gap = 5.0
            let (before, after) = (at.x - gap, drawing.width - at.x - gap)
            let isAfter = SVGDrawing.width(of: text) <= after || after > before
            let x = at.x + (isAfter ? gap : -gap)
            drawing.text(text, at: (x, at.y), style, anchor: isAfter ? .start : .end, within: max(before, after))
        }
    }
}
