import CommandTestSupport
import Protocols
import TestSupport
import Testing
import TransportAPI
import Transports

@testable import CommandSupport
@testable import Measuring
@testable import Reporting
@testable import Workloads
@testable import imbench

/// The modes of transports that have rows of their own.
@Suite("Modes of transports", .timeLimit(.minutes(2)), .ownThread)
struct TransportModesTests {
    private static let messages = 40

    private func measure(_ names: [String], size: Int = 32) throws -> [ResultRow] {
        let stage = try Stage(registry: .measured, outside: [], seed: 1, placement: nil)
        let bench = EchoBench(
            RowOptions(transports: names, codec: "protobuf", size: size),
            EchoLoad(warmup: .zero, repeats: 1),
            stage: stage,
            seed: 1,
            limits: .init(connect: .seconds(60), answer: 30_000_000_000)
        )
        for key in bench.keys { bench.measure(key, duration: .seconds(3600), messages: Self.messages) }
        let rows = bench.results(FloorBench(kinds: [], sizes: []))
        bench.close()
        stage.close()
        return rows
    }

    @Test("Each mode is measured, and its row says what it guarantees")
    func guarantees() throws {
        let expected = [
            ("tcp", "in order until the connection ends"), ("mqtt", "in order until the connection ends"),
            ("mqtt-early", "in order until the connection ends"),
            ("mqtt-qos1", "in order, each message confirmed by the broker"),
            ("mqtt-qos2", "in order, each message confirmed by the broker, none twice"),
            ("udp", "nothing: messages can be lost or reordered"),
            ("udp-reliable", "in order until the connection ends"),
            ("udp-unordered", "in any order until the connection ends"),
        ]
        let rows = try measure(expected.map(\.0))
        #expect(rows.map(\.guarantee) == expected.map(\.1))
        for row in rows {
            #expect(row.outcome == .measured && row.accounts.closes, "\(row.transport) \(row.outcome)")
        }
        var results = sampleResults()
        results.rows = rows
        for report in [results.report, results.overheadReport] {
            let text = report.text(.markdown, .none)
            for (_, guarantee) in expected { #expect(text.contains("| \(guarantee) |")) }
        }
        #expect(results.data.text.contains(#""guarantees": "in any order until the connection ends""#))
    }

    @Test("With early publish, the first message of MQTT leaves as early as over TCP")
    func roundTrips() throws {
        let rows = try measure(["tcp", "mqtt", "mqtt-early"])
        #expect(rows.map { $0.handshake?.roundTrips } == [1, 3, 1])
    }

    @Test("The bytes of the topic stand beside the framing, and acknowledgements count as framing")
    func topics() throws {
        let names = ["tcp", "mqtt", "mqtt-qos1", "mqtt-qos2"]
        // All topics have 25 bytes. The header is a fixed one of 2 bytes and the length of the topic. At QoS 1 and 2 also a
        // packet identifier, and 4 bytes for each acknowledgement that a client sends: PUBACK of the answer, or PUBREL,
        // PUBREC and PUBCOMP.
        let expected: [Double] = [4, 4, 6 + 4, 6 + 12]
        // The acknowledgements of the last answer may leave after the end of the slice.
        let late = 8.1 / Double(Self.messages)
        for (row, header) in zip(try measure(names), expected) {
            let bytes = try #require(row.bytesPerMessage)
            #expect(bytes.topic == (row.transport == "tcp" ? 0 : 25))
            #expect(bytes.header >= header - late && bytes.header <= header + 1, "\(row.transport): \(bytes)")
            #expect(abs(bytes.header + bytes.topic - bytes.framing) < 0.001)
        }
    }

    @Test("Compression makes messages shorter, each by itself, and the parts of its bar are not negative")
    func compression() throws {
        guard ZLib.shared != nil else { return }
        let rows = try measure(["ws", "ws-deflate"], size: 1024)
        let (plain, compressed) = try (
            #require(rows[0].bytesPerMessage), #require(rows[1].bytesPerMessage)
        )
        // With the window of earlier messages, the same text again would take less than 100 bytes.
        #expect(compressed.framing < 0 && compressed.wire < plain.wire)
        #expect(compressed.wire - (compressed.transportIP ?? 0) > 300, "\(compressed)")
        var results = sampleResults()
        results.rows = rows
        let charts = results.overheadReport.sections.flatMap(\.charts).compactMap { $0 as? BarChart }
        let spans = try #require(charts.first).rows.flatMap(\.spans)
        #expect(spans.count == 8 && spans.allSatisfy { $0.to >= $0.from && $0.from >= 0 })
        #expect(abs(spans[7].to - compressed.wire) < 0.001)
    }

    @Test("The modes are measured only on request, and the other commands do not offer them")
    func onRequest() throws {
        let words = Vocabulary(
            program: "imbench",
            purpose: "a test",
            groups: Vocabulary.measured.groups,
            transports: TransportRegistry.measured.transports.map(\.name),
            defaultTransports: ["tcp"],
            codecs: ["json"],
            modes: TransportMode.namesOfMeasuredOnly
        )
        func parse<Parsed: RunnableCommand>(_ line: String, as _: Parsed.Type) throws(UsageError) -> Parsed {
            try OptionParser(vocabulary: words).parse(line.split(separator: " ").map(String.init), as: Parsed.self)
        }
        func run(_ line: String) throws -> [String] { try parse(line, as: RunCommand.self).rows.transports }
        #expect(try run("run") == ["tcp"])
        #expect(try run("run --transport mqtt-qos1,udp-unordered") == ["mqtt-qos1", "udp-unordered"])
        let overhead = try parse("overhead --transport mqtt-qos2,mqtt-early", as: OverheadCommand.self)
        #expect(overhead.rows.transports == ["mqtt-qos2", "mqtt-early"])
        #expect(throws: UsageError.self) { try parse("outage --transport mqtt-qos1", as: OutageCommand.self) }
        let outage = try parse("outage --transport udp-reliable", as: OutageCommand.self)
        #expect(outage.transports == ["udp-reliable"])
    }
}
