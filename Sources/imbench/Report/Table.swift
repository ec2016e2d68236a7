/// A table for people and for programs.
struct Table: Sendable {
    /// People see the columns with a title. Programs see the columns with a name.
    struct Column: Sendable {
        var title: String?
        /// Its name in CSV and JSON.
        var name: String?
        /// One line for the legend: the meaning of the numbers, with their unit.
        var meaning: String
        var alignedRight: Bool
        /// Whether HTML shows it with characters of one width, as for hexadecimal digits.
        var isMonospaced = false

        static func text(_ title: String?, _ name: String? = nil, _ meaning: String = "") -> Column {
            Column(title: title, name: name, meaning: meaning, alignedRight: false)
        }

        static func number(_ title: String?, _ name: String? = nil, _ meaning: String = "") -> Column {
            Column(title: title, name: name, meaning: meaning, alignedRight: true)
        }

        static func hexadecimal(_ title: String?, _ name: String? = nil, _ meaning: String = "") -> Column {
            Column(title: title, name: name, meaning: meaning, alignedRight: false, isMonospaced: true)
        }
    }

    /// A value for programs and its text for people.
    struct Cell: Sendable {
        /// Null if it was not measured.
        var value: JSONValue
        var text: String

        init(_ text: String) { self.init(value: .string(text), text: text) }
        init(_ number: Int?) { self.init(value: JSONValue(number), text: shown(number)) }
        init(_ number: Double?) { self.init(number, shown(number)) }
        init(_ number: Double?, _ text: String) { self.init(value: .rounded(number), text: text) }

        init(value: JSONValue, text: String) {
            (self.value, self.text) = (value, text)
        }
    }

    struct Row: Sendable {
        var cells: [Cell]
        /// A sentence for people in place of all cells but the labels.
        var note: String?
        /// Whether an earlier row has the same note.
        var repeatsNote = false
        /// Whether the row is a failure, which is coloured.
        var isFailure = false

        /// The reason, in formats whose rows keep their order.
        var shortNote: String? { repeatsNote ? "as above" : note }
    }

    /// The number of leading columns that name a row.
    var labels = 1
    var columns: [Column]
    var rows: [Row] = []

    /// The columns for people.
    var titled: [Column] { columns.filter { $0.title != nil } }

    /// The label columns, and of the others those with these titles, in the order of the titles.
    func selecting(_ titles: [String]) -> Table {
        let others = titles.compactMap { title in columns.indices.dropFirst(labels).first { columns[$0].title == title }
        }
        let chosen = Array(columns.indices.prefix(labels)) + others
        var table = self
        table.columns = chosen.map { columns[$0] }
        table.rows = rows.map { row in
            var row = row
            row.cells = chosen.map { row.cells[$0] }
            return row
        }
        return table
    }

    /// The table without the rows that have a note.
    var withoutNotes: Table {
        var table = self
        table.rows.removeAll { $0.note != nil }
        return table
    }

    /// The texts of a row for people: one for each column with a title, or the labels alone if there is a note.
    func texts(_ row: Row) -> [String] {
        let texts = zip(columns, row.cells).compactMap { $0.title == nil ? nil : $1.text }
        guard row.note != nil else { return texts }
        return Array(texts.prefix(columns.prefix(labels).count { $0.title != nil }))
    }

    /// Each row as the members of a JSON object.
    var members: [[(String, JSONValue)]] {
        rows.map { row in zip(columns, row.cells).compactMap { column, cell in column.name.map { ($0, cell.value) } } }
    }

    /// Aligned columns. A note spans the columns that its row omits.
    ///
    /// - Parameter width: the longest line. Long texts are wrapped. Columns that do not fit follow in a second block, after the
    ///   labels.
    func plain(_ style: Style, width: Int = .max) -> String {
        let (columns, texts) = (titled, rows.map(texts))
        let labels = columns.isEmpty ? 0 : max(1, self.columns.prefix(self.labels).count { $0.title != nil })
        var widths = columns.indices.map { index in
            texts.reduce((columns[index].title ?? "").count) { max($0, index < $1.count ? $1[index].count : 0) }
        }
        for index in widths.indices.dropLast() where width < .max && !columns[index].alignedRight {
            widths[index] = min(widths[index], Self.widestText)
        }
        var text = ""
        for (number, block) in blocks(widths, labels, width).enumerated() {
            if number > 0 { text += "\n" }
            var widths = widths
            if let last = block.last, !columns[last].alignedRight {
                let used = block.dropLast().reduce(0) { $0 + widths[$1] + Self.gap.count }
                widths[last] = max(1, min(widths[last], width - used))
            }
            text += lines(block.map { columns[$0].title ?? "" }, block, widths).map { style.bold($0) + "\n" }.joined()
            for (row, cells) in zip(rows, texts) where row.note == nil || number == 0 {
                var drawn: [String]
                if let note = row.shortNote {
                    let used = cells.indices.reduce(0) { $0 + widths[$1] + Self.gap.count }
                    let wrapped = note.wrapped(to: max(1, width - used))
                    drawn = lines(cells, Array(cells.indices), widths, rest: wrapped)
                } else {
                    drawn = lines(block.map { cells[$0] }, block, widths)
                }
                drawn = drawn.map { row.isFailure ? style.red($0) : row.note == nil ? $0 : style.dim($0) }
                text += drawn.map { $0 + "\n" }.joined()
            }
        }
        return text
    }

