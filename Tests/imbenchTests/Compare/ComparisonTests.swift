import CommandTestSupport
import Testing

@testable import CommandSupport
@testable import Measuring
@testable import Reporting
@testable import imbench

private let calm: [Double?] = [100, 101, 102, 103, 104]

private func compared(_ before: RunResults, _ after: RunResults, noise: Double = 0.01) throws -> Comparison {
    Comparison(try recorded(before, "old.json"), try recorded(after, "new.json"), noise: noise)
}

private func verdicts(_ before: [Double?], _ after: [Double?], noise: Double = 0.01) throws -> [String] {
    try compared(run(before), run(after), noise: noise).differences.map(\.verdict.name)
}

@Suite("imbench compare")
struct ComparisonTests {
    @Test("A difference that all repeats show is real, and more throughput is better")
    func real() throws {
        let slower = calm.map { $0.map { $0 * 1.2 } }
        #expect(try verdicts(calm, slower) == ["worse", "worse", "worse", "worse", "worse"])
        #expect(try verdicts(slower, calm) == ["better", "better", "better", "better", "better"])
        let difference = try #require(try compared(run(calm), run(slower)).differences.first)
        #expect(difference.before == 102 && difference.after == 122.4)
        let interval = try #require(difference.interval)
        #expect(interval.low > 1 && interval.low < 1.2 && interval.high > 1.2)
    }

