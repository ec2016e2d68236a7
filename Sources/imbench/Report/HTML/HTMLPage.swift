/// A report as one HTML file (the WHATWG's living standard): its style is inside, nothing is loaded from anywhere, and the
/// page's own policy forbids scripts. Every text is escaped.
struct HTMLPage: Sendable {
    private let title: String
    private var body = ""

    /// A page with a heading, and below it what it is about.
    init(_ title: String, about sentence: String) {
        self.title = title
        body += "<header>\n<h1>\(Self.escaped(title))</h1>\n<p>\(Self.escaped(sentence))</p>\n</header>\n"
    }

    /// What the reader must know before believing a number.
    mutating func warn(_ warnings: [String]) {
        for warning in warnings { body += "<p class=\"warning\" role=\"note\">\(Self.escaped(warning))</p>\n" }
    }

    /// Where and how it was measured.
    mutating func add(_ facts: [(String, String)]) {
        let items = facts.map { name, value in "<dt>\(Self.escaped(name))</dt><dd>\(Self.escaped(value))</dd>\n" }
        body += "<dl>\n\(items.joined())</dl>\n"
    }

    mutating func add(heading: String) {
        body += "<h2>\(Self.escaped(heading))</h2>\n"
    }

    mutating func add(paragraph: String) {
        body += "<p class=\"note\">\(Self.escaped(paragraph))</p>\n"
    }

    mutating func add(_ table: TextTable) {
        body += "<div class=\"table\">\n\(table.html)</div>\n"
    }

    /// Charts side by side, as many as there is room for; those without rows are left out.
    mutating func add(_ charts: [BarChart]) {
        let drawn = charts.filter { !$0.rows.isEmpty }
        guard !drawn.isEmpty else { return }
        body += "<div class=\"charts\">\n\(drawn.map(\.html).joined())</div>\n"
    }

    /// Lines whose characters stand below each other.
    mutating func add(preformatted lines: [String]) {
        body += "<pre>\(lines.map { Self.escaped($0) + "\n" }.joined())</pre>\n"
    }

    var text: String {
        """
        <!doctype html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
        <title>\(Self.escaped(title))</title>
        <style>
        \(HTMLStyle.text)
        </style>
        </head>
        <body>
        \(body)</body>
        </html>

        """
    }

    /// A text as it may stand between tags and in quoted attributes. Controls, which HTML does not allow, are replaced.
    static func escaped(_ text: String) -> String {
        var result = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": result += "&amp;".unicodeScalars
            case "<": result += "&lt;".unicodeScalars
            case ">": result += "&gt;".unicodeScalars
            case "\"": result += "&quot;".unicodeScalars
            case "'": result += "&#39;".unicodeScalars
            case "\n", "\t": result.append(scalar)
            case "\u{0}"..."\u{1f}", "\u{7f}"..."\u{9f}": result.append("\u{fffd}")
            default: result.append(scalar)
            }
        }
        return String(result)
    }
}

extension TextTable {
    /// A table of HTML; a note runs over the columns that its row leaves out.
    var html: String {
        func open(_ tag: String, _ column: Int, _ more: String = "") -> String {
            "<\(tag)\(columns[column].alignedRight ? " class=\"number\"" : "")\(more)>"
        }
        let heads = columns.indices.map {
            open("th", $0, " scope=\"col\"") + HTMLPage.escaped(columns[$0].title) + "</th>"
        }
        var text = "<table>\n<thead><tr>\(heads.joined())</tr></thead>\n<tbody>\n"
        for row in rows {
            let count = min(row.cells.count, columns.count)
            var cells = (0..<count).map { open("td", $0) + HTMLPage.escaped(row.cells[$0]) + "</td>" }.joined()
            if let note = row.note {
                cells +=
                    "<td class=\"missing\" colspan=\"\(max(1, columns.count - count))\">\(HTMLPage.escaped(note))</td>"
            }
            text += "<tr\(row.isFailure ? " class=\"failure\"" : "")>\(cells)</tr>\n"
        }
        return text + "</tbody>\n</table>\n"
    }
}
