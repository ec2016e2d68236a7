import Testing

@testable import CommandSupport
@testable import Measuring
@testable import Reporting
@testable import imbench

/// A run with one row that was measured, one that could not run and one that failed.
func sampleResults() -> RunResults {
    var histogram = Histogram()
    for value in 1...2000 as ClosedRange<Int64> { histogram.record(value * 100) }
    var row = ResultRow(transport: "ws", codec: "json", size: 256)
    row.rtt = Latency(histogram)
    row.distribution = histogram.distribution
    row.rttP50Spread = RepeatStatistics([99, 100, 101])
    row.floor = FloorKind.tcpEpoll.rawValue
    row.floorP50 = 50
    row.ratioToFloor = RepeatStatistics([2, 2, 2])
    row.throughput = 9876.5
    row.cpuPerMessage = 4.25
    row.bytesPerMessage = BytesPerMessage(payload: 256, codec: 60, framing: 8, topic: 2, transportIP: 66.5)
    row.handshake = Handshake(milliseconds: 0.31, bytes: 372, roundTrips: 2)
    row.accounts = DeliveryCounts(sent: 2001, acked: 2000, inFlight: 1)
    var skipped = ResultRow(transport: "udp", codec: "json", size: 4096)
    skipped.outcome = .skipped("message of 4321 bytes is over UDP's limit of 1200")
    var environment = Environment()
    environment.processor = "A \"fast\" | one"
    environment.date = "2024-02-29T12:00:00Z"
    var results = RunResults(RunRecord(environment: environment, options: [("size", "256")], seed: 7))
    results.rows = [row, skipped]
    results.floors = [FloorResult(kind: .wakeUp, size: 8, rtt: Latency(histogram))]
    return results
}

@Suite struct ReportTests {
    @Test("The text has the accounts, the reason of a row without numbers, and no colour")
    func text() {
        let text = sampleResults().report.text(.table, .none)
        #expect(text.contains("message of 4321 bytes is over UDP's limit of 1200"))
        #expect(text.contains("✓ 1 in flight"))
        #expect(!text.contains("\u{1b}"))
    }

