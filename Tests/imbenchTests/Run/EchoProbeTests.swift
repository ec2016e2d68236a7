import CommandTestSupport
import EmbeddedServers
import Protocols
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

@testable import Measuring
@testable import Reporting
@testable import imbench

/// Outside servers that cannot be measured, as `imbench run --url` reports them.
@Suite("A probe of an outside server", .timeLimit(.minutes(5)), .ownThread)
struct EchoProbeTests {
    /// The reasons of the rows, and whether all of them have failed before anything was measured.
    private func outcome(_ url: String) async throws -> (reasons: [String?], haveAllFailed: Bool) {
        let words = ["run", "--url", url, "--codec", "json", "--size", "32"]
        let options = try OptionParser(vocabulary: everything).parse(words, as: RunCommand.self)
        return try await apart {
            let stage = try Stage(registry: .measured, outside: options.urls, seed: 1, placement: nil)
            let bench = EchoBench(options.rows, options.load, stage: stage, seed: 1, limits: .init(answer: 500_000_000))
            let rows = bench.results(FloorBench(kinds: [], sizes: []))
            let haveAllFailed = bench.haveAllFailed
            bench.close()
            stage.close()
            return (rows.map(\.reason), haveAllFailed)
        }
    }

    @Test("A session server is recognized", arguments: ["tcp", "ws", "udp"])
    func sessions(transport: String) async throws {
        let server = try await ChatServer.start("\(transport)://127.0.0.1:0", room: ChatRoom(), registry: .trial)
        let (reasons, haveAllFailed) = try await outcome("\(server.endpoint)")
        #expect(
            reasons.allSatisfy { $0?.contains("the server expects sessions") == true } && haveAllFailed,
            "\(reasons)"
        )
        await server.stop()
    }

    @Test("A dead server is known before anything is measured")
    func dead() async throws {
        let port = try ReservedPort(isDatagram: false).port
        let (reasons, haveAllFailed) = try await outcome("ws://127.0.0.1:\(port)")
        #expect(reasons.allSatisfy { $0?.contains("nothing listens there") == true } && haveAllFailed, "\(reasons)")
    }

    @Test("A server that sends something else is named as such")
    func other() async throws {
        let listener = try await TransportRegistry.standard.listen("tcp://127.0.0.1:0")
        let serving = Task {
            while let connection = try await listener.accept() {
                Task {
                    while try await connection.receive() != nil { _ = await connection.send(Payload(text: "hello")) }
                }
            }
        }
        let (reasons, haveAllFailed) = try await outcome("\(listener.endpoint)")
        #expect(reasons.allSatisfy { $0?.contains("has sent 5 other bytes") == true } && haveAllFailed, "\(reasons)")
        await listener.close()
        _ = await serving.result
    }

    @Test("A server that returns messages can be measured", arguments: ["tcp", "mqtt", "udp"])
    func echo(transport: String) async throws {
        let server = try await EmbeddedServer.start("\(transport)://127.0.0.1:0")
        let (reasons, haveAllFailed) = try await outcome("\(server.endpoint)")
        #expect(reasons.allSatisfy { $0 == nil } && !haveAllFailed, "\(reasons)")
        await server.stop()
    }
}