    @Test("A comparison is as trustworthy as both runs say that they are")
    func trust() throws {
        var (before, after) = (try recorded(run(calm), "old.json"), try recorded(run(calm), "new.json"))
        #expect(before.isTrusted != nil)
        (before.isTrusted, after.isTrusted) = (true, true)
        #expect(Comparison(before, after, noise: 0.01).trust.sentence == "Trustworthy: no run was disturbed.")
        after.isTrusted = false
        let disturbed = Comparison(before, after, noise: 0.01)
        #expect(disturbed.trust.sentence == "Not trustworthy, because new.json was disturbed.")
        #expect(disturbed.report.text(.table, .none).contains("Not trustworthy, because new.json was disturbed."))
        before.isTrusted = nil
        #expect(
            Comparison(before, after, noise: 0.01).trust.sentence
                == "Not trustworthy, because old.json does not say whether it was disturbed, and new.json was disturbed."
        )
    }

    @Test("Repeats that overlap are noise, even if their medians are far apart")
    func noise() throws {
        #expect(try Set(verdicts(calm, [103, 99, 150, 140, 160])) == ["noise"])
        #expect(try Set(verdicts(calm, calm.reversed())) == ["noise"])
    }

    @Test("A certain difference that is below the noise threshold is noise")
    func threshold() throws {
        let steady = [Double?](repeating: 100, count: 5)
        let slower = [Double?](repeating: 103, count: 5)
        #expect(try Set(verdicts(steady, slower)) == ["worse"])
        #expect(try Set(verdicts(steady, slower, noise: 0.05)) == ["noise"])
        #expect(try Set(verdicts(slower, steady, noise: 0.05)) == ["noise"])
    }

    @Test("A difference that the repeats cannot tell is unknown, with the reason")
    func unknown() throws {
        #expect(try Set(verdicts([100], [200])) == ["unknown"])
        #expect(try Set(verdicts(Array(calm.dropLast()), [200, 201, 202, 203])) == ["unknown"])
        #expect(try Set(verdicts([100, 101, 102, 103, nil], calm.map { $0.map { $0 * 2 } })) == ["unknown"])
        let one = try compared(run([100]), run([200]))
        #expect(one.rows[0].reason(of: "rtt.p50_us.ratio") == "too few repeats have a value; it takes 5 in each run")
        #expect(one.differences[0].ratio == 2)
        var old = run(calm)
        old.rows[0].repeats = [:]
        #expect(
            try compared(old, run(calm)).rows[0].reason(of: "rtt.p50_us.ratio")
                == "a report lacks the values of its repeats"
        )
        #expect(try compared(run([0, 1, 2, 3, 4]), run(calm)).rows[0].reason(of: "rtt.p50_us.ratio") == "a value is 0")
    }

    @Test("A number that a row does not have by design is unknown for that reason, and not for its repeats")
    func missingByDesign() throws {
        func reasons(_ change: (inout ResultRow) -> Void) throws -> [String?] {
            var (before, after) = (run(calm), run(calm))
            change(&before.rows[0])
            change(&after.rows[0])
            let row = try #require(try compared(before, after).rows.first)
            return [row.reason(of: "ratio_to_floor_p50.ratio"), row.reason(of: "cpu_us_per_msg.ratio")]
        }
        #expect(try reasons { _ in } == [nil, nil])
        let withoutFloor = try reasons { row in
            (row.floor, row.floorP50, row.repeats[.ratioToFloor]) = (nil, nil, nil)
        }
        #expect(withoutFloor == ["a row has no floor", nil])
        #expect(try reasons { $0.repeats[.ratioToFloor] = nil } == ["the floor of a row has a heavy tail", nil])
        let besidePicture = try reasons { row in
            row.picture = PictureFigures(place: .same, bytes: 1_000_000)
            row.repeats[.cpu] = [nil, nil, nil, nil, nil]
        }
        #expect(besidePicture == [nil, "CPU time is not measured beside a picture"])
    }

    @Test("Rows over networks are matched by network, and have no floors")
    func networks() throws {
        func recorded(_ factor: Double) throws -> RecordedRun {
            var results = run(calm)
            results.rows += run(calm.map { $0.map { $0 * factor } }).rows
            for (number, network) in ["4g", "wifi"].enumerated() { results.rows[number].network = network }
            let json = results.envelope(results: results.rows.map { RunResults.data($0) }).readableText
            return try RecordedRun(json: json.utf8, label: "a.json")
        }
        let comparison = Comparison(try recorded(1), try recorded(2), noise: 0.01)
        #expect(comparison.rows.map(\.name) == ["ws json 256 over 4g", "ws json 256 over wifi"])
        #expect(comparison.rows.map { $0.main?.isReal } == [false, true])
        #expect(comparison.floors.isEmpty)
    }

    @Test("Rows are matched by their names and loads, and others are listed")
    func matching() throws {
        var (before, after) = (run(calm), run(calm))
        before.rows.append(contentsOf: run(calm, transport: "tcp").rows)
        after.rows.insert(contentsOf: run(calm, transport: "mqtt").rows, at: 0)
        let rows = try compared(before, after).rows
        #expect(rows.map(\.transport) == ["ws", "tcp", "mqtt"])
        #expect(rows[0].note == nil)
        #expect(rows[1].note == "only in old.json (connections=1 in-flight=1)")
        #expect(rows[2].note == "only in new.json (connections=1 in-flight=1)")

        after.record.options = [("connections", "9"), ("in-flight", "1")]
        let loads = try compared(before, after)
        #expect(loads.differences.isEmpty && loads.rows.count == 4)
        #expect(loads.report.title == "No row was measured in both runs.")
        #expect(loads.warnings.contains("--connections: 1 before, 9 after"))
    }

    @Test("A row that failed in one run has the reason in place of numbers")
    func failed() throws {
        var after = run(calm)
        after.rows[0].outcome = .failed("connection refused")
        let row = try #require(try compared(run(calm), after).rows.first)
        #expect(row.note == "measured only before; after: connection refused" && row.differences.isEmpty)
    }

    @Test("Each difference of the conditions of two runs is a warning")
    func warnings() throws {
        #expect(try compared(run(calm), run(calm)).warnings.isEmpty)
        var after = run(calm)
        after.record.environment.processor = "Another"
        after.record.environment.isDebugBuild = true
        after.record.environment.date = "2025-01-01T00:00:00Z"
        after.record.seed = 99
        after.record.options += [("awake", "yes"), ("size", "7")]
        after.wasCutShort = true
        var slow = Histogram()
        for _ in 0..<100 { slow.record(1000) }
        after.floors[0].rtt = Latency(slow)
        after.wereCoresAwake = true
        let warnings = try compared(run(calm), after).warnings
        #expect(
            warnings == [
                "DEBUG BUILD: the numbers of new.json are not meaningful",
                "CUT SHORT: new.json was interrupted",
                "The processors differ: A \"fast\" | one before, Another after",
                "The builds differ: release before, debug after",
                "The cores were kept awake in one run only, and the other's times include wake-ups: "
                    + "sleeping before, awake after",
                "--awake: none before, yes after",
            ]
        )
    }

    @Test("Unknown wake-ups beside sleeping cores are no warning, because neither run kept its cores awake")
    func wakeUps() throws {
        var after = run(calm)
        after.floors = []
        #expect(try compared(run(calm), after).warnings.isEmpty)
        var awake = run(calm)
        awake.wereCoresAwake = true
        #expect(try compared(awake, after).warnings.contains { $0.hasSuffix("awake before, unknown after") })
    }

    @Test("The summary of one row is about one row")
    func summary() throws {
        let one = try compared(run(calm), run(calm.map { $0.map { $0 * 0.8 } })).report.title
        #expect(one.hasPrefix("Of 1 row, 1 is faster. A change below "), "\(one)")
        #expect(one.hasSuffix(" % would probably not be seen."), "\(one)")
        var (before, after) = (run(calm), run(calm))
        before.rows += run([1], transport: "tcp").rows
        after.rows += run([1], transport: "tcp").rows
        let two = try compared(before, after).report.title
        #expect(
            two.hasPrefix(
                "Of 2 rows, none is surely faster or slower; 1 shows no difference beyond noise; 1 is unknown, because too few "
                    + "repeats have a value; it takes 5 in each run. In one of them, a change below "
            ),
            "\(two)"
        )
    }

    @Test("Each row has a verdict in words, with the interval and the smallest change that it could have shown")
    func sentences() throws {
        func sentence(_ factor: Double) throws -> String {
            try #require(try compared(run(calm), run(calm.map { $0.map { $0 * factor } })).rows.first).sentence
        }
        #expect(try sentence(1.2) == "slower by 20 % (15–25)")
        #expect(try sentence(0.8) == "faster by 20 % (17–23)")
        #expect(try sentence(1.01) == "no difference beyond noise")
        let main = try #require(try compared(run(calm), run(calm)).rows.first?.main)
        #expect(main.metric == .ratioToFloor)
        #expect(abs(try #require(main.resolution) - 1.01 * 1.04 * 1.04.squareRoot()) < 1e-9)
        let few = try #require(try compared(run([100]), run([200])).rows.first)
        #expect(few.sentence == "unknown: too few repeats have a value; it takes 5 in each run")
    }

    @Test("A difference that is not larger than the square root of its floor's change is noise")
    func changedFloor() throws {
        var after = run(calm.map { $0.map { $0 * 1.2 } })
        after.rows[0].floorP50 = 75
        let row = try #require(try compared(run(calm), after).rows.first)
        #expect(row.machineChange == 1.5 && row.sentence == "no difference beyond noise")
        after.rows[0].floorP50 = 51
        #expect(try compared(run(calm), after).rows.first?.sentence == "slower by 20 % (14–26)")
        after.rows[0].floorP50 = nil
        #expect(try compared(run(calm), after).rows.first?.sentence == "slower by 20 % (15–25)")
    }

    @Test("Floors that differ are a warning that the machine differs")
    func machine() throws {
        let warnings = try compared(run(calm), run(calm, floors: [70, 71, 72, 73, 74])).warnings
        #expect(
            warnings == [
                "The machine differs: 1 of 1 floors differ, wake-up 8 most, by +38.5 %; ×floor is more reliable than times"
            ]
        )
    }

    @Test("Assertions can name the ratio and the ends of its interval")
    func assertions() throws {
        let rows = try compared(run(calm), run(calm.map { $0.map { $0 * 1.2 } })).rows
        func failure(_ text: String, in rows: [ComparedRow]) throws -> String? {
            let words = ["compare", "a", "b", "--assert", text]
            let options = try OptionParser(vocabulary: everything).parse(words, as: CompareCommand.self)
            return try #require(options.assertions.first).failure(in: rows)
        }
        #expect(try failure("ws.json.256.rtt.p50_us.ratio <= 1.25", in: rows) == nil)
        #expect(try failure("ws.rtt.p50_us.ratio_low <= 1.05", in: rows)?.hasSuffix("ws json 256 has 1.154") == true)
        #expect(try failure("ws.throughput_msgs_per_s.ratio_high >= 0.9", in: rows)?.contains("has 0.867") == true)
        #expect(try failure("tcp.rtt.p50_us.ratio < 2", in: rows)?.hasSuffix("there is no such row") == true)
        let unsure = try compared(run([1]), run([1])).rows
        #expect(try failure("ws.rtt.p50_us.ratio <= 1.05", in: unsure) == nil)
        #expect(
            try failure("ws.rtt.p50_us.ratio_low <= 1.05", in: unsure)?
                .hasSuffix("has no rtt.p50_us.ratio_low (too few repeats have a value; it takes 5 in each run)") == true
        )
        #expect(throws: UsageError.self) { _ = try failure("ws.rtt.p50_us <= 1.05", in: rows) }
    }
}

