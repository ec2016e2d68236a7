import Testing
import TransportAPI

@testable import imbench

/// A run of one row whose repeats have these medians; the other numbers follow from them.
func run(_ medians: [Double?], floors: [Double] = [50, 51, 52, 53, 54], transport: String = "ws") -> RunResults {
    var results = sampleResults()
    results.rows.removeLast()
    results.rows[0].transport = transport
    results.rows[0].repeats = [
        .p50: medians, .p99: medians.map { $0.map { $0 * 2 } }, .throughput: medians.map { $0.map { 1e6 / $0 } },
        .cpu: medians.map { $0.map { $0 / 4 } }, .ratioToFloor: medians.map { $0.map { $0 / 50 } },
    ]
    results.floors[0].repeats = [.p50: floors]
    results.record.options = [("connections", "1"), ("in-flight", "1"), ("repeat", String(medians.count))]
    return results
}

/// The run, read back from its report.
func recorded(_ results: RunResults, _ label: String) throws(TransportError) -> RecordedRun {
    try RecordedRun(json: results.report.text(.json, .none).utf8, label: label)
}

@Suite("Reading reports of imbench run")
struct RecordedRunTests {
    private func mistake(_ text: String) -> String? {
        do throws(TransportError) {
            _ = try RecordedRun(json: text.utf8, label: "a.json")
            return nil
        } catch {
            return error.reason
        }
    }

    private func report(_ results: String = "[]", floors: String = "[]", schema: String = #""imbench/1""#) -> String {
        #"{"schema": \#(schema), "environment": {}, "options": {}, "results": \#(results), "floors": \#(floors)}"#
    }

