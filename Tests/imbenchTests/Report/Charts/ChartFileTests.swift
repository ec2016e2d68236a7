import CommandTestSupport
import Foundation
import Testing

@testable import CommandSupport
@testable import Reporting
@testable import imbench

private let hostile = "<script>alert('1')</script> & \"\u{1b}[31m"

/// The elements of the file of a chart.
private func filed(_ chart: some Chart) throws -> [Element] { try #require(elements(of: chart.svg)) }

private func bars(title: String = "t", _ labels: String...) -> BarChart {
    BarChart(
        title: title,
        legend: [(.first, "until it is open"), (.second, "until the answer"), (.mark, "limit"), (.interval, "noise")],
        rows: labels.map { .init(label: $0, spans: [.init(kind: .first, from: 0, to: 1000)], value: "1000") }
    )
}

private func lines(_ labels: [String], range: ClosedRange<Double>? = nil) -> LineChart {
    LineChart(
        title: "Round trips",
        x: Axis(title: "loss"),
        y: Axis(title: "ms", range: range),
        series: labels.enumerated().map { index, label in
            .init(label: label, style: SeriesStyle(index), points: [.init(0, 1), .init(1, 20)])
        }
    )
}

@Suite("Charts as files of their own")
struct ChartFileTests {
    @Test("The file is well-formed XML with the title, and with the names of all rows, lines or messages")
    func names() throws {
        for (chart, summary) in [
            (
                bars("tcp", "ws") as any Chart,
                "Shows: tcp, ws. Colours: until it is open, until the answer, limit, noise."
            ),
            (lines(["udp", "mqtt"]), "Shows: udp, mqtt."),
        ] {
            let parts = try filed(chart)
            #expect(parts.first?.name == "svg" && parts.first?.attributes["role"] == "img")
            #expect(parts.dropFirst().prefix(2).map(\.name) == ["title", "desc"])
            #expect(parts.dropFirst().prefix(2).map(\.text) == [chart.title, summary])
            let texts = parts.filter { $0.name == "text" }.map(\.text)
            for name in chart.names + chart.keys.map(\.meaning) + [chart.title] {
                #expect(texts.contains { $0.hasPrefix(name) }, "\(name)")
            }
        }
    }

    @Test("Every text is escaped, and the file has no script and loads nothing")
    func escapes() throws {
        for chart in [bars(title: hostile, hostile) as any Chart, lines([hostile])] {
            #expect(try !filed(chart).contains { $0.name == "script" })
            #expect(chart.svg.contains("&lt;script&gt;"))
            let text = chart.svg.replacing("xmlns=\"http://www.w3.org/2000/svg\"", with: "")
            for loader in ["://", "href", "@import", "url(", "<image", " on"] {
                #expect(!text.replacing(#/<(text|desc|title)[^>]*>[^<]*/#, with: "").contains(loader), "\(loader)")
            }
        }
    }

    @Test("The style has all colours for light and for dark, and no variables")
    func colours() throws {
        let style = try #require(try filed(bars("tcp")).first { $0.name == "style" }).text
        let schemes = style.components(separatedBy: "@media (prefers-color-scheme: dark)")
        #expect(schemes.count == 2)
        for selector in [".card", "svg text", ".grid", ".first", ".interval", ".undetected", ".c0", ".c6", ".clip"] {
            let rules = schemes.map { scheme in
                scheme.split(separator: "\n").first { $0.contains("\(selector) {") }
            }
            #expect(rules[0] != nil && rules[1] != nil && rules[0] != rules[1], "\(selector)")
        }
        #expect(!style.contains("var(") && !style.contains("--"))
        // A page has the same rules with variables.
        #expect(ChartStyle.page.contains(".first { fill: var(--first); background: var(--first); }"))
        for name in ChartStyle.page.matches(of: #/var\(--([a-z0-9]+)\)/#).map(\.output.1) {
            #expect(ChartStyle.page.ranges(of: "--\(name): #").count == 2, "\(name)")
        }
    }

    @Test("The legend, a long title and the drawing stay within the file")
    func inside() throws {
        let chart = bars(title: "A title that is far longer than one line of a chart has room for, in words", "tcp")
        for chart in [chart as any Chart, lines((0..<12).map { "a long name \($0)" })] {
            let parts = try filed(chart)
            let box = try #require(parts.first?.attributes["viewBox"]).split(separator: " ").compactMap { Double($0) }
            #expect(parts.first?.number("width") == box[2] * 1.4)
            let group = try #require(parts.firstIndex { $0.name == "g" })
            var lowest = 0.0
            for part in parts[..<group] where ["text", "rect", "line"].contains(part.name) {
                let x = part.number("x") ?? part.number("x2") ?? 0
                let length = part.name == "text" ? SVGDrawing.width(of: part.text) * 11 / 12 : part.number("width") ?? 0
                #expect(x >= 0 && x + length <= box[2], "\(part)")
                if part.name != "rect" { lowest = max(lowest, part.number("y") ?? part.number("y2") ?? 0) }
            }
            let place = try #require(parts[group].attributes["transform"]).matches(of: #/[0-9.]+/#)
                .compactMap { Double($0.output) }
            let height = chart.drawing(width: box[2] - 2 * place[0]).height
            #expect(place[1] > lowest && place[1] + height < box[3])
        }
    }

    @Test("A chart with a part beyond its axis says so")
    func clipped() {
        #expect(lines(["udp"], range: 0...10).svg.contains("continues beyond the axis"))
        #expect(!lines(["udp"]).svg.contains("continues beyond the axis"))
    }
}

@Suite("The option --charts")
struct ChartsOptionTests {
    private func report(_ charts: [any Chart]) -> Report {
        Report(
            name: "n",
            title: "t",
            trust: .exact,
            sections: [Report.Section(charts: charts)],
            records: Table(columns: []),
            data: .object([])
        )
    }

    @Test("Files are named by their titles, stay in the folder, and do not replace each other")
    func fileNames() {
        let charts = [
            "4g: ms until the answer", "99 % are connected", "../../etc/passwd", "…", "a", "A!",
            String(repeating: "x", count: 300),
        ].map { bars(title: $0, "tcp", "ws") }
        let names = report(charts + [bars(title: "empty")]).chartFiles.map(\.name)
        #expect(
            names == [
                "4g-ms-until-the-answer.svg", "99-are-connected.svg", "etc-passwd.svg", "part.svg", "a.svg",
                "a--2.svg",
                String(repeating: "x", count: 100) + ".svg",
            ]
        )
    }

    @Test("A command writes the charts of its report beside the report, and makes the folder")
    func writes() async throws {
        let folder = try Folder()
        defer { folder.remove() }
        let words = "storm --clients 50 --policy full-jitter,fixed --seed 1 --quiet --format csv --charts".split(
            separator: " "
        )
        for _ in 0..<2 {
            let outcome = try await BuiltProgram.imbench.run(words.map(String.init) + [folder.path + "/new"])
            #expect(outcome.status == 0 && outcome.errors.isEmpty)
            #expect(outcome.output.hasPrefix("policy,"))
            let files = try FileManager.default.contentsOfDirectory(atPath: folder.path + "/new")
            #expect(files.count == 4 && files.contains("clients-connected-again.svg"))
            for file in files {
                let text = try String(contentsOfFile: folder.path + "/new/" + file, encoding: .utf8)
                let description = try #require(elements(of: text)?.first { $0.name == "desc" })
                #expect(description.text.contains("full-jitter, fixed"))
            }
        }
    }

    @Test("A folder that cannot be used fails before the run")
    func wrongFolder() async throws {
        let folder = try Folder()
        defer { folder.remove() }
        try folder.write("file", "")
        for (path, reason) in [
            ("/none/charts", "cannot make the folder /none/charts: No such file"),
            (folder.path + "/file", "cannot use the folder \(folder.path)/file: Not a directory"),
        ] {
            let outcome = try await BuiltProgram.imbench.run(["storm", "--charts", path])
            #expect(outcome.status == 64 && outcome.output.isEmpty)
            #expect(outcome.errors.contains("--charts: \(reason)"), "\(outcome.errors)")
        }
    }
}
