import TestSupport
import Testing

/// Runs Eclipse Paho for Python against the broker of `imbench serve`. The checks are in `Support/mqtt_client.py`.
@Suite("Paho's client", .peer(Peers.paho), .serialized, .timeLimit(.minutes(5)), .ownThread)
struct PahoTests {
    @Test("Paho's client is served at each QoS, over TCP and over WebSocket", arguments: ["tcp", "websockets"], 0...2)
    func served(carrier: String, qos: Int) async throws {
        let server = try await Serving.start("\(carrier == "tcp" ? "mqtt" : "mqtt+ws")://127.0.0.1:0")
        let tests = ["sizes", "burst", "retained", "wills", "session", "takeover", "unsubscribing", "ping"]
        let output = try await Foreign.run(
            "mqtt_client.py",
            with: Peers.pythonWithPaho,
            ["\(server.port)", carrier, "\(qos)"] + tests
        )
        #expect(output == tests.map { "\($0): ok" })
    }
}
