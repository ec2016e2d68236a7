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
            let run = RunResults(RunRecord(environment: .current(), options: [], seed: 0))
            return CrowdResults(run: run, rows: rows).report.verdict
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
                "1 of 2 rows failed: ws (3 of 10 pings were not answered).",
                "An idle connection over tcp takes 2000 bytes of heap at the server and 4000 at the client.",
                "Over tcp, 11000 connections were opened per second.",
            ]
        )
        #expect(verdict([failed]) == ["1 of 1 row failed: ws (3 of 10 pings were not answered)."])
    }
}