    @Test(
        "A failure that rows share is shown once in the table and once in the verdict, and the JSON has it in each row"
    )
    func sharedFailure() {
        var results = sampleResults()
        results.rows = ["json", "protobuf"].map { codec in
            var row = ResultRow(transport: "ws", codec: codec, size: 32)
            row.outcome = .failed("ws://h:1: Connection refused (111)")
            return row
        }
        let text = results.report.text(.table, .none)
        #expect(
            text.ranges(of: "Connection refused").count == 2 && text.contains("ws         protobuf    32  as above")
        )
        #expect(results.data.text.ranges(of: "Connection refused").count == 2)
        #expect(
            results.report.verdict.first
                == "2 of 2 rows failed: ws json 32, ws protobuf 32 (ws://h:1: Connection refused (111))."
        )
    }

    @Test("An open loop has its own table")
    func openLoop() {
        var results = sampleResults()
        (results.rows[0].loop, results.rows[0].targetRate) = (.open, 10_000)
        let text = results.report.text(.table, .none)
        #expect(text.contains("target/s  of target  service p50 µs"))
        #expect(results.data.text.contains(#""service_us": null, "#))
        #expect(!sampleResults().data.text.contains("service_us"))
    }

    @Test("Only a style that is on has colour")
    func colour() {
        #expect(sampleResults().report.text(.table, Style(isOn: true)).contains("\u{1b}[1m"))
    }

    @Test("The warnings of a debug build, an interruption and a missed rate come first")
    func warnings() {
        var results = sampleResults()
        results.record.environment.isDebugBuild = true
        results.wasCutShort = true
        results.rows[0].loop = .open
        (results.rows[0].targetRate, results.rows[0].sendRate) = (20_000, 9876.5)
        let lines = results.report.text(.table, .none).split(separator: "\n")
        #expect(lines[0].hasPrefix("DEBUG BUILD"))
        #expect(lines[1].hasPrefix("CUT SHORT"))
        #expect(lines[2] == "ws json 256: messages were sent at only 49.4 % of the requested rate")
        results.rows[0].network = "3g"
        #expect(results.warnings[2].hasPrefix("ws json 256 over 3g: "))
    }

    @Test("Messages that were sent on time and lost are no missed rate")
    func losses() {
        var results = sampleResults()
        results.rows[0].loop = .open
        (results.rows[0].targetRate, results.rows[0].sendRate, results.rows[0].throughput) = (100, 100, 60)
        #expect(results.warnings.isEmpty)
        #expect(Metric.named("target_percent")?.value(results.rows[0]) == 100)
    }

    @Test("Accounts that do not close fail the run and are shown")
    func accounts() {
        var results = sampleResults()
        #expect(!results.hasFailed)
        results.rows[0].accounts.sent = 3000
        #expect(results.hasFailed)
        #expect(results.report.text(.table, .none).contains("✗"))
    }

    @Test("The JSON has the names of imbench/1")
    func jsonNames() {
        let text = sampleResults().report.text(.json, .none)
        for name in [
            #""schema": "imbench/1""#, #""environment""#, #""options""#, #""transport": "ws""#, #""codec": "json""#,
            #""size": 256"#, #""loop": "closed""#,
            #""rtt_us": {"min": 0.1, "p50": 100.031, "p90": 180.095, "p99": 198.015, "p999": null, "max": 200, "mean": 100.05, "n": 2000}"#,
            #""floor_rtt_us": {"p50": 50}"#, #""ratio_to_floor_p50": 2"#, #""throughput_msgs_per_s": 9876.5"#,
            #""cpu_us_per_msg": 4.25"#,
            #""bytes_per_msg": {"payload": 256, "codec": 60, "framing": 8, "header": 6, "topic": 2, "tls": 0, "transport_ip": 66.5, "wire": 390.5"#,
            #""handshake": {"ms": 0.31, "bytes": 372, "round_trips": 2}"#, #""keepalive_bytes_per_day": null"#,
            #""sent": 2001"#, #""acked": 2000"#, #""lost": 0"#, #""in_flight": 1"#, #""duplicated": 0"#,
            #""reordered": 0"#,
            #""errors": 0"#, #""floors""#, #""processor": "A \"fast\" | one""#,
            #""reason": "message of 4321 bytes is over UDP's limit of 1200""#,
        ] { #expect(text.contains(name), "\(name)") }
    }

    @Test("The JSON has the values of all repeats, in their order")
    func jsonRepeats() {
        var results = sampleResults()
        results.rows[0].repeats = [.p50: [99, nil, 101.5]]
        results.floors[0].repeats = [.p50: [7]]
        let text = results.data.text
        #expect(text.contains(#""repeats": {"rtt_p50_us": [99, null, 101.5]}"#))
        #expect(text.contains(#""repeats": {"rtt_p50_us": [7]}"#))
        #expect(text.contains(#""repeats": {}"#))
    }

    @Test("Rows of the Markdown have as many cells as its header")
    func markdownCells() {
        let lines = sampleResults().report.text(.markdown, .none).split(separator: "\n")
        let rows = lines.drop { !$0.hasPrefix("| transport") }.prefix { $0.hasPrefix("|") }
        #expect(rows.count == 4)
        #expect(Set(rows.map { $0.split(separator: "|").count }).count == 1)
    }

    @Test("Cores are called awake only if they were kept awake, even if a wake-up is short")
    func regime() throws {
        var results = sampleResults()
        for time in [4500, 110_000] as [Int64] {
            var wakeUps = Histogram()
            for _ in 0..<100 { wakeUps.record(time) }
            results.floors[0].rtt = Latency(wakeUps)
            results.wereCoresAwake = false
            var regime = try #require(WakeUpRegime(results))
            #expect(regime.name == "sleeping")
            #expect(regime.sentence.contains("µs for two wake-ups: cores may sleep between messages"))
            results.wereCoresAwake = true
            regime = try #require(WakeUpRegime(results))
            #expect(regime.name == "awake")
            #expect(regime.sentence.hasSuffix("cores were kept awake, so the times compare code"))
        }
        results.floors = []
        #expect(WakeUpRegime(results) == nil)
    }

    @Test("The report and its JSON have the cores of client and server")
    func placement() {
        var results = sampleResults()
        let sentences: [(ThreadPlacement?, String, String)] = [
            (ThreadPlacement(near: 0, far: 3), "client on core 0, server on core 3 (apart)", "apart"),
            (ThreadPlacement(near: 2, far: 2), "client and server on core 2 (same)", "same"),
            (nil, "client and server wherever the scheduler put them (free)", "free"),
        ]
        for (placement, sentence, word) in sentences {
            results.placement = placement
            #expect(results.report.text(.table, .none).contains("placement  " + sentence))
            #expect(results.report.text(.json, .none).contains("\"placement\": \"\(word)\""))
        }
    }

    /// A row beside a floor of which one round trip in `slowEvery` takes four times as long.
    private func row(slowEvery: Int64) -> ResultRow {
        var histogram = Histogram()
        for number in 0..<1000 as Range<Int64> { histogram.record(number % slowEvery == 0 ? 64_000 : 16_000) }
        var floor = FloorResult(kind: .tcpEpoll, size: 143, rtt: Latency(histogram))
        floor.repeats[.p50] = [16, 16, 16]
        var row = sampleResults().rows[0]
        row.ratioToFloor = nil
        row.repeats[.p50] = [24, 24, 24]
        row.compare(with: floor)
        return row
    }

    @Test("A row has no ratio to a floor with a heavy tail, and the report has the reason and a remedy once")
    func heavyTail() {
        var results = sampleResults()
        results.rows = [row(slowEvery: 5), row(slowEvery: 5)]
        #expect(results.rows[0].ratioToFloor == nil && results.rows[0].repeats[.ratioToFloor] == nil)
        #expect(results.rows[0].floorP50 == 16)
        let why =
            "2 rows have no ×floor, because the floors mix several kinds of round trip (p90 is 4.0 times p50 in its floor "
            + "tcp-epoll 143), so a ratio to them depends little on the code."
        for format in [.table, .markdown, .html] as [Format] {
            let text = results.report.text(format, .none, .init(width: .max))
            #expect(text.ranges(of: format == .html ? HTMLRenderer.escaped(why) : why).count == 1, "\(format)")
            #expect(text.contains("Try ") && text.contains("--awake"))
        }
        let json = results.report.text(.json, .none)
        #expect(
            json.contains("\"ratio_to_floor_p50\": null") && json.contains("\"ratio_note\": \"p90 is 4.0 times p50")
        )
    }

    @Test("A row has its ratio to a floor with a tail of less than a tenth")
    func unimodal() {
        var results = sampleResults()
        results.rows = [row(slowEvery: 20)]
        #expect(results.rows[0].ratioToFloor?.median == 1.5 && results.rows[0].ratioNote == nil)
        #expect(results.ratioNotes.isEmpty)
    }
}

