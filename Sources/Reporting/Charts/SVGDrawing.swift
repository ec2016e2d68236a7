import CommandSupport

/// An SVG drawing, for a page that has the style (``ChartStyle``), or for a file of its own.
///
/// Every text is escaped. A coordinate that is no number is written as 0.
package struct SVGDrawing: Sendable {
    /// The side of a text that its position fixes.
    package enum Anchor: String, Sendable { case start, middle, end }

    typealias Point = (x: Double, y: Double)

    let width: Double
    var height: Double
    /// Whether something lies outside the axes and is marked at their end.
    private(set) var isClipped = false
    private(set) var content = ""

    init(width: Double, height: Double) {
        (self.width, self.height) = (width, height)
    }

    /// An estimate of the width of a text, because only the page knows the font. It is that of the widest font in wide use.
    static func width(of text: String) -> Double { text.reduce(0) { $0 + width(of: $1) } }

    private static func width(of character: Character) -> Double {
        switch character {
        case "i", "j", "l", "I", "'", ",", ".", ":", ";", "!", "|", " ": 3.9
        case "f", "r", "t", "-", "(", ")", "/": 4.7
        case "m", "w", "M", "W", "+", "%", "×", "→", "≥", "≤", "…", "@": 11
        case " "..."\u{2af}": character.isUppercase ? 8.6 : 7.6
        default: 12
        }
    }

    /// The beginning of a text that is wider than `width`.
    static func cut(_ text: String, to width: Double) -> String {
        guard Self.width(of: text) > width else { return text }
        var (shown, used) = ("", Self.width(of: "…"))
        for character in text {
            used += Self.width(of: character)
            if used > width, !shown.isEmpty { break }
            shown.append(character)
        }
        return shown + "…"
    }

    mutating func line(_ from: Point, _ to: Point, _ style: String) {
        let ends = "x1=\"\(number(from.x))\" y1=\"\(number(from.y))\" x2=\"\(number(to.x))\" y2=\"\(number(to.y))\""
        content += "<line class=\"\(style)\" \(ends)/>\n"
    }

    /// - Parameter title: the text that the page shows over the rectangle.
    mutating func rectangle(
        x: Double,
        y: Double,
        width: Double,
        height: Double,
        _ style: String,
        title: String = ""
    ) {
        let place = "x=\"\(number(x))\" y=\"\(number(y))\" width=\"\(number(width))\" height=\"\(number(height))\""
        let end = title.isEmpty ? "/>" : "><title>\(HTMLRenderer.escaped(title))</title></rect>"
        content += "<rect class=\"\(style)\" \(place)\(end)\n"
    }

    mutating func polyline(_ points: [Point], _ style: String) {
        guard points.count > 1 else { return }
        content += "<polyline class=\"\(style)\" points=\"\(list(points))\"/>\n"
    }

    mutating func circle(_ centre: Point, radius: Double, _ style: String) {
        let place = "cx=\"\(number(centre.x))\" cy=\"\(number(centre.y))\" r=\"\(number(radius))\""
        content += "<circle class=\"\(style)\" \(place)/>\n"
    }

    /// A filled shape.
    mutating func polygon(_ points: [Point], _ style: String) {
        content += "<polygon class=\"\(style)\" points=\"\(list(points))\"/>\n"
    }

    /// A text on the base line `at.y`. A text wider than `width` is cut, and the page shows the whole over it.
    mutating func text(
        _ text: String,
        at: Point,
        _ style: String = "",
        anchor: Anchor = .start,
        within width: Double = .infinity
    ) {
        guard !text.isEmpty else { return }
        let shown = Self.cut(text, to: width)
        let title = shown == text ? "" : "<title>\(HTMLRenderer.escaped(text))</title>"
        let style = style.isEmpty ? "" : " class=\"\(style)\""
        let side = anchor == .start ? "" : " text-anchor=\"\(anchor.rawValue)\""
        let place = "x=\"\(number(at.x))\" y=\"\(number(at.y))\""
        content += "<text\(style) \(place)\(side)>\(HTMLRenderer.escaped(shown))\(title)</text>\n"
    }

    /// Another drawing, whose upper left corner is at `at`.
    mutating func place(_ drawing: SVGDrawing, at: Point) {
        content += "<g transform=\"translate(\(number(at.x)) \(number(at.y)))\">\n\(drawing.content)</g>\n"
    }

    /// A triangle at the end of an axis: something continues beyond it.
    mutating func clipMark(at tip: Point, towards direction: Direction) {
        isClipped = true
        let (length, half) = (7.0, 5.0)
        let base: [Point] =
            switch direction {
            case .right: [(tip.x - length, tip.y - half), (tip.x - length, tip.y + half)]
            case .left: [(tip.x + length, tip.y - half), (tip.x + length, tip.y + half)]
            case .up: [(tip.x - half, tip.y + length), (tip.x + half, tip.y + length)]
            case .down: [(tip.x - half, tip.y - length), (tip.x + half, tip.y - length)]
            }
        polygon([tip] + base, "clip")
    }

    package enum Direction: Sendable { case left, right, up, down }

    /// The drawing as an element of a page, which scales its units.
    func text(label: String, style: String) -> String {
        let box = "viewBox=\"0 0 \(number(width)) \(number(height))\""
        return "<svg class=\"\(style)\" \(box) role=\"img\" aria-label=\"\(HTMLRenderer.escaped(label))\">\n"
            + content + "</svg>\n"
    }

    /// The drawing as a file with its style, on a card.
    ///
    /// - Parameter scale: how many pixels a unit has, unless the reader's page has less room.
    func file(title: String, description: String, scale: Double) -> String {
        let size = "width=\"\(number(width * scale))\" height=\"\(number(height * scale))\""
        let box = "viewBox=\"0 0 \(number(width)) \(number(height))\""
        let card =
            "<rect class=\"card\" x=\"0.5\" y=\"0.5\" width=\"\(number(width - 1))\" height=\"\(number(height - 1))\" rx=\"6\"/>"
        return """
            <svg xmlns="http://www.w3.org/2000/svg" \(size) \(box) role="img">
            <title>\(HTMLRenderer.escaped(title))</title>
            <desc>\(HTMLRenderer.escaped(description))</desc>
            <style>
            \(ChartStyle.file)</style>
            \(card)
            \(content)</svg>

            """
    }

    private func list(_ points: [Point]) -> String {
        points.map { "\(number($0.x)),\(number($0.y))" }.joined(separator: " ")
    }

    /// A tenth of a unit is finer than a pixel.
    private func number(_ value: Double) -> String { value.isFinite ? fixed(value, 1, trimmed: true) : "0" }
}
