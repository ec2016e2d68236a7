import TestSupport
import Testing

/// Runs pages in Chromium against the echo and the broker of `imbench serve`. The checks are in `Support/echo.html` and
/// `Support/mqtt.html`. Chromium always offers permessage-deflate. A page from disk has the origin "null", which the
/// server has to admit.
@Suite("A browser", .peer(Peers.browser), .serialized, .timeLimit(.minutes(5)), .ownThread)
struct BrowserTests {
    @Test("A browser receives every message back, and its own close code", arguments: ["off", "on", "small"])
    func echo(deflate: String) async throws {
        let server = try await Serving.start("ws://127.0.0.1:0/?deflate=\(deflate)", "--origins", "null")
        let page = "file://\(Foreign.support)/echo.html?port=\(server.port)&deflate=\(deflate != "off")"
        #expect(try await verdict(page) == "ok")
    }

    @Test("A browser uses MQTT over any division into messages, and receives the close code of its mistakes")
    func broker() async throws {
        let server = try await Serving.start("mqtt+ws://127.0.0.1:0/mqtt", "--origins", "null")
        #expect(try await verdict("file://\(Foreign.support)/mqtt.html?port=\(server.port)") == "ok")
    }

    @Test("A page on disk reaches no server unless the server's settings admit it")
    func refused() async throws {
        let server = try await Serving.start("ws://127.0.0.1:0")
        let page = "file://\(Foreign.support)/echo.html?port=\(server.port)&deflate=false"
        #expect(try await verdict(page) == "no connection")
    }

    /// The verdict that the page prints on its console.
    private func verdict(_ page: String) async throws -> String? {
        let chromium = try #require(Peers.chromium)
        return try await aside {
            let folder = try ScratchFolder()
            let browser = try Peer(
                chromium,
                [
                    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                    "--disable-background-networking", "--disable-crash-reporter", "--enable-logging=stderr",
                    "--user-data-dir=\(folder.path)", page,
                ],
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