@Suite struct JSONValueTests {
    @Test("Strings are escaped as RFC 8259 requires and otherwise unchanged")
    func escapes() {
        #expect(ReportValue.string("a\"b\\c\n\t\r\u{1}\u{7f}é👩‍🚀/").text == #""a\"b\\c\n\t\r\u0001\u007fé👩‍🚀/""#)
    }

    @Test("Whole numbers have no decimals, and numbers without a form in JSON are null")
    func numbers() {
        #expect(ReportValue.number(3).text == "3")
        #expect(ReportValue.number(0.1).text == "0.1")
        #expect(ReportValue.number(.infinity).text == "null")
        #expect(ReportValue.number(.nan).text == "null")
        #expect(ReportValue.number(1e300).text == "1e+300")
        #expect(ReportValue(nil as Int?).text == "null")
    }

    @Test("The readable form is indented by two spaces and keeps plain members on one line")
    func readable() {
        let value = ReportValue.object([
            ("a", .object([("b", .integer(1)), ("c", .bool(true))])), ("d", .array([])), ("e", .array([.object([])])),
        ])
        #expect(value.text == #"{"a": {"b": 1, "c": true}, "d": [], "e": [{}]}"#)
        #expect(value.readableText == "{\n  \"a\": {\"b\": 1, \"c\": true},\n  \"d\": [],\n  \"e\": [{}]\n}")
    }
}

@Suite struct NumbersTests {
    @Test("Numbers have the requested decimals")
    func decimals() {
        #expect(fixed(1.005, 1) == "1.0")
        #expect(fixed(-0.04, 1) == "0.0")
        #expect(fixed(-1.25, 2) == "-1.25")
        #expect(fixed(2.5, 3, trimmed: true) == "2.5")
        #expect(fixed(7, 3, trimmed: true) == "7")
        #expect(fixed(0.007, 3) == "0.007")
        #expect(fixed(12.6, 0) == "13")
        #expect(fixed(.nan, 2) == "-")
        #expect(fixed(1e30, 2) == "1e+30")
    }

    @Test("Tables show about three digits")
    func digits() {
        #expect([1.234, 9.996, 99.96, 1234.5].map { shown($0) } == ["1.23", "10.0", "100.0", "1235"])
        #expect(shown(nil as Double?) == "-")
    }
}
