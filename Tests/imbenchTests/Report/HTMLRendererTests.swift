import Testing

@testable import imbench

/// The tags of a page that are never closed, or closed where they are not open.
private func strayTags(_ page: String) -> [String] {
    let empty: Set = ["meta", "!doctype"]
    var (open, stray): ([String], [String]) = ([], [])
    for part in page.split(separator: "<").dropFirst(page.hasPrefix("<") ? 0 : 1) {
        let name = String(part.prefix { $0 != ">" && $0 != " " && $0 != "\n" })
        if !part.contains(">") { stray.append(name) }
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
            #expect(!page.text.contains("<script"), "\(page.name)")
            #expect(page.text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "\(page.name)")
        }
    }

    @Test("A page loads nothing and runs no script")
    func selfContained() throws {
        for page in try pages() {
            #expect(page.text.hasPrefix("<!doctype html>\n"))
            #expect(page.text.contains("default-src 'none'"))
            for loader in ["src=", "@import", "url(", "<connection"] {
                #expect(!page.text.contains(loader), "\(page.name)")
            }
            // In preformatted text, such as a configuration file, a URL loads nothing.
            #expect(!page.text.replacing(#/<pre>[^<]*<\/pre>/#, with: "").contains("://"), "\(page.name)")
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
            "<i class=\"first\" style=\"left:0%;width:", "100.0 / 198.0", "×2.00", ">9877</td>", "wake-up",
            "<dt>×floor</dt><dd>p50 divided by the p50 of bare system calls</dd>",
        ] { #expect(page.contains(part), "\(part)") }
    }
}

@Suite struct BarChartTests {
    private func html(_ spans: [BarChart.Span], range: ClosedRange<Double>? = nil) -> String {
        BarChart(title: "t", rows: [.init(label: "l", spans: spans, value: "v")], range: range).html
    }

    @Test("Spans are shares of the axis, which includes 0")
    func shares() {
        let html = html([.init(kind: .first, from: -10, to: 30), .init(kind: .mark, from: 20, to: 20)])
        #expect(html.contains("class=\"first\" style=\"left:0%;width:100%\""))
        #expect(html.contains("class=\"mark\" style=\"left:75%;width:0%\""))
    }

    @Test("Spans are cut at the ends of the axis, and values that are no numbers are not drawn")
    func cut() {
        let spans: [BarChart.Span] = [
            .init(kind: .tail, from: 0, to: 400), .init(kind: .first, from: 0, to: 50),
            .init(kind: .mark, from: 300, to: 300),
            .init(kind: .worse, from: 0, to: .infinity), .init(kind: .noise, from: .nan, to: .nan),
        ]
        let html = html(spans, range: 0...100)
        #expect(html.contains("class=\"tail\" style=\"left:0%;width:100%\""))
        #expect(html.contains("class=\"first\" style=\"left:0%;width:50%\""))
        for kind in ["mark", "worse", "noise"] { #expect(!html.contains("class=\"\(kind)\"")) }
    }

    @Test("Rows without spans, and spans of zeros, do not trap")
    func empty() {
        #expect(html([]).contains(">v</span>"))
        #expect(html([.init(kind: .first, from: 0, to: 0)]).contains("width:0%"))
    }
}
