/// A report as one HTML file (the WHATWG's living standard). Its style is inside, it loads nothing, and its own policy forbids
/// scripts. Every text is escaped.
enum HTMLRenderer {
    static func text(_ report: Report) -> String {
        var body = "<header>\n<h1>\(escaped(report.name))</h1>\n<p>\(escaped(report.title))</p>\n</header>\n"
        for warning in report.warnings { body += "<p class=\"warning\" role=\"note\">\(escaped(warning))</p>\n" }
        let facts = report.facts.map { "<dt>\(escaped($0))</dt><dd>\(escaped($1))</dd>\n" }
        if !facts.isEmpty { body += "<dl>\n\(facts.joined())</dl>\n" }
        for section in report.sections {
            if let heading = section.heading { body += "<h2>\(escaped(heading))</h2>\n" }
            let charts = section.charts.filter { !$0.rows.isEmpty }.map(\.html)
            if !charts.isEmpty { body += "<div class=\"charts\">\n\(charts.joined())</div>\n" }
            if let table = section.table { body += "<div class=\"table\">\n\(Self.table(table))</div>\n" }
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
            \(style)
            </style>
            </head>
            <body>
            \(body)</body>
            </html>

            """
    }

    /// A note runs over the columns that its row leaves out.
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

    /// A text as it may stand between tags and in quoted attributes. Controls, which HTML does not allow, are replaced.
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

    // Light or dark as the reader's system is, and on paper.
    private static let style = """
        :root {
          color-scheme: light dark;
          --page: #f7f7f5; --card: #ffffff; --text: #1b1d21; --quiet: #636973; --line: #e2e3e0;
          --first: #2f6fd0; --second: #7fb2f0; --third: #b9a2ea; --fourth: #d9dce2;
          --tail: #cfdff6; --mark: #1b1d21; --better: #1d74c4; --worse: #c8541a; --noise: #a4a9b1;
          --warning: #fdf0dc; --warning-text: #7a4300;
        }
        @media (prefers-color-scheme: dark) {
          :root {
            --page: #15171a; --card: #1d2024; --text: #e7e9ec; --quiet: #9aa1ab; --line: #2e3238;
            --first: #5b9bf3; --second: #2f629f; --third: #8f76c9; --fourth: #4a505a;
            --tail: #2b415f; --mark: #f2f3f5; --better: #5aaef5; --worse: #f0894f; --noise: #6d747e;
            --warning: #3a2a10; --warning-text: #f6cf95;
          }
        }
        * { box-sizing: border-box; }
        body {
          margin: 0 auto; padding: 2.5rem 1.5rem 4rem; max-width: 84rem;
          background: var(--page); color: var(--text);
          font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
        }
        h1 { margin: 0; font-size: 1.9rem; font-weight: 650; letter-spacing: -0.02em; line-height: 1.2; }
        header p { margin: 0.3rem 0 1.5rem; color: var(--quiet); font-size: 1.05rem; }
        h2 { margin: 2.5rem 0 0; font-size: 1.2rem; font-weight: 620; letter-spacing: -0.01em; }
        dl {
          display: grid; grid-template-columns: max-content 1fr; gap: 0.25rem 1.25rem; margin: 0;
          padding: 1rem 1.25rem; background: var(--card); border: 1px solid var(--line); border-radius: 10px;
        }
        dt { color: var(--quiet); }
        dd { margin: 0; overflow-wrap: anywhere; }
        .charts, .table, pre { margin: 0.8rem 0 0; }
        .note { color: var(--quiet); margin: 0.6rem 0; }
        .warning {
          margin: 0 0 0.6rem; padding: 0.6rem 1rem; border-radius: 10px;
          background: var(--warning); color: var(--warning-text); font-weight: 550;
        }
        .charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(25rem, 100%), 1fr)); gap: 1rem; }
        figure {
          margin: 0; padding: 1rem 1.25rem 1.1rem;
          background: var(--card); border: 1px solid var(--line); border-radius: 10px;
        }
        figcaption { font-weight: 600; }
        .legend {
          display: flex; flex-wrap: wrap; gap: 0.1rem 1rem; margin: 0.1rem 0 0;
          color: var(--quiet); font-size: 0.85rem;
        }
        .legend span { display: inline-flex; align-items: center; gap: 0.4rem; }
        .legend i { width: 0.8rem; height: 0.7rem; border-radius: 2px; }
        .legend i.mark { width: 2px; border-radius: 0; }
        .legend i.interval { height: 2px; border-radius: 0; }
        .bars {
          display: grid; grid-template-columns: max-content 1fr max-content; gap: 0.3rem 0.8rem;
          align-items: center; margin-top: 0.7rem; font-size: 0.9rem;
        }
        .bars div { position: relative; height: 1.05rem; overflow: hidden; border-radius: 3px; }
        .bars i { position: absolute; top: 0; bottom: 0; border-radius: 3px; }
        .first { background: var(--first); } .second { background: var(--second); }
        .third { background: var(--third); } .fourth { background: var(--fourth); }
        .tail { background: var(--tail); }
        .better { background: var(--better); } .worse { background: var(--worse); } .noise { background: var(--noise); }
        .mark, .interval { background: var(--mark); }
        .bars .better, .bars .worse, .bars .noise { top: 25%; bottom: 25%; min-width: 3px; }
        .bars .interval { top: 45%; bottom: 45%; min-width: 1px; border-radius: 0; opacity: 0.65; }
        .bars .mark { min-width: 2px; margin-left: -1px; border-radius: 0; }
        .bars .line {
          min-width: 1px; margin-left: -0.5px; background: var(--mark); opacity: 0.5; border-radius: 0;
        }
        .number { text-align: right; font-variant-numeric: tabular-nums; }
        .table { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
        table { border-collapse: collapse; width: 100%; font-size: 0.9rem; white-space: nowrap; }
        th, td { padding: 0.4rem 0.8rem; text-align: left; }
        th { color: var(--quiet); font-weight: 550; border-bottom: 1px solid var(--line); }
        th.number, td.number { text-align: right; }
        tbody tr + tr td { border-top: 1px solid var(--line); }
        tbody tr:hover td { background: color-mix(in srgb, var(--first) 7%, transparent); }
        .missing { color: var(--quiet); font-style: italic; white-space: normal; }
        .failure td { color: var(--worse); font-weight: 550; }
        pre {
          padding: 1rem 1.25rem; overflow-x: auto; line-height: 1.15; font-size: 0.8rem;
          background: var(--card); border: 1px solid var(--line); border-radius: 10px;
        }
        @media print { body { padding: 0; max-width: none; } figure, dl, .table { break-inside: avoid; } }
        """
}

/// Horizontal bars over one axis, drawn by the style of the page alone. Each row has its name, its spans, and its value in
/// figures, which can be read where nothing is drawn.
struct BarChart: Sendable {
    /// The meaning of a span, which selects its colour in the style of the page.
    enum Kind: String, Sendable, Hashable {
        /// The spans of a stack, or a single bar.
        case first, second, third, fourth
        /// Behind a bar, such as the 99th percentile behind the median.
        case tail
        /// A thin line: an interval.
        case interval
        /// A line across: a single value to hold others against.
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
    /// The ends of the axis, where spans are cut; `nil` to make room for all of them.
    var range: ClosedRange<Double>?
    /// The values at which a line crosses all rows, above their spans.
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
