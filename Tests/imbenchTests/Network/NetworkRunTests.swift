import CommandTestSupport
import Foundation
import Testing

@testable import CommandSupport
@testable import imbench

/// Runs over real network namespaces.
@Suite("Runs over an emulated network")
struct NetworkRunTests {
    /// The report of a run; `nil` where the system refuses namespaces, which the run must say in one line. Where all peers
    /// are required, namespaces are too.
    private func report(_ line: String) async throws -> [String: Any]? {
        let words = "run --quiet --format json \(line)".split(separator: " ").map(String.init)
        let outcome = try await BuiltProgram.imbench.run(words)
        let isRequired = ProcessInfo.processInfo.environment["IM_REQUIRE_PEERS"] != nil
        if outcome.status != ExitStatus.good, outcome.output.isEmpty, !isRequired {
            #expect(outcome.errorLines.count == 1 && outcome.errors.contains("--network"), "\(outcome.errors)")
            return nil
        }
        #expect(outcome.status == ExitStatus.good, "\(outcome.errors)")
        return try JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any]
    }

    /// The packets of a direction, and the numbers of the lost ones.
    private func losses(_ report: [String: Any], _ direction: String) throws -> (packets: Int, lost: [Int]) {
        let network = try #require((report["networks"] as? [[String: Any]])?.first)
        let counts = try #require(network[direction] as? [String: Any])
        return (try #require(counts["packets"] as? Int), try #require(counts["lost_numbers"] as? [Int]))
    }

    @Test("The same seed loses packets with the same numbers, and as many as the share that was asked for")
    func seeded() async throws {
        let line =
            "--network delay=1ms,loss=5% --transport udp --codec protobuf --size 32 --connections 4 --rate 100 "
            + "--duration 1500ms --repeat 1 --seed 7"
        guard let first = try await report(line), let second = try await report(line) else { return }
        for direction in ["to_server", "to_client"] {
            let (a, b) = (try losses(first, direction), try losses(second, direction))
            let common = min(a.packets, b.packets)
            #expect(common > 300)
            #expect(a.lost.filter { $0 <= common } == b.lost.filter { $0 <= common })
            // Five standard deviations of the binomial distribution. The seed is fixed, so this never fails by chance.
            let expected = 0.05 * Double(a.packets)
            #expect(
                abs(Double(a.lost.count) - expected) < 5 * (expected * 0.95).squareRoot(),
                "\(a.lost.count) of \(a.packets)"
            )
        }
    }

    @Test("Another seed loses other packets")
    func otherSeed() async throws {
        func line(_ seed: Int) -> String {
            "--network delay=1ms,loss=20% --transport udp --codec protobuf --size 32 --rate 100 --duration 300ms --repeat 1 "
                + "--seed \(seed)"
        }
        guard let first = try await report(line(1)), let second = try await report(line(2)) else { return }
        #expect(try losses(first, "to_server").lost != losses(second, "to_server").lost)
    }

    /// The answer comes 6 s later, and a server that answers nothing for 5 s is given up without a network.
    @Test("A run waits longer for the answer to a message that the network carries slowly")
    func slowMessage() async throws {
        let line =
            "--network rate=200kbit --transport tcp --codec protobuf --size 75000 --connections 1 --messages 1 --repeat 1"
        guard let report = try await report(line) else { return }
        let row = try #require((report["results"] as? [[String: Any]])?.first)
        #expect(row["outcome"] as? String == "measured", "\(row)")
    }

    @Test("A connection gets no more than the rate of the network, less the headers")
    func rate() async throws {
        let line =
            "--network rate=1mbit --transport tcp --codec protobuf --size 4096 --in-flight 32 --connections 1 --duration 3s "
            + "--repeat 1"
        guard let report = try await report(line) else { return }
        let row = try #require((report["results"] as? [[String: Any]])?.first)
        let bytes = try #require(row["throughput_msgs_per_s"] as? Double) * 4147
        // A segment of 1,500 bytes has 1,448 bytes of messages. How much of it arrives depends on what else the machine does;
        // `.ci/run` checks for 90 %.
        let most = 1_000_000.0 / 8 * 1448 / 1500
        #expect(bytes > 0 && bytes < most * 1.02, "\(bytes) of \(most)")
    }
}
