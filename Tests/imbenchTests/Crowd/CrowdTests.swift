import TestSupport
import Testing

@testable import imbench

private func parse(_ line: String) throws(UsageError) -> CrowdCommand {
    try OptionParser(vocabulary: everything).parse(line.split(separator: " ").map(String.init), as: CrowdCommand.self)
}

@Suite("imbench crowd", .timeLimit(.minutes(5)), .ownThread)
struct CrowdTests {
    @Test("The report has the expected endings, and the breaches")
    func breaches() {
        var row = CrowdRow(transport: "ws", attack: .halfOpen)
        (row.expected, row.breaches) = (["tooManyRequests"], ["no client was ended with tooManyRequests"])
        let run = RunResults(environment: .current(), options: [], seed: 0)
        let report = CrowdResults(run: run, isHostile: true, rows: [row]).report
        #expect(report.text(.table, .none).contains("none   tooManyRequests"))
        #expect(report.text(.json, .none).contains("no client was ended with tooManyRequests"))
    }

    @Test("A chart shows what an attack adds or saves, in the unit of its axis, and its legend has only what it shows")
    func chart() throws {
        func chart(_ before: Double, _ during: Double) throws -> BarChart {
            var row = CrowdRow(transport: "ws", attack: .halfOpen)
            row.metrics = [("quiet_p99_us", before), ("attacked_p99_us", during)]
            let run = RunResults(environment: .current(), options: [], seed: 0)
            let report = CrowdResults(run: run, isHostile: true, rows: [row]).report
            return try #require(report.sections.flatMap(\.charts).first as? BarChart)
        }
        let saved = try chart(10_000, 4000)
        #expect(saved.rows.map(\.value) == ["10.0 → 4.00 ms"])
        #expect(saved.rows[0].spans.map(\.kind) == [.first, .tail] && saved.rows[0].spans[1].from == 4000)
        #expect(saved.legend.map(\.meaning) == ["with and without the attack", "without it only"])
        let added = try chart(40, 90)
        #expect(added.rows.map(\.value) == ["40.0 → 90.0 µs"])
        #expect(added.rows[0].spans.map(\.kind) == [.first, .worse] && added.rows[0].spans[1].to == 90)
    }

