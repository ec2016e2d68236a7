import TestSupport
import Testing

/// Runs Python's websockets against the echo of `imbench serve`. The checks are in `Support/websocket_client.py`.
@Suite(
    "The client of Python's websockets",
    .peer(Peers.webSockets),
    .serialized,
    .timeLimit(.minutes(5)),
    .ownThread
)
struct WebSocketClientTests {
    /// Runs tests of the script, which must all pass.
    private func pass(_ tests: String..., query: String = "deflate=off", compression: String = "none") async throws {
        let server = try await Serving.start("ws://127.0.0.1:0/?\(query)")
        let output = try await Foreign.run(
            "websocket_client.py",
            with: Peers.pythonWithWebSockets,
            ["ws://127.0.0.1:\(server.port)/?\(query)", compression] + tests
        )
        #expect(output == tests.map { "\($0): ok" })
    }

    @Test(
        "A client receives every message back with any compression settings of both sides",
        arguments: [("off", "none"), ("off", "deflate"), ("on", "none"), ("on", "deflate"), ("small", "deflate")]
    )
    func echo(server: String, client: String) async throws {
        try await pass("sizes", "fragments", "pings", query: "deflate=\(server)", compression: client)
    }

    @Test("A client receives its own close code back")
    func closeCodes() async throws {
        try await pass("close_codes")
    }

    @Test("A client receives a close code that names its error")
    func mistakes() async throws {
        try await pass("mistakes", query: "max-message=2000000")
    }

    @Test(
        "An interrupted server sends a close frame and exits with the status of its signal"
    )
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
