import Primitives

/// A report as one HTML file (the WHATWG's living standard) with its style, its charts, and a script that sorts tables. It
/// loads nothing, its policy allows no other script, and every text is escaped. Without the script it shows the same.
enum HTMLRenderer {
    /// The SHA-256 hash of `sort.js` in Base64, by which the policy allows it (CSP Level 3, section 2.3.1).
    private static let scriptHash = String(decoding: Base64.encode(SHA256.digest(Array(script.utf8))), as: UTF8.self)

    static func text(_ report: Report) -> String {
        var body = "<header>\n<h1>\(escaped(report.name))</h1>\n<p>\(escaped(report.title))</p>\n</header>\n"
        for warning in report.warnings { body += "<p class=\"warning\" role=\"note\">\(prose(warning))</p>\n" }
        if !report.verdict.isEmpty {
            let sentences = report.verdict.map { "<p>\(prose($0))</p>\n" }
            body += "<div class=\"verdict\">\n\(sentences.joined())</div>\n"
        }
        for (section, legend) in report.parts(isHTML: true) {
            body += Self.section(section, legend)
        }
        let facts = report.facts.map { name, value in
            "<dt>\(escaped(name))</dt><dd\(name == "hash" ? " class=\"hex\"" : "")>\(prose(value))</dd>\n"
        }
        if !facts.isEmpty { body += "<h2>Conditions</h2>\n<dl>\n\(facts.joined())</dl>\n" }
        let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-\(scriptHash)'"
        return """
            <!doctype html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta http-equiv="Content-Security-Policy" content="\(policy)">
            <title>\(escaped(report.name))</title>
            <style>
            \(style)</style>
            </head>
            <body>
            \(body)<script>\(script)</script>
            </body>
            </html>

            """
    }

    /// A question, its charts and how to read them, its table, and the next commands.
    private static func section(_ section: Report.Section, _ legend: [(title: String, meaning: String)]) -> String {
        var text = "<section>\n"
        if let heading = section.question ?? section.heading { text += "<h2>\(escaped(heading))</h2>\n" }
        let charts = section.charts.map(\.html).filter { !$0.isEmpty }
        let reading =
            section.reading.isEmpty
            ? "" : "<p class=\"reading\"><b>How to read it.</b> \(prose(section.reading))</p>\n"
        // Two charts stand side by side where there is room, and the place beside the last odd one is free.
        if !charts.isEmpty {
            let isOdd = charts.count % 2 == 1
            text += "<div class=\"charts\">\n\(charts.joined())\(isOdd ? reading : "")</div>\n\(isOdd ? "" : reading)"
        } else {
            text += reading
        }
        if let table = section.table {
            let caption = section.question == nil ? nil : section.heading
            text += "<div class=\"table\" tabindex=\"0\">\n\(Self.table(table, caption: caption))</div>\n"
        }
        let meanings = legend.map { "<dt>\(escaped($0))</dt><dd>\(prose($1))</dd>\n" }
        if !meanings.isEmpty { text += "<dl class=\"columns\">\n\(meanings.joined())</dl>\n" }
        let drawing = section.drawing.map { escaped($0) + "\n" }
        if !drawing.isEmpty { text += "<pre tabindex=\"0\">\(drawing.joined())</pre>\n" }
        for note in section.notes { text += "<p class=\"note\">\(prose(note))</p>\n" }
        for next in section.next {
            let line = words(next.line) { $0.count <= longestWord }
            text += "<p class=\"next\">\(prose(next.purpose)): <code>\(line)</code></p>\n"
        }
        return text + "</section>\n"
    }

    /// A note spans the columns that its row omits. A number that its text only approximates is in `data-value`, by which
    /// the script sorts. A column with sentences is wrapped.
    private static func table(_ table: Table, caption: String?) -> String {
        let titled = table.columns.indices.filter { table.columns[$0].title != nil }
        let classes = Dictionary(
            uniqueKeysWithValues: titled.map { index -> (Int, String) in
                let column = table.columns[index]
                let longest = table.rows.map { $0.note == nil ? $0.cells[index].text.count : 0 }.max() ?? 0
                let isProse = !column.alignedRight && !column.isMonospaced && longest > longestWord
                return (index, column.alignedRight ? "number" : column.isMonospaced ? "hex" : isProse ? "prose" : "")
            }
        )
        func tag(_ tag: String, _ index: Int, _ text: String, _ more: String = "") -> String {
            let kind = classes[index].flatMap { $0.isEmpty ? nil : " class=\"\($0)\"" } ?? ""
            return "<\(tag)\(kind)\(more)>\(prose(text))</\(tag)>"
        }
        let heads = titled.map { tag("th", $0, table.columns[$0].title ?? "", " scope=\"col\"") }
        var text = "<table>\n"
        if let caption { text += "<caption><span>\(prose(caption))</span></caption>\n" }
        text += "<thead><tr>\(heads.joined())</tr></thead>\n<tbody>\n"
        for row in table.rows {
            let count = table.texts(row).count
            var cells = titled.prefix(count).map { index in
                tag("td", index, row.cells[index].text, sortKey(row.cells[index]))
            }.joined()
            if let note = row.note {
                cells += "<td class=\"missing\" colspan=\"\(titled.count - count)\"><span>\(prose(note))</span></td>"
            }
            text += "<tr\(row.isFailure ? " class=\"failure\"" : "")>\(cells)</tr>\n"
        }
        return text + "</tbody>\n</table>\n"
    }

    private static func sortKey(_ cell: Table.Cell) -> String {
        switch cell.value {
        case .integer, .number: cell.value.text == cell.text ? "" : " data-value=\"\(cell.value.text)\""
        default: ""
        }
    }

    /// The most characters of a word that no line end splits, and of a cell that is no sentence. Such a word fits into a
    /// narrow page.
    private static let longestWord = 28

    /// A text whose options, as in `--tls`, no line end splits.
    private static func prose(_ text: String) -> String {
        words(text) { $0.contains("--") && $0.count <= longestWord }
    }

    /// A text with a tag around the words that no line end may split.
    private static func words(_ text: String, isWhole: (Substring) -> Bool) -> String {
        text.split(separator: " ", omittingEmptySubsequences: false).map { word in
            let word = (text: escaped(String(word)), isWhole: isWhole(word))
            return word.isWhole ? "<span class=\"word\">\(word.text)</span>" : word.text
        }.joined(separator: " ")
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
    private static let style = ChartStyle.page + String(decoding: PackageResources.report_css, as: UTF8.self)
    static let script = String(decoding: PackageResources.sort_js, as: UTF8.self)
}
