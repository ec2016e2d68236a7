import Testing

@testable import imbench

@Suite("Reports as text")
struct TextRendererTests {
    @Test("Every command's text begins with its warnings, its title and its environment")
    func head() throws {
        for report in try sampleReports(hostile: "hostile") {
            let lines = report.text(.table, .none).split(separator: "\n", omittingEmptySubsequences: false).map(
                String.init
            )
            let facts = report.facts.map { "\($0.name.padded(to: 10)) \($0.value)" }
            let head = report.warnings + [report.title] + facts + [""]
            #expect(Array(lines.prefix(head.count)) == head, "\(report.name)")
            #expect(facts.contains { $0.hasPrefix("machine") }, "\(report.name)")
        }
    }

    @Test("Every command's text has every row, and no column of a note's row but its labels")
    func rows() throws {
        for report in try sampleReports(hostile: "hostile") {
            let text = report.text(.table, .none)
            for table in report.sections.compactMap(\.table) {
                for row in table.rows {
                    let parts = table.texts(row) + (row.note.map { [$0] } ?? [])
                    let line = parts.filter { !$0.isEmpty }.joined(separator: " ").split(separator: " ")
                    let lines = text.split(separator: "\n").map { $0.split(separator: " ") }
                    #expect(lines.contains(line), "\(report.name)")
                }
            }
        }
    }
}
