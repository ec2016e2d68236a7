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
        /// Whether the row is a failure, which is coloured.
        var isFailure = false
    }

    /// The number of leading columns that name a row.
    var labels = 1
    var columns: [Column]
    var rows: [Row] = []

    /// The columns for people.
    var titled: [Column] { columns.filter { $0.title != nil } }

    /// The texts of a row for people: one for each column with a title, or the labels alone if there is a note.
    func texts(_ row: Row) -> [String] {
        let texts = zip(columns, row.cells).compactMap { $0.title == nil ? nil : $1.text }
        return row.note == nil ? texts : Array(texts.prefix(labels))
    }

    /// Each row as the members of a JSON object.
    var members: [[(String, JSONValue)]] {
        rows.map { row in zip(columns, row.cells).compactMap { column, cell in column.name.map { ($0, cell.value) } } }
    }

    /// Aligned columns. A note spans the columns that its row omits.
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

extension String {
    /// The text with spaces after it, or before it, up to `width` characters.
    func padded(to width: Int, alignedRight: Bool = false) -> String {
        let space = String(repeating: " ", count: max(0, width - count))
        return alignedRight ? space + self : self + space
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
