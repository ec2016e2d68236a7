import Foundation
import Testing

@testable import imbench

/// The tags of a page that are never closed, or closed where they are not open.
private func strayTags(_ page: String) -> [String] {
    let empty: Set = ["meta", "!doctype"]
    let page = page.replacing(HTMLRenderer.script, with: "")
    var (open, stray): ([String], [String]) = ([], [])
    for part in page.split(separator: "<").dropFirst(page.hasPrefix("<") ? 0 : 1) {
        let name = String(part.prefix { $0 != ">" && $0 != " " && $0 != "\n" })
        if !part.contains(">") { stray.append(name) }
        if part.prefix(while: { $0 != ">" }).hasSuffix("/") { continue }
        if name.hasPrefix("/") {
            if open.popLast() != String(name.dropFirst()) { stray.append(name) }
        } else if !empty.contains(name) {
            open.append(name)
        }
    }
    return stray + open
}

/// The page of each command, with texts that would be tags.
private func pages() throws -> [(name: String, text: String)] {
    try sampleReports(hostile: "<script>alert(1)</script>").map { ($0.name, $0.text(.html, .none)) }
}

@Suite("Reports as HTML")
struct HTMLRendererTests {
    @Test("Every text of every report is escaped")
    func escapes() throws {
        #expect(HTMLRenderer.escaped("a<b>&\"c'\u{0}\u{1b}é") == "a&lt;b&gt;&amp;&quot;c&#39;\u{fffd}\u{fffd}é")
        for page in try pages() {
            #expect(page.text.ranges(of: "<script").count == 1, "\(page.name)")
            #expect(page.text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "\(page.name)")
        }
    }

    @Test("A page loads nothing, and runs no script but its own")
    func selfContained() throws {
        let hash = Data(SHA256.digest(Array(HTMLRenderer.script.utf8))).base64EncodedString()
        for page in try pages() {
            #expect(page.text.hasPrefix("<!doctype html>\n"))
            #expect(page.text.contains("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-\(hash)'"))
            #expect(page.text.contains("<script>\(HTMLRenderer.script)</script>"))
            for loader in ["src=", "@import", "url(", "<link", " onclick"] {
                #expect(!page.text.contains(loader), "\(page.name)")
            }
            // In preformatted text, such as a configuration file, a URL loads nothing.
            #expect(!page.text.replacing(#/<pre[^>]*>[^<]*<\/pre>/#, with: "").contains("://"), "\(page.name)")
        }
    }

    @Test("Every tag is closed where it should be")
    func tags() throws {
        for page in try pages() { #expect(strayTags(page.text).isEmpty, "\(page.name)") }
    }

    @Test("The page of a run has its environment, its bars and every number")
    func run() throws {
        let page = try #require(try pages().first).text
        for part in [
            "2024-02-29T12:00:00Z", "seed 7", "<figcaption>256 bytes of text: round trip in µs</figcaption>",
            "<rect class=\"first\"", "100.0 / 198.0", "×2.00", ">9877</td>", "wake-up",
            "<dt>×floor</dt><dd>p50 divided by the p50 of bare system calls</dd>",
        ] { #expect(page.contains(part), "\(part)") }
    }

    @Test("A page begins with the title, the warnings and the verdict, and a section with its question")
    func order() throws {
        var report = sampleResults().report
        report.warnings = ["a warning"]
        report.verdict = ["a <verdict>"]
        let page = report.text(.html, .none)
        let places = try [
            "<h1>", report.title, "a warning", "a &lt;verdict&gt;", "How long does", "<figure>", "<table>",
        ]
        .map { try #require(page.firstRange(of: $0)?.lowerBound, "\($0)") }
        #expect(places == places.sorted())
        #expect(report.text(.table, .none).hasSuffix("\na <verdict>\n"))
        #expect(report.text(.markdown, .none).contains("\na &lt;verdict>\n"))
    }

    @Test("Every report has a result and a next command, which is accepted, and its charts and tables have a question")
    func guidance() throws {
        var lines: [String] = []
        for report in try sampleReports(hostile: "hostile") {
            let isResultInTitle = ["imbench compare", "imbench advise"].contains(report.name)
            #expect(!report.verdict.isEmpty || isResultInTitle, "\(report.name)")
            #expect(report.sections.contains { !$0.next.isEmpty }, "\(report.name)")
            // A section without a table can have the question of the tables below it, as for the messages of a trace.
            var isCovered = false
            for section in report.parts(isHTML: true).map(\.section) {
                let place = "\(report.name): \(section.heading ?? "")"
                let hasQuestion = section.question?.hasSuffix("?") == true
                if section.charts.contains(where: { !$0.isEmpty }) {
                    #expect(hasQuestion && !section.reading.isEmpty, "\(place)")
                }
                if section.table == nil {
                    isCovered = isCovered || hasQuestion
                } else {
                    #expect(hasQuestion || isCovered, "\(place)")
                }
                for next in section.next { lines.append(next.line) }
            }
        }
        #expect(lines.count > 10)
        for line in lines {
            #expect(line.hasPrefix("imbench "))
            let words = line.replacing("'", with: "").split(separator: " ").dropFirst().map(String.init)
            #expect(throws: Never.self, "\(line)") { try OptionParser(vocabulary: everything).parse(words) }
        }
    }

    /// The page of a section.
    private func page(_ section: Report.Section) -> String {
        Report(name: "n", title: "t", sections: [section], records: Table(columns: []), data: .object([]))
            .text(.html, .none)
    }

    @Test("A column with sentences is wrapped, and columns of numbers and of short texts are not")
    func sentences() {
        let table = Table(
            columns: [.text("name"), .text("meaning"), .number("count")],
            rows: [.init(cells: [.init("tcp"), .init("the field in which a sender writes a length"), .init(1)])]
        )
        let page = page(Report.Section(heading: "Fields", question: "Which?", table: table))
        for part in [
            "<th scope=\"col\">name</th><th class=\"prose\" scope=\"col\">meaning</th>",
            "<td>tcp</td><td class=\"prose\">the field", "<td class=\"number\">1</td>",
            "<caption><span>Fields</span></caption>",
        ] { #expect(page.contains(part), "\(part)") }
    }

    @Test("No line end splits an option, or a short word of a command")
    func options() {
        let section = Report.Section(
            notes: ["after --connect-timeout=5s, and --\(String(repeating: "x", count: 50))"],
            next: [.init("To see more", "imbench run --tls")]
        )
        let page = page(section)
        #expect(page.contains("after <span class=\"word\">--connect-timeout=5s,</span> and --x"))
        let words = ["imbench", "run", "--tls"].map { "<span class=\"word\">\($0)</span>" }
        #expect(page.contains("<code>\(words.joined(separator: " "))</code>"))
    }

    @Test("Each row has its reason, because a reader can sort them")
    func reasons() {
        var results = sampleResults()
        results.rows = ["json", "protobuf"].map { codec in
            var row = ResultRow(transport: "ws", codec: codec, size: 32)
            row.outcome = .failed("Connection refused (111)")
            return row
        }
        let page = results.report.text(.html, .none)
        #expect(page.ranges(of: "<span>Connection refused (111)</span>").count == 2)
        #expect(!page.contains("as above"))
    }

    @Test("A number that its text rounds is sorted by its value, and hexadecimal digits have one width")
    func cells() throws {
        let page = try #require(try pages().first).text
        #expect(page.contains("<td class=\"number\" data-value=\"9876.5\">9877</td>"))
        let trace = try #require(try pages().first { $0.name == "imbench trace" }).text
        #expect(trace.contains("<td class=\"hex\">01 02 03</td>"))
    }
}
