import CommandSupport

/// The report of a command. Each command makes one, and each format has one renderer.
package struct Report: Sendable {
    /// A part of the report for people.
    package struct Section: Sendable {
        package var heading: String?
        /// The question that the section answers. HTML has it as the heading.
        package var question: String?
        /// Only HTML shows them, and `--charts` writes them. Empty charts are omitted.
        package var charts: [any Chart] = []
        package var table: Table?
        /// Lines whose characters are aligned.
        package var drawing: [String] = []
        package var notes: [String] = []
        /// How to read charts and table, in sentences. Only HTML shows it, because the other formats have no charts.
        package var reading = ""
        /// Commands that continue from here. Only HTML shows them.
        package var next: [NextCommand] = []
        package var media = Media.all
        /// Whether a terminal shows the section only with `--details`.
        package var isDetail = false
        /// The name by which a terminal mentions the section if it is left out; `nil` is the heading up to its colon. Sections
        /// of one name are mentioned once.
        package var shortName: String?

        /// The section in the list of those that are left out.
        var topic: String? { shortName ?? heading.map { String($0.prefix { $0 != ":" }) } }

        package init(
            heading: String? = nil,
            question: String? = nil,
            charts: [any Chart] = [],
            table: Table? = nil,
            drawing: [String] = [],
            notes: [String] = [],
            reading: String = "",
            next: [NextCommand] = [],
            media: Media = Media.all,
            isDetail: Bool = false,
            shortName: String? = nil
        ) {
            (self.heading, self.question, self.charts, self.table) = (heading, question, charts, table)
            (self.drawing, self.notes, self.reading, self.next) = (drawing, notes, reading, next)
            (self.media, self.isDetail, self.shortName) = (media, isDetail, shortName)
        }
    }

    /// The formats that show a section.
    package enum Media: Sendable {
        case all
        /// HTML omits it, because charts of other sections show the same.
        case textOnly
        /// Only HTML shows it, because it explains a chart.
        case htmlOnly
    }

    /// A command to try next.
    package struct NextCommand: Sendable {
        /// As in "To see the bytes one by one".
        package var purpose: String
        /// The whole line, as in `imbench trace Hello`.
        package var line: String

        package init(_ purpose: String, _ line: String) { (self.purpose, self.line) = (purpose, line) }
    }

    /// The command, as the heading of a page.
    package var name: String
    /// The subject of the measurement, or its result, in one sentence.
    package var title: String
    /// Warnings for the reader of the numbers.
    package var warnings: [String] = []
    /// Whether the numbers can be trusted.
    package var trust: Trust
    private let outcomes: [RowOutcome]
    private let conclusions: [String]
    /// The conditions of the measurement.
    package var facts: [(name: String, value: String)] = []
    /// The content of text, Markdown and HTML.
    package var sections: [Section]
    /// The content of CSV.
    package var records: Table
    /// The content of JSON, apart from ``trust`` and ``verdict``, which are added to it.
    package var data: ReportValue

    package init(
        name: String,
        title: String,
        trust: Trust,
        warnings: [String] = [],
        outcomes: [RowOutcome] = [],
        verdict: [String] = [],
        facts: [(name: String, value: String)] = [],
        sections: [Section],
        records: Table,
        data: ReportValue
    ) {
        (self.name, self.title, self.trust, self.warnings) = (name, title, trust, warnings)
        (self.outcomes, conclusions) = (outcomes, verdict)
        (self.facts, self.sections, self.records, self.data) = (facts, sections, records, data)
    }

    /// The results in sentences, the most important first. The rows that failed come before all others, because nothing is
    /// known about them.
    package var verdict: [String] {
        let results = trust.isGiven ? conclusions : Self.qualified(conclusions)
        return [outcomes.failedRows].compactMap { $0 } + results
    }

    /// The verdict below a report that is longer than the screen: the rows that failed, and the first sentence of the results.
    var shortVerdict: [String] {
        let results = trust.isGiven ? conclusions : Self.qualified(conclusions)
        return [outcomes.failedRows, results.first.map(Self.firstSentence)].compactMap { $0 }
    }

    private static func firstSentence(of text: String) -> String {
        guard let end = text.firstRange(of: #/\. (?=[A-Z'])/#) else { return text }
        return text[..<end.lowerBound] + "."
    }

    /// Results that may be those of a disturbance, and say so themselves, because a sentence is often quoted alone.
    private static func qualified(_ conclusions: [String]) -> [String] {
        guard let first = conclusions.first else { return [] }
        let isWord = first.dropFirst().first.map { $0.isLowercase || $0 == " " } ?? false
        let text = isWord ? first.prefix(1).lowercased() + first.dropFirst() : first
        return ["On a disturbed machine: \(text)"] + conclusions.dropFirst()
    }

    /// The sections that a format shows, and for each the columns of its table that no table above has, with their meanings.
    package func parts(
        isHTML: Bool,
        showsDetails: Bool = true
    ) -> [(section: Section, legend: [(title: String, meaning: String)])] {
        var explained: Set<[String]> = []
        let shown = sections.filter { $0.media != (isHTML ? .textOnly : .htmlOnly) && (showsDetails || !$0.isDetail) }
        return shown.map { section in
            let legend = (section.table?.titled ?? []).compactMap { column -> (title: String, meaning: String)? in
                guard let title = column.title, !column.meaning.isEmpty,
                    explained.insert([title, column.meaning]).inserted
                else { return nil }
                return (title, column.meaning)
            }
            return (section, legend)
        }
    }

    /// The content of JSON with the results in sentences, and whether they can be trusted.
    private var completeData: ReportValue {
        guard case .object(let members) = data else { return data }
        let sentences: [(String, ReportValue)] =
            verdict.isEmpty ? [] : [("verdict", .array(verdict.map(ReportValue.string)))]
        return .object(members + [("trust", trust.data)] + sentences)
    }

    /// The report in one of the formats.
    ///
    /// - Parameters:
    ///   - style: colour and weight for `table`. The other formats have none.
    ///   - page: the lines of `table`.
    package func text(_ format: Format, _ style: Style, _ page: TextRenderer.Page = TextRenderer.Page()) -> String {
        switch format {
        case .table: TextRenderer.text(self, style, page)
        case .markdown: MarkdownRenderer.text(self)
        case .html: HTMLRenderer.text(self)
        case .csv: CSVRenderer.text(records)
        case .json: completeData.readableText + "\n"
        }
    }
}

extension Sequence where Element: Hashable {
    /// Each element once, in the order of the first occurrences.
    package var distinct: [Element] {
        var seen: Set<Element> = []
        return filter { seen.insert($0).inserted }
    }
}

extension ReportOptions {
    /// The target of the report.
    package func target() throws(UsageError) -> ReportTarget {
        try makeChartFolder()
        do throws(SystemFailure) {
            return try ReportTarget(path: output)
        } catch {
            throw UsageError("--output: \(error.message)")
        }
    }

    /// Makes the folder of `--charts`, if there is none. Called before the measurement, so that a wrong name fails immediately.
    package func makeChartFolder() throws(UsageError) {
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
    package func write(_ report: Report, _ options: ReportOptions) throws(SystemFailure) {
        var page = TextRenderer.Page(showsDetails: options.showsDetails)
        if let size { (page.width, page.rows) = (max(page.width, size.columns), size.rows) }
        if options.isWide { page.width = .max }
        try write(report.text(options.format, style, page))
        guard let folder = options.charts else { return }
        for file in report.chartFiles { try ReportTarget(path: folder + "/" + file.name).write(file.text) }
    }
}