    private func row(_ more: String) -> String {
        report(#"[{"transport": "ws", "codec": "json", "size": 32, "loop": "closed"\#(more)}]"#)
    }

    @Test("The report of a run is read back")
    func readsBack() throws {
        var results = run([10.5, nil, 12])
        results.wasCutShort = true
        results.record.environment.isDebugBuild = true
        results.rows[0].loop = .open
        let read = try recorded(results, "a.json")
        #expect(read.label == "a.json" && read.wasCutShort)
        #expect(read.environment["build"] == "debug" && read.environment["cores"] == "1")
        #expect(read.options["repeat"] == "3")
        let name = RecordedRow.Name(
            transport: "ws",
            codec: "json",
            size: 256,
            loop: .open,
            load: "connections=1 in-flight=1"
        )
        #expect(read.rows.map(\.name) == [name])
        #expect(read.rows[0].floorP50 == 50)
        #expect(read.rows[0].repeats[.p50] == [10.5, nil, 12])
        #expect(read.rows[0].repeats[.cpu] == [2.625, nil, 3])
        #expect(read.floors.map(\.name) == [RecordedRow.Name(transport: "wake-up", size: 8)])
        #expect(read.floors[0].repeats == [.p50: [50, 51, 52, 53, 54]])
    }

    @Test("A floor may have the size of the largest message, which is encoded and larger than its text")
    func largestFloor() throws {
        let size = (1 << 24) + 100
        let text = report(floors: #"[{"floor": "tcp-epoll", "size": \#(size)}]"#)
        #expect(try RecordedRun(json: text.utf8, label: "a").floors[0].name.size == size)
    }

    @Test("Unknown members and missing repeats are accepted")
    func tolerant() throws {
        let text = row(#", "colour": [1], "repeats": {"colour_nm": ["x"]}"#)
        #expect(try RecordedRun(json: text.utf8, label: "a").rows[0].repeats.isEmpty)
        #expect(try RecordedRun(json: row("").utf8, label: "a").rows[0].repeats.isEmpty)
    }

    @Test("An error names the file, the line and the allowed values")
    func mistakes() {
        let names = #", "codec": "json", "size": 32, "loop": "closed"}"#
        let same = #"{"transport": "ws"\#(names)"#
        let many = Array(repeating: "1", count: 1001).joined(separator: ",")
        let rows = (1...4097).map { #"{"floor": "tcp", "size": \#($0)}"# }.joined(separator: ",")
        let cases = [
            ("", "a.json:1:1: the text is empty"), ("[]", "a.json:1: the file is an array; allowed is an object"),
            ("{}", #""schema" is missing; allowed is "imbench/1""#),
            (report(schema: #""imbench/2""#), #""schema" is "imbench/2"; allowed is "imbench/1""#),
            (report(schema: "1"), #""schema" is 1; allowed is "imbench/1""#),
            (#"{"schema": "imbench/1"}"#, #""environment" is missing"#),
            (#"{"schema": "imbench/1", "environment": 5}"#, #""environment" is 5; allowed is an object"#),
            (#"{"schema": "imbench/1", "environment": {}, "options": {}}"#, #""results" is missing"#),
            (report("{}"), #""results" is an object; allowed is an array"#),
            (report("[5]"), #""results[0]" is 5; allowed is an object"#),
            (report(#"[{"transport": "ws", "fault": "reset"}]"#), #""results[0].size" is missing"#),
            (report(#"[{"policy": "none"}]"#), #""results[0].transport" is missing"#),
            (report(#"[{"transport": "ws", "size": 4}]"#), #""results[0].codec" is missing"#),
            (report(#"[{"transport": 7\#(names)]"#), #""results[0].transport" is 7; allowed is a text"#),
            (report(#"[{"transport": "ws", "size": -1}]"#), #""results[0].size" is -1; allowed is 1 to 16777216"#),
            (
                report(floors: #"[{"floor": "tcp", "size": 33554433}]"#),
                #""floors[0].size" is 33554433; allowed is 1 to 33554432"#
            ),
            (report("[\(same), \(same)]"), #""results[1]" is a duplicate row"#),
            (report(floors: "[\(rows)]"), #""floors" has more than 4096 rows"#),
            (row(#", "loop": "open""#), "is in line 1 already"),
            (report("[\(same.replacing("closed", with: "opn"))]"), #"did you mean "open"?"#),
            (row(#", "floor_rtt_us": 5"#), #""results[0].floor_rtt_us" is 5; allowed is an object or null"#),
            (row(#", "floor_rtt_us": {"p50": 0}"#), #"floor_rtt_us.p50" is 0; allowed is a number above 0, or null"#),
            (row(#", "repeats": 5"#), #""results[0].repeats" is 5; allowed is an object"#),
            (row(#", "repeats": {"rtt_p50_us": 5}"#), #"rtt_p50_us" is 5; allowed is an array"#),
            (row(#", "repeats": {"rtt_p50_us": ["5"]}"#), #"rtt_p50_us[0]" is "5"; allowed is a number"#),
            (row(#", "repeats": {"rtt_p50_us": [-5]}"#), #"rtt_p50_us[0]" is -5; allowed is a number"#),
            (row(#", "repeats": {"rtt_p50_us": [\#(many)]}"#), "has 1001 repeats; allowed are 1000"),
            (String(repeating: "[", count: 40), "nested deeper than 32 levels"),
        ]
        for (text, part) in cases {
            let mistake = mistake(text)
            #expect(
                mistake?.hasPrefix("a.json:") == true && mistake?.contains(part) == true,
                "\(part): \(mistake ?? "none")"
            )
        }
    }

    @Test("A text that is longer than any report is refused before it is parsed")
    func tooLong() {
        let text = String(repeating: " ", count: RecordedRun.maximumLength + 1)
        #expect(mistake(text) == "a.json: the text is longer than 16777216 bytes")
    }

    @Test("The error of a missing file names it")
    func missing() {
        do throws(TransportError) {
            _ = try readRun("/nowhere/a.json")
            Issue.record("it was read")
        } catch {
            #expect(error.reason == "cannot read /nowhere/a.json: No such file or directory")
        }
    }

    @Test("A truncated report is an error, and does not trap")
    func beginnings() {
        let text = Array(run([1, 2, 3]).report.text(.json, .none).utf8.dropLast())
        for count in stride(from: 0, to: text.count, by: 7) {
            #expect(throws: TransportError.self) { try RecordedRun(json: text.prefix(count), label: "a") }
        }
    }

    @Test("Control characters of a file are replaced, and long texts are cut")
    func printable() throws {
        var results = run([1])
        results.record.environment.processor = "\u{1b}[2J" + String(repeating: "x", count: 1000)
        let processor = try #require(try recorded(results, "a").environment["processor"])
        #expect(processor.hasPrefix("\u{fffd}[2Jxxx") && processor.count == RecordedRun.keptText)
    }
}
