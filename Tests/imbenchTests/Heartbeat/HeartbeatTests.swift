import Foundation
import TestSupport
import Testing
import TransportAPI
import Transports

@testable import imbench

private func options(_ line: String) throws(UsageError) -> Options {
    try OptionParser(vocabulary: everything).parse(line.split(separator: " ").map(String.init))
}

@Suite("The radio model")
struct RadioModelTests {
    @Test("The awake time follows from the tail alone", arguments: [(180, 1.33), (45, 5.33), (30, 8.0), (5, 24.0)])
    func tail(seconds: Int, hours: Double) throws {
        let model = try RadioModel("tail=10s")
        #expect(abs(model.awakeHoursPerDay(every: .seconds(seconds)) - hours) < 0.01)
    }

    @Test("The time to wake up is added to the tail")
    func wake() throws {
        let model = try RadioModel("wake=2s,tail=14s")
        #expect(abs(model.awakeHoursPerDay(every: .seconds(160)) - 2.4) < 1e-9)
        #expect(model == RadioModel(name: "wake=2s,tail=14s", wake: .seconds(2), tail: .seconds(14), source: "--radio"))
    }

    @Test("Each known radio names its source and its year", arguments: RadioModel.known)
    func sources(_ model: RadioModel) throws {
        #expect(try RadioModel(model.name) == model)
        #expect(model.source.contains("20") && model.sentence.contains(model.source))
        #expect(model.sentence.contains("a model, not a measurement"))
    }

    @Test(
        "A wrong radio names what is allowed",
        arguments: [
            ("lt", "--radio: unknown radio 'lt'; did you mean 'lte'? allowed is lte, 3g, wifi, tail=TIME,wake=TIME"),
            ("tail=10", #"--radio: tail is "10"; allowed is "0s" to "1h""#),
            ("tail=10s,tail=1s", "--radio: tail is given twice"),
            ("wake=1s", #"--radio "wake=1s": tail is missing; allowed is tail=TIME, as in tail=10s"#),
            (
                "tale=10s",
                "--radio: unknown parameter 'tale=10s'; allowed is tail=TIME, wake=TIME"
            ),
        ]
    )
    func mistakes(_ text: String, _ sentence: String) {
        #expect(throws: UsageError(sentence)) { try options("heartbeat --radio \(text)") }
    }
}

@Suite("imbench heartbeat", .timeLimit(.minutes(5)), .ownThread)
struct HeartbeatTests {
    private let seconds = [30, 120].map { Duration.seconds($0) }

    private func results(failure: String? = nil) throws -> HeartbeatResults {
        let given = HeartbeatOptions(intervals: seconds, expiries: [.seconds(30), .seconds(90)])
        var results = HeartbeatResults(run: sampleResults(), options: given)
        for name in ["tcp", "ws", "udp"] {
            let descriptor = try TransportRegistry.measured.transport(named: name)
            results.rows += given.rows(of: descriptor, pingBytes: 100, failure: failure)
        }
        return results
    }

    @Test("A connection survives a NAT only if the ping comes before the NAT forgets the mapping")
    func verdicts() throws {
        let rows = try results().rows
        func verdict(_ transport: String, _ interval: Int, _ nat: Int) -> HeartbeatRow.Verdict? {
            rows.first { $0.transport == transport && $0.interval == .seconds(interval) }?.verdict(.seconds(nat))
        }
        #expect(verdict("tcp", 30, 31) == .survives)
        #expect(verdict("tcp", 30, 30) == .dies)
        #expect(verdict("tcp", 60, 30) == .dies)
        #expect(verdict("udp", 25, 30) == .survives)
        // A session over UDP continues from the new address.
        #expect(verdict("udp", 120, 90) == .gaps)
    }

    @Test("Each transport has a row for its own interval and for each given one, in order")
    func rows() throws {
        let intervals = try results().rows.map { "\($0.transport) \($0.interval.settingText)\($0.isOwn ? "*" : "")" }
        #expect(
            intervals == [
                "tcp 30s", "tcp 1m*", "tcp 2m", "ws 30s*", "ws 2m", "udp 25s*", "udp 30s", "udp 2m",
            ]
        )
    }

    @Test("Bytes and detection follow from the interval")
    func arithmetic() throws {
        let row = try #require(try results().rows.first)
        #expect(row.bytesPerDay == 288_000 && row.pingsPerDay == 2880)
        #expect(row.detection(timeout: .seconds(10)) == .seconds(40))
        #expect(HeartbeatOptions().timeout == SupervisorConfiguration().keepalive.timeout)
    }

    @Test("A row that was not measured has a reason and no verdict")
    func failure() throws {
        let report = try results(failure: "the protocol has no ping").report
        #expect(report.text(.table, .none).contains("the protocol has no ping"))
        #expect(!report.text(.csv, .none).contains("survives"))
    }

    @Test("The report has each verdict in each format, and fits in 80 columns", arguments: Format.allCases)
    func formats(_ format: Format) throws {
        let text = try results().report.text(format, .none)
        for verdict in HeartbeatRow.Verdict.allCases { #expect(text.contains(verdict.rawValue), "\(verdict)") }
        guard format == .table else { return }
        for line in text.split(separator: "\n") { #expect(line.count <= 80, "\(line)") }
    }

    @Test("The bytes of a day are those of one measured ping at each interval")
    func measured() async throws {
        let line = "heartbeat --quiet --transport tcp,udp --interval 40s,80s --nat 50s --format json"
        let outcome = try await BuiltProgram.run(line.split(separator: " ").map(String.init))
        #expect(outcome.status == ExitStatus.good, "\(outcome.errors)")
        let object = try #require(try JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any])
        let rows = try #require(object["results"] as? [[String: Any]])
        #expect(rows.map { $0["transport"] as? String } == ["tcp", "tcp", "tcp", "udp", "udp", "udp"])
        for row in rows {
            let bytes = try #require(row["ping_bytes"] as? Double)
            let interval = try #require(row["interval_s"] as? Double)
            // A ping and its answer have at least two IP headers.
            #expect(bytes > 40)
            #expect(abs((row["bytes_per_day"] as? Double ?? 0) - bytes * 86_400 / interval) < 0.01)
            let verdict = ((row["nats"] as? [[String: Any]])?.first)?["verdict"] as? String
            let late = row["transport"] as? String == "udp" ? "gaps between pings" : "dies between pings"
            #expect(verdict == (interval < 50 ? "survives" : late))
        }
    }
}
