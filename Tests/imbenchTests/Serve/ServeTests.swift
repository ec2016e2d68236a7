import CommandTestSupport
import Foundation
import TestSupport
import Testing
import TransportAPI
import Transports

@testable import CommandSupport
@testable import Reporting
@testable import imbench

@Suite("imbench serve, and clients that misbehave", .timeLimit(.minutes(5)), .ownThread)
struct ServeTests {
    /// The next line that satisfies a condition, read on a separate thread.
    private func line(of server: ChildProcess, _ isIt: @escaping @Sendable (String) -> Bool) async throws -> String? {
        // No other thread uses it meanwhile.
        nonisolated(unsafe) let server = server
        return try await apart {
            while case .line(let line) = server.next(timeout: 20_000) {
                if isIt(line) { return line }
            }
            return nil
        }
    }

    @Test("A server whose terminal ends removes the folder of its certificate", .enabled(if: hasOpenSSL))
    func hangUp() async throws {
        let program = try #require(Peers.imbench)
        let (folder, status) = try await aside {
            let server = try Peer(program, ["serve", "--listen", "tls://127.0.0.1:0"])
            var folder = ""
            while folder.isEmpty, let line = server.line() {
                if let path = line.firstMatch(of: #/ca=(.+)/ca\.pem/#) { folder = String(path.1) }
            }
            let wasThere = FileManager.default.fileExists(atPath: folder)
            server.signal(SIGHUP)
            return (wasThere ? folder : "", try server.finish())
        }
        #expect(!folder.isEmpty && !FileManager.default.fileExists(atPath: folder))
        #expect(status == 128 + SIGHUP)
    }

    @Test(
        "Echo, chat and broker log on standard error which client they have ended, and why",
        arguments: [
            ("tcp", ["--chat"]), ("tcp", []), ("mqtt", ["--chat"]), ("mqtt", ["--user", "ann:secret"]),
            ("tls", ["--chat"]), ("tls", []), ("mqtts", ["--chat"]), ("mqtts", ["--user", "ann:secret"]),
        ].filter { hasOpenSSL || !$0.0.hasSuffix("s") } as [(String, [String])]
    )
    func attacked(transport: String, options: [String]) async throws {
        let program = try #require(BuiltProgram.imbench.path)
        let served = "\(transport)://127.0.0.1:0/?max-message=1000"
        // Standard error and standard output are one pipe.
        let script = "exec \"$0\" serve --listen \"$@\" 2>&1"
        let server = try ChildProcess(["/bin/sh", "-c", script, program, served] + options)
        let first = try #require(try await line(of: server) { $0.contains("\(transport)://") })
        let port = try #require(first.split(separator: ":").last?.prefix { $0.isNumber })
        let login = options.contains("--user") ? "ann:secret@" : ""
        var query = transport.hasPrefix("mqtt") ? ["publish=t"] : []
        if transport.hasSuffix("s") {
            let trust = try #require(try await line(of: server) { $0.contains("trust the encrypted servers") })
            query.append(String(try #require(trust.split(separator: " ").last { $0.hasPrefix("ca=") })))
        }
        let url = "\(transport)://\(login)127.0.0.1:\(port)/?\(query.joined(separator: "&"))"
        let client = try await TransportRegistry.standard.connect(url)
        #expect(await client.send(Payload([UInt8](repeating: 65, count: 100_000))) == .written)
        let said = try #require(try await line(of: server) { $0.contains("messageTooLarge") })
        #expect(said.contains("127.0.0.1:") && said.contains(" ended: open: "))
        await client.close()
    }

    @Test(
        "At most ten endings per second are logged, and the next line counts the others; a normal close is not logged"
    )
    func lines() {
        let log = EndingLog()
        let error = TransportError(.closedByPeer, .open, "gone")
        let failure = ServerEvent(client: "a:1", wasOpen: true, reason: CloseReason(error))
        let lines = (0..<25).compactMap { log.line(for: failure, at: 5_000_000_000 + $0) }
        #expect(lines == Array(repeating: "a:1 ended: open: gone (closedByPeer)", count: 10))
        let normalClose = ServerEvent(client: "a:2", wasOpen: true, reason: CloseReason(.peer))
        #expect(log.line(for: normalClose, at: 6_000_000_000) == nil)
        #expect(log.line(for: failure, at: 6_000_000_000) == "(15 more before) a:1 ended: open: gone (closedByPeer)")
        #expect(log.line(for: failure, at: 6_000_000_001) == "a:1 ended: open: gone (closedByPeer)")
    }
}
