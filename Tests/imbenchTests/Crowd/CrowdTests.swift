import CommandTestSupport
import TestSupport
import Testing

@testable import CommandSupport
@testable import Reporting
@testable import imbench

private func parse(_ line: String) throws(UsageError) -> CrowdCommand {
    try OptionParser(vocabulary: everything).parse(line.split(separator: " ").map(String.init), as: CrowdCommand.self)
}

@Suite("imbench crowd", .timeLimit(.minutes(5)), .ownThread)
struct CrowdTests {
    @Test("Every option is read and recorded")
    func options() throws {
        let options = try parse("crowd --idle 5 --hold 2s --transport ws,mqtt --transfer 1KiB")
        #expect(options.connections == 5 && options.hold == .seconds(2) && options.transfer == 1024)
        #expect(options.transports == ["ws", "mqtt"])
        #expect(try parse("crowd").transports == ["ws"] && parse("crowd").connections == 10_000)
        #expect(try parse("crowd").idle == nil)
        #expect(throws: UsageError(#"--transport is "udp"; allowed is "tcp", "ws", "mqtt""#)) {
            try parse("crowd --transport udp")
        }
    }

    @Test(
        "The verdict of idle clients has ranges of two digits without a winner, because each transport is measured once"
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
            let run = RunResults(RunRecord(environment: .current(), options: [], seed: 0))
            return CrowdResults(run: run, rows: rows).report.verdict
        }
        #expect(
            verdict([row("tls", 18_000.4, 1200), row("tcp", 2000, 11_000), row("ws", 2700, nil)]) == [
                "An idle connection takes about 2000 to 18,000 bytes of heap at the server and 4000 to 36,000 at the client.",
                "About 1200 to 11,000 connections were opened per second.",
                "Each transport was measured once, so a small difference may be chance.",
            ]
        )
        var failed = row("ws", 1, 1)
        failed.failure = "3 of 10 pings were not answered"
        #expect(
            verdict([failed, row("tcp", 2000, 11_000)]) == [
                "1 of 2 rows failed: ws (3 of 10 pings were not answered).",
                "An idle connection over tcp takes about 2000 bytes of heap at the server and 4000 at the client.",
                "About 11,000 connections over tcp were opened per second.", "This is one measurement.",
            ]
        )
        #expect(verdict([row("tcp", 3252, 13_049)])[1].hasPrefix("About 13,000 connections over tcp"))
        #expect(verdict([row("tcp", 3252, 99.7)])[0].contains("about 3300 bytes of heap at the server and 6500 at"))
        #expect(verdict([row("tcp", 3252, 99.7)])[1].hasPrefix("About 100 connections"))
        #expect(verdict([failed]) == ["1 of 1 row failed: ws (3 of 10 pings were not answered)."])
    }
}
