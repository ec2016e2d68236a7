#if os(Linux)
import TestSupport
import Testing

@Suite("A file beside a chat over an emulated network", .timeLimit(.minutes(5)), .ownThread)
struct TransferNetworkTests {
    /// `scripts/measure/transfers` measures it with a file of 8 MiB.
    @Test("It arrives, although the connections are cut and the server is replaced", arguments: ["tcp", "udp"])
    func arrives(transport: String) async throws {
        let program = try #require(Peers.transferBesideChat)
        let (text, status) = try await aside {
            let process = try Peer(program, [transport, "delay=5ms,rate=4mbit,queue=100", "300000", "3"])
            var lines: [String] = []
            while let line = process.line() { lines.append(line) }
            return (lines.joined(separator: "\n"), try process.finish())
        }
        // The system allows no network namespace.
        if status == 69 { return }
        #expect(status == 0 && text.contains("3 cuts") && text.contains("the file has arrived"), "\(text)")
    }
}
#endif
