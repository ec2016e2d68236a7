/// The report of a command. Each command makes one, and each format has one renderer.
struct Report: Sendable {
    /// A part of what people read.
    struct Section: Sendable {
        var heading: String?
        /// HTML alone shows them. Those without rows are left out.
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
    /// Where and how it was measured.
    var facts: [(name: String, value: String)] = []
    /// What text, Markdown and HTML show.
    var sections: [Section]
    /// What CSV shows.
    var records: Table
    /// What JSON shows.
    var data: JSONValue

    /// The report in one of the formats.
    ///
    /// - Parameter style: colour and weight for `table`; the other formats have none.
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
    /// Each element once, in the order in which they first occur.
    var distinct: [Element] {
        var seen: Set<Element> = []
        return filter { seen.insert($0).inserted }
    }
}
