import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests our client with `openssl s_server`, over length-framed TCP.
@Suite(
    "The server of the openssl command",
    .enabled(if: Peers.openssl != nil && hasOpenSSL),
    .serialized,
    .timeLimit(.minutes(5)),
    .ownThread
)
struct OpenSSLServerTests {
    private let files: CertificateFiles

    init() throws {
        files = try CertificateFiles()
    }

    private func start(_ version: TLSVersion, _ options: String...) async throws -> (peer: Peer, port: String) {
        let words =
            ["s_server", "-accept", "127.0.0.1:0", version.option, "-cert", files.server.certificate]
            + ["-key", files.server.key] + options
        return try await aside {
            // Otherwise, the C library would buffer some of the output, because it goes to a pipe.
            let peer = try Peer("/usr/bin/stdbuf", ["-oL", try #require(Peers.openssl)] + words)
            // ACCEPT 127.0.0.1:46493
            while let line = peer.line() {
                if line.hasPrefix("ACCEPT"), let port = line.split(separator: ":").last { return (peer, String(port)) }
            }
            return try #require(nil as (Peer, String)?)
        }
    }

    /// Sends `text` with the length of `framing` before it, as the server's input. Texts are shorter than 128 bytes.
    private func write(_ text: String, to peer: Peer, framing: String) throws {
        let length = String(UnicodeScalar(UInt8(text.utf8.count)))
        let zeros = ["varint": 0, "u16": 1, "u32": 3, "framed": 3][framing] ?? 0
        try peer.write(String(repeating: "\0", count: zeros) + length + text)
    }

    @Test(
        "Messages reach the other side in both directions with each framing",
        arguments: TLSVersion.allCases,
        ["framed", "u16", "u32", "varint"]
    )
    func messages(version: TLSVersion, framing: String) async throws {
        let (server, port) = try await start(version)
        let url = "tls://127.0.0.1:\(port)/?framing=\(framing)&\(files.client())"
        let connection = try await TransportRegistry.standard.connect(url)
        #expect(connection.encryption?.version == version.rawValue)
        for number in 0..<3 {
            #expect(await connection.send(Payload(text: "to the server \(number)\n")).isSuccess)
            #expect(try await aside { server.wait(for: "to the server \(number)") })
            try write("to the client \(number)", to: server, framing: framing)
            #expect(try await connection.text() == "to the client \(number)")
        }
        // The server prints a large message as it comes.
        let large = String(repeating: "x", count: 60_000)
        #expect(await connection.send(Payload(text: large + "end\n")).isSuccess)
        #expect(try await aside { server.wait(for: large + "end") })
        let left = await connection.close()
        #expect(left == 0)
        // The server prints this at close_notify, and an error at an end without it.
        #expect(try await aside { server.wait(for: "DONE") })
    }

    @Test("A server that ends without close_notify ends the connection with an error", arguments: TLSVersion.allCases)
    func truncated(version: TLSVersion) async throws {
        let (server, port) = try await start(version)
        let url = "tls://127.0.0.1:\(port)/?framing=u32&\(files.client())"
        let connection = try await TransportRegistry.standard.connect(url)
        // At the end of its input, the server closes the socket first.
        async let status = aside { try server.finish() }
        let reason = await connection.closed()
        #expect(reason.error?.tlsProblem == .truncated && reason.error?.code == .connectionLost, "\(reason)")
        #expect(reason.error?.isRetryable == true && reason.initiator == .network)
        #expect(try await status == 0)
    }

    @Test("A client reports a server that speaks an older version than its URL allows")
    func oldServer() async throws {
        let (server, port) = try await start(.tls12)
        let url = "tls://127.0.0.1:\(port)/?min-tls=1.3&\(files.client())"
        let error = await #expect(throws: TransportError.self) { try await TransportRegistry.standard.connect(url) }
        #expect(error?.code == .secureHandshakeFailed && error?.tlsProblem == .protocolVersion, "\(error)")
        withExtendedLifetime(server) {}
    }

    @Test("A client sends its certificate to a server that requires one", arguments: TLSVersion.allCases)
    func clientCertificate(version: TLSVersion) async throws {
        let (server, port) = try await start(
            version,
            "-Verify",
            "1",
            "-CAfile",
            files.authority,
            "-verify_return_error"
        )
        let url = "tls://127.0.0.1:\(port)/?framing=u32&\(files.client(files.ann))"
        let connection = try await TransportRegistry.standard.connect(url)
        #expect(await connection.send(Payload(text: "hello\n")).isSuccess)
        let lines = try await aside {
            var lines: [String] = []
            while let line = server.line() {
                lines.append(line)
                if line.contains("hello") { break }
            }
            return lines
        }
        #expect(lines.contains { $0.hasPrefix("subject=") && $0.contains("ann") })
        await connection.close()
    }

    @Test("A client answers a key update of its server", arguments: ["k", "K"])
    func keyUpdate(command: String) async throws {
        let (server, port) = try await start(.tls13)
        let url = "tls://127.0.0.1:\(port)/?framing=u32&\(files.client())"
        let connection = try await TransportRegistry.standard.connect(url)
        for number in 0..<3 {
            #expect(await connection.send(Payload(text: "before \(number)\n")).isSuccess)
            #expect(try await aside { server.wait(for: "before \(number)") })
            try server.write("\(command)\n")
            // The command takes all that it reads at once, so the message must not share a read with it.
            #expect(try await aside { server.wait(for: "SSL_do_handshake -> 1") })
            try write("after \(number)", to: server, framing: "u32")
            #expect(try await connection.text() == "after \(number)")
        }
        await connection.close()
    }

    @Test("A client refuses to renegotiate, and the connection goes on or ends with an error", arguments: ["r", "R"])
    func renegotiation(command: String) async throws {
        let (server, port) = try await start(.tls12)
        let url = "tls://127.0.0.1:\(port)/?framing=u32&\(files.client())"
        let connection = try await TransportRegistry.standard.connect(url)
        #expect(await connection.send(Payload(text: "before\n")).isSuccess)
        #expect(try await aside { server.wait(for: "before") })
        try server.write("\(command)\n")
        // OpenSSL's server ends the connection when its client refuses.
        let reason = await connection.closed()
        #expect(reason.error?.tlsProblem == .renegotiation, "\(reason)")
        #expect(reason.error?.code == .connectionLost && reason.error?.phase == .open, "\(reason)")
        #expect(reason.error?.reason.contains("renegotiat") == true, "\(reason)")
    }
}
