import Foundation
import Primitives
import Testing

@testable import CommandSupport
@testable import Reporting
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

private let dataTag = "<script type=\"application/json\" id=\"data\">"

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
            #expect(page.text.matches(of: #/<script[^>]*>/#).map { String($0.output) } == [dataTag, "<script>"])
            #expect(page.text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "\(page.name)")
        }
    }

    @Test("A page has the JSON of its report, and no text of it can end its element")
    func json() throws {
        for report in try sampleReports(hostile: "</script><!-- &amp;") {
            let page = report.text(.html, .none)
            let start = try #require(page.range(of: dataTag)?.upperBound)
            let data = page[start...].prefix { $0 != "<" }
            #expect(page[data.endIndex...].hasPrefix("</script>\n<script>"))
            let own = try JSONSerialization.jsonObject(with: Data(report.text(.json, .none).utf8)) as? NSDictionary
            #expect(try JSONSerialization.jsonObject(with: Data(data.utf8)) as? NSDictionary == own, "\(report.name)")
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
            // In preformatted text, such as a configuration file, and in the data, a URL loads nothing.
            let rest = page.text.replacing(#/<(pre|script)[^>]*>[^<]*<\/(pre|script)>/#, with: "")
            #expect(!rest.contains("://"), "\(page.name)")
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
            "2024-02-29T12:00:00Z", "seed 7", "<figcaption>256 bytes of text: p50 of the round trip in µs</figcaption>",
            "<rect class=\"own c1\"", ">100.0</text>", "×2.00", ">9877</td>", "wake-up",
            "<dt>×floor</dt><dd>p50 over that of bare system calls in the same repeat; the median of these</dd>",
        ] { #expect(page.contains(part), "\(part)") }
    }

    @Test("A page begins with the title, the warnings and the verdict, and a section with its question")
    func order() throws {
        let sample = try #require(try sampleReports(hostile: "hostile").first)
        let report = Report(
            name: sample.name,
            title: sample.title,
            trust: .exact,
            warnings: ["a warning"],
            verdict: ["a <verdict>"],
            facts: sample.facts,
            sections: sample.sections,
            records: sample.records,
            data: sample.data
        )
        let page = report.text(.html, .none)
        let places = try [
            "<h1>", report.title, "a warning", "a &lt;verdict&gt;", "How long does", "<figure>", "<table",
        ]
        .map { try #require(page.firstRange(of: $0)?.lowerBound, "\($0)") }
        #expect(places == places.sorted())
        // The table report begins with them too.
        let head = "a warning\n\(report.title)\n\(report.trust.sentence)\n\na <verdict>\n\n"
        #expect(report.text(.table, .none, .init(width: .max)).hasPrefix(head))
        #expect(report.text(.markdown, .none).contains("\na &lt;verdict>\n"))
    }

    @Test("Every page has its answer in the box: whether it can be trusted, and then the verdict or the title")
    func answer() throws {
        for report in try sampleReports(hostile: "hostile") {
            let page = report.text(.html, .none)
            let start = try #require(page.range(of: "<div class=\"verdict\">")?.upperBound)
            let box = String(page[start...].prefix(upTo: try #require(page.range(of: "</div>")?.lowerBound)))
            let sentences = [report.trust.sentence] + (report.verdict.isEmpty ? [report.title] : report.verdict)
            let shown = box.replacing(#/<[^>]*>/#, with: "")
            let places = try sentences.map { sentence in
                // No line ends before a percent sign.
                let text = HTMLRenderer.escaped(sentence.replacing(" %", with: "\u{a0}%"))
                return try #require(shown.firstRange(of: text)?.lowerBound, "\(report.name)")
            }
            #expect(places == places.sorted(), "\(report.name)")
            #expect(page.ranges(of: HTMLRenderer.escaped(report.title)).count >= 1)
        }
    }

    @Test("The title of a page has the command, the first options of its line, and the time")
    func title() throws {
        func title(_ words: String) throws -> String {
            let words = words.split(separator: " ").map(String.init)
            let command = try OptionParser(vocabulary: everything).parse(words, as: StormCommand.self)
            var run = RunResults(of: command, seed: 7)
            run.record.environment.date = "2024-02-29T12:00:00Z"
            let page = StormResults(run: run, model: command.storm.model).report(isUnicode: true).text(.html, .none)
            return String(try #require(page.firstMatch(of: #/<title>([^<]*)</#)).output.1)
        }
        let report = "--seed 7 --format html --quiet"
        #expect(try title("storm \(report)") == "imbench storm, 2024-02-29 12:00")
        #expect(
            try title("storm \(report) --limit 1m --clients 500 --outage 3s --handshakes 9")
                == "imbench storm, clients=500, handshakes=9, outage=3s, 2024-02-29 12:00"
        )
    }

    @Test("Every section has a link, whose name depends on the heading alone and is there once")
    func anchors() throws {
        for page in try pages() {
            let names = page.text.matches(of: #/<(?:section|details) id="([^"]*)">/#).map { String($0.output.1) }
            #expect(Set(names).count == names.count && names.last == "conditions", "\(page.name)")
            for name in names {
                #expect(page.text.contains("<a href=\"#\(name)\" aria-label=\"Link to this section\">"))
            }
        }
        let twice = [
            Report.Section(heading: "Round trips: tcp"), .init(heading: "Round trips, TCP", question: "How long?"),
        ]
        let text = page(twice)
        #expect(
            text.contains("<section id=\"round-trips-tcp\">") && text.contains("<section id=\"round-trips-tcp--2\">")
        )
    }

    @Test("A section with details is folded, unless it is the first one or has a chart")
    func folds() {
        let bars = BarChart(title: "t", rows: ["ws", "tcp"].map { .init($0, 1, shown: "1") })
        let text = page([
            .init(heading: "First", isDetail: true), .init(heading: "Second"), .init(heading: "Third", isDetail: true),
            .init(heading: "Fourth", charts: [bars], isDetail: true),
        ])
        #expect(text.contains("<section id=\"fourth\">"))
        #expect(text.contains("<section id=\"first\">") && text.contains("<section id=\"second\">"))
        #expect(text.contains("<details id=\"third\">\n<summary><h2>Third "))
    }

    @Test("A chart of one bar is omitted, and with it the explanation how to read it")
    func oneBar() {
        func text(_ bars: [String]) -> String {
            let chart = BarChart(title: "t", rows: bars.map { .init($0, 1, shown: "1") })
            return page([.init(heading: "Bars", charts: [chart], reading: "Shorter is better.")])
        }
        #expect(!text(["ws"]).contains("<figure>") && !text(["ws"]).contains("Shorter"))
        #expect(text(["ws", "tcp"]).contains("<figure>") && text(["ws", "tcp"]).contains("Shorter"))
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

    /// The page of some sections.
    private func page(_ sections: [Report.Section]) -> String {
        Report(
            name: "n",
            title: "t",
            trust: .exact,
            sections: sections,
            records: Table(columns: []),
            data: .object([])
        )
        .text(.html, .none)
    }

    @Test("A column with sentences is wrapped, and columns of numbers and of short texts are not")
    func sentences() {
        let table = Table(
            columns: [.text("name", nil, "the <field>"), .text("meaning"), .number("count")],
            rows: [.init(cells: [.init("tcp"), .init("the field in which a sender writes a length"), .init(1)])]
        )
        let page = page([Report.Section(heading: "Fields", question: "Which?", table: table)])
        for part in [
            "<th scope=\"col\" title=\"the &lt;field&gt;\">name</th><th class=\"prose\" scope=\"col\">meaning</th>",
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
        let page = page([section])
        #expect(page.contains("after <span class=\"word\">--connect-timeout=5s,</span> and --x"))
        let words = ["imbench", "run", "--tls"].map { "<span class=\"word\">\($0)</span>" }
        #expect(page.contains("<code>\(words.joined(separator: " "))</code>"))
    }

    @Test("A label that the row above has too is marked, and a reason has a row of its own below its labels")
    func labels() {
        let labels = [["ws", "json"], ["ws", "protobuf"], ["tcp", "protobuf"], ["tcp", "protobuf"]]
        var table = Table(labels: 2, columns: [.text("transport"), .text("codec"), .number("p50"), .number("p99")])
        table.rows = labels.map { .init(cells: $0.map { .init($0) } + [.init(1), .init(2)]) }
        (table.rows[3].note, table.rows[3].repeatsNote, table.rows[3].isFailure) = ("refused", true, true)
        let page = page([.init(heading: "Times", table: table)])
        let numbers = "<td class=\"number\">1</td><td class=\"number\">2</td></tr>\n"
        #expect(page.contains("<table data-labels=\"2\">"))
        #expect(page.contains("<tr><td>ws</td><td>json</td>\(numbers)"))
        #expect(page.contains("<tr><td class=\"repeated\">ws</td><td>protobuf</td>\(numbers)"))
        #expect(page.contains("<tr><td>tcp</td><td>protobuf</td>\(numbers)"))
        #expect(
            page.contains(
                "<tr class=\"failure\"><td class=\"repeated\">tcp</td><td class=\"repeated\">protobuf</td>"
                    + "<td colspan=\"2\"></td></tr>\n<tr class=\"note failure\"><td colspan=\"4\"><span>refused</span></td></tr>"
            )
        )
    }

    @Test("A number that its text rounds is sorted by its value, and hexadecimal digits have one width")
    func cells() throws {
        let page = try #require(try pages().first).text
        #expect(page.contains("<td class=\"number\" data-value=\"9876.5\">9877</td>"))
        let trace = try #require(try pages().first { $0.name == "imbench trace" }).text
        #expect(trace.contains("<td class=\"hex\">01 02 03</td>"))
    }
}
