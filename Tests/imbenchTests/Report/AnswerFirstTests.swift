import Testing

@testable import CommandSupport
@testable import Measuring
@testable import Reporting
@testable import imbench

@Suite("The answer comes first")
struct AnswerFirstTests {
    /// A run with the rows of a default run, each with 30 repeats.
    private func defaultRun() -> RunResults {
        let sample = sampleResults()
        var results = sample
        results.record.options = [
            ("transport", "tcp,ws,mqtt,http,udp"), ("codec", "json,protobuf"), ("size", "32,256,4096"),
            ("repeat", "30"),
        ]
        var simulated = SimulatedRepeats(seed: 7)
        let names = ["tcp", "ws", "mqtt", "http", "udp"].flatMap { transport in
            ["json", "protobuf"].flatMap { codec in [32, 256, 4096].map { (transport, codec, $0) } }
        }
        let values = simulated.values(names.map { $0.0 == "mqtt" ? 60 : 50 })
        results.rows = zip(names, values).map { name, values in
            var row = sample.rows[0]
            (row.transport, row.codec, row.size) = name
            row.guarantee = "in order until the connection ends"
            row.accounts = DeliveryCounts(sent: 2000, acked: 2000)
            row.repeats = [.p50: values, .cpu: values]
            row.estimateMedian()
            if name.0 == "udp", name.2 == 4096 {
                row.outcome = .skipped("the encoded message has 4200 bytes; the limit of udp is 1200")
                row.rtt = nil
            }
            return row
        }
        return results
    }

    private func lines(_ results: RunResults, _ page: TextRenderer.Page) -> [String] {
        results.report.text(.table, .none, page).split(separator: "\n", omittingEmptySubsequences: false).map(
            String.init
        )
    }

    @Test("A default run has at most 60 lines of 80 columns, and begins with its title, its trust and its verdict")
    func short() throws {
        var results = defaultRun()
        results.record.environment = .current()
        results.record.environment.isDebugBuild = false
        results.record.options = [
            ("transport", "tcp,ws,mqtt,http,udp"), ("codec", "json,protobuf"), ("size", "32,256,4096"),
            ("delivery", "plain"), ("duration", "3s"), ("warmup", "20ms"), ("repeat", "30"), ("connections", "1"),
            ("in-flight", "1"), ("placement", "apart"), ("awake", "no"),
        ]
        // A disturbed machine and different codecs make the verdict long.
        results.record.load = MachineLoad(average: 1, others: 1.5, stolen: 0.01, involuntarySwitches: 100, seconds: 75)
        for (index, row) in results.rows.enumerated() {
            results.rows[index].bytesPerMessage?.framing = Double(row.transport.count) * 10
            if row.transport == "udp" { results.rows[index].guarantee = "nothing: messages can be lost or reordered" }
            if row.codec == "protobuf" {
                results.rows[index].repeats[.p50] = row.repeats[.p50]?.map { $0.map { $0 / 1.3 } }
            }
        }
        // The answer has left a screen of 24 lines, and is repeated.
        let lines = lines(results, .init(rows: 24, showsDetails: false))
        #expect(lines.count <= 61, "\(lines.count - 1): \(lines.joined(separator: "\n"))")
        #expect(lines.allSatisfy { $0.count <= 80 })
        let report = results.report
        let head = [report.title, String(report.trust.sentence.prefix(40)), String(report.verdict[0].prefix(40))]
        let places = try head.map { text in
            try #require(lines.firstIndex { text.hasPrefix($0) || $0.hasPrefix(text) }, "\(text)")
        }
        #expect(places == places.sorted() && places[2] < 8)
    }

    @Test("A line has a transport and a codec, a column a size, and a cell the median with its interval")
    func medians() throws {
        var results = defaultRun()
        results.rows[1].rtt?.p50 = 50
        results.rows[1].rttP50Spread = RepeatStatistics(median: 50, low: 48.2, high: 51.7, coverage: 0.95, repeats: 30)
        let lines = lines(results, .init(width: 100, showsDetails: false))
        let row = try #require(lines.first { $0.hasPrefix("tcp        json ") })
        #expect(row.contains(" 50.0 (48.2–51.7) ") && row.hasSuffix(" ✓"))
        #expect(lines.first { $0.hasPrefix("udp        json ") }?.contains(" none ") == true)
        let reason = "udp json 4096, udp protobuf 4096: the encoded message has 4200 bytes; the limit of udp is 1200"
        #expect(lines.contains(reason))
    }

