import CommandSupport

/// Lines over two axes: distributions, a quantity against a cause such as loss, or counts over time. Each line differs from
/// the others by colour and dashes, and has its name beside it.
package struct LineChart: Chart {
    package struct Point: Sendable {
        package var x: Double
        package var y: Double
        /// The ends of an interval around `y`, if it is known.
        package var interval: ClosedRange<Double>?

        package init(_ x: Double, _ y: Double, interval: ClosedRange<Double>? = nil) {
            (self.x, self.y, self.interval) = (x, y, interval)
        }
    }

    package struct Series: Sendable {
        package var label: String
        package var style: SeriesStyle
        /// In ascending order of x.
        package var points: [Point]
        /// Whether each point is marked, because it was measured and the line between points was not.
        package var hasMarks = false

        package init(label: String, style: SeriesStyle, points: [Point], hasMarks: Bool = false) {
            (self.label, self.style, self.points, self.hasMarks) = (label, style, points, hasMarks)
        }
    }

    /// A line across the chart at one value, with a text.
    package struct Reference: Sendable {
        package enum Direction: Sendable { case horizontal, vertical }
        package var direction: Direction
        package var value: Double
        package var label: String

        package init(direction: Direction, value: Double, label: String) {
            (self.direction, self.value, self.label) = (direction, value, label)
        }
    }

    /// The place of the names of lines.
    package enum Labels: Sendable {
        /// Behind the last points, for lines that end at different heights.
        case atEnd
        /// Within the chart, for lines that end at the same height. A name for which no place is free is in the legend only.
        case along
        /// Around the points, for series of one point each.
        case atPoints
    }

    package var title: String
    package var x: Axis
    package var y: Axis
    package var series: [Series] = []
    package var references: [Reference] = []
    package var labels = Labels.atEnd

    package init(
        title: String,
        x: Axis,
        y: Axis,
        series: [Series] = [],
        references: [Reference] = [],
        labels: Labels = Labels.atEnd
    ) {
        (self.title, self.x, self.y, self.series) = (title, x, y, series)
        (self.references, self.labels) = (references, labels)
    }

    package var isEmpty: Bool { series.allSatisfy(\.points.isEmpty) }
    package var names: [String] { series.map(\.label) }
    package var keys: [ChartKey] {
        series.map { ChartKey(swatch: labels == .atPoints ? .point($0.style) : .line($0.style), meaning: $0.label) }
    }

    package func drawing(width: Double) -> SVGDrawing {
        let points = series.flatMap(\.points)
        let intervals = points.compactMap(\.interval).flatMap { [$0.lowerBound, $0.upperBound] }
        let horizontals = references.filter { $0.direction == .horizontal }.map(\.value)
        let verticals = references.filter { $0.direction == .vertical }.map(\.value)
        let values = (x: points.map(\.x) + verticals, y: points.map(\.y) + intervals + horizontals)
        let plot = Plot(self, x: x.fitted(to: roomy(values.x, x)), y: y.fitted(to: roomy(values.y, y)), width)
        var drawing = SVGDrawing(width: width, height: plot.bottom + 38)
        plot.drawAxes(&drawing)
        for line in series { plot.draw(line, hasShapes: labels == .atPoints, &drawing) }
        plot.draw(references, &drawing)
        plot.drawHovers(series, &drawing)
        switch labels {
        case .atEnd: plot.drawLabelsAtEnd(series, &drawing)
        case .along: plot.drawLabelsAlong(series, besides: verticals, &drawing)
        case .atPoints: plot.drawLabelsAtPoints(series, &drawing)
        }
        return drawing
    }
}

extension LineChart {
    /// The values that an axis has to fit: with room for names around the outermost points.
    private func roomy(_ values: [Double], _ axis: Axis) -> [Double] {
        guard labels == .atPoints, axis.scale == .logarithmic, let low = values.min(), let high = values.max() else {
            return values
        }
        return values + [low / 1.2, high * 1.2]
    }

    /// The rectangle between the axes.
    private struct Plot {
        private static let lineHeight = 14.0
        /// Half the width of the area of a point over which the page shows its values.
        private static let hoverRadius = 9.0
        /// How much wider a bold text is.
        private static let boldShare = 1.12

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
            let names = Self.boldShare * (chart.series.map { SVGDrawing.width(of: $0.label) }.max() ?? 0)
            right = width - (chart.labels == .atEnd ? min(names + 12, width * 0.45) : 8)
        }

