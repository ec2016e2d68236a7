import Testing

@testable import CommandSupport
@testable import Reporting
@testable import imbench

@Suite("Reports as text")
struct TextRendererTests {
    @Test(
        "Every command's text begins with its warnings, its title, its trust and its verdict, and ends with its environment"
    )
    func head() throws {
        for report in try sampleReports(hostile: "hostile") {
            let text = report.text(.table, .none, .init(width: .max))
            let facts = report.facts.map { "\($0.name.padded(to: 10)) \($0.value)".withoutTrailingSpaces + "\n" }
            let answer = report.verdict.isEmpty ? [] : [""] + report.verdict
            let head = (report.warnings + [report.title, report.trust.sentence] + answer).map { $0 + "\n" }
            #expect(text.hasPrefix(head.joined() + "\n"), "\(report.name)")
            #expect(text.hasSuffix("\n\n" + facts.joined()), "\(report.name)")
            #expect(facts.contains { $0.hasPrefix("machine") }, "\(report.name)")
        }
    }

    @Test("Every command's text has every row, and no column of a note's row but its labels")
    func rows() throws {
        for report in try sampleReports(hostile: "hostile") {
            let text = report.text(.table, .none, .init(width: .max))
            for table in report.parts(isHTML: false).compactMap(\.section.table) {
                for row in table.rows {
                    let parts = table.texts(row) + (row.note.map { [$0] } ?? [])
                    let line = parts.filter { !$0.isEmpty }.joined(separator: " ").split(separator: " ")
                    let lines = text.split(separator: "\n").map { $0.split(separator: " ") }
                    #expect(lines.contains(line), "\(report.name)")
                }
            }
        }
    }

    @Test("No line of any command's text is longer than 80 columns", arguments: [5, 79, 400])
    func width(of text: Int) throws {
        let words = (0..<text / 5).map { _ in "word" }.joined(separator: " ")
        for hostile in [words, String(repeating: "x", count: text)] {
            for report in try sampleReports(hostile: hostile) {
                for line in report.text(.table, .none).split(separator: "\n") {
                    #expect(line.count <= 80, "\(report.name): \(line)")
                }
            }
        }
    }

    @Test("Every column has one short line in the legend of each format for people")
    func legend() throws {
        for report in try sampleReports(hostile: "hostile") {
            let columns = report.sections.flatMap { $0.table?.titled ?? [] }
            let texts = [Format.table, .markdown, .html].map { report.text($0, .none, .init(width: .max)) }
            let pageTitles = report.parts(isHTML: true).flatMap { $0.section.table?.titled ?? [] }.compactMap(\.title)
            for column in columns {
                let title = try #require(column.title)
                #expect(!title.isEmpty && column.meaning.count <= 90, "\(report.name) \(title)")
                // A title such as "32 bytes" says it itself, and so do the two names in the smallest tables.
                guard !column.meaning.isEmpty else {
                    #expect(title.contains(" ") || ["transport", "codec"].contains(title))
                    continue
                }
                #expect(texts[0].contains("  \(title) ") && texts[0].contains(" \(column.meaning)\n"), "\(title)")
                #expect(texts[1].contains("- \(title): \(column.meaning)\n"), "\(report.name) \(title)")
                #expect(
                    texts[2].contains("<dt>\(title)</dt>") || !pageTitles.contains(title),
                    "\(report.name) \(title)"
                )
            }
        }
    }
}

@Suite struct TableTests {
    private let table = Table(
        columns: [.text("name", "name", "n"), .number("count", "count", "c"), .text("text", "text", "t")],
        rows: [
            Table.Row(cells: [.init("first"), .init(1), .init("one two three four five six seven")]),
            Table.Row(cells: [.init("second"), .init(22), .init("")], note: "a note of several words"),
        ]
    )

    @Test("The last text and a note are wrapped beside their row")
    func wraps() {
        let lines = table.plain(.none, width: 32).split(separator: "\n").map(String.init)
        #expect(
            lines == [
                "name    count  text", "first       1  one two three", "               four five six",
                "               seven", "second  a note of several words",
            ]
        )
    }

    @Test("Columns that do not fit follow in a second block, after the labels")
    func blocks() {
        let lines = table.plain(.none, width: 20).split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.contains("name    count") && lines.contains("name    text"))
        #expect(lines.contains("first       1") && lines.contains { $0.hasPrefix("first   one") })
        #expect(lines.filter { $0.hasPrefix("second") }.count == 1)
        for line in lines { #expect(line.count <= 20) }
    }

    @Test("A selection has the labels and the chosen columns, in the order of the choice")
    func selection() {
        let selected = table.selecting(["text", "count"])
        #expect(selected.columns.map(\.name) == ["name", "text", "count"])
        #expect(selected.rows[0].cells.map(\.text) == ["first", "one two three four five six seven", "1"])
        #expect(table.selecting([]).columns.count == 1)
    }

    @Test("A text is wrapped at spaces, and within a long word after a comma or anywhere")
    func words() {
        #expect("a bb ccc".wrapped(to: 4) == ["a bb", "ccc"])
        #expect("one,two,three".wrapped(to: 9) == ["one,two,", "three"])
        #expect("abcdefgh".wrapped(to: 3) == ["abc", "def", "gh"])
        #expect("".wrapped(to: 3) == [""])
        #expect("a\nb".wrapped(to: 3) == ["a", "b"])
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
            let rows = report.parts(isHTML: false).compactMap(\.section.table).reduce(0) { $0 + $1.rows.count + 2 }
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
        #expect(
            read[1].prefix(11) == [
                "transport", "ws", "json", "256", "", "closed", "measured", "", "", "0.1", "100.031",
            ]
        )
        #expect(read[2][7] == "message of 4321 bytes is over UDP's limit of 1200")
        #expect(
            read[3].prefix(11) == ["floor", "wake-up", "", "8", "", "closed", "measured", "", "", "0.1", "100.031"]
        )
        #expect(read[3].last == "")
    }
}
