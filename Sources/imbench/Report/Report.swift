/// The report of a command. Each command makes one, and each format has one renderer.
struct Report: Sendable {
    /// A part of the report for people.
    struct Section: Sendable {
        var heading: String?
        /// The question that the section answers. HTML has it as the heading.
        var question: String?
        /// Only HTML shows them, and `--charts` writes them. Empty charts are omitted.
        var charts: [any Chart] = []
        var table: Table?
        /// Lines whose characters are aligned.
        var drawing: [String] = []
        var notes: [String] = []
        /// How to read charts and table, in sentences. Only HTML shows it, because the other formats have no charts.
        var reading = ""
        /// Commands that continue from here. Only HTML shows them.
        var next: [NextCommand] = []
        var media = Media.all
    }

    /// The formats that show a section.
    enum Media: Sendable {
        case all
        /// HTML omits it, because charts of other sections show the same.
        case textOnly
        /// Only HTML shows it, because it explains a chart.
        case htmlOnly
    }

    /// A command to try next.
    struct NextCommand: Sendable {
        /// As in "To see the bytes one by one".
        var purpose: String
        /// The whole line, as in `imbench trace Hello`.
        var line: String

        init(_ purpose: String, _ line: String) { (self.purpose, self.line) = (purpose, line) }
    }

    /// The command, as the heading of a page.
    var name: String
    /// The subject of the measurement, or its result, in one sentence.
    var title: String
    /// Warnings for the reader of the numbers.
    var warnings: [String] = []
    /// The results in sentences, the most important first.
    var verdict: [String] = []
    /// The conditions of the measurement.
    var facts: [(name: String, value: String)] = []
    /// The content of text, Markdown and HTML.
    var sections: [Section]
    /// The content of CSV.
    var records: Table
    /// The content of JSON, apart from ``verdict``, which is added to it.
    var data: JSONValue

    /// The sections that a format shows, and for each the columns of its table that no table above has, with their meanings.
    func parts(isHTML: Bool) -> [(section: Section, legend: [(title: String, meaning: String)])] {
        var explained: Set<[String]> = []
        return sections.filter { $0.media != (isHTML ? .textOnly : .htmlOnly) }.map { section in
            let legend = (section.table?.titled ?? []).compactMap { column -> (title: String, meaning: String)? in
                guard let title = column.title, explained.insert([title, column.meaning]).inserted else { return nil }
                return (title, column.meaning)
            }
            return (section, legend)
        }
    }

    /// The content of JSON with the results in sentences.
    private var completeData: JSONValue {
        guard !verdict.isEmpty, case .object(let members) = data else { return data }
        return .object(members + [("verdict", .array(verdict.map(JSONValue.string)))])
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
        case .json: completeData.readableText + "\n"
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

extension ReportOptions {
    /// The target of the report.
    func target() throws(UsageError) -> ReportTarget {
        try makeChartFolder()
        do throws(SystemFailure) {
            return try ReportTarget(path: output)
        } catch {
            throw UsageError("--output: \(error.message)")
        }
    }

    /// Makes the folder of `--charts`, if there is none. Called before the measurement, so that a wrong name fails immediately.
    func makeChartFolder() throws(UsageError) {
        guard let charts else { return }
        do throws(SystemFailure) {
            try makeFolder(charts)
        } catch {
            throw UsageError("--charts: \(error.message)")
        }
    }
}

extension ReportTarget {
    /// Writes the whole report in the requested format, and its charts into the folder of `--charts`.
    func write(_ report: Report, _ options: ReportOptions) throws(SystemFailure) {
        try write(report.text(options.format, style, width: options.isWide ? .max : TextRenderer.width))
        guard let folder = options.charts else { return }
        for file in report.chartFiles { try ReportTarget(path: folder + "/" + file.name).write(file.text) }
    }
}
