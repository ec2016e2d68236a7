import Testing

@testable import imbench

@Suite("Reports as Markdown")
struct MarkdownRendererTests {
    /// The cells of a table's line: a backslash escapes a pipe.
    private func cells(_ line: Substring) -> Int {
        var (count, isEscaped) = (0, false)
        for character in line {
            if character == "|", !isEscaped { count += 1 }
            isEscaped = character == "\\"
        }
        return count - 1
    }

    @Test("Every line of a table has as many cells as its header, and no text is a tag")
    func tables() throws {
        for report in try sampleReports(hostile: "a|b\r\n<script>") {
            let text = report.text(.markdown, .none)
            #expect(text.hasPrefix("# \(report.name)\n\n"))
            #expect(!text.contains("<script"), "\(report.name)")
            var width: Int?
            for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
                guard line.hasPrefix("|") else {
                    width = nil
                    continue
                }
                #expect(cells(line) == width ?? cells(line), "\(report.name)")
                width = cells(line)
            }
            let rows = report.sections.compactMap(\.table).reduce(0) { $0 + $1.rows.count + 2 }
            #expect(
                text.split(separator: "\n").count { $0.hasPrefix("| ") || $0.hasPrefix("|-") } == rows,
                "\(report.name)"
            )
        }
    }
}