    @Test("A failed row is marked in its cell, and the lost messages of all rows are added")
    func failures() throws {
        var results = defaultRun()
        results.rows[0].outcome = .failed("refused")
        results.rows[1].accounts = DeliveryCounts(sent: 10, acked: 8, lost: 2)
        results.rows[2].accounts = DeliveryCounts(sent: 10, acked: 9, lost: 1)
        let page = TextRenderer.Page(width: 100, showsDetails: false)
        let row = try #require(lines(results, page).first { $0.hasPrefix("tcp        json ") })
        #expect(row.contains(" failed ") && row.hasSuffix(" ✓ 3 lost"))
    }

    @Test("What does not vary within a transport is printed once, and what does as a range")
    func merged() {
        let table = Table(
            labels: 2,
            columns: [.text("transport"), .text("codec"), .number("ms"), .text("promise"), .number("none")],
            rows: [("tcp", "json", 2.0), ("tcp", "protobuf", 1.0), ("ws", "json", 3.0)].map { name, codec, value in
                Table.Row(
                    cells: [
                        Table.Cell(name), Table.Cell(codec), Table.Cell(value), Table.Cell("in order"),
                        Table.Cell(codec == "json" ? Double?.none : 7),
                    ]
                )
            }
        )
        let merged = table.merged(by: 1)
        #expect(merged.columns.compactMap(\.title) == ["transport", "ms", "promise", "none"])
        #expect(
            merged.rows.map { $0.cells.map(\.text) } == [
                ["tcp", "1.00–2.00", "in order", "7.00"], ["ws", "3.00", "in order", "-"],
            ]
        )
    }

    @Test("With details a report has all its sections, and without them it names those that it omits")
    func details() {
        let results = defaultRun()
        let (short, long) = (
            lines(results, .init(showsDetails: false)), lines(results, .init(showsDetails: true))
        )
        let heading = "Floors: the same round trip in bare system calls"
        #expect(long.contains(heading) && !short.contains(heading))
        #expect(short.joined(separator: " ").contains("--details shows more: Round trips, Costs per message and per"))
        #expect(!long.contains { $0.contains("--details") })
    }

    @Test(
        "Below a report that is longer than the screen, the failed rows and the first sentence of the verdict are repeated"
    )
    func repeated() throws {
        var results = defaultRun()
        results.rows[0].outcome = .failed("refused")
        let verdict = results.report.verdict
        let sentence = try #require(verdict[1].firstRange(of: ". The largest"))
        let first = verdict[1][..<sentence.lowerBound] + "."
        let last = verdict[0].wrapped(to: 80) + String(first).wrapped(to: 80)
        let long = lines(results, .init(rows: 24, showsDetails: false))
        #expect(long.dropLast().suffix(last.count) == last[...])
        let high = lines(results, .init(rows: 80, showsDetails: false))
        #expect(high.dropLast().suffix(last.count) != last[...])
    }

    @Test("What to do about the results stands below the tables, and not in the verdict")
    func advice() throws {
        let results = defaultRun()
        let advice = try #require(results.advice.first)
        #expect(advice.hasSuffix("see 'imbench open --network 4g', 'imbench outage', 'imbench advise'."))
        #expect(!results.report.verdict.contains { $0.contains("imbench") })
        let lines = lines(results, .init(showsDetails: false))
        let place = try #require(lines.firstIndex { advice.hasPrefix($0) && !$0.isEmpty })
        #expect(place > (try #require(lines.lastIndex { $0.hasPrefix("udp ") })))
    }

    @Test("Sections that are left out are mentioned by their headings up to a colon, and once if they share a name")
    func omitted() {
        let sections = ["Floors: the same", "a: 1", "b: 2"].map { heading in
            Report.Section(
                heading: heading,
                isDetail: true,
                shortName: heading.hasPrefix("Floors") ? nil : "a plot for each policy"
            )
        }
        var report = defaultRun().report
        report.sections = sections
        let text = report.text(.table, .none, .init(showsDetails: false))
        #expect(text.hasSuffix("\n--details shows more: Floors, a plot for each policy.\n"))
    }

    @Test("Lines are as wide as the terminal")
    func width() {
        let lines = lines(defaultRun(), .init(width: 120))
        #expect(lines.allSatisfy { $0.count <= 120 } && lines.contains { $0.count > 100 })
    }
}
