import Testing
import Transports

@testable import CommandSupport
@testable import Reporting
@testable import imbench

/// The elements of the drawing of a chart.
func drawn(_ chart: some Chart, width: Double = 560) throws -> [Element] {
    try #require(elements(of: chart.drawing(width: width).text(label: chart.title, style: "wide")))
}

private let hostile = "<script>alert('1')</script> & \"\u{1b}[31m"

/// A chart of each kind, with texts that would be tags.
private func charts() -> [any Chart] {
    [
        BarChart(
            title: hostile,
            legend: [(.first, hostile)],
            rows: [10.0, 1000].map {
                .init(label: hostile, spans: [.init(kind: .first, from: 0, to: $0)], value: hostile)
            },
            range: 0...10,
            lines: [5]
        ),
        LineChart(
            title: hostile,
            x: Axis(title: hostile),
            y: Axis(title: hostile, range: 0...10),
            series: [
                .init(
                    label: hostile,
                    style: SeriesStyle(1),
                    points: [.init(1, 2), .init(2, 20, interval: 10...30)],
                    hasMarks: true
                )
            ],
            references: [.init(direction: .vertical, value: 1, label: hostile)]
        ),
    ]
}

@Suite struct ChartTests {
    @Test("Every drawing is well-formed XML, and every text is escaped", arguments: [330.0, 560])
    func wellFormed(_ width: Double) throws {
        for chart in charts() {
            let parsed = elements(of: chart.drawing(width: width).text(label: chart.title, style: "wide"))
            let parts = try #require(parsed)
            #expect(!parts.contains { $0.name == "script" })
            #expect(parts.contains { $0.text.contains("<script>") })
            #expect(elements(of: "<div>" + chart.html + "</div>") != nil)
        }
    }

    @Test("No text and no line of a drawing lies outside of it", arguments: [330.0, 560])
    func inside(_ width: Double) throws {
        for chart in charts() {
            let elements = try drawn(chart, width: width)
            let box = try #require(elements.first?.attributes["viewBox"]).split(separator: " ").compactMap {
                Double($0)
            }
            #expect(box.prefix(3) == [0, 0, width])
            for element in elements {
                for (name, limit) in [("x", width), ("x1", width), ("x2", width), ("y", box[3]), ("y2", box[3])] {
                    if let value = element.number(name) { #expect((0...limit).contains(value), "\(element)") }
                }
                guard element.name == "text", let x = element.number("x") else { continue }
                let length = SVGDrawing.width(of: element.text)
                switch element.attributes["text-anchor"] {
                case "end": #expect(x - length >= -1, "\(element)")
                case "middle": #expect(x - length / 2 >= -1 && x + length / 2 <= width + 1, "\(element)")
                default: #expect(x + length <= width + 1, "\(element)")
                }
            }
        }
    }

    @Test("A chart that paper has no room for beside another one is as wide as the page there")
    func tall() {
        func html(_ count: Int) -> String {
            BarChart(title: "t", rows: (0..<count).map { .init("transport \($0) protobuf", 1, shown: "1") }).html
        }
        #expect(html(4).contains("<figure>") && html(44).contains("<figure class=\"tall\">"))
    }

    @Test("A chart without content is omitted, and so is a single bar, which nothing is beside")
    func empty() {
        #expect(BarChart(title: "t").html.isEmpty)
        var chart = BarChart(title: "t", rows: [.init("ws", 1, shown: "1")])
        #expect(chart.html.isEmpty)
        chart.rows.append(.init("tcp", 2, shown: "2"))
        #expect(chart.html.contains("tcp"))
        #expect(
            LineChart(title: "t", x: Axis(), y: Axis(), series: [.init(label: "l", style: .init(0), points: [])]).html
                == ""
        )
    }

    @Test("Lines differ by colour and dashes, and no two of 35 lines are alike")
    func styles() {
        let styles = (0..<35).map { SeriesStyle($0).classes }
        #expect(Set(styles).count == 35)
        // Each pattern has its rule.
        for dash in 1..<SeriesStyle.dashes { #expect(ChartStyle.page.contains(".series.d\(dash) {")) }
        for (first, second) in zip(styles, styles.dropFirst()) {
            #expect(zip(first.split(separator: " "), second.split(separator: " ")).allSatisfy { $0 != $1 })
        }
    }

    @Test("A transport has one style in all charts, and no two transports that are measured have the same")
    func transports() {
        let names = TransportRegistry.measured.transports.map(\.name)
        let styles = names.map { SeriesStyle.transport($0).classes }
        #expect(names.count > 10 && Set(styles).count == names.count)
        // The plain ones can be told apart without colours.
        let plain = ["tcp", "ws", "mqtt", "udp", "http", "stomp", "xmpp"].map(SeriesStyle.transport)
        #expect(Set(plain.map { $0.classes.split(separator: " ")[1] }).count == plain.count)
        // One protocol has one colour, which no other protocol over a network has.
        #expect(Set(plain.map(\.colourClass)).count == plain.count)
        for name in names where name.hasPrefix("mqtt") || name.hasPrefix("stomp") {
            let base = name.hasPrefix("mqtt") ? "mqtt" : "stomp"
            #expect(SeriesStyle.transport(name).colourClass == SeriesStyle.transport(base).colourClass, "\(name)")
        }
        // A session has the colour of its transport.
        for name in names {
            let session = SeriesStyle.transport(name + "-session")
            #expect(session.colourClass == SeriesStyle.transport(name).colourClass && session != .transport(name))
        }
        let other = SeriesStyle.transport("carrier-pigeon")
        #expect(other == .transport("carrier-pigeon") && !styles.contains(other.classes))
    }
}

