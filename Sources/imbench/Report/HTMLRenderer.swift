/// A report as one HTML file (the WHATWG's living standard) with its style. It loads nothing, its policy forbids scripts, and
/// every text is escaped.
enum HTMLRenderer {
    static func text(_ report: Report) -> String {
        var body = "<header>\n<h1>\(escaped(report.name))</h1>\n<p>\(escaped(report.title))</p>\n</header>\n"
        for warning in report.warnings { body += "<p class=\"warning\" role=\"note\">\(escaped(warning))</p>\n" }
        let facts = report.facts.map { "<dt>\(escaped($0))</dt><dd>\(escaped($1))</dd>\n" }
        if !facts.isEmpty { body += "<dl>\n\(facts.joined())</dl>\n" }
        for (section, legend) in zip(report.sections, report.legends) {
            if let heading = section.heading { body += "<h2>\(escaped(heading))</h2>\n" }
            let charts = section.charts.filter { !$0.rows.isEmpty }.map(\.html)
            if !charts.isEmpty { body += "<div class=\"charts\">\n\(charts.joined())</div>\n" }
            if let table = section.table { body += "<div class=\"table\">\n\(Self.table(table))</div>\n" }
            let meanings = legend.map { "<dt>\(escaped($0))</dt><dd>\(escaped($1))</dd>\n" }
            if !meanings.isEmpty { body += "<dl class=\"columns\">\n\(meanings.joined())</dl>\n" }
            let drawing = section.drawing.map { escaped($0) + "\n" }
            if !drawing.isEmpty { body += "<pre>\(drawing.joined())</pre>\n" }
            for note in section.notes { body += "<p class=\"note\">\(escaped(note))</p>\n" }
        }
        return """
            <!doctype html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
            <title>\(escaped(report.name))</title>
            <style>
            \(style)</style>
            </head>
            <body>
            \(body)</body>
            </html>

            """
    }

    /// A note spans the columns that its row omits.
    private static func table(_ table: Table) -> String {
        let columns = table.titled
        func cell(_ tag: String, _ column: Int, _ text: String, _ more: String = "") -> String {
            let kind = columns[column].alignedRight ? " class=\"number\"" : ""
            return "<\(tag)\(kind)\(more)>\(escaped(text))</\(tag)>"
        }
        let heads = columns.indices.map { cell("th", $0, columns[$0].title ?? "", " scope=\"col\"") }
        var text = "<table>\n<thead><tr>\(heads.joined())</tr></thead>\n<tbody>\n"
        for row in table.rows {
            let texts = table.texts(row)
            var cells = texts.indices.map { cell("td", $0, texts[$0]) }.joined()
            if let note = row.note {
                cells += "<td class=\"missing\" colspan=\"\(columns.count - texts.count)\">\(escaped(note))</td>"
            }
            text += "<tr\(row.isFailure ? " class=\"failure\"" : "")>\(cells)</tr>\n"
        }
        return text + "</tbody>\n</table>\n"
    }

    /// A text for the content of tags and for quoted attributes. Control characters, which HTML forbids, are replaced.
    static func escaped(_ text: String) -> String {
        text.unicodeScalars.map { scalar -> String in
            switch scalar {
            case "&": "&amp;"
            case "<": "&lt;"
            case ">": "&gt;"
            case "\"": "&quot;"
            case "'": "&#39;"
            case "\n", "\t": String(scalar)
            case "\u{0}"..."\u{1f}", "\u{7f}"..."\u{9f}": "\u{fffd}"
            default: String(scalar)
            }
        }.joined()
    }

    // Light or dark like the reader's system, and for paper.
    private static let style = String(decoding: PackageResources.report_css, as: UTF8.self)
}

/// Horizontal bars over one axis, drawn by the style of the page alone. Each row has its name, its spans, and its value as a
/// text.
struct BarChart: Sendable {
    /// The meaning of a span, which selects its colour in the style of the page.
    enum Kind: String, Sendable, Hashable {
        /// The spans of a stack, or a single bar.
        case first, second, third, fourth
        /// Behind a bar, such as the 99th percentile behind the median.
        case tail
        /// A thin line: an interval.
        case interval
        /// A vertical line: a single value for comparison.
        case mark
        case better, worse, noise
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
    /// The ends of the axis, where spans are cut; `nil` fits all spans.
    var range: ClosedRange<Double>?
    /// The values at which a line crosses all rows, above their spans.
    var lines: [Double] = []

    /// The values at the ends of the axis. It begins at 0, or lower if a span does.
    private var axis: ClosedRange<Double> {
        if let range, range.lowerBound < range.upperBound { return range }
        let ends = rows.flatMap(\.spans).flatMap { [$0.from, $0.to] }.filter(\.isFinite)
        let low = min(0, ends.min() ?? 0)
        let high = max(0, ends.max() ?? 0)
        return low...(high > low ? high : low + 1)
    }

    var html: String {
        let axis = self.axis
        var text = "<figure>\n<figcaption>\(HTMLRenderer.escaped(title))</figcaption>\n"
        if !legend.isEmpty {
            let keys = legend.map { kind, meaning in
                "<span><i class=\"\(kind.rawValue)\"></i>\(HTMLRenderer.escaped(meaning))</span>"
            }
            text += "<p class=\"legend\">\(keys.joined())</p>\n"
        }
        text += "<div class=\"bars\">\n"
        for row in rows {
            var drawn = row.spans.map { Self.drawn($0.kind.rawValue, $0.from, $0.to, axis) }
            drawn += lines.map { Self.drawn("line", $0, $0, axis) }
            text += "<span>\(HTMLRenderer.escaped(row.label))</span>"
            text += "<div aria-hidden=\"true\">\(drawn.joined())</div>"
            text += "<span class=\"number\">\(HTMLRenderer.escaped(row.value))</span>\n"
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
    /// One bar from 0, or none if nothing was measured.
    init(_ label: String, _ value: Double?, shown: String) {
        self.init(label: label, spans: value.map { [.init(kind: .first, from: 0, to: $0)] } ?? [], value: shown)
    }
}
