/// The report of a command. Each command makes one, and each format has one renderer.
struct Report: Sendable {
    /// A part of the report for people.
    struct Section: Sendable {
        var heading: String?
        /// Only HTML shows them. Charts without rows are omitted.
        var charts: [BarChart] = []
        var table: Table?
        /// Lines whose characters are aligned.
        var drawing: [String] = []
        var notes: [String] = []
    }

    /// The command, as the heading of a page.
    var name: String
    /// The subject of the measurement, or its result, in one sentence.
    var title: String
    /// Warnings for the reader of the numbers.
    var warnings: [String] = []
    /// The conditions of the measurement.
    var facts: [(name: String, value: String)] = []
    /// The content of text, Markdown and HTML.
    var sections: [Section]
    /// The content of CSV.
    var records: Table
    /// The content of JSON.
    var data: JSONValue

    /// The report in one of the formats.
    ///
    /// - Parameter style: colour and weight for `table`. The other formats have none.
    func text(_ format: Format, _ style: Style) -> String {
        switch format {
        case .table: TextRenderer.text(self, style)
        case .markdown: MarkdownRenderer.text(self)
        case .html: HTMLRenderer.text(self)
        case .csv: CSVRenderer.text(records)
        case .json: data.readableText + "\n"
        }
    }
}

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

extension Sequence where Element: Hashable {
    /// Each element once, in the order of the first occurrences.
    var distinct: [Element] {
        var seen: Set<Element> = []
        return filter { seen.insert($0).inserted }
    }
}
