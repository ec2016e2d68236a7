/// A table for people and for programs.
struct Table: Sendable {
    /// People see the columns with a title, programs those with a name.
    struct Column: Sendable {
        var title: String?
        /// Its name in CSV and JSON.
        var name: String?
        var alignedRight: Bool

        static func text(_ title: String?, _ name: String? = nil) -> Column {
            Column(title: title, name: name, alignedRight: false)
        }

        static func number(_ title: String?, _ name: String? = nil) -> Column {
            Column(title: title, name: name, alignedRight: true)
        }
    }

    /// A value, and how people read it.
    struct Cell: Sendable {
        /// What programs read: null if it was not measured.
        var value: JSONValue
        /// What people read.
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
        /// A sentence that people read in place of all cells but the labels.
        var note: String?
        /// Whether the row is a failure, which is then coloured.
        var isFailure = false
    }

    /// How many of the first columns name a row.
    var labels = 1
    var columns: [Column]
    var rows: [Row] = []

    /// The columns that people see.
    var titled: [Column] { columns.filter { $0.title != nil } }

    /// What people see of a row: a text for each column that has a title, or for the labels alone if there is a note.
    func texts(_ row: Row) -> [String] {
        let texts = zip(columns, row.cells).compactMap { $0.title == nil ? nil : $1.text }
        return row.note == nil ? texts : Array(texts.prefix(labels))
    }

    /// Each row as the members of a JSON object.
    var members: [[(String, JSONValue)]] {
        rows.map { row in zip(columns, row.cells).compactMap { column, cell in column.name.map { ($0, cell.value) } } }
    }

    /// Aligned columns for a terminal. A note runs over the columns that its row leaves out.
    func plain(_ style: Style) -> String {
        let (columns, texts) = (titled, rows.map(texts))
        let titles = columns.map { $0.title ?? "" }
        let widths = columns.indices.map { index in
            texts.reduce(titles[index].count) { max($0, index < $1.count ? $1[index].count : 0) }
        }
        func line(_ cells: [String], _ note: String? = nil) -> String {
            let padded = cells.indices.map { cells[$0].padded(to: widths[$0], alignedRight: columns[$0].alignedRight) }
            var line = Substring((padded + (note.map { [$0] } ?? [])).joined(separator: "  "))
            while line.last == " " { line.removeLast() }
            return String(line)
        }
        var text = style.bold(line(titles)) + "\n"
        for (row, cells) in zip(rows, texts) {
            let drawn = line(cells, row.note)
            text += (row.isFailure ? style.red(drawn) : row.note == nil ? drawn : style.dim(drawn)) + "\n"
        }
        return text
    }
}

/// Colour and weight on a terminal, and nothing elsewhere.
struct Style: Sendable {
    var isOn: Bool

    static let none = Style(isOn: false)

    func bold(_ text: String) -> String { wrap(text, "1") }
    func dim(_ text: String) -> String { wrap(text, "2") }
    func red(_ text: String) -> String { wrap(text, "31") }

    // SGR sequences (ECMA-48, section 8.3.117).
    private func wrap(_ text: String, _ code: String) -> String { isOn ? "\u{1b}[\(code)m\(text)\u{1b}[0m" : text }
}
