import Testing
import TransportAPI

@testable import imbench

/// The tags of a page that are open where they should not be, or closed where they are not open; none in a good one.
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

/// One page of each report, with texts that would be tags.
private func pages() -> [(name: String, text: String)] {
    let evil = "<script>alert(1)</script>"
    var results = sampleResults()
    results.environment.processor = evil
    results.remarks = [evil]
    results.rows[1].outcome = .failed(evil)
    var outage = OutageRow(transport: "tcp", fault: .reset)
    (outage.detect, outage.recover, outage.failure) = (.milliseconds(3), .milliseconds(40), evil)
    var attack = CrowdRow(transport: "ws", attack: .pingFlood)
    attack.metrics = CrowdRow.attackMetrics.map { ($0, 4711) }
    attack.endings = [(evil, 1)]
    var idle = CrowdRow(transport: "ws")
    idle.metrics = CrowdRow.idleMetrics.map { ($0, 4711) }
    var storm = StormResults(run: results, model: smallStorm())
    for policy in [StormPolicy.signalr, .fullJitter] {
        guard let outcome = ReconnectStorm.run(smallStorm(), policy.backoff, seed: 7) else { continue }
        storm.outcomes.append((policy, outcome))
    }
    let message = TracedMessage(
        transport: "tcp",
        codec: "json",
        wire: [1, 2, 3],
        fields: [WireField(range: 0..<3, meaning: evil)],
        encoded: 2,
        text: 1
    )
    return [
        ("run", Report.text(results, format: .html, style: .none)),
        ("overhead", OverheadReport.text(results, format: .html, style: .none)),
        ("outage", OutageReport(run: results, timing: OutageTiming(), rows: [outage]).text(.html, .none)),
        ("attack", CrowdReport(run: results, isHostile: true, rows: [attack]).text(.html, .none)),
        ("crowd", CrowdReport(run: results, isHostile: false, rows: [idle]).text(.html, .none)),
        ("storm", StormReport.text(storm, format: .html, style: .none, isUnicode: false)),
        ("trace", TraceReport(run: results, messages: [message]).text(.html, .none)),
    ]
}

@Suite("reports as HTML")
struct HTMLPageTests {
    @Test("texts are escaped wherever they come from")
    func escapes() {
        #expect(HTMLPage.escaped("a<b>&\"c'\u{0}\u{1b}é") == "a&lt;b&gt;&amp;&quot;c&#39;\u{fffd}\u{fffd}é")
        for page in pages() {
            #expect(!page.text.contains("<script"), "\(page.name)")
            #expect(page.text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "\(page.name)")
        }
    }

    @Test("a page is whole by itself: nothing is loaded, and no script may run")
    func selfContained() {
        for page in pages() {
            #expect(page.text.hasPrefix("<!doctype html>\n"))
            #expect(page.text.contains("default-src 'none'"))
            for loader in ["://", "src=", "@import", "url(", "<link"] {
                #expect(!page.text.contains(loader), "\(page.name)")
            }
        }
    }

    @Test("every tag is closed where it should be")
    func tags() {
        for page in pages() { #expect(strayTags(page.text).isEmpty, "\(page.name)") }
    }

    @Test("the page of a run has its environment, its bars and every number")
    func run() throws {
        let page = try #require(pages().first).text
        for part in [
            "2024-02-29T12:00:00Z", "seed 7", "<figcaption>256 bytes of text: round trip in µs</figcaption>",
            "<i class=\"first\" style=\"left:0%;width:", "100.0 / 198.0", "×2.00", ">9877</td>", "wake-up",
        ] { #expect(page.contains(part), "\(part)") }
    }
}

@Suite struct BarChartTests {
    private func html(_ spans: [BarChart.Span], range: ClosedRange<Double>? = nil) -> String {
        BarChart(title: "t", rows: [.init(label: "l", spans: spans, value: "v")], range: range).html
    }

    @Test("spans are shares of the axis, which has 0 on it")
    func shares() {
        let html = html([.init(kind: .first, from: -10, to: 30), .init(kind: .mark, from: 20, to: 20)])
        #expect(html.contains("class=\"first\" style=\"left:0%;width:100%\""))
        #expect(html.contains("class=\"mark\" style=\"left:75%;width:0%\""))
    }

    @Test("what is beyond the end of the axis is cut there, and what is no number is not drawn")
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

    @Test("bars of nothing, and of zeros, are drawn without a trap")
    func empty() {
        #expect(html([]).contains(">v</span>"))
        #expect(html([.init(kind: .first, from: 0, to: 0)]).contains("width:0%"))
    }
}
