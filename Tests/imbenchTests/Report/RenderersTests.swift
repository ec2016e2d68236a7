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

/// Reads CSV by the grammar of RFC 4180, section 2, with LF and CR refused outside quotes; `nil` if the text does not
/// follow it.
private func records(_ text: String) -> [[String]]? {
    enum State { case start, plain, quoted, quoteInQuoted, end }
    var (records, record, field, state) = ([[String]](), [String](), String.UnicodeScalarView(), State.start)
    for scalar in text.unicodeScalars {
        switch (state, scalar) {
        case (.start, "\""): state = .quoted
        case (.quoted, "\""): state = .quoteInQuoted
        case (.quoteInQuoted, "\""):
            field.append(scalar)
            state = .quoted
        case (.quoted, _): field.append(scalar)
        case (.end, "\n"):
            records.append(record)
            (record, state) = ([], .start)
        case (.start, ","), (.plain, ","), (.quoteInQuoted, ","), (.start, "\r"), (.plain, "\r"),
            (.quoteInQuoted, "\r"):
            record.append(String(field))
            (field, state) = (String.UnicodeScalarView(), scalar == "," ? .start : .end)
        case (.quoteInQuoted, _), (.end, _), (_, "\n"), (_, "\""): return nil
        case (.start, _), (.plain, _):
            field.append(scalar)
            state = .plain
        }
    }
    return state == .start && record.isEmpty ? records : nil
}

@Suite("Reports as CSV")
struct CSVRendererTests {
    @Test(
        "Every command's table reads back by RFC 4180 with the texts that it was given",
        arguments: ["no, \"really\"", "\"", "two\r\nlines", "\r", "\n", ",", "\"\u{301},\"\r\u{301}", "plain"]
    )
    func readsBack(hostile: String) throws {
        for report in try sampleReports(hostile: hostile) {
            let read = try #require(records(report.text(.csv, .none)), "\(report.name)")
            #expect(read.first == report.records.columns.compactMap(\.name), "\(report.name)")
            let texts = report.records.members.map { row in
                row.map { _, value in
                    switch value {
                    case .null: ""
                    case .string(let text): text
                    default: value.text
                    }
                }
            }
            #expect(Array(read.dropFirst()) == texts, "\(report.name)")
            #expect(Set(read.map(\.count)).count == 1, "\(report.name)")
            // A storm has no text from outside, and a report that is read keeps no control characters.
            guard !["imbench storm", "imbench compare"].contains(report.name) else { continue }
            #expect(read.joined().contains(hostile), "\(report.name)")
        }
    }

    @Test("A run has one line for each row and each floor, and empty fields for what was not measured")
    func run() throws {
        let read = try #require(records(sampleResults().report.text(.csv, .none)))
        #expect(read.count == 4)
        #expect(read[1].prefix(9) == ["transport", "ws", "json", "256", "closed", "measured", "", "0.1", "100.031"])
        #expect(read[2][6] == "message of 4321 bytes is over UDP's limit of 1200")
        #expect(read[3].prefix(9) == ["floor", "wake-up", "", "8", "closed", "measured", "", "0.1", "100.031"])
        #expect(read[3].last == "")
    }
}
