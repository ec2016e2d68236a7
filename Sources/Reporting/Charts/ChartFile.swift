import CommandSupport

/// A chart as an SVG file of its own, for documents and slides.
///
/// The file has its style, light or dark like the reader's system, and a card behind the chart. It has no script and loads
/// nothing. Its title and its description name the chart and what it shows, for programs that read aloud.
extension Chart {
    /// The content of the file. Its one drawing can be read on a phone, and is shown larger where there is room.
    var svg: String {
        let width = Self.fileWidth
        var page = SVGDrawing(width: width + 2 * Self.margin, height: 0)
        var y = Self.margin + 4
        for line in title.wrapped(to: Int(width / Self.titleCharacterWidth)) {
            page.text(line, at: (Self.margin, y + 6), "title")
            y += 17
        }
        drawLegend(&page, &y)
        let drawing = drawing(width: width)
        page.place(drawing, at: (Self.margin, y))
        y += drawing.height
        if drawing.isClipped {
            let (x, middle) = (Self.margin, y + 10)
            page.polygon([(x + 7, middle), (x, middle - 5), (x, middle + 5)], "clip")
            page.text("continues beyond the axis", at: (x + 13, middle + 4), "axis")
            y += 18
        }
        page.height = y + Self.margin
        return page.file(title: title, description: summary, scale: Self.fileScale)
    }

    /// The names of all parts: the rows, lines or messages, and the meanings of colours.
    package var summary: String {
        let names = names.distinct
        let meanings = keys.map(\.meaning).filter { !names.contains($0) }
        return "Shows: " + names.joined(separator: ", ") + "."
            + (meanings.isEmpty ? "" : " Colours: " + meanings.joined(separator: ", ") + ".")
    }

    /// The width of the drawing, the empty space around it, and the size of a unit in pixels where there is room.
    private static var fileWidth: Double { 376 }
    private static var margin: Double { 12 }
    private static var fileScale: Double { 1.4 }
    private static var titleCharacterWidth: Double { 7.6 }
    /// The size of the legend's texts as a share of that of other texts.
    private static var legendShare: Double { 11.0 / 12 }

    /// The legend as lines of swatches and their meanings.
    private func drawLegend(_ page: inout SVGDrawing, _ y: inout Double) {
        guard !keys.isEmpty else {
            y += 2
            return
        }
        let (gap, height) = (6.0, 17.0)
        var x = Self.margin
        for key in keys {
            let swatch: Double
            switch key.swatch {
            case .bar: swatch = 12
            case .line: swatch = 26
            case .point: swatch = 10
            }
            let length = swatch + gap + SVGDrawing.width(of: key.meaning) * Self.legendShare
            if x > Self.margin, x + length > Self.margin + Self.fileWidth {
                (x, y) = (Self.margin, y + height)
            }
            let middle = y + 4
            switch key.swatch {
            case .bar(.mark): page.rectangle(x: x + 5, y: middle - 6, width: 2, height: 12, "mark")
            case .bar(.reference): page.line((x + 6, middle - 6), (x + 6, middle + 6), "reference")
            case .bar(.interval): page.line((x, middle), (x + swatch, middle), "interval")
            case .bar(.reconnecting):
                page.rectangle(x: x, y: middle - 2, width: swatch, height: 4, BarChart.Kind.reconnecting.rawValue)
            case .bar(let kind): page.rectangle(x: x, y: middle - 5, width: swatch, height: 10, kind.rawValue)
            case .point(let style): style.drawPoint(at: (x + 5, middle), &page)
            case .line(let style): page.line((x, middle), (x + swatch, middle), "series \(style.classes)")
            }
            let room = Self.margin + Self.fileWidth - x - swatch - gap
            page.text(
                key.meaning,
                at: (x + swatch + gap, middle + 4),
                "axis",
                within: room / Self.legendShare
            )
            x += length + 2 * gap
        }
        y += height + 4
    }
}

extension Report {
    /// The charts that HTML shows, as files.
    var chartFiles: [(name: String, text: String)] {
        let charts = parts(isHTML: true).flatMap(\.section.charts).filter { !$0.isEmpty }
        var names = TitleNames()
        return charts.map { (names.name(of: $0.title) + ".svg", $0.svg) }
    }
}

/// Names for files and links, made from titles, so that they are the same in each run. Each name differs from all before.
struct TitleNames {
    private var uses: [String: Int] = [:]

    /// ASCII letters, digits and hyphens.
    mutating func name(of title: String) -> String {
        let words = title.lowercased().split { !($0.isASCII && ($0.isLetter || $0.isNumber)) }
        let name = words.isEmpty ? "part" : String(words.joined(separator: "-").prefix(100))
        uses[name, default: 0] += 1
        return uses[name] == 1 ? name : "\(name)--\(uses[name] ?? 1)"
    }
}
