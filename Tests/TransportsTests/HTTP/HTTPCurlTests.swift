import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// Runs curl, which other people have written, against the server.
@Suite("curl and a server over HTTP", .timeLimit(.minutes(5)), .ownThread, .enabled(if: Peers.curl != nil))
struct HTTPCurlTests {
    /// Runs curl and returns its output.
    private func curl(_ arguments: String...) async throws -> String { try await curl(arguments) }

    private func curl(_ arguments: [String]) async throws -> String {
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(fileURLWithPath: try #require(Peers.curl))
        process.arguments = ["-sS", "-N", "--max-time", "60"] + arguments
        process.standardOutput = output
        try process.run()
        let handle = output.fileHandleForReading
        let bytes = await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: handle.readDataToEndOfFile()) }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test("curl opens a session, sends messages and reads the events")
    func chat() async throws {
        let server = try await EmbeddedServer.start("http://127.0.0.1:0/chat", registry: HTTPHost.registry)
        let base = "http://127.0.0.1:\(try #require(server.endpoint.port))/chat"
        let opened = try await curl("-X", "POST", "\(base)?im-open=1")
        let token = try #require(opened.split(separator: "&").first { $0.hasPrefix("session=") }?.dropFirst(8))
        let session = "\(base)?im-session=\(token)"
        // The close frame ends the stream of events, and with it curl.
        let frames = ["hello", "zwei\nZeilen"].flatMap { RawSession.frame(Array($0.utf8)) } + RawSession.closeFrame
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("frames-\(UUID())")
        try Data(frames).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        async let stream = curl("\(session)&im-receive=sse&im-from=0")
        let sent = try await curl(
            "-w",
            "%{http_code}",
            "-H",
            "Content-Type: application/octet-stream",
            "--data-binary",
            "@\(file.path)",
            "\(session)&im-at=0&im-received=0&im-end=1"
        )
        #expect(sent == "204")
        let events = try await stream
        #expect(events.hasPrefix(": stream\n\nid: 9\ndata: hello\n\nid: 24\ndata: zwei\ndata: Zeilen\n\nid: "))
        #expect(events.hasSuffix("event: end\ndata: \n\n"))
        await server.stop()
    }

    @Test("Over TLS, a session belongs to the certificate of its client", .enabled(if: hasOpenSSL))
    func certificates() async throws {
        let authority = try ThrowAwayAuthority("Test authority")
        let server = try authority.issue(.init("localhost", names: ["IP:127.0.0.1"]))
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("curl-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        func file(_ name: String, _ text: String) throws -> String {
            let url = folder.appendingPathComponent(name)
            try Data(text.utf8).write(to: url)
            return url.path
        }
        let trusted = try file("ca", authority.certificate)
        var identities: [[String]] = [[]]
        for name in ["ann", "bob"] {
            let client = try authority.issue(.init(name))
            let (certificate, key) = (try file(name, client.certificate), try file("\(name)-key", client.key))
            identities.append(["--cert", certificate, "--key", key])
        }
        var endpoint = try Endpoint("https://127.0.0.1:0")
        endpoint.options = [
            .init(name: "certificate", value: server.certificate), .init(name: "key", value: server.key),
            .init(name: "ca", value: authority.certificate), .init(name: "client-certificates", value: "optional"),
        ]
        // With contexts of its own, because other tests make so many that the shared ones are forgotten.
        let security = StreamSecurity(contexts: TLSContexts(OpenSSL.shared), protocols: ["http/1.1"])
        let registry = TransportRegistry([.http(security)])
        let listener = try await registry.listen(at: endpoint, on: .shared, Serving())
        let base = "https://127.0.0.1:\(try #require(listener.endpoint.port))/"
        func ask(_ identity: [String], _ query: String) async throws -> String {
            let arguments = ["--cacert", trusted, "-w", " %{http_code}", "-X", "POST", "\(base)?\(query)"]
            return try await curl(identity + arguments)
        }
        let opened = try await ask(identities[1], "im-open=1")
        let app = try #require(try await listener.accept())
        #expect(app.identity == Identity("ann", claims: ["subject": "CN=ann"]) && app.encryption != nil)
        let token = try #require(opened.split(separator: "&").first { $0.hasPrefix("session=") }?.dropFirst(8))
        for (identity, status) in zip(identities, ["403", "204", "403"]) {
            let answer = try await ask(identity, "im-session=\(token)&im-at=0&im-received=0")
            #expect(answer.hasSuffix(" \(status)"))
        }
        await listener.close()
    }
}
