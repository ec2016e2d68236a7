import CommandSupport

/// A report as text for a terminal: the answer first, then the tables, and at the end the conditions of the measurement.
package enum TextRenderer {
    /// What the text has to fit.
    package struct Page: Sendable {
        /// The longest line.
        package var width = 80
        /// The lines of the screen; `nil` if there is none.
        package var rows: Int?
        package var showsDetails = true

        package init(width: Int = 80, rows: Int? = nil, showsDetails: Bool = true) {
            (self.width, self.rows, self.showsDetails) = (width, rows, showsDetails)
        }
    }

    static func text(_ report: Report, _ style: Style, _ page: Page) -> String {
        let width = page.width
        func paragraph(_ sentences: [String]) -> [String] { sentences.flatMap { $0.wrapped(to: width) } }
        let trust = paragraph([report.trust.sentence])
        var lines = paragraph(report.warnings).map(style.red)
        lines += paragraph([report.title]).map(style.bold)
        lines += report.trust.isGiven ? trust.map(style.dim) : trust.map(style.red)
        if !report.verdict.isEmpty { lines += [""] + paragraph(report.verdict) }
        for (section, legend) in report.parts(isHTML: false, showsDetails: page.showsDetails) {
            lines.append("")
            if let heading = section.heading { lines += paragraph([heading]).map(style.bold) }
            if let table = section.table { lines.append(table.plain(style, width: width).withoutLastLineEnd) }
            if !legend.isEmpty {
                let column = legend.map { $0.title.count + 4 }.max() ?? 0
                lines.append("")
                for (title, meaning) in legend {
                    lines += entry(title, meaning, column: column, indent: 2, style, width)
                }
            }
            let below = section.drawing + paragraph(section.notes)
            if !below.isEmpty, section.table != nil || !legend.isEmpty { lines.append("") }
            lines += below
        }
        if !report.facts.isEmpty { lines.append("") }
        for (name, value) in report.facts { lines += entry(name, value, column: 11, indent: 0, style, width) }
        let hidden = report.sections.filter { $0.isDetail && $0.media != .htmlOnly }.compactMap(\.topic).distinct
        if !page.showsDetails, !hidden.isEmpty {
            lines += paragraph(["--details shows more: \(hidden.joined(separator: ", "))."])
        }
        let text = lines.joined(separator: "\n") + "\n"
        // The answer is repeated where it has left the screen, whose last line is that of the next prompt.
        let isLong = page.rows.map { text.count { $0 == "\n" } >= $0 } ?? false
        let answer = isLong ? paragraph(report.shortVerdict) : []
        return answer.isEmpty ? text : text + answer.joined(separator: "\n") + "\n"
    }

    /// A name, and beside it a text from `column` on.
    private static func entry(
        _ name: String,
        _ text: String,
        column: Int,
        indent: Int,
        _ style: Style,
        _ width: Int
    ) -> [String] {
        let space = String(repeating: " ", count: column)
        return text.wrapped(to: width - column).enumerated().map { number, line in
            guard number == 0 else { return space + line }
            let name = (String(repeating: " ", count: indent) + name).padded(to: column - 1)
            return (style.dim(name) + " " + line).withoutTrailingSpaces
        }
    }
}

extension String {
    fileprivate var withoutLastLineEnd: String { last == "\n" ? String(dropLast()) : self }
}

/// A report as GitHub Flavored Markdown.
package enum MarkdownRenderer {
    static func text(_ report: Report) -> String {
        var text = "# \(escaped(report.name))\n\n\(escaped(report.title))\n\n"
        for warning in report.warnings { text += "> **\(escaped(warning))**\n\n" }
        text += "\(escaped(report.trust.sentence))\n\n"
        for sentence in report.verdict { text += "\(escaped(sentence))\n\n" }
        for (name, value) in report.facts { text += "- \(name): \(escaped(value))\n" }
        for (section, legend) in report.parts(isHTML: false) {
            if let heading = section.heading { text += "\n## \(escaped(heading))\n" }
            if let table = section.table { text += "\n" + Self.table(table) }
            if !legend.isEmpty { text += "\n" }
            for (title, meaning) in legend { text += "- \(escaped(title)): \(escaped(meaning))\n" }
            if !section.drawing.isEmpty { text += "\n```text\n" + section.drawing.joined(separator: "\n") + "\n```\n" }
            for note in section.notes { text += "\n\(escaped(note))\n" }
        }
        return text
    }

    /// A table (the specification's section 4.10). A note is in the first cell that its row omits.
    private static func table(_ table: Table) -> String {
        func line(_ cells: [String]) -> String { "| " + cells.map(escaped).joined(separator: " | ") + " |\n" }
        let columns = table.titled
        var text = line(columns.map { $0.title ?? "" })
        text += "|" + columns.map { $0.alignedRight ? "---:|" : "---|" }.joined() + "\n"
        for row in table.rows {
            let cells = table.texts(row) + (row.shortNote.map { [$0] } ?? [])
            text += line(cells + Array(repeating: "", count: max(0, columns.count - cells.count)))
        }
        return text
    }

    /// A text that stays in one line or cell and contains no tag.
    private static func escaped(_ text: String) -> String {
        text.unicodeScalars.map { scalar -> String in
            switch scalar {
            case "|": "\\|"
            case "\n", "\r": " "
            case "<": "&lt;"
            default: String(scalar)
            }
        }.joined()
    }
}

/// A table as CSV (RFC 4180): a line of names, and one line per row. A value that was not measured is an empty field.
package enum CSVRenderer {
    static func text(_ table: Table) -> String {
        let lines = table.members.map { row in row.map { field($0.1) } }
        return ([table.columns.compactMap(\.name)] + lines).map { line in
            line.map(quoted).joined(separator: ",") + "\r\n"
        }.joined()
    }

    private static func field(_ value: ReportValue) -> String {
        switch value {
        case .null: ""
        case .string(let text): text
        default: value.text
        }
    }

    /// Quotes a field that has a comma, a quotation mark, CR or LF.
    private static func quoted(_ field: String) -> String {
        guard field.unicodeScalars.contains(where: { "\",\r\n".unicodeScalars.contains($0) }) else { return field }
        return "\"" + field.unicodeScalars.map { $0 == "\"" ? "\"\"" : String($0) }.joined() + "\""
    }
}
