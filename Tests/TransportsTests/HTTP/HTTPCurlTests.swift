import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// The command curl.
private enum Curl {
    /// Where it is installed; `nil` if it is not.
    static let path = ["/usr/bin/curl", "/usr/local/bin/curl", "/opt/homebrew/bin/curl"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }
}

/// Runs curl, which other people have written, against the server.
@Suite("curl and a server over HTTP", .timeLimit(.minutes(5)), .ownThread, .enabled(if: Curl.path != nil))
struct HTTPCurlTests {
    /// Runs curl and returns its output.
    private func curl(_ arguments: String...) async throws -> String {
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(fileURLWithPath: try #require(Curl.path))
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
}