    @Test("Every option is read and recorded")
    func options() throws {
        let line = "crowd --hostile --attackers 7 --attack ping-flood,half-open --hold 2s --transport ws,mqtt"
        let options = try parse(line)
        #expect(options.crowd.isHostile)
        #expect(options.crowd.attackers == 7)
        #expect(options.crowd.attacks == [.pingFlood, .halfOpen])
        #expect(options.crowd.hold == .seconds(2))
        #expect(options.transports == ["ws", "mqtt"])
        #expect(try parse("crowd").transports == ["ws"])
        #expect(try parse("crowd").crowd.connections == 10_000)
        #expect(try parse("crowd --hostile").transports == ["tcp", "ws", "mqtt", "mqtt+ws", "udp"])
        #expect(try parse("crowd --hostile").crowd.connections == 0)
        #expect(try parse("crowd --hostile --idle 20000").crowd.connections == 20_000)
        #expect(try parse("crowd --hostile --idle 5").transports == ["tcp", "ws", "mqtt", "mqtt+ws"])
        #expect(try parse("crowd --idle 5").crowd.idle == 5 && parse("crowd").crowd.idle == nil)
        #expect(throws: UsageError(#"--idle is "20001"; allowed with --hostile is 1 to 20000"#)) {
            try parse("crowd --hostile --idle 20001")
        }
        #expect(try parse("crowd --hostile").repeats == 1 && parse("crowd --hostile --repeat 3").repeats == 3)
        #expect(throws: UsageError("--repeat needs --hostile")) { try parse("crowd --repeat 3") }
        #expect(throws: UsageError("--attackers needs --hostile")) { try parse("crowd --attackers 5") }
        let sentence =
            #"--transport is "udp"; allowed with idle clients is "tcp", "ws", "mqtt", "mqtt+ws", "tls", "wss", "mqtts", "mqtt+wss"; "#
            + "--hostile without --idle allows it"
        #expect(throws: UsageError(sentence)) { try parse("crowd --transport udp") }
    }

    @Test("Assertions apply to the rows that they name")
    func assertions() throws {
        var row = CrowdRow(transport: "ws", attack: .pingFlood)
        row.metrics = [("ratio_p99", 1.5), ("quiet_p99_us", nil)]
        func failure(_ text: String) throws -> String? {
            let words = ["crowd", "--hostile", "--assert", text]
            let options = try OptionParser(vocabulary: everything).parse(words, as: CrowdCommand.self)
            return try #require(options.assertions.first).failure(in: [row])
        }
        #expect(try failure("ws.ping-flood.ratio_p99 <= 2") == nil)
        #expect(try failure("ws.ratio_p99 < 1") == "'ws.ratio_p99 < 1' does not hold: ws.ping-flood has 1.5")
        #expect(try failure("tcp.ratio_p99 < 1") == "'tcp.ratio_p99 < 1' does not hold: there is no such row")
        #expect(try failure("ws.half-open.ratio_p99 < 1")?.hasSuffix("there is no such row") == true)
        #expect(try failure("ws.quiet_p99_us < 1")?.contains("ws.ping-flood has no quiet_p99_us (") == true)
        #expect(throws: UsageError.self) { _ = try failure("ws.speed < 1") }
        #expect(throws: UsageError.self) { _ = try failure("ws < 1") }
    }

    @Test("The median of several measurements counts, with the breaches of all")
    func repeats() throws {
        func row(_ factor: Double, _ breaches: [String] = []) -> CrowdRow {
            var row = CrowdRow(transport: "ws", attack: .pingFlood)
            (row.metrics, row.breaches) = ([("ratio_p99", factor)], breaches)
            return row
        }
        let middle = try #require(CrowdRow.middle(of: [row(9, ["a"]), row(1, ["b"]), row(1.5, ["a"])]))
        #expect(middle.value(of: "ratio_p99") == 1.5 && middle.value(of: "ratio_p99_least") == 1)
        #expect(middle.value(of: "ratio_p99_most") == 9 && middle.value(of: "repeats") == 3)
        #expect(middle.breaches == ["a", "b"])
        #expect(CrowdRow.middle(of: [row(1), row(3)])?.value(of: "ratio_p99") == 3)
        var failed = row(2)
        failed.failure = "it did not start"
        #expect(CrowdRow.middle(of: [row(1), failed, row(3)])?.failure == "it did not start")
        #expect(CrowdRow.middle(of: []) == nil)
    }

    @Test("The report has every number in each format", arguments: Format.allCases)
    func report(format: Format) {
        var row = CrowdRow(transport: "ws", attack: .pingFlood)
        row.metrics = CrowdRow.attackMetrics.map { ($0, 4711) }
        row.endings = [("tooManyRequests", 99)]
        let run = RunResults(environment: .current(), options: [], seed: 0)
        let text = CrowdResults(run: run, isHostile: true, rows: [row]).report.text(format, .none)
        #expect(text.contains("ping-flood"))
        #expect(text.contains("4711"))
        #expect(format == .csv || text.contains("99"))
        #expect(format != .json || text.contains("\"schema\": \"imbench/1\""))
    }

    @Test(
        "The verdict of idle clients has the most and the least memory and speed, or the figures of the only transport"
    )
    func idleVerdict() {
        func row(_ transport: String, _ bytes: Double, _ rate: Double?) -> CrowdRow {
            var row = CrowdRow(transport: transport)
            row.metrics = [
                ("server_bytes", bytes), ("client_bytes", 2 * bytes), ("server_kernel_bytes", nil),
                ("connections_per_s", rate),
            ]
            return row
        }
        func verdict(_ rows: [CrowdRow]) -> [String] {
            let run = RunResults(environment: .current(), options: [], seed: 0)
            return CrowdResults(run: run, isHostile: false, rows: rows).report.verdict
        }
        #expect(
            verdict([row("tls", 18_000.4, 1200), row("tcp", 2000, 11_000), row("ws", 2700, nil)]) == [
                "An idle connection takes the least heap at the server over tcp, 2000 bytes, and the most over tls, 18000 bytes.",
                "Over tcp the most connections were opened per second, 11000, and over tls the fewest, 1200.",
            ]
        )
        var failed = row("ws", 1, 1)
        failed.failure = "3 of 10 pings were not answered"
        #expect(
            verdict([failed, row("tcp", 2000, 11_000)]) == [
                "An idle connection over tcp takes 2000 bytes of heap at the server and 4000 at the client.",
                "11000 connections were opened per second.",
            ]
        )
        #expect(verdict([failed]).isEmpty)
    }
}
