import Testing

@testable import CommandSupport
@testable import Reporting
@testable import imbench

@Suite struct AssertionTests {
    private func failure(_ text: String) throws(UsageError) -> String? {
        try Assertion(text, everything, .rows(everything)).failure(in: sampleResults().rows)
    }

    @Test(
        "An expression that holds has no failure",
        arguments: [
            "ws.rtt.p99_us < 2000", "ws.json.256.rtt.p99_us<=2000", "ws.json.handshake.round_trips == 2",
            "ws.lost == 0",
            "ws.256.throughput_msgs_per_s > 1000", "  ws.errors != 1 ", "ws.bytes.wire >= 390.5",
        ]
    )
    func holds(_ text: String) throws {
        #expect(try failure(text) == nil)
    }

    @Test("The failure of an expression names the row and its number")
    func doesNotHold() throws {
        #expect(try failure("ws.rtt.p50_us < 100") == "'ws.rtt.p50_us < 100' does not hold: ws json 256 has 100.031")
    }

    @Test("An expression about a missing row or number never holds")
    func missing() throws {
        #expect(try failure("mqtt.lost == 0")?.hasSuffix("there is no such row") == true)
        #expect(try failure("ws.json.32.lost == 0")?.hasSuffix("there is no such row") == true)
        #expect(try failure("udp.rtt.p50_us < 5")?.contains("over UDP's limit") == true)
        #expect(try failure("ws.rtt.p999_us < 5000")?.contains("too few samples") == true)
    }

    @Test(
        "An error names the allowed values",
        arguments: [
            ("ws.rtt.p99_us", "is not of the form"), ("< 5", "is not of the form"), ("ws < 5", "is not of the form"),
            ("ws.lost < five", "is not of the form"), ("", "is not of the form"),
            ("wx.lost < 5", "did you mean 'ws'?"), ("ws.rtt.p99 < 5", "did you mean 'rtt.p99_us'?"),
            ("ws.banana < 5", "allowed is rtt.min_us, rtt.p50_us"), ("ws..lost < 5", "unknown metric"),
        ]
    )
    func mistakes(_ text: String, _ part: String) {
        do throws(UsageError) {
            _ = try Assertion(text, everything, .rows(everything))
            Issue.record("'\(text)' was accepted")
        } catch {
            #expect(error.message.contains(part))
        }
    }
}