    private static let gap = "  "
    /// The widest column of texts that is not the last one.
    private static let widestText = 30
    /// The least width of a wrapped last column.
    private static let narrowestText = 16

    /// The columns of each block: the labels, and as many others as fit.
    private func blocks(_ widths: [Int], _ labels: Int, _ width: Int) -> [[Int]] {
        let names = Array(0..<labels)
        let start = names.reduce(-Self.gap.count) { $0 + widths[$1] + Self.gap.count }
        var blocks = [names]
        var used = start
        for index in widths.indices.dropFirst(labels) {
            let isWrapped = index == widths.count - 1 && !titled[index].alignedRight
            let needed = isWrapped ? min(widths[index], Self.narrowestText) : widths[index]
            if width - used < Self.gap.count + needed, blocks[blocks.count - 1].count > labels {
                blocks.append(names)
                used = start
            }
            blocks[blocks.count - 1].append(index)
            used += Self.gap.count + widths[index]
        }
        return blocks
    }

    /// The lines of a row whose cells are wrapped to the widths of their columns, and after them the lines of `rest`.
    private func lines(_ cells: [String], _ block: [Int], _ widths: [Int], rest: [String] = []) -> [String] {
        let wrapped = zip(cells, block).map { cell, column in
            cell.count <= widths[column] ? [cell] : cell.wrapped(to: widths[column])
        }
        let height = max(1, (wrapped.map(\.count) + [rest.count]).max() ?? 1)
        return (0..<height).map { line in
            var parts = zip(wrapped, block).map { lines, column in
                (line < lines.count ? lines[line] : "")
                    .padded(to: widths[column], alignedRight: titled[column].alignedRight)
            }
            if line < rest.count { parts.append(rest[line]) }
            return parts.joined(separator: Self.gap).withoutTrailingSpaces
        }
    }
}

/// A number with exactly `digits` decimals, or without the trailing zeros if `trimmed`. A dash for infinity and NaN.
func fixed(_ value: Double, _ digits: Int, trimmed: Bool = false) -> String {
    guard value.isFinite else { return "-" }
    let digits = min(max(digits, 0), 9)
    var scale = 1.0
    for _ in 0..<digits { scale *= 10 }
    let scaled = (value.magnitude * scale).rounded()
    guard scaled < 9e18 else { return "\(value)" }
    let whole = UInt64(scaled)
    let sign = value < 0 && whole > 0 ? "-" : ""
    let unit = UInt64(scale)
    var fraction = String(whole % unit)
    fraction = String(repeating: "0", count: digits - min(digits, fraction.count)) + fraction
    if trimmed { while fraction.last == "0" { fraction.removeLast() } }
    return sign + String(whole / unit) + (digits == 0 || fraction.isEmpty ? "" : "." + fraction)
}

/// A number with about three significant digits and no exponent, as in tables.
func shown(_ value: Double?) -> String {
    guard let value, value.isFinite else { return "-" }
    return fixed(value, value.magnitude < 9.995 ? 2 : value.magnitude < 999.5 ? 1 : 0)
}

/// A whole number, or a dash.
func shown(_ value: Int?) -> String { value.map(String.init) ?? "-" }

/// A number of things: `1 repeat`, `2 repeats`.
func counted(_ count: Int, _ thing: String) -> String { "\(count) \(thing)\(count == 1 ? "" : "s")" }

extension String {
    /// The text with spaces after it, or before it, up to `width` characters.
    func padded(to width: Int, alignedRight: Bool = false) -> String {
        let space = String(repeating: " ", count: max(0, width - count))
        return alignedRight ? space + self : self + space
    }

    var withoutTrailingSpaces: String {
        var text = self[...]
        while text.last == " " { text.removeLast() }
        return String(text)
    }

    /// The lines of the text, none longer than `width`. They are broken at spaces, and within a longer word at a comma or
    /// anywhere.
    func wrapped(to width: Int) -> [String] {
        var lines: [String] = []
        for part in split(separator: "\n", omittingEmptySubsequences: false) {
            var line = ""
            for word in part.split(separator: " ") {
                if !line.isEmpty, word.count >= width - line.count {
                    lines.append(line)
                    line = ""
                }
                line += line.isEmpty ? String(word) : " " + word
                while line.count > width {
                    let room = line.prefix(width)
                    let comma = room.lastIndex(of: ",").map { room.index(after: $0) }
                    let end = comma ?? room.endIndex
                    lines.append(String(line[..<end]))
                    line = String(line[end...])
                }
            }
            lines.append(line)
        }
        return lines
    }
}

/// Colour and weight on a terminal, and nothing elsewhere.
struct Style: Sendable {
    var isOn: Bool

    static let none = Style(isOn: false)

    func bold(_ text: String) -> String { wrap(text, "1") }
    func dim(_ text: String) -> String { wrap(text, "2") }
    func red(_ text: String) -> String { wrap(text, "31") }
    func green(_ text: String) -> String { wrap(text, "32") }
    /// One of the colours 1 to 6: red, green, yellow, blue, magenta and cyan, in bold.
    func colour(_ number: Int, _ text: String) -> String { wrap(text, "1;\(30 + number)") }

    // SGR sequences (ECMA-48, section 8.3.117).
    private func wrap(_ text: String, _ code: String) -> String { isOn ? "\u{1b}[\(code)m\(text)\u{1b}[0m" : text }
}