@Suite("The report of imbench compare")
struct ComparisonReportTests {
    private func text(_ format: Format, width: Int = .max) throws -> String {
        var before = run(calm)
        before.rows.append(contentsOf: run([1], transport: "tcp").rows)
        before.rows.append(contentsOf: run([1], transport: "mqtt").rows)
        before.rows[2].codec = "<script>alert(1)</script>"
        var after = run(calm.map { $0.map { $0 * 1.2 } })
        after.rows.append(contentsOf: run([1], transport: "tcp").rows)
        after.record.environment.processor = "<img src=x>"
        return try compared(before, after).report.text(format, .none, .init(width: width))
    }

    @Test("The table shows real, unknown and unmatched rows in 80 columns")
    func table() throws {
        let lines = try text(.table).split(separator: "\n").map(String.init)
        for line in try text(.table, width: 80).split(separator: "\n") { #expect(line.count <= 80) }
        #expect(
            lines.contains {
                $0.hasPrefix("ws ") && $0.contains("p50 µs") && $0.contains("+20.0 ") && $0.hasSuffix("worse")
            }
        )
        #expect(lines.contains { $0.split(separator: " ") == ["tcp", "json", "256", "?", "?", "?", "?", "?"] })
        #expect(lines.contains { $0.hasPrefix("mqtt ") && $0.contains("only in old.json") })
        #expect(lines.contains { $0.hasPrefix("? unknown: too few repeats") })
        #expect(
            lines.contains {
                $0.contains("Of 10 numbers, 5 differ (0 better, 5 worse), 0 are within noise, and 5 are unknown.")
            }
        )
    }

    @Test("JSON and CSV have every number, its interval and its verdict")
    func data() throws {
        let json = try text(.json)
        for part in [
            #""schema": "imbench-compare/1""#, #""rtt_p50_us": {"before": 102, "after": 122.4, "ratio": 1.2,"#,
            #""verdict": "worse", "reason": null}"#, #""floor": "wake-up""#, #""file": "old.json""#,
            #""round_trips": {"sentence": "slower by 20 % (15–25)", "metric": "ratio_to_floor_p50", "verdict": "worse""#,
        ] { #expect(json.contains(part), "\(part)") }
        let lines = try text(.csv).split(separator: "\r\n").map {
            $0.split(separator: ",", omittingEmptySubsequences: false)
        }
        // Two rows of five numbers, one unmatched row, one floor.
        #expect(lines.count == 1 + 10 + 1 + 1)
        #expect(Set(lines.map(\.count)) == [17])
    }

    @Test("Markdown and HTML have no tags from the compared reports", arguments: [Format.markdown, .html])
    func escapes(format: Format) throws {
        let text = try text(format).replacing("<script>\(HTMLRenderer.script)</script>", with: "")
            .replacing("<script type=\"application/json\" id=\"data\">", with: "")
        #expect(!text.contains("<script") && !text.contains("<img"))
        #expect(text.contains("&lt;script"))
    }

    @Test("The axis of a chart has the intervals of the changes, and not the changes alone")
    func axis() throws {
        let report = try compared(run(calm), run([60, 103, 104, 105, 160])).report
        let charts = report.sections.flatMap(\.charts).compactMap { $0 as? BarChart }.filter { !$0.rows.isEmpty }
        #expect(!charts.isEmpty)
        for chart in charts {
            let range = try #require(chart.range)
            for span in chart.rows.flatMap(\.spans) {
                #expect(range.contains(span.from) && range.contains(span.to), "\(chart.title)")
            }
        }
    }

    @Test("The command writes the report, and its status is that of its assertions")
    func command() throws {
        let folder = try Folder()
        defer { folder.remove() }
        try folder.write("a.json", run(calm).report.text(.json, .none))
        try folder.write("b.json", run(calm.map { $0.map { $0 * 1.2 } }).report.text(.json, .none))
        func status(_ more: [String], _ second: String = "b.json") throws -> Int32 {
            let words = [
                "compare", folder.path + "/a.json", folder.path + "/" + second, "--output", folder.path + "/out",
            ]
            return try OptionParser(vocabulary: everything).parse(words + more, as: CompareCommand.self).run()
        }
        #expect(try status([]) == ExitStatus.good)
        #expect(readFile(folder.path + "/out", limit: 1 << 16)?.contains("worse") == true)
        #expect(try status(["--assert", "ws.rtt.p50_us.ratio_low <= 1.05"]) == ExitStatus.assertion)
        #expect(try status(["--noise", "50", "--assert", "ws.rtt.p50_us.ratio <= 1.5"]) == ExitStatus.good)
        #expect(throws: UsageError.self) { _ = try status([], "none.json") }
    }
}
