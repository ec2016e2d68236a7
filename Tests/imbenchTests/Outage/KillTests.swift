import CommandTestSupport
import TestSupport
import Testing
import Transports

@testable import Reporting
@testable import imbench

@Suite("Processes that imbench outage kills", .serialized, .timeLimit(.minutes(5)), .ownThread)
struct KillTests {
    private static let kills = [OutageFault.clientKilled, .serverKilled]

    private func measure(_ name: String, _ fault: OutageFault, _ store: OutageStore) async throws -> KillRow {
        let program = try #require(BuiltProgram.imbench.path)
        var timing = OutageTiming()
        timing.outage = .milliseconds(50)
        var run = KillRun(
            transport: try TransportRegistry.measured.transport(named: name),
            fault: fault,
            store: store,
            timing: timing,
            moment: .milliseconds(Int64.random(in: 20...150))
        )
        run.program = [program, KilledApp.word]
        return try await apart { [run] in run.measure() }
    }

    @Test(
        "Every message that an app with a store has accepted arrives, whichever process is killed",
        arguments: ["tcp", "udp", "mqtt", "stomp", "xmpp"],
        kills
    )
    func stored(transport: String, fault: OutageFault) async throws {
        let row = try await measure(transport, fault, .file)
        #expect(row.failure == nil && row.skipped == nil, "\(row)")
        #expect(row.accepted > 0 && row.lost == 0 && row.recover != nil, "\(row)")
    }

    @Test("SQLite keeps the messages where it is found, and its row says why it is missing elsewhere", arguments: kills)
    func sqlite(fault: OutageFault) async throws {
        let row = try await measure("tcp", fault, .sqlite)
        guard OutageStore.sqlite.refusal == nil else {
            #expect(row.skipped?.contains("there is no SQLite") == true)
            return
        }
        #expect(row.failure == nil && row.accepted > 0 && row.lost == 0, "\(row)")
    }

    @Test("Without a store, the kill of an app loses at most what is in its outbox, and that is no failure")
    func memory() async throws {
        let row = try await measure("tcp", .clientKilled, .memory)
        #expect(row.failure == nil && row.accepted > 0 && row.recover != nil, "\(row)")
        #expect((0...KilledApp.waiting).contains(row.lost) && row.lost == row.accepted - row.arrived, "\(row)")
        // The outbox of a client that lives on is not lost with the server.
        let other = try await measure("tcp", .serverKilled, .memory)
        #expect(other.failure == nil && other.lost == 0, "\(other)")
    }

    @Test("A kill over TLS is not measured, and its row says why")
    func encrypted() async throws {
        let row = try await measure("tls", .clientKilled, .file)
        #expect(row.skipped?.contains("without TLS only") == true)
    }

    @Test("An app that cannot start is the failure of its row")
    func failure() async throws {
        var run = KillRun(
            transport: try TransportRegistry.measured.transport(named: "tcp"),
            fault: .clientKilled,
            store: .file,
            timing: OutageTiming(),
            moment: .zero
        )
        run.program = ["/bin/false"]
        let row = try await apart { [run] in run.measure() }
        #expect(row.failure == "an app has ended")
    }

    @Test("Kills are measured on request, with every store unless some are named")
    func options() throws {
        func parse(_ line: String) throws -> OutageCommand {
            try OptionParser(vocabulary: .measured).parse(
                line.split(separator: " ").map(String.init),
                as: OutageCommand.self
            )
        }
        #expect(try parse("outage").faults == OutageFault.onPath && !OutageFault.onPath.contains(where: \.isKill))
        #expect(try parse("outage --fault server-killed").stores == [.file, .sqlite, .memory])
        #expect(try parse("outage --fault client-killed --store none,file").stores == [.memory, .file])
        #expect(try parse("outage --store-cost /tmp").storeCost == "/tmp")
    }

    @Test("A report has its kills in every format, and says what was lost without a store")
    func report() {
        let kept = KillRow(
            transport: "tcp",
            fault: .clientKilled,
            store: .file,
            accepted: 900,
            arrived: 900,
            repeated: 2
        )
        let lost = KillRow(transport: "tcp", fault: .clientKilled, store: .memory, accepted: 500, arrived: 400)
        let report = OutageResults(
            run: RunResults(RunRecord(environment: .current(), options: [], seed: 7)),
            timing: OutageTiming(),
            rows: [],
            kills: [kept, lost]
        ).report
        let text = report.text(.table, .none, TextRenderer.Page())
        #expect(text.contains("When a process is killed") && !text.contains("Detected after"))
        #expect(report.text(.json, .none).contains(#""killed_processes""#))
        #expect(report.text(.csv, .none).split(separator: "\r\n").count == 3)
        #expect(report.verdict.contains { $0.contains("none of 900 accepted messages was lost, and 2 arrived again") })
        #expect(report.verdict.contains { $0.contains("100 of 500 accepted messages were lost") })
    }
}