        func drawAxes(_ drawing: inout SVGDrawing) {
            drawing.text(y.axis.caption, at: (0, 11), "axis", within: drawing.width)
            for tick in yTicks {
                guard let place = y.place(tick.value) else { continue }
                let height = bottom - place * (bottom - top)
                drawing.line((left, height), (right, height), "grid")
                drawing.text(tick.label, at: (left - 6, height + 4), "tick", anchor: .end)
            }
            for tick in x.ticks(along: right - left) {
                guard let place = x.place(tick.value) else { continue }
                let side = left + place * (right - left)
                drawing.line((side, top), (side, bottom + 4), "grid")
                let half = SVGDrawing.width(of: tick.label) / 2
                let middle = max(half, min(side, drawing.width - half))
                drawing.text(tick.label, at: (middle, bottom + 17), "tick", anchor: .middle)
            }
            drawing.line((left, bottom), (right, bottom), "base")
            let caption = x.axis.caption
            // A title that is longer than the axis begins at the left end of the drawing.
            let end = max(right, min(drawing.width, SVGDrawing.width(of: caption)))
            drawing.text(caption, at: (end, bottom + 33), "axis", anchor: .end, within: end)
        }

        /// Lines across the chart. The names of horizontal ones stand at their right ends, where rising lines are high, and
        /// above each other, because such lines can be close together.
        func draw(_ references: [Reference], _ drawing: inout SVGDrawing) {
            var names: [(label: String, height: Double)] = []
            let heights = references.filter { $0.direction == .horizontal }.compactMap { y.place($0.value) }
                .filter { (0...1).contains($0) }.map { bottom - $0 * (bottom - top) }
            for reference in references.sorted(by: { $0.value < $1.value }) {
                switch reference.direction {
                case .horizontal:
                    guard let place = y.place(reference.value), (0...1).contains(place) else { continue }
                    let height = bottom - place * (bottom - top)
                    drawing.line((left, height), (right, height), "reference")
                    let below = names.last?.height ?? .infinity
                    var base = min(height - 4, below - Self.lineHeight)
                    // No other line crosses the name.
                    for other in heights.sorted(by: >) where other > base - 10 && other < base + 3 { base = other - 4 }
                    names.append((reference.label, max(top + 11, base)))
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
        ///
        /// - Parameter hasShapes: Whether points differ by their shape, because no line shows to whom they belong.
        func draw(_ line: Series, hasShapes: Bool, _ drawing: inout SVGDrawing) {
            var points: [SVGDrawing.Point] = []
            var wasOutside = false
            for point in line.points {
                guard let placeX = x.place(point.x), let placeY = y.place(point.y), (0...1).contains(placeX) else {
                    continue
                }
                let at = position(placeX, placeY)
                points.append(at)
                let isOutside = !(0...1).contains(placeY)
                if isOutside, !wasOutside { drawing.clipMark(at: at, towards: placeY > 1 ? .up : .down) }
                wasOutside = isOutside
                if let interval = point.interval { draw(interval, at, line, isMarked: !isOutside, &drawing) }
                guard line.hasMarks, !isOutside else { continue }
                if hasShapes {
                    line.style.drawPoint(at: at, &drawing)
                } else {
                    drawing.circle(at, radius: 3, "point \(line.style.colourClass)")
                }
            }
            drawing.polyline(points, "series \(line.style.classes)")
        }

        /// An interval, with a mark at the end of the axis beyond which it continues.
        private func draw(
            _ interval: ClosedRange<Double>,
            _ at: SVGDrawing.Point,
            _ line: Series,
            isMarked: Bool,
            _ drawing: inout SVGDrawing
        ) {
            guard let low = y.place(interval.lowerBound), let high = y.place(interval.upperBound), high >= 0, low <= 1
            else { return }
            let style = "bounds \(line.style.colourClass)"
            let (from, to) = (position(0, low).y, position(0, high).y)
            drawing.line((at.x, from), (at.x, to), style)
            for (place, height) in [(low, from), (high, to)] where (0...1).contains(place) {
                drawing.line((at.x - 3, height), (at.x + 3, height), style)
            }
            if isMarked, high > 1 { drawing.clipMark(at: (at.x, top), towards: .up) }
            if isMarked, low < 0 { drawing.clipMark(at: (at.x, bottom), towards: .down) }
        }

        /// Columns over which the page shows the values of all lines there, the largest first.
        func drawHovers(_ series: [Series], _ drawing: inout SVGDrawing) {
            let least = 9.0
            var columns: [(value: Double, side: Double)] = []
            for value in series.flatMap(\.points).map(\.x).distinct.sorted() {
                guard let side = self.side(of: value), (left...right).contains(side) else { continue }
                if let last = columns.last, side - last.side < least { continue }
                columns.append((value, side))
            }
            for (index, (value, side)) in columns.enumerated() {
                let start = index > 0 ? (columns[index - 1].side + side) / 2 : side - least
                let end = index + 1 < columns.count ? (side + columns[index + 1].side) / 2 : side + least
                let lines = series.compactMap { line in
                    line.points.first { $0.x >= value && self.side(of: $0.x).map { $0 < end } ?? false }
                        .map { (name: line.label, point: $0) }
                }
                let texts = lines.filter { $0.point.y.isFinite }.sorted { $0.point.y > $1.point.y }.map { name, point in
                    let ends = point.interval.map { [$0.lowerBound, $0.upperBound].map(y.axis.value) } ?? []
                    return "\(name) \(y.axis.value(point.y))" + (ends.isEmpty ? "" : " (\(ends[0]) to \(ends[1]))")
                }
                let title = ["\(x.axis.title): \(x.axis.label(value))"] + texts
                drawing.rectangle(
                    x: max(0, start),
                    y: top,
                    width: min(end, drawing.width) - max(0, start),
                    height: bottom - top,
                    "hover",
                    title: title.joined(separator: "\n")
                )
            }
        }

        /// The place of a value of x in the drawing.
        private func side(of value: Double) -> Double? { x.place(value).map { left + $0 * (right - left) } }

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
                    drawing.line(end, (right + 6, height), "leader \(line.style.colourClass)")
                }
                let width = (drawing.width - right - 9) / Self.boldShare
                drawing.text(
                    line.label,
                    at: (right + 9, height + 4),
                    "name \(line.style.colourClass)",
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
                let width = SVGDrawing.width(of: label) * Self.boldShare
                let heights = stride(from: top + 12, to: bottom, by: 8)
                let places = heights.compactMap { Self.crossing(line, at: $0) } + [end]
                // Behind the line, or below it, or else before it.
                let starts =
                    places.flatMap { place -> [SVGDrawing.Point] in
                        [(place.x + 6, place.y + 4), (place.x + 6, place.y + 13)]
                    } + places.map { place -> SVGDrawing.Point in (place.x - 6 - width, place.y + 4) }
                let room = drawing.width
                let free = starts.first { start in
                    let columns = (start.x - 3)...(start.x + width)
                    let rows = (start.y - 11)...(start.y + 4)
                    guard columns.lowerBound >= left, columns.upperBound <= room, rows.lowerBound >= top,
                        rows.upperBound <= bottom
                    else {
                        return false
                    }
                    return !taken.contains { columns.contains($0.x) && rows.contains($0.y) }
                }
                guard let free else { continue }
                drawing.text(label, at: free, "name halo \(style.colourClass)")
                taken += Self.dots([(free.x, free.y - 4), (free.x + width, free.y - 4)])
            }
        }

        /// Names around the last points, where they cover neither a point, its interval, nor another name. The first free
        /// place is the nearest. If there is none, the name covers as few of them as possible.
        func drawLabelsAtPoints(_ series: [Series], _ drawing: inout SVGDrawing) {
            let ends = series.compactMap { line in end(of: line).map { (line: line, end: $0) } }
            let points = ends.flatMap { line, end in
                let interval = line.points.last?.interval
                let heights = [interval?.lowerBound, interval?.upperBound].compactMap { $0.flatMap(y.place) }
                return [end] + Self.dots([end] + heights.map { (end.x, position(0, $0).y) })
            }
            // Beside the point, above and below it, and then further away.
            let heights = [4.0, -8, 18, -22, 32, -36, 46, -50, 60, -64]
            var names: [(columns: ClosedRange<Double>, rows: ClosedRange<Double>)] = []
            for (line, end) in ends.sorted(by: { $0.end.y < $1.end.y }) {
                let width = SVGDrawing.width(of: line.label) * Self.boldShare
                let starts = heights.flatMap { height in
                    [8, -8 - width, -width / 2].map { (x: end.x + $0, y: end.y + height) }
                }
                func covered(_ start: (x: Double, y: Double)) -> Int {
                    let (columns, rows) = (start.x...(start.x + width), (start.y - 11)...(start.y + 3))
                    // A name close to another point would seem to be its name.
                    let near = points.count { point in
                        let margin = point.x == end.x ? 3.0 : 11
                        return (columns.lowerBound - margin...columns.upperBound + margin).contains(point.x)
                            && rows.contains(point.y)
                    }
                    // Two names in one place could not be read.
                    return near + names.count { $0.columns.overlaps(columns) && $0.rows.overlaps(rows) } * 1000
                }
                let inside = starts.map { start in
                    (
                        x: max(left, min(start.x, drawing.width - width)), y: max(top + 7, min(start.y, bottom - 3))
                    )
                }
                let unmoved = zip(starts, inside).filter { $0 == $1 }.map(\.1)
                let nearest = unmoved.first { covered($0) == 0 } ?? inside.min { covered($0) < covered($1) }
                guard let free = nearest else { continue }
                let middle = free.y - 4
                if abs(middle - end.y) > 15 {
                    let side = min(max(end.x, free.x), free.x + width)
                    drawing.line(
                        end,
                        (side, middle < end.y ? middle + 7 : middle - 6),
                        "leader \(line.style.colourClass)"
                    )
                }
                drawing.text(line.label, at: free, "name halo \(line.style.colourClass)")
                names.append((free.x - 3...free.x + width + 3, free.y - 11...free.y + 3))
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