@Suite struct BarChartTests {
    private func chart(_ spans: [BarChart.Span], range: ClosedRange<Double>? = nil) -> BarChart {
        let rows: [BarChart.Row] = [.init(label: "l", spans: spans, value: "v"), .init("other", nil, shown: "-")]
        return BarChart(title: "t", legend: [(.tail, "p99")], rows: rows, range: range)
    }

    private func bar(_ kind: String, _ elements: [Element]) -> (x: Double, width: Double)? {
        elements.first { $0.name == "rect" && $0.classes == [kind] }.flatMap { element in
            element.number("x").flatMap { x in element.number("width").map { (x, $0) } }
        }
    }

    /// The text that the page shows over each row.
    private func hovers(_ elements: [Element]) -> [String] { elements.filter { $0.name == "title" }.map(\.text) }

    @Test("Spans are shares of the axis, which includes 0")
    func shares() throws {
        let elements = try drawn(
            chart([.init(kind: .first, from: -10, to: 30), .init(kind: .second, from: 0, to: 20)])
        )
        let (all, part) = (try #require(bar("first", elements)), try #require(bar("second", elements)))
        #expect(abs(part.x - (all.x + all.width / 4)) < 0.2)
        #expect(abs(part.width - all.width / 2) < 0.2)
    }

    @Test("Spans are cut at the ends of the axis and marked there, and values that are no numbers are not drawn")
    func cut() throws {
        let good = chart([.init(kind: .first, from: 0, to: 50)], range: 0...100)
        #expect(try !drawn(good).contains { $0.classes == ["clip"] })
        #expect(!good.html.contains("continues beyond the axis"))
        let spans: [BarChart.Span] = [
            .init(kind: .tail, from: 0, to: 400), .init(kind: .first, from: 0, to: 50),
            .init(kind: .worse, from: 0, to: .infinity), .init(kind: .noise, from: .nan, to: .nan),
        ]
        let elements = try drawn(chart(spans, range: 0...100))
        let (tail, first) = (try #require(bar("tail", elements)), try #require(bar("first", elements)))
        #expect(tail.x == first.x && abs(tail.width - 2 * first.width) < 0.2)
        #expect(bar("worse", elements) == nil && bar("noise", elements) == nil)
        #expect(elements.count { $0.classes == ["clip"] } == 1)
        #expect(hovers(elements) == ["l: p99 400.0, 50.0", "other: -"])
        #expect(chart(spans, range: 0...100).html.contains("continues beyond the axis"))
    }

    @Test("A span beyond either end is marked at that end")
    func beyond() throws {
        for span in [BarChart.Span(kind: .mark, from: 300, to: 300), .init(kind: .interval, from: -9, to: -5)] {
            #expect(try drawn(chart([span], range: 0...100)).count { $0.classes == ["clip"] } == 1)
        }
    }

    @Test("A row has one mark at each end, above its spans")
    func marks() throws {
        let spans: [BarChart.Span] = [
            .init(kind: .tail, from: 0, to: 400), .init(kind: .interval, from: -20, to: 300),
        ]
        let elements = try drawn(chart(spans, range: 0...100))
        #expect(elements.count { $0.classes == ["clip"] } == 2)
        #expect(hovers(elements).first == "l: p99 400.0, -20.0 to 300.0")
        let span = try #require(elements.lastIndex { $0.classes == ["interval"] })
        #expect(try #require(elements.firstIndex { $0.classes == ["clip"] }) > span)
    }

    @Test("A bar has the style of its row, and the one behind it the same")
    func style() throws {
        var chart = chart([.init(kind: .ownTail, from: 0, to: 9), .init(kind: .own, from: 0, to: 5)])
        chart.rows[0].style = .transport("mqtt")
        let bars = try drawn(chart).filter { $0.classes.contains("c2") }
        #expect(bars.map(\.classes) == [["own-tail", "c2"], ["own", "c2"]])
    }

    @Test("Lines that cross all rows lie behind the texts", arguments: [330.0, 560])
    func linesBehindTexts(_ width: Double) throws {
        var chart = chart([.init(kind: .first, from: 0, to: 9)])
        chart.lines = [4]
        chart.rows[0].label = "a name that is longer than half of a narrow chart"
        let elements = try drawn(chart, width: width)
        let line = try #require(elements.lastIndex { $0.classes == ["reference"] })
        #expect(try #require(elements.firstIndex { $0.text.hasPrefix("a name") && $0.name == "text" }) > line)
        // Texts above their bars are not crossed.
        let lines = elements.filter { $0.classes == ["reference"] }
        let isStacked = lines.count == chart.rows.count
        #expect(isStacked || lines.count == 1)
        for text in elements where text.name == "text" && text.classes.contains("halo") && isStacked {
            let base = try #require(text.number("y"))
            for line in lines {
                let (from, to) = (try #require(line.number("y1")), try #require(line.number("y2")))
                #expect(to < base - 8 || from > base + 2, "\(text.text)")
            }
        }
    }

    @Test("Rows without spans, and spans of zeros, do not trap")
    func empty() throws {
        #expect(try drawn(chart([])).contains { $0.text == "v" })
        #expect(try bar("first", drawn(chart([.init(kind: .first, from: 0, to: 0)])))?.width == 0)
    }

    @Test("The axis has ticks with their values below the bars")
    func ticks() throws {
        let elements = try drawn(chart([.init(kind: .first, from: 0, to: 100)]))
        let labels = elements.filter { $0.classes == ["tick"] }.map(\.text)
        #expect(labels.count >= 3 && labels.first == "0" && labels.last == "100")
        #expect(elements.count { $0.classes == ["grid"] } == labels.count)
    }
}

@Suite struct LineChartTests {
    private func chart(_ points: [LineChart.Point], y: Axis = Axis(), labels: [String] = ["ws"]) -> LineChart {
        LineChart(
            title: "t",
            x: Axis(title: "loss in %"),
            y: y,
            series: labels.enumerated().map { index, label in
                .init(label: label, style: SeriesStyle(index), points: points, hasMarks: true)
            }
        )
    }

    @Test("Each point is marked with its values, and both axes have ticks and titles")
    func points() throws {
        let elements = try drawn(chart([.init(0, 50), .init(1, 60, interval: 55...70), .init(5, 90)]))
        #expect(elements.count { $0.name == "circle" } == 3)
        #expect(elements.count { $0.name == "polyline" } == 1)
        #expect(elements.count { $0.classes.contains("bounds") } == 3)
        let hovers = elements.filter { $0.name == "title" }.map(\.text)
        #expect(hovers.map { $0.split(separator: "\n").first } == ["loss in %: 0", "loss in %: 1", "loss in %: 5"])
        #expect(hovers[1] == "loss in %: 1\nws 60.0 (55.0 to 70.0)")
        #expect(elements.contains { $0.classes == ["axis"] && $0.text == "loss in %" })
        #expect(elements.count { $0.classes == ["tick"] } >= 6)
    }

    @Test("Over a place, the page shows the values of all lines there, the largest first")
    func hovers() throws {
        var chart = chart([.init(0, 50), .init(10, 60)], labels: ["tcp", "ws"])
        chart.series[1].points = [.init(0, 70)]
        let hovers = try drawn(chart).filter { $0.name == "title" }.map(\.text)
        #expect(hovers == ["loss in %: 0\nws 70.0\ntcp 50.0", "loss in %: 10\ntcp 60.0"])
        // Many points share columns, so that the page stays small.
        let many = (0..<1000).map { LineChart.Point(Double($0), 1) }
        #expect(try drawn(self.chart(many)).count { $0.name == "title" } < 60)
    }

    @Test("The title of an axis says that its scale is logarithmic")
    func logarithmic() throws {
        let elements = try drawn(chart([.init(1, 1), .init(2, 1000)], y: Axis(title: "time", scale: .logarithmic)))
        #expect(elements.filter { $0.classes == ["axis"] }.map(\.text) == ["time (log scale)", "loss in %"])
    }

    @Test("A part beyond the axis is marked once, and points that are no numbers are omitted")
    func clipped() throws {
        let points: [LineChart.Point] = [
            .init(0, 5), .init(1, 50), .init(2, 60), .init(3, 5), .init(4, .nan), .init(5, 70),
        ]
        let elements = try drawn(chart(points, y: Axis(range: 0...10)))
        #expect(elements.count { $0.classes == ["clip"] } == 2)
        let line = try #require(elements.first { $0.name == "polyline" }?.attributes["points"])
        #expect(line.split(separator: " ").count == 5)
        #expect(!line.contains("nan"))
    }

    @Test("An interval that is cut is marked at that end")
    func cutIntervals() throws {
        let points: [LineChart.Point] = [.init(0, 5, interval: 4...20), .init(1, 5, interval: -1...6)]
        let elements = try drawn(chart(points, y: Axis(range: 0...10)))
        #expect(elements.filter { $0.classes == ["clip"] }.count == 2)
        #expect(elements.contains { $0.name == "title" && $0.text.contains("(4.00 to 20.0)") })
    }

    @Test("Names of horizontal lines stand at their right ends, and above each other")
    func references() throws {
        var chart = chart([.init(0, 1), .init(1, 100)])
        chart.references = [("upper", 3.0), ("lower", 2)].map { .init(direction: .horizontal, value: $1, label: $0) }
        let names = try drawn(chart).filter { $0.classes == ["halo"] }
        #expect(names.map(\.text) == ["lower", "upper"])
        let (lower, upper) = (try #require(names[0].number("y")), try #require(names[1].number("y")))
        #expect(lower - upper >= 13.9)
        #expect(names.allSatisfy { $0.attributes["text-anchor"] == "end" })
    }

    @Test("Names along lines cover no line and no other name", arguments: [330.0, 560])
    func namesAlong(_ width: Double) throws {
        let slopes = [20.0, 18, 3, 2, 1, 0.1]
        let series = slopes.enumerated().map { index, slope in
            let points = (0...100).map { LineChart.Point(Double($0), min(100, Double($0 / 5 * 5) * slope)) }
            return LineChart.Series(label: "policy \(index)", style: SeriesStyle(index), points: points)
        }
        let chart = LineChart(title: "t", x: Axis(), y: Axis(range: 0...100), series: series, labels: .along)
        let elements = try drawn(chart, width: width)
        var dots: [SVGDrawing.Point] = []
        for line in elements where line.name == "polyline" {
            let numbers = (line.attributes["points"] ?? "").split { " ,".contains($0) }.compactMap { Double($0) }
            let corners = stride(from: 0, to: numbers.count, by: 2).map { (x: numbers[$0], y: numbers[$0 + 1]) }
            for (from, to) in zip(corners, corners.dropFirst()) {
                for share in stride(from: 0.0, through: 1, by: 0.05) {
                    dots.append((from.x + (to.x - from.x) * share, from.y + (to.y - from.y) * share))
                }
            }
        }
        #expect(dots.count > 1000)
        let names = elements.filter { $0.classes.contains("name") }
        #expect(names.count >= 3)
        var boxes: [(x: ClosedRange<Double>, y: ClosedRange<Double>)] = []
        for name in names {
            let (x, y) = (try #require(name.number("x")), try #require(name.number("y")))
            let box = (x: x...(x + SVGDrawing.width(of: name.text)), y: (y - 9)...(y + 2))
            #expect(!dots.contains { box.x.contains($0.x) && box.y.contains($0.y) }, "\(name.text)")
            #expect(!boxes.contains { $0.x.overlaps(box.x) && $0.y.overlaps(box.y) }, "\(name.text)")
            #expect(box.x.upperBound <= width)
            boxes.append(box)
        }
    }

    @Test("Names around points cover no point and no other name", arguments: [330.0, 560])
    func namesAtPoints(_ width: Double) throws {
        let places = [
            (160.0, 74.0), (194, 73), (196, 72.5), (220, 71.2), (356, 598), (371, 71.5), (371.4, 74.6), (513, 74),
        ]
        let series = places.enumerated().map { index, place in
            LineChart.Series(
                label: "transport \(index)",
                style: SeriesStyle(index),
                points: [.init(place.0, place.1)],
                hasMarks: true
            )
        }
        let axes = (x: Axis(scale: .logarithmic), y: Axis(scale: .logarithmic))
        let chart = LineChart(title: "t", x: axes.x, y: axes.y, series: series, labels: .atPoints)
        let elements = try drawn(chart, width: width)
        let dots = elements.filter { $0.classes.contains("point") }.compactMap(centre)
        #expect(dots.count == places.count)
        let names = elements.filter { $0.classes.contains("name") }
        #expect(names.count == places.count)
        var boxes: [(x: ClosedRange<Double>, y: ClosedRange<Double>)] = []
        for name in names {
            let (x, y) = (try #require(name.number("x")), try #require(name.number("y")))
            let box = (x: x...(x + SVGDrawing.width(of: name.text)), y: (y - 9)...(y + 2))
            #expect(!dots.contains { box.x.contains($0.x) && box.y.contains($0.y) }, "\(name.text)")
            #expect(!boxes.contains { $0.x.overlaps(box.x) && $0.y.overlaps(box.y) }, "\(name.text)")
            #expect(box.x.lowerBound >= 0 && box.x.upperBound <= width)
            boxes.append(box)
        }
        #expect(chart.html.contains("key dot"))
    }

    /// The middle of a point of any shape.
    private func centre(_ point: Element) -> (x: Double, y: Double)? {
        if let x = point.number("cx"), let y = point.number("cy") { return (x, y) }
        let numbers = (point.attributes["points"] ?? "").split { " ,".contains($0) }.compactMap { Double($0) }
        let corners = stride(from: 0, to: numbers.count - 1, by: 2).map { (x: numbers[$0], y: numbers[$0 + 1]) }
        guard let left = corners.map(\.x).min(), let right = corners.map(\.x).max(),
            let top = corners.map(\.y).min(), let bottom = corners.map(\.y).max()
        else { return nil }
        return ((left + right) / 2, (top + bottom) / 2)
    }

    @Test("Points of one colour have different shapes in plot and legend, and each has a name even without room")
    func shapes() throws {
        let names = ["http", "https", "http-poll", "http-long-poll", "http-sse", "http-session"]
        let series = names.map { name in
            LineChart.Series(label: name, style: .transport(name), points: [.init(1, 1)], hasMarks: true)
        }
        let many = (0..<30).map {
            LineChart.Series(label: "s\($0)", style: .init($0), points: [.init(1, 1)], hasMarks: true)
        }
        for width in [330.0, 560] {
            let chart = LineChart(title: "t", x: Axis(), y: Axis(), series: series + many, labels: .atPoints)
            let elements = try drawn(chart, width: width)
            let points = elements.filter { $0.classes.contains("point") }.prefix(names.count)
            #expect(Set(points.map(\.classes.last)).count == 1)
            #expect(
                Set(points.map { "\($0.name) \($0.attributes["points"] ?? "") \($0.classes)" }).count == names.count
            )
            let labels = elements.filter { $0.classes.contains("name") }
            #expect(Set(labels.map(\.text)) == Set(chart.series.map(\.label)))
            for label in labels {
                let x = try #require(label.number("x"))
                #expect(x >= 0 && x + SVGDrawing.width(of: label.text) <= width)
            }
        }
        // Over lines, the dashes show it.
        let line = LineChart(title: "t", x: Axis(), y: Axis(), series: series)
        #expect(try drawn(line).count { $0.name == "circle" } == names.count)
    }

    @Test("No horizontal line crosses the name of another one", arguments: [2.0, 4, 8, 20])
    func referencesBesideEachOther(_ gap: Double) throws {
        var chart = chart([.init(0, 1), .init(1, 100)])
        chart.references = (0..<3).map {
            .init(direction: .horizontal, value: 20 + gap * Double($0), label: "floor \($0)")
        }
        let elements = try drawn(chart)
        let lines = elements.filter { $0.name == "line" && $0.classes == ["reference"] }.compactMap { $0.number("y1") }
        let names = elements.filter { $0.classes == ["halo"] }.compactMap { $0.number("y") }
        #expect(lines.count == 3 && names.count == 3)
        for name in names {
            #expect(!lines.contains { $0 > name - 9 && $0 < name + 2 }, "\(name) \(lines)")
        }
    }

    @Test("Names beside the ends of lines do not overlap, and stay within the drawing", arguments: [1, 5, 30])
    func names(_ count: Int) throws {
        let chart = chart([.init(0, 1), .init(1, 2)], labels: (0..<count).map { "line \($0)" })
        let elements = try drawn(chart)
        let heights = elements.filter { $0.classes.contains("name") }.compactMap { $0.number("y") }.sorted()
        #expect(heights.count == count)
        for (upper, lower) in zip(heights, heights.dropFirst()) { #expect(lower - upper >= 13.9) }
        #expect(heights.allSatisfy { $0 > 0 && $0 < chart.drawing(width: 560).height })
    }
}
