import CommandTestSupport
import TestSupport
import Testing

@testable import CommandSupport
@testable import Reporting
@testable import imlab

private func parse(_ line: String) throws(UsageError) -> HostileCommand {
    let words = line.split(separator: " ").map(String.init)
    return try OptionParser(vocabulary: .laboratory).parse(words, as: HostileCommand.self)
}

private func report(_ rows: [AttackRow]) -> Report {
    AttackResults(run: RunRecord(environment: .current(), options: [], seed: 0), rows: rows).report
}

@Suite("imlab hostile", .timeLimit(.minutes(5)), .ownThread)
struct HostileTests {
    @Test("The report has the expected endings, and the breaches")
    func breaches() {
        var row = AttackRow(transport: "ws", attack: .halfOpen)
        (row.expected, row.breaches) = (["tooManyRequests"], ["no client was ended with tooManyRequests"])
        let report = imlabTests.report([row])
        #expect(report.text(.table, .none).contains("none   tooManyRequests"))
        #expect(report.text(.json, .none).contains("no client was ended with tooManyRequests"))
    }

    @Test("A chart shows what an attack adds or saves, in the unit of its axis, and its legend has only what it shows")
    func chart() throws {
        func chart(_ before: Double, _ during: Double) throws -> BarChart {
            var row = AttackRow(transport: "ws", attack: .halfOpen)
            row.metrics = [("quiet_p99_us", before), ("attacked_p99_us", during)]
            let report = imlabTests.report([row])
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
        let options = try parse("hostile --attackers 7 --attack ping-flood,half-open --hold 2s --transport ws,mqtt")
        #expect(options.attackers == 7)
        #expect(options.attacks == [.pingFlood, .halfOpen])
        #expect(options.hold == .seconds(2))
        #expect(options.transports == ["ws", "mqtt"])
        let all = ["tcp", "ws", "mqtt", "mqtt+ws", "stomp", "stomp+ws", "xmpp", "http", "udp"]
        #expect(try parse("hostile").transports == all)
        #expect(try parse("hostile").idle == 0 && parse("hostile --idle 20000").idle == 20_000)
        #expect(try parse("hostile --idle 5").transports == all.filter { $0 != "udp" })
        #expect(throws: UsageError(#"--idle is "20001"; allowed is 0 to 20000"#)) { try parse("hostile --idle 20001") }
        #expect(try parse("hostile").repeats == 1 && parse("hostile --repeat 3").repeats == 3)
        let sentence =
            #"--transport is "udp"; allowed with --idle is "tcp", "ws", "mqtt", "mqtt+ws", "stomp", "stomp+ws", "xmpp", "http", "tls", "wss", "mqtts", "mqtt+wss", "stomp+tls", "stomp+wss", "xmpps", "https""#
        #expect(throws: UsageError(sentence)) { try parse("hostile --idle 5 --transport udp") }
    }

    @Test("Assertions apply to the rows that they name")
    func assertions() throws {
        var row = AttackRow(transport: "ws", attack: .pingFlood)
        row.metrics = [("ratio_p99", 1.5), ("quiet_p99_us", nil)]
        func failure(_ text: String) throws -> String? {
            let words = ["hostile", "--assert", text]
            let options = try OptionParser(vocabulary: .laboratory).parse(words, as: HostileCommand.self)
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
        func row(_ factor: Double, _ breaches: [String] = []) -> AttackRow {
            var row = AttackRow(transport: "ws", attack: .pingFlood)
            (row.metrics, row.breaches) = ([("ratio_p99", factor)], breaches)
            return row
        }
        let middle = try #require(AttackRow.middle(of: [row(9, ["a"]), row(1, ["b"]), row(1.5, ["a"])]))
        #expect(middle.value(of: "ratio_p99") == 1.5 && middle.value(of: "ratio_p99_least") == 1)
        #expect(middle.value(of: "ratio_p99_most") == 9 && middle.value(of: "repeats") == 3)
        #expect(middle.breaches == ["a", "b"])
        #expect(AttackRow.middle(of: [row(1), row(3)])?.value(of: "ratio_p99") == 3)
        var failed = row(2)
        failed.failure = "it did not start"
        #expect(AttackRow.middle(of: [row(1), failed, row(3)])?.failure == "it did not start")
        #expect(AttackRow.middle(of: []) == nil)
    }

    @Test("The report has every number in each format", arguments: Format.allCases)
    func formats(format: Format) {
        var row = AttackRow(transport: "ws", attack: .pingFlood)
        row.metrics = AttackRow.metricNames.map { ($0, 4711) }
        row.endings = [("tooManyRequests", 99)]
        let text = report([row]).text(format, .none)
        #expect(text.contains("ping-flood"))
        #expect(text.contains("4711"))
        #expect(format == .csv || text.contains("99"))
        #expect(format != .json || text.contains("\"schema\": \"imbench/1\""))
    }
}
