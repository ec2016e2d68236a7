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

extension Sequence where Element: Hashable {
    /// Each element once, in the order of the first occurrences.
    var distinct: [Element] {
        var seen: Set<Element> = []
        return filter { seen.insert($0).inserted }
    }
}

extension ReportTarget {
    /// Writes the whole report.
    func write(_ report: Report, _ format: Format) throws(SystemFailure) {
        try write(report.text(format, style))
    }
}
