import CPages
import CommandSupport
import Primitives

/// A report as one HTML file (the WHATWG's living standard) with its style, its charts, its JSON, and a script that sorts and
/// filters tables and saves the JSON. It loads nothing, its policy allows no other script, and every text is escaped. Without
/// the script it shows the same.
package enum HTMLRenderer {
    /// The SHA-256 hash of `report.js` in Base64, by which the policy allows it (CSP Level 3, section 2.3.1).
    private static let scriptHash = String(decoding: Base64.encode(SHA256.digest(Array(script.utf8))), as: UTF8.self)

    package static func text(_ report: Report) -> String {
        var body = header(report)
        var names = TitleNames()
        for (index, (section, legend)) in report.parts(isHTML: true).enumerated() {
            let heading = section.heading ?? section.question
            body += Self.section(
                section,
                legend,
                anchor: heading.map { names.name(of: $0) },
                // A picture is never hidden.
                isFolded: section.isDetail && index > 0 && heading != nil && section.charts.allSatisfy(\.isEmpty)
            )
        }
        let facts = report.facts.map { name, value in
            "<dt>\(escaped(name))</dt><dd\(name == "hash" ? " class=\"hex\"" : "")>\(prose(value))</dd>\n"
        }
        if !facts.isEmpty {
            let anchor = names.name(of: "Conditions")
            body +=
                "<section id=\"\(anchor)\">\n\(heading("Conditions", anchor))\n<dl>\n\(facts.joined())</dl>\n</section>\n"
        }
        let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-\(scriptHash)'"
        return """
            <!doctype html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta http-equiv="Content-Security-Policy" content="\(policy)">
            <title>\(escaped(title(report)))</title>
            <style>
            \(style)</style>
            </head>
            <body>
            \(body)<script type="application/json" id="data">\(data(report))</script>
            <script>\(script)</script>
            </body>
            </html>

            """
    }

    /// The command, the first options of the command line, and when the run began, so that the windows and
    /// the files of two runs have different names.
    private static func title(_ report: Report) -> String {
        var changes: [String] = []
        if case .array(let names)? = report.data["changed_options"] {
            changes = names.compactMap(\.string).prefix(3).compactMap { name in
                report.data["options"]?[name]?.string.map { "\(name)=\($0)" }
            }
        }
        // Without the seconds of 2024-02-29T12:00:00Z.
        let date = report.data["environment"]?["date"]?.string.map { String($0.prefix(16).replacing("T", with: " ")) }
        return ([report.name] + changes + [date].compactMap { $0 }).joined(separator: ", ")
    }

    /// The subject, the warnings, whether the results can be trusted, and the results. A report without results has its title
    /// in their place.
    private static func header(_ report: Report) -> String {
        var text = "<header>\n<h1>\(prose(report.name))</h1>\n"
        if !report.verdict.isEmpty { text += "<p>\(prose(report.title))</p>\n" }
        text += "</header>\n"
        for warning in report.warnings { text += "<p class=\"warning\" role=\"note\">\(prose(warning))</p>\n" }
        let sentences = (report.verdict.isEmpty ? [report.title] : report.verdict).map { "<p>\(prose($0))</p>\n" }
        let trust = report.trust.isGiven ? "trust" : "trust doubted"
        return text
            + "<div class=\"verdict\">\n<p class=\"\(trust)\">\(prose(report.trust.sentence))</p>\n\(sentences.joined())</div>\n"
    }

    /// The report as JSON, without characters that could end its element. In JSON they are only in strings.
    private static func data(_ report: Report) -> String {
        report.text(.json, .none).replacing("<", with: "\\u003c").replacing(">", with: "\\u003e")
            .replacing("&", with: "\\u0026")
    }

    /// A question, its charts and how to read them, its table, and the next commands.
    ///
    /// - Parameters:
    ///   - anchor: the name for links to the section.
    ///   - isFolded: whether a click on the heading opens it.
    private static func section(
        _ section: Report.Section,
        _ legend: [(title: String, meaning: String)],
        anchor: String?,
        isFolded: Bool
    ) -> String {
        let tag = isFolded ? "details" : "section"
        var text = "<\(tag)\(anchor.map { " id=\"\($0)\"" } ?? "")>\n"
        if let title = section.question ?? section.heading {
            let heading = heading(title, anchor)
            text += isFolded ? "<summary>\(heading)</summary>\n" : "\(heading)\n"
        }
        let charts = section.charts.map(\.html).filter { !$0.isEmpty }
        let isRead = !section.reading.isEmpty && (!charts.isEmpty || section.charts.isEmpty)
        let reading =
            isRead ? "<p class=\"reading\"><b>How to read it.</b> \(prose(section.reading))</p>\n" : ""
        // Two charts stand side by side where there is room, and the place beside the last odd one is free.
        if !charts.isEmpty {
            let isOdd = charts.count % 2 == 1
            text += "<div class=\"charts\">\n\(charts.joined())\(isOdd ? reading : "")</div>\n\(isOdd ? "" : reading)"
        } else {
            text += reading
        }
        if let table = section.table {
            let caption = section.question == nil ? nil : section.heading
            text +=
                "<div class=\"table\" \(scrolled("Table", of: section))>\n\(Self.table(table, caption: caption))</div>\n"
        }
        let meanings = legend.map { "<dt>\(escaped($0))</dt><dd>\(prose($1))</dd>\n" }
        if !meanings.isEmpty { text += "<dl class=\"columns\">\n\(meanings.joined())</dl>\n" }
        let drawing = section.drawing.map { escaped($0) + "\n" }
        if !drawing.isEmpty { text += "<pre \(scrolled("Drawing", of: section))>\(drawing.joined())</pre>\n" }
        for note in section.notes { text += "<p class=\"note\">\(prose(note))</p>\n" }
        for next in section.next {
            let line = words(next.line) { $0.count <= longestWord }
            text += "<p class=\"next\">\(prose(next.purpose)): <code>\(line)</code></p>\n"
        }
        return text + "</\(tag)>\n"
    }

    /// The attributes of a part that may be wider than the page: keys scroll it, and a screen reader names it.
    private static func scrolled(_ part: String, of section: Report.Section) -> String {
        let subject = section.heading ?? section.question
        let name = subject.map { "\(part): \($0)" } ?? part
        return "tabindex=\"0\" role=\"region\" aria-label=\"\(escaped(name))\""
    }

    /// A heading with a link to its section.
    private static func heading(_ title: String, _ anchor: String?) -> String {
        let link = anchor.map { " <a href=\"#\($0)\" aria-label=\"Link to this section\">#</a>" } ?? ""
        return "<h2>\(prose(title))\(link)</h2>"
    }

    /// A label that the row above has too is not visible, and neither the script nor a reader who copies the table misses it.
    /// A note has a row of its own below the labels of its row. A number that its text only approximates is in `data-value`,
    /// by which the script sorts. A column with sentences is wrapped.
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
        func tag(_ tag: String, _ index: Int, _ text: String, _ more: String = "", isRepeated: Bool = false) -> String {
            let kinds = [classes[index] ?? "", isRepeated ? "repeated" : ""].filter { !$0.isEmpty }
            let kind = kinds.isEmpty ? "" : " class=\"\(kinds.joined(separator: " "))\""
            return "<\(tag)\(kind)\(more)>\(prose(text))</\(tag)>"
        }
        let heads = titled.map { index in
            let meaning = table.columns[index].meaning
            let title = meaning.isEmpty ? "" : " title=\"\(escaped(meaning))\""
            return tag("th", index, table.columns[index].title ?? "", " scope=\"col\"\(title)")
        }
        let labels = titled.count { $0 < table.labels }
        var text = "<table data-labels=\"\(labels)\">\n"
        if let caption { text += "<caption><span>\(prose(caption))</span></caption>\n" }
        text += "<thead><tr>\(heads.joined())</tr></thead>\n<tbody>\n"
        var above: [String] = []
        for row in table.rows {
            let texts = table.texts(row)
            var cells = titled.prefix(texts.count).enumerated().map { place, index in
                let isRepeated = place < labels && above.starts(with: texts.prefix(place + 1))
                return tag("td", index, row.cells[index].text, sortKey(row.cells[index]), isRepeated: isRepeated)
            }.joined()
            above = Array(texts.prefix(labels))
            let rest = titled.count - texts.count
            if rest > 0 { cells += "<td colspan=\"\(rest)\"></td>" }
            text += "<tr\(row.isFailure ? " class=\"failure\"" : "")>\(cells)</tr>\n"
            guard let note = row.note else { continue }
            text += "<tr class=\"\(row.isFailure ? "note failure" : "note")\"><td colspan=\"\(titled.count)\">"
            text += "<span>\(prose(note))</span></td></tr>\n"
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

    /// A text in which no line end splits an option, as `--tls`, or a number from its percent sign.
    private static func prose(_ text: String) -> String {
        words(text.replacing(" %", with: "\u{a0}%")) { $0.contains("--") && $0.count <= longestWord }
    }

    /// A text with a tag around the words that no line end may split.
    private static func words(_ text: String, isWhole: (Substring) -> Bool) -> String {
        text.split(separator: " ", omittingEmptySubsequences: false).map { word in
            let word = (text: escaped(String(word)), isWhole: isWhole(word))
            return word.isWhole ? "<span class=\"word\">\(word.text)</span>" : word.text
        }.joined(separator: " ")
    }

    /// A text for the content of tags and for quoted attributes. Control characters, which HTML forbids, are replaced.
    package static func escaped(_ text: String) -> String {
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
    private static let style = ChartStyle.page + String(cString: cpages_report_css())
    package static let script = String(cString: cpages_report_js())
}
