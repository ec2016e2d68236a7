/// A picture in a report, which HTML shows and `--charts` writes as a file.
///
/// For HTML, a chart is drawn twice, for wide pages and for narrow ones. The page shows the drawing that fits, so that texts
/// keep their size.
package protocol Chart: Sendable {
    /// The subject, with the unit of its numbers.
    var title: String { get }
    /// The names of its rows, lines or messages.
    var names: [String] { get }
    /// The meanings of colours and dashes.
    var keys: [ChartKey] { get }
    /// Whether there is nothing to see that a table does not say as well. Such a chart is omitted.
    var isEmpty: Bool { get }

    /// The drawing with this width in units, of which a narrow page has as many as pixels.
    func drawing(width: Double) -> SVGDrawing
}

/// One meaning in the legend of a chart.
package struct ChartKey: Sendable {
    package enum Swatch: Sendable, Hashable {
        /// A rectangle, an interval or a mark of bars.
        case bar(BarChart.Kind)
        /// A line of a ``LineChart``.
        case line(SeriesStyle)
        /// A point of a ``LineChart`` without lines.
        case point(SeriesStyle)
    }

    var swatch: Swatch
    var meaning: String
}

extension Chart {
    /// The widths of the two drawings.
    package static var wide: Double { 560 }
    package static var narrow: Double { 330 }
    /// The height of a drawing that still fits beside another one on paper.
    private static var tallest: Double { 500 }

    /// The chart as a figure of a page, or nothing if it is empty.
    package var html: String {
        guard !isEmpty else { return "" }
        let drawings = [(drawing(width: Self.wide), "wide"), (drawing(width: Self.narrow), "narrow")]
        // On paper, a tall chart is as wide as the page, so that it is no longer than one.
        let isTall = drawings.contains { $0.0.height > Self.tallest }
        var text =
            "<figure\(isTall ? " class=\"tall\"" : "")>\n<figcaption>\(HTMLRenderer.escaped(title))</figcaption>\n"
        if !keys.isEmpty {
            let keys = keys.map { key in
                "<span>\(Self.html(key.swatch))\(HTMLRenderer.escaped(key.meaning))</span>"
            }
            text += "<p class=\"legend\">\(keys.joined())</p>\n"
        }
        text += drawings.map { $0.text(label: title, style: $1) }.joined()
        if drawings.contains(where: { $0.0.isClipped }) {
            text += "<p class=\"clipped\"><b>▸</b> continues beyond the axis</p>\n"
        }
        return text + "</figure>\n"
    }

    private static func html(_ swatch: ChartKey.Swatch) -> String {
        switch swatch {
        case .bar(let kind): return "<i class=\"\(kind.rawValue)\"></i>"
        case .line(let style):
            var drawing = SVGDrawing(width: 26, height: 8)
            drawing.line((0, 4), (26, 4), "series \(style.classes)")
            return "<svg class=\"key\" viewBox=\"0 0 26 8\" aria-hidden=\"true\">\(drawing.content)</svg>"
        case .point(let style):
            var drawing = SVGDrawing(width: 10, height: 10)
            style.drawPoint(at: (5, 5), &drawing)
            return "<svg class=\"key dot\" viewBox=\"0 0 10 10\" aria-hidden=\"true\">\(drawing.content)</svg>"
        }
    }
}
