import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests the parameters of permessage-deflate (RFC 7692, section 7.1). They are set by URL and negotiated with Python's
/// websockets. Its decompressors are exactly as small as negotiated and keep no more context, so data that refers to
/// more is an error.
@Suite(
    "Compression parameters with Python's websockets",
    .peer(Peers.webSockets),
    .serialized,
    .timeLimit(.minutes(5)),
    .ownThread
)
struct DeflateParametersTests {
    /// Every parameter with a value that is not its default.
    private static let all =
        "deflate=on&deflate-window=10&deflate-peer-window=11&deflate-context=off&deflate-peer-context=off"
    private static let insistent = """
        {"server_no_context_takeover": true, "client_no_context_takeover": true, "server_max_window_bits": 9,
         "client_max_window_bits": 12, "require_client_max_window_bits": true}
        """

    @Test(
        "Our client and a foreign server use the parameters that either side requires",
        arguments: [
            ("deflate=on", "{}", "client 15 remembers, server 15 remembers"),
            ("deflate=on", insistent, "client 12 forgets, server 9 forgets"),
            ("deflate=small", insistent, "client 10 forgets, server 9 forgets"),
            (all, "{}", "client 10 forgets, server 11 forgets"),
            (all, insistent, "client 10 forgets, server 9 forgets"),
            ("deflate=on&deflate-window=9", "{}", "client 9 remembers, server 15 remembers"),
            ("deflate=on&deflate-peer-window=9", "{}", "client 15 remembers, server 9 remembers"),
            ("deflate=on&deflate-context=off", "{}", "client 15 forgets, server 15 remembers"),
            ("deflate=on&deflate-peer-context=off", "{}", "client 15 remembers, server 15 forgets"),
            ("deflate=small&deflate-window=12", "{}", "client 12 remembers, server 10 remembers"),
        ]
    )
    func client(query: String, server: String, expected: String) async throws {
        let python = try #require(Peers.pythonWithWebSockets)
        let (peer, port) = try await aside {
            let peer = try Peer(python, ["\(Foreign.support)/websocket_deflate.py", "server", server])
            return (peer, try #require(peer.line()?.split(separator: " ").last))
        }
        let connection = try await TransportRegistry.standard.connect("ws://127.0.0.1:\(port)/?\(query)")
        #expect(try await aside { peer.line() } == expected)
        let words = expected.split { " ,".contains($0) }
        let (window, isRemembered) = (try #require(Int(words[1])), words[2] == "remembers")
        var random = RandomSource.seeded(7692)
        for size in [100, 600, 1500, 5000, 40_000] {
            let letters = (0..<size).map { _ in UInt8(ascii: "a") + UInt8(truncatingIfNeeded: random.next() & 7) }
            for repetition in 0..<3 {
                let before = await connection.statistics().bytesSent
                #expect(await connection.send(Payload(letters)) == .written)
                #expect(try await connection.receive() == Payload(letters))
                let sent = await connection.statistics().bytesSent - before
                // Eight different letters need three bits each. Almost nothing is kept in the context.
                #expect(sent < size * 3 / 4)
                if size == 600, repetition > 0 { #expect((sent < 100) == (isRemembered && window > 9)) }
            }
        }
        await connection.close()
    }

    @Test(
        "Our server and a foreign client use the parameters that either side requires",
        arguments: [
            (
                "deflate=on", #"{"server_max_window_bits": 9, "client_max_window_bits": 10}"#,
                "client 10 remembers, server 9 remembers"
            ),
            (
                "deflate=on", #"{"server_no_context_takeover": true, "client_no_context_takeover": true}"#,
                "client 15 forgets, server 15 forgets"
            ),
            (all, #"{"client_max_window_bits": true}"#, "client 11 forgets, server 10 forgets"),
            (all, #"{"server_max_window_bits": 9, "client_max_window_bits": 9}"#, "client 9 forgets, server 9 forgets"),
            // A client that does not offer a window limit gets the largest window.
            (all, #"{"client_max_window_bits": null}"#, "client 15 forgets, server 10 forgets"),
            ("deflate=small", #"{"client_max_window_bits": true}"#, "client 10 remembers, server 10 remembers"),
            (
                "deflate=on&deflate-window=9", #"{"client_max_window_bits": true}"#,
                "client 15 remembers, server 9 remembers"
            ),
            (
                "deflate=on&deflate-peer-window=9", #"{"client_max_window_bits": true}"#,
                "client 9 remembers, server 15 remembers"
            ),
            ("deflate=on&deflate-context=off", "{}", "client 15 remembers, server 15 forgets"),
            ("deflate=on&deflate-peer-context=off", "{}", "client 15 forgets, server 15 remembers"),
            ("deflate=off", "{}", "no compression"),
        ]
    )
    func server(query: String, client: String, expected: String) async throws {
        let server = try await Serving.start("ws://127.0.0.1:0/?\(query)")
        let url = "ws://127.0.0.1:\(server.port)/"
        let output = try await Foreign.run("websocket_deflate.py", with: Peers.pythonWithWebSockets, [url, client])
        #expect(output == [expected])
    }
}
