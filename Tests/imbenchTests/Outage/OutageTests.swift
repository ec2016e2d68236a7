import TestSupport
import Testing
import Transports

@testable import EmulatedNetworks
@testable import Reporting
@testable import Workloads
@testable import imbench

@Suite("imbench outage", .timeLimit(.minutes(5)), .ownThread)
struct OutageTests {
    static let transports = TransportRegistry.measured.transports
        .filter { $0.defaultPort != nil && !TransportMode.namesOfMeasuredOnly.contains($0.name) }.map(\.name)

    private func measure(_ name: String, _ fault: OutageFault) async throws -> OutageRow {
        var timing = OutageTiming()
        // A connection must survive a bearable fault on a busy machine too.
        timing.interval = fault.isBearable ? .seconds(20) : .milliseconds(500)
        timing.timeout = fault.isBearable ? .seconds(20) : .milliseconds(500)
        timing.outage = .milliseconds(100)
        let run = OutageRun(
            transport: try TransportRegistry.measured.transport(named: name),
            fault: fault,
            timing: timing,
            seed: 1,
            host: "127.0.0.1",
            clientLoop: try QuietLoop.get(),
            loop: try QuietLoop.get()
        )
        return await run.measure()
    }

    /// Whether a fault has no meaning for the transport with this name.
    private static func isSkipped(_ name: String, _ fault: OutageFault) -> Bool {
        switch fault {
        case .rebind: !["udp", "udp-reliable"].contains(name)
        case .reset, .finish: ["udp", "udp-reliable", "dtls"].contains(name)
        case .badCredentials:
            !["ws", "http", "mqtt", "stomp"].contains { name.hasPrefix($0) }
        default: false
        }
    }

    @Test("No fault loses or duplicates an acknowledged message", arguments: transports, OutageFault.onPath)
    func accounts(name: String, fault: OutageFault) async throws {
        let row = try await measure(name, fault)
        #expect((row.skipped != nil) == Self.isSkipped(name, fault), "\(String(describing: row.skipped))")
        guard row.skipped == nil else { return }
        #expect(row.lost == 0 && row.duplicated == 0 && row.reordered == 0 && row.inFlight == 0)
        #expect(row.acked > 0)
        #expect(row.acked == row.sent)
        // The time to detect depends on the load of the machine. The command checks it, and this test does not.
        #expect(row.failure == nil || row.failure?.hasPrefix("detected only") == true, "\(row)")
    }

    @Test("Times fit the delay of a network, and all messages together a quarter of its rate")
    func networks() throws {
        func adapted(_ network: String, _ transports: Int) throws -> OutageTiming {
            var timing = OutageTiming()
            timing.adapt(to: try Network(network), transports: transports)
            return timing
        }
        let slow = try adapted("delay=100ms±20ms,rate=1mbit/200kbit", 4)
        #expect(slow.timeout == .milliseconds(900) && slow.connectTimeout == .seconds(4))
        #expect(slow.inTransit == .milliseconds(120))
        // Four messages of 150 bytes in 96 ms are 50 kbit/s.
        #expect(slow.pace == .milliseconds(96))
        #expect(try adapted("4g", 4).pace == .milliseconds(5))
        #expect(try adapted("delay=25ms", 4).pace == .milliseconds(5))
    }

    @Test("A row that cannot be measured has a reason")
    func skipped() async throws {
        #expect(try await measure("tcp", .rebind).skipped != nil)
        #expect(try await measure("dtls", .rebind).skipped != nil)
        #expect(try await measure("udp", .finish).skipped != nil)
        #expect(try await measure("tcp", .badCredentials).skipped != nil)
        #expect(try await measure("tls", .badCredentials).skipped != nil)
    }

    @Test("The report has every row, and the failure of one, in every format")
    func report() {
        var good = OutageRow(transport: "tcp", fault: .reset)
        good.detect = .milliseconds(3)
        good.recover = .milliseconds(40)
        good.sent = 2
        good.outcomes = ["acknowledged": 2]
        var bad = good
        bad.failure = "1 acknowledged messages are lost"
        let report = OutageResults(
            run: RunResults(RunRecord(environment: .current(), options: [], seed: 7)),
            timing: OutageTiming(),
            rows: [good, bad]
        ).report
        #expect(report.text(.table, .none).contains("1 acknowledged messages are lost"))
        #expect(report.text(.json, .none).contains("\"detect_ms\": 3"))
        #expect(report.text(.csv, .none).split(separator: "\r\n").count == 3)
        #expect(report.text(.markdown, .none).contains("## tcp\n"))
    }

    @Test("A timeline shows the states of the connection around the fault, and no row for a connection that was kept")
    func timeline() throws {
        var broken = OutageRow(transport: "tcp", fault: .killed)
        (broken.detect, broken.broken, broken.recover) = (.milliseconds(2), .milliseconds(1500), .milliseconds(40))
        var lost = OutageRow(transport: "tcp", fault: .blackHole)
        (lost.detect, lost.broken) = (.milliseconds(1000), .milliseconds(2500))
        let kept = OutageRow(transport: "tcp", fault: .slowReader)
        let report = OutageResults(
            run: RunResults(RunRecord(environment: .current(), options: [], seed: 7)),
            timing: OutageTiming(),
            rows: [broken, lost, kept]
        ).report
        let chart = try #require(report.sections.flatMap(\.charts).first as? BarChart)
        #expect(chart.rows.map(\.label) == ["killed", "black-hole"])
        let states = chart.rows.map { $0.spans.map(\.kind) }
        #expect(states[0] == [.connected, .undetected, .reconnecting, .connected, .mark])
        #expect(states[1] == [.connected, .undetected, .reconnecting, .mark])
        #expect(chart.rows[0].spans[1...3].map(\.from) == [0, 2, 1540])
        #expect(chart.rows.map(\.value) == ["2 + 1538", "1000 + -"])
        #expect(report.text(.json, .none).contains("\"fault_ms\": 1500"))
    }
}
