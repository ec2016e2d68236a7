/// A report as text for a terminal.
enum TextRenderer {
    static func text(_ report: Report, _ style: Style) -> String {
        var text = report.warnings.map { style.red($0) + "\n" }.joined() + style.bold(report.title) + "\n"
        for (name, value) in report.facts { text += style.dim(name.padded(to: 10)) + " " + value + "\n" }
        for section in report.sections {
            text += "\n"
            if let heading = section.heading { text += style.bold(heading) + "\n" }
            if let table = section.table { text += table.plain(style) }
            for line in section.drawing + section.notes { text += line + "\n" }
        }
        return text
    }
}

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

    /// A table (the specification's section 4.10). A note is in the first cell that its row omits.
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
enum CSVRenderer {
    static func text(_ table: Table) -> String {
        let lines = table.members.map { row in row.map { field($0.1) } }
        return ([table.columns.compactMap(\.name)] + lines).map { line in
            line.map(quoted).joined(separator: ",") + "\r\n"
        }.joined()
    }

    private static func field(_ value: JSONValue) -> String {
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
