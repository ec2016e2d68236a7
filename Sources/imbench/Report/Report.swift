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

    /// For each section the columns of its table that no table above has, and their meanings.
    var legends: [[(title: String, meaning: String)]] {
        var explained: Set<[String]> = []
        return sections.map { section in
            (section.table?.titled ?? []).compactMap { column in
                guard let title = column.title, explained.insert([title, column.meaning]).inserted else { return nil }
                return (title, column.meaning)
            }
        }
    }

    /// The report in one of the formats.
    ///
    /// - Parameters:
    ///   - style: colour and weight for `table`. The other formats have none.
    ///   - width: the longest line of `table`.
    func text(_ format: Format, _ style: Style, width: Int = TextRenderer.width) -> String {
        switch format {
        case .table: TextRenderer.text(self, style, width)
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

extension Options {
    /// The target of the report.
    func reportTarget() throws(UsageError) -> ReportTarget {
        do throws(SystemFailure) {
            return try ReportTarget(path: output)
        } catch {
            throw UsageError("--output: \(error.message)")
        }
    }
}

extension ReportTarget {
    /// Writes the whole report in the requested format.
    func write(_ report: Report, _ options: Options) throws(SystemFailure) {
        try write(report.text(options.format, style, width: options.isWide ? .max : TextRenderer.width))
    }
}
