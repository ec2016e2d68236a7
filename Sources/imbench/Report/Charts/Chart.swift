/// A picture in a report, which HTML shows and `--charts` writes as a file.
///
/// For HTML, a chart is drawn twice, for wide pages and for narrow ones. The page shows the drawing that fits, so that texts
/// keep their size.
protocol Chart: Sendable {
    /// The subject, with the unit of its numbers.
    var title: String { get }
    /// The names of its rows, lines or messages.
    var names: [String] { get }
    /// The meanings of colours and dashes.
    var keys: [ChartKey] { get }
    /// Whether there is nothing to draw. Such a chart is omitted.
    var isEmpty: Bool { get }

    /// The drawing with this width in units, of which a narrow page has as many as pixels.
    func drawing(width: Double) -> SVGDrawing
}

/// One meaning in the legend of a chart.
struct ChartKey: Sendable {
    enum Swatch: Sendable, Hashable {
        /// A rectangle, an interval or a mark of bars.
        case bar(BarChart.Kind)
        /// A line of a ``LineChart``.
        case line(SeriesStyle)
    }

    var swatch: Swatch
    var meaning: String
}

/// The colour and the dashes of one line among others. Neighbouring numbers differ in both, so colours are not needed to
/// tell lines apart.
struct SeriesStyle: Sendable, Hashable {
    /// How many colours and how many dash patterns the style of the page has. They have no common divisor.
    static let colours = 7
    static let dashes = 5

    var number: Int

    init(_ number: Int) { self.number = max(0, number) }

    /// The classes in the style of the page.
    var classes: String { "c\(number % Self.colours) d\(number % Self.dashes)" }
}

extension Chart {
    /// The widths of the two drawings.
    static var wide: Double { 560 }
    static var narrow: Double { 330 }

    /// The chart as a figure of a page, or nothing if it is empty.
    var html: String {
        guard !isEmpty else { return "" }
        var text = "<figure>\n<figcaption>\(HTMLRenderer.escaped(title))</figcaption>\n"
        if !keys.isEmpty {
            let keys = keys.map { key in
                "<span>\(Self.html(key.swatch))\(HTMLRenderer.escaped(key.meaning))</span>"
            }
            text += "<p class=\"legend\">\(keys.joined())</p>\n"
        }
        let drawings = [(drawing(width: Self.wide), "wide"), (drawing(width: Self.narrow), "narrow")]
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
        }
    }
}
