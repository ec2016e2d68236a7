import CommandTestSupport
import Foundation
import Testing

@testable import CommandSupport
@testable import imbench

#if os(Linux)
@Suite("An interrupted command", .timeLimit(.minutes(5)), .ownThread)
struct InterruptedTests {
    @Test(
        "An interrupted command ends with status 130",
        arguments: [
            "run --duration 100s --repeat 1 --transport tcp --size 32 --codec json",
            "run --rate 0.01 --messages 100 --transport udp --size 32 --codec json",
            "overhead", "outage --transport tcp --down 100s", "storm --clients 1000000",
            "serve --listen tcp://127.0.0.1:0",
            "crowd --transport tcp --idle 10 --hold 10s", "fanout --transport tcp --duration 100s",
            "fanout --transport udp --rate 0.01 --duration 100s", "open --transport tcp,ws,mqtt,udp --repeat 1000",
        ]
    )
    func status(line: String) async throws {
        let ending = try await BuiltProgram.imbench.interrupt(line.split(separator: " ").map(String.init)).ending
        #expect(ending == .status(130))
    }

    @Test(
        "An interrupted command over an emulated network ends with status 130, where the system has such networks",
        arguments: [
            "run --network delay=1ms --duration 100s --repeat 1 --transport tcp --size 32 --codec json",
            "open --network delay=200ms --transport tcp,ws,mqtt,udp --repeat 1000",
            "fanout --network delay=1ms --duration 100s --transport tcp", "heartbeat --transport tcp",
        ]
    )
    func statusOverNetwork(line: String) async throws {
        let probe = try await BuiltProgram.imbench.run([
            "open", "--network", "wifi", "--transport", "tcp", "--repeat", "1",
        ])
        let isRequired = ProcessInfo.processInfo.environment["IM_REQUIRE_PEERS"] != nil
        guard probe.status == ExitStatus.good || isRequired else {
            #expect(probe.errors.contains("--network"), "\(probe.errors)")
            return
        }
        let ending = try await BuiltProgram.imbench.interrupt(line.split(separator: " ").map(String.init)).ending
        #expect(ending == .status(130))
    }

    @Test("The report of an interrupted run has the number of measurements, and that it was cut short")
    func report() async throws {
        let line = "run --duration 100s --repeat 2 --transport tcp --size 32 --codec json"
        let text = try await BuiltProgram.imbench.interrupt(line.split(separator: " ").map(String.init)).text
        #expect(text.contains("CUT SHORT"))
        #expect(text.contains("interrupted after "))
        #expect(text.contains(" of 12 measurements, 2 of each row and floor"))
    }
}
#endif
