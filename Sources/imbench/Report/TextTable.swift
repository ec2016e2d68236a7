/// A table of texts, before it is known how it will be drawn.
struct TextTable: Sendable {
    struct Column: Sendable {
        var title: String
        var alignedRight = true
    }

    struct Row: Sendable {
        var cells: [String]
        /// A sentence that takes the place of the cells that are missing.
        var note: String?
        /// Whether the row is a failure, which is then coloured.
        var isFailure = false
    }

    var columns: [Column]
    var rows: [Row] = []

    /// Aligned columns for a terminal; a note runs over the columns that its row leaves out.
    func plain(_ style: Style) -> String {
        let widths = columns.indices.map { index in
            rows.reduce(columns[index].title.count) { widest, row in
                max(widest, index < row.cells.count ? row.cells[index].count : 0)
            }
        }
        func line(_ cells: [String]) -> String {
            let padded = cells.indices.map { cells[$0].padded(to: widths[$0], alignedRight: columns[$0].alignedRight) }
            return padded.joined(separator: "  ")
        }
        var text = style.bold(line(columns.map(\.title)).withoutTrailingSpaces) + "\n"
        for row in rows {
            var drawn = line(row.cells)
            if let note = row.note { drawn += "  " + note }
            drawn = drawn.withoutTrailingSpaces
            text += (row.isFailure ? style.red(drawn) : row.note == nil ? drawn : style.dim(drawn)) + "\n"
        }
        return text
    }

    /// A table of GitHub Flavored Markdown (its specification, section 4.10).
    var markdown: String {
        func line(_ cells: [String]) -> String {
            "| " + cells.map(Self.escapedForMarkdown).joined(separator: " | ") + " |\n"
        }
        var text = line(columns.map(\.title))
        text += "|" + columns.map { $0.alignedRight ? "---:|" : "---|" }.joined() + "\n"
        for row in rows {
            var cells = row.cells + (row.note.map { [$0] } ?? [])
            cells += Array(repeating: "", count: max(0, columns.count - cells.count))
            text += line(cells)
        }
        return text
    }

    /// A text that stays one cell, and no tag.
    static func escapedForMarkdown(_ cell: String) -> String {
        var text = ""
        for character in cell {
            switch character {
            case "|": text += "\\|"
            case "\n", "\r", "\r\n": text += " "
            case "<": text += "&lt;"
            default: text.append(character)
            }
        }
        return text
    }
}

/// Colour and weight on a terminal; nothing elsewhere.
struct Style: Sendable {
    var isOn: Bool

    static let none = Style(isOn: false)

    func bold(_ text: String) -> String { wrap(text, "1") }
    func dim(_ text: String) -> String { wrap(text, "2") }
    func red(_ text: String) -> String { wrap(text, "31") }

    // SGR sequences (ECMA-48, section 8.3.117).
    private func wrap(_ text: String, _ code: String) -> String { isOn ? "\u{1b}[\(code)m\(text)\u{1b}[0m" : text }
}

extension String {
    fileprivate var withoutTrailingSpaces: String {
        var text = Substring(self)
        while text.last == " " { text.removeLast() }
        return String(text)
    }
}
