/// A report as GitHub Flavored Markdown.
enum MarkdownRenderer {
    static func text(_ report: Report) -> String {
        var text = "# \(escaped(report.name))\n\n\(escaped(report.title))\n\n"
        for warning in report.warnings { text += "> **\(escaped(warning))**\n\n" }
        for (name, value) in report.facts { text += "- \(name): \(escaped(value))\n" }
        for section in report.sections {
            if let heading = section.heading { text += "\n## \(escaped(heading))\n" }
            if let table = section.table { text += "\n" + Self.table(table) }
            if !section.drawing.isEmpty { text += "\n```text\n" + section.drawing.joined(separator: "\n") + "\n```\n" }
            for note in section.notes { text += "\n\(escaped(note))\n" }
        }
        return text
    }

    /// A table (the specification's section 4.10). A note takes the first cell that its row leaves out.
    private static func table(_ table: Table) -> String {
        func line(_ cells: [String]) -> String { "| " + cells.map(escaped).joined(separator: " | ") + " |\n" }
        let columns = table.titled
        var text = line(columns.map { $0.title ?? "" })
        text += "|" + columns.map { $0.alignedRight ? "---:|" : "---|" }.joined() + "\n"
        for row in table.rows {
            let cells = table.texts(row) + (row.note.map { [$0] } ?? [])
            text += line(cells + Array(repeating: "", count: max(0, columns.count - cells.count)))
        }
        return text
    }

    /// A text that stays in one line or cell and is no tag.
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
