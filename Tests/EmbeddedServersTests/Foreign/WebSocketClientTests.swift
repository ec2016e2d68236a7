import TestSupport
import Testing

/// Python's websockets at the echo of `imbench serve`; what it wants is in `Support/websocket_client.py`.
@Suite(
    "websockets' client",
    .enabled(if: Peers.pythonWithWebSockets != nil),
    .serialized,
    .timeLimit(.minutes(5)),
    .ownThread
)
struct WebSocketClientTests {
    /// Expects the tests of the script to pass.
    private func pass(_ tests: String..., query: String = "deflate=off", compression: String = "none") async throws {
        let server = try await Serving.start("ws://127.0.0.1:0/?\(query)")
        let said = try await Foreign.run(
            "websocket_client.py",
            with: Peers.pythonWithWebSockets,
            ["ws://127.0.0.1:\(server.port)/?\(query)", compression] + tests
        )
        #expect(said == tests.map { "\($0): ok" })
    }

    @Test(
        "gets everything back, whatever each side thinks of compression",
        arguments: [("off", "none"), ("off", "deflate"), ("on", "none"), ("on", "deflate"), ("small", "deflate")]
    )
    func echo(server: String, client: String) async throws {
        try await pass("sizes", "fragments", "pings", query: "deflate=\(server)", compression: client)
    }

    @Test("gets its own close code back")
    func goodbyes() async throws {
        try await pass("goodbyes")
    }

    @Test("is told by the close code what it did wrong")
    func mistakes() async throws {
        try await pass("mistakes", query: "max-message=2000000")
    }

    @Test("gets a close frame when the server is interrupted, which then ends with the status of its signal")
    func interrupted() async throws {
        let server = try await Serving.start("ws://127.0.0.1:0")
        let python = try #require(Peers.pythonWithWebSockets)
        let url = "ws://127.0.0.1:\(server.port)/"
        let client = try await aside {
            let script = "\(Foreign.support)/websocket_client.py"
            let client = try Peer(python, [script, url, "none", "served_until_interrupted"])
            try #require(client.wait(for: "ready"))
            return client
        }
        #expect(try await server.interrupt() == 130)
        #expect(try await aside { client.line() } == "served_until_interrupted: ok")
    }
}
