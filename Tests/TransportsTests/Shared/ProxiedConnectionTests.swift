import EmbeddedServers
import TestSupport
import Testing
import TransportAPI

@testable import Transports

@Suite("Connections through a proxy", .timeLimit(.minutes(5)), .ownThread)
struct ProxiedConnectionTests {
    private let registry = TransportRegistry.standard

    /// The timeout is long enough for several connections on a busy machine.
    private func connect(_ url: String) async throws -> any Connection {
        try await registry.connect(url, timeout: .seconds(60))
    }

    private func url(_ endpoint: Endpoint, _ options: String = "", through port: UInt16, user: String = "") -> String {
        "\(endpoint.scheme)://127.0.0.1:\(endpoint.port ?? 0)/?\(options)proxy=http://\(user)127.0.0.1:\(port)"
    }

    @Test("Every stream transport echoes through a tunnel", arguments: ["ws", "tcp", "mqtt"])
    func echo(name: String) async throws {
        let server = try await EmbeddedServer.start("\(name)://127.0.0.1:0")
        let proxy = try ProxyServer()
        let options = try registry.transport(named: name).loopback("proxied").map { "\($0.name)=\($0.value)&" }.joined()
        let connection = try await connect(url(server.endpoint, options, through: proxy.port, user: "ann:secret@"))
        for size in [0, 5, 300_000] {
            let sent = [UInt8](repeating: 7, count: size)
            #expect(await connection.send(Payload(sent)).isSuccess)
            #expect(try await connection.receive()?.bytes == sent)
        }
        #expect(await connection.statistics().handshakeRoundTrips >= 2)
        let target = "127.0.0.1:\(server.endpoint.port ?? 0)"
        let expected =
            "CONNECT \(target) HTTP/1.1\r\nHost: \(target)\r\nProxy-Authorization: Basic YW5uOnNlY3JldA==\r\n\r\n"
        #expect(proxy.heads == [expected])
        await connection.close()
        await server.stop()
        proxy.stop()
    }

    @Test("Bytes behind the proxy's answer are the server's first messages, and an end behind them ends the connection")
    func early() async throws {
        let proxy = try RawServer(.http("HTTP/1.1 200 OK\r\n\r\n\0\u{2}hi\0\u{5}there"))
        let connection = try await connect("tcp://nowhere.invalid/?framing=u16&proxy=http://127.0.0.1:\(proxy.port)")
        #expect(try await connection.receive()?.bytes == text("hi"))
        #expect(try await connection.receive()?.bytes == text("there"))
        _ = await connection.closed()
        proxy.stop()
    }

    @Test("The refusal of a proxy is the error of `connect`")
    func refused() async throws {
        let proxy = try RawServer(.http("HTTP/1.1 407 X\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"))
        let error = await #expect(throws: TransportError.self) {
            _ = try await connect("mqtt://nowhere.invalid/?proxy=http://127.0.0.1:\(proxy.port)")
        }
        #expect(error?.code == .authenticationFailed && error?.phase == .connect && error?.detail == 407)
        proxy.stop()
    }

    @Test(
        "A proxy that closes, resets or does not exist ends the attempt",
        arguments: ["closes", "resets", "is away"]
    )
    func lost(how: String) async throws {
        let proxy = try RawServer(how == "resets" ? .reset : .http(""))
        let away = try Away("tcp")
        let port = how == "is away" ? try #require(away.endpoint.port) : proxy.port
        let error = await #expect(throws: TransportError.self) {
            _ = try await connect("ws://nowhere.invalid/?proxy=http://127.0.0.1:\(port)")
        }
        #expect(error?.phase == .connect && error?.isRetryable == true)
        // A reset may appear as the system's error or as an end of the input.
        #expect(how == "resets" || error?.reason.contains("the proxy") == true)
        proxy.stop()
        withExtendedLifetime(away) {}
    }

    @Test(
        "An attempt through a silent proxy ends at the deadline or when its task is cancelled",
        arguments: [true, false]
    )
    func silent(isCancelled: Bool) async throws {
        let proxy = try RawServer(.silent)
        let url = "ws://nowhere.invalid/?proxy=http://127.0.0.1:\(proxy.port)"
        let attempt = Task {
            await #expect(throws: TransportError.self) {
                _ = try await registry.connect(url, timeout: isCancelled ? .seconds(60) : .milliseconds(50))
            }
        }
        if isCancelled { attempt.cancel() }
        let error = await attempt.value
        #expect(error?.code == (isCancelled ? .cancelled : .timedOut))
        proxy.stop()
    }

    @Test("Redirects go through the proxy too")
    func redirected() async throws {
        let listener = try await registry.listen("ws://127.0.0.1:0")
        let target = "ws://127.0.0.1:\(try #require(listener.endpoint.port))/"
        let server = try RawServer(.http("HTTP/1.1 307 X\r\nLocation: \(target)\r\n\r\n"))
        let proxy = try ProxyServer()
        let first = Endpoint(scheme: "ws", host: "127.0.0.1", port: server.port)
        let connection = try await connect(url(first, "redirects=1&", through: proxy.port))
        #expect(proxy.heads.count == 2)
        await connection.close()
        await listener.close()
        server.stop()
        proxy.stop()
    }

    @Test("A listener has no proxy")
    func listener() async {
        let error = await #expect(throws: TransportError.self) {
            _ = try await registry.listen("ws://127.0.0.1:0/?proxy=http://127.0.0.1:1")
        }
        #expect(error?.code == .invalidConfiguration)
    }
}
