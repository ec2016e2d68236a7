import TestSupport
import Testing

/// Runs stomp.py against the broker of `imbench serve`. The checks are in `Support/stomp_client.py`.
@Suite("stomp.py's client", .peer(Peers.stompPy), .serialized, .timeLimit(.minutes(5)), .ownThread)
struct StompPyTests {
    @Test("stomp.py's client is served")
    func served() async throws {
        let server = try await Serving.start("stomp://127.0.0.1:0")
        let tests = [
            "topics", "wildcards", "bodies", "escapes", "acknowledgements", "refusals", "burst", "heartbeats", "errors",
        ]
        let output = try await Foreign.run(
            "stomp_client.py",
            with: Peers.stompPy.path,
            ["\(server.port)"] + tests
        )
        #expect(output == tests.map { "\($0): ok" })
    }

    @Test("stomp.py's client is admitted by its login")
    func login() async throws {
        let server = try await Serving.start("stomp://127.0.0.1:0", "--user", "ann:secret")
        let output = try await Foreign.run(
            "stomp_client.py",
            with: Peers.stompPy.path,
            ["\(server.port)", "login"]
        )
        #expect(output == ["login: ok"])
    }
}
