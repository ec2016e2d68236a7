import EmbeddedServers
import Foundation
import TestSupport
import Testing
import TransportAPI
import Transports

/// Runs the page `Support/echo.html` in Chromium against our echo over `wss`. Chromium accepts the certificate by the
/// hash of its key.
@Suite(
    "A browser over TLS",
    .peer(Peers.browser),
    .enabled(if: hasOpenSSL),
    .serialized,
    .timeLimit(.minutes(5)),
    .ownThread
)
struct BrowserTLSTests {
    private let files: CertificateFiles

    init() throws {
        files = try CertificateFiles()
    }

    @Test(
        "A browser receives every message back over TLS, and its own close code",
        arguments: TLSVersion.allCases,
        ["off", "on"]
    )
    func echo(version: TLSVersion, deflate: String) async throws {
        let url = "wss://127.0.0.1:0/?origins=null&deflate=\(deflate)&\(files.server())"
        let (events, sink) = AsyncStream.makeStream(of: ServerEvent.self)
        let server = try await EmbeddedServer.start(url, observer: { sink.yield($0) })
        let port = try #require(server.endpoint.port)
        let query = "port=\(port)&scheme=wss&deflate=\(deflate == "on")"
        #expect(try await verdict(query, version, pin: try await pin(port)) == "ok")
        // The connection for the pin, 3 of the page, and 20 at the same time.
        var ends = events.makeAsyncIterator()
        for _ in 0..<24 {
            let event = try #require(await ends.next())
            #expect(event.wasOpen && event.reason.error?.tlsProblem == nil, "\(event)")
        }
        await server.stop()
    }

    @Test("A browser does not connect to a server whose certificate it does not trust")
    func untrusted() async throws {
        let (events, sink) = AsyncStream.makeStream(of: ServerEvent.self)
        let url = "wss://127.0.0.1:0/?origins=null&\(files.server())"
        let server = try await EmbeddedServer.start(url, observer: { sink.yield($0) })
        let port = try #require(server.endpoint.port)
        #expect(try await verdict("port=\(port)&scheme=wss&deflate=false", .tls13, pin: nil) == "no connection")
        var ends = events.makeAsyncIterator()
        let event = try #require(await ends.next())
        #expect(!event.wasOpen && event.reason.error?.tlsProblem == .certificateRefused, "\(event)")
        await server.stop()
    }

    /// The hash of the server's key, as Chromium and the option `pin` expect it.
    private func pin(_ port: UInt16) async throws -> String {
        let connection = try await TransportRegistry.standard.connect("wss://127.0.0.1:\(port)/?\(files.client())")
        let digest = try #require(connection.encryption?.peer?.keyDigest)
        await connection.close()
        return Data(digest).base64EncodedString()
    }

    /// The verdict that the page prints on its console.
    private func verdict(_ query: String, _ version: TLSVersion, pin: String?) async throws -> String? {
        let chromium = try #require(Peers.chromium)
        let name = version == .tls12 ? "tls1.2" : "tls1.3"
        let trusted = pin.map { ["--ignore-certificate-errors-spki-list=\($0)"] } ?? []
        return try await aside {
            let folder = try ScratchFolder()
            let browser = try Peer(
                chromium,
                [
                    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                    "--disable-background-networking", "--disable-crash-reporter", "--enable-logging=stderr",
                    "--user-data-dir=\(folder.path)", "--ssl-version-min=\(name)", "--ssl-version-max=\(name)",
                ] + trusted + ["file://\(Foreign.support)/echo.html?\(query)"],
                leadsGroup: true
            )
            defer { browser.destroy() }
            while let line = browser.line() {
                // [1:2:0101/000000.000000:INFO:CONSOLE:3] "VERDICT ok", source: file:///… (4)
                if let output = line.firstMatch(of: #/"VERDICT (.*)", source: /#) { return String(output.1) }
            }
            return nil
        }
    }
}
