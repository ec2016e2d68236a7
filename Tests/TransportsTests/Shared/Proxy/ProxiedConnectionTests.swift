import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

@Suite("Connections through a proxy", .timeLimit(.minutes(5)), .ownThread)
struct ProxiedConnectionTests {
    private let registry = TransportRegistry.available
    /// The schemes of the transports over a byte stream.
    private static let schemes = TransportRegistry.available.transports.filter {
        $0.hasSetting("proxy")
    }
    .map(\.name)
    /// The kinds of proxies that can be tested on this machine.
    private static let kinds = Proxy.Kind.allCases.filter { $0 != .https || hasOpenSSL }.map(\.rawValue)

    /// The timeout is long enough for several connections on a busy machine.
    private func connect(_ url: String) async throws -> any Connection {
        try await registry.connect(url, timeout: .seconds(60))
    }

    /// The error of a client of `url` through a proxy at a port of this machine.
    private func failure(_ url: String, _ proxy: String, _ port: UInt16, _ more: String = "") async -> TransportError? {
        await #expect(throws: TransportError.self) {
            _ = try await connect("\(url)?\(more)proxy=\(proxy)127.0.0.1:\(port)")
        }
    }

    /// The error of an attempt to connect.
    private func failure(_ endpoint: Endpoint, timeout: Duration) async -> TransportError? {
        await #expect(throws: TransportError.self) { _ = try await registry.connect(endpoint, timeout: timeout) }
    }

    /// A proxy of any kind that accepts the user ann with the password secret.
    private final class AnyProxy {
        private let proxy: ProxyServer
        private let front: TLSFront?
        private let kind: String

        init(_ kind: String) async throws {
            self.kind = kind
            proxy = try ProxyServer(kind == "socks5" ? .socks5(user: "ann", password: "secret") : .http)
            front = kind == "https" ? try await TLSFront(to: proxy.port) : nil
        }

        /// The options of a client.
        var options: [Endpoint.Option] {
            get throws {
                let url = "\(kind)://ann:secret@127.0.0.1:\(front?.port ?? proxy.port)"
                guard kind == "https" else { return [.init(name: "proxy", value: url)] }
                let authority = try TrialTLS.credentials.get().authority
                return [.init(name: "proxy", value: url), .init(name: "proxy-ca", value: authority)]
            }
        }

        var heads: [String] { proxy.heads }

        func stop() {
            front?.stop()
            proxy.stop()
        }
    }

    @Test("Every stream transport echoes through a proxy of every kind", arguments: schemes, kinds)
    func echo(scheme: String, kind: String) async throws {
        let server = try await EmbeddedServer.start("\(scheme)://127.0.0.1:0", registry: registry)
        let proxy = try await AnyProxy(kind)
        let transport = try registry.transport(named: scheme)
        var endpoint = server.endpoint
        endpoint.host = "localhost"
        endpoint.options = try transport.loopback("proxied") + proxy.options
        let connection = try await registry.connect(endpoint, timeout: .seconds(60))
        for size in [0, 5, 300_000] {
            let sent = [UInt8](repeating: 7, count: size)
            #expect(await connection.send(Payload(sent)).isSuccess)
            #expect(try await connection.receive()?.bytes == sent)
        }
        // The encryption is that of the server, and not that of the proxy.
        #expect((connection.encryption != nil) == transport.isEncrypted)
        let statistics = await connection.statistics()
        #expect(statistics.handshakeRoundTrips >= (kind == "socks5" ? 4 : 2))
        #expect((statistics.tlsBytesSent > 0) == (transport.isEncrypted || kind == "https"))
        let target = "localhost:\(server.endpoint.port ?? 0)"
        let request =
            "CONNECT \(target) HTTP/1.1\r\nHost: \(target)\r\nProxy-Authorization: Basic YW5uOnNlY3JldA==\r\n\r\n"
        // The SOCKS proxy got a name, and no address.
        let count = scheme.hasPrefix("http") ? 2 : 1
        #expect(proxy.heads == Array(repeating: kind == "socks5" ? "3" : request, count: count))
        await connection.close()
        await server.stop()
        proxy.stop()
    }

    @Test("Bytes behind the proxy's answer are the server's first messages, and an end behind them ends the connection")
    func early() async throws {
        let messages: [UInt8] = [0, 2] + text("hi") + [0, 5] + text("there")
        let proxies = [
            "http": try RawServer(.exchange([text("HTTP/1.1 200 OK\r\n\r\n") + messages])),
            "socks5": try RawServer(.exchange([[5, 0], [5, 0, 0, 1, 0, 0, 0, 0, 0, 0] + messages])),
        ]
        for (scheme, proxy) in proxies {
            let connection = try await connect(
                "tcp://nowhere.invalid/?framing=u16&proxy=\(scheme)://127.0.0.1:\(proxy.port)"
            )
            #expect(try await connection.receive()?.bytes == text("hi"))
            #expect(try await connection.receive()?.bytes == text("there"))
            _ = await connection.closed()
            proxy.stop()
        }
    }

    @Test("The refusal of a proxy is the error of `connect`, without the credentials")
    func refused() async throws {
        let http = try RawServer(.http("HTTP/1.1 407 X\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"))
        let socks = try ProxyServer(.socks5(user: "ann", password: "secret"))
        for (proxy, port) in [
            ("http://ann:hunter2@", http.port), ("socks5://ann:hunter2@", socks.port), ("socks5://", socks.port),
        ] {
            let error = await failure("mqtt://nowhere.invalid/", proxy, port)
            #expect(error?.code == .authenticationFailed && error?.phase == .connect)
            #expect(error?.description.contains("hunter2") == false)
        }
        http.stop()
        socks.stop()
    }

    @Test("The refusal of a tunnel is the error of `connect`", arguments: ["http", "socks5"])
    func noServer(kind: String) async throws {
        let proxy = try await AnyProxy(kind)
        let away = try Away("tcp")
        var endpoint = away.endpoint
        endpoint.options = try proxy.options
        let error = await #expect(throws: TransportError.self) { _ = try await registry.connect(endpoint) }
        #expect(
            error?.code == (kind == "http" ? .unreachable : .refused) && error?.detail == (kind == "http" ? 502 : 5)
        )
        proxy.stop()
    }

    @Test(
        "A proxy that closes, resets or does not exist ends the attempt",
        arguments: ["closes", "resets", "is away"],
        kinds
    )
    func lost(how: String, kind: String) async throws {
        let proxy = try RawServer(how == "resets" ? .reset : .exchange([[]]))
        let away = try Away("tcp")
        let port = how == "is away" ? try #require(away.endpoint.port) : proxy.port
        let error = await failure("ws://nowhere.invalid/", "\(kind)://", port)
        #expect(error?.phase == .connect || error?.phase == .secure)
        #expect(error?.isRetryable == true && error?.reason.hasPrefix("the proxy") == true)
        proxy.stop()
        withExtendedLifetime(away) {}
    }

    /// Connects through an https:// proxy with a certificate of this authority.
    private func load(_ authority: String) async throws {
        let server = try await EmbeddedServer.start("tcp://127.0.0.1:0", registry: registry)
        let proxy = try await AnyProxy("https")
        var endpoint = server.endpoint
        endpoint.options = try proxy.options
        let connection = try await registry.connect(endpoint, timeout: .seconds(60))
        await connection.close()
        await server.stop()
        proxy.stop()
    }

    @Test(
        "An attempt through a silent proxy ends at the deadline or when its task is cancelled",
        arguments: kinds,
        [true, false]
    )
    func silent(kind: String, isCancelled: Bool) async throws {
        let proxy = try RawServer(.silent)
        var endpoint = try Endpoint("ws://nowhere.invalid/?proxy=\(kind)://127.0.0.1:\(proxy.port)")
        if kind == "https" {
            let authority = try TrialTLS.credentials.get().authority
            endpoint.options.append(.init(name: "proxy-ca", value: authority))
            // From now on the authority is loaded.
            try await load(authority)
        }
        let attempt = Task { [endpoint] in
            await failure(endpoint, timeout: isCancelled ? .seconds(300) : .seconds(5))
        }
        if isCancelled {
            await proxy.nextSilentConnection()
            attempt.cancel()
        }
        let error = await attempt.value
        #expect(error?.code == (isCancelled ? .cancelled : .timedOut))
        if !isCancelled { #expect(error?.reason == "the proxy did not answer in time") }
        proxy.stop()
    }

    @Test("The error of a proxy that speaks another protocol says so")
    func otherProtocol() async throws {
        let plain = try RawServer(.exchange([text("HTTP/1.1 400 Bad Request\r\n\r\n")]))
        let socks = await failure("tcp://nowhere.invalid/", "socks5://", plain.port)
        #expect(socks?.code == .handshakeFailed && socks?.reason.contains("write http://") == true)
        if hasOpenSSL {
            let secure = await failure("tcp://nowhere.invalid/", "https://", plain.port)
            #expect(secure?.code == .secureHandshakeFailed && secure?.reason.contains("write http://") == true)
        }
        // A fatal alert, with which a TLS server refuses plain text.
        let alerting = try RawServer(.exchange([[21, 3, 3, 0, 2, 2, 10]]))
        let http = await failure("tcp://nowhere.invalid/", "http://", alerting.port)
        #expect(http?.code == .handshakeFailed && http?.reason.contains("write https://") == true)
        plain.stop()
        alerting.stop()
    }

    @Test("An answer before the request is refused")
    func tooEarly() async throws {
        let proxy = try RawServer(.exchange([[5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0]]))
        let error = await failure("tcp://nowhere.invalid/", "socks5://", proxy.port)
        #expect(error?.code == .handshakeFailed && error?.reason.contains("before it had the whole request") == true)
        proxy.stop()
    }

    @Test("An https:// proxy whose certificate is not trusted gets no request", .enabled(if: hasOpenSSL))
    func untrusted() async throws {
        let proxy = try ProxyServer()
        let other = try ThrowAwayAuthority("another").issue(.init("proxy", names: ["IP:127.0.0.1"]))
        var settings = TLSSettings(.server)
        (settings.certificate, settings.key) = (TLSFile(other.certificate), TLSFile(other.key))
        let front = try await TLSFront(to: proxy.port, settings)
        let url = "tcp://nowhere.invalid/?proxy=https://ann:hunter2@127.0.0.1:\(front.port)"
        let error = await #expect(throws: TransportError.self) {
            _ = try await TransportRegistry.standard.connect(url, timeout: .seconds(60))
        }
        #expect(error?.code == .certificateRejected && error?.phase == .secure)
        #expect(error?.reason.contains("proxy-ca") == true && error?.description.contains("hunter2") == false)
        #expect(proxy.count == 0)
        let missing = await failure("tcp://nowhere.invalid/", "https://", front.port, "proxy-ca=/nowhere.pem&")
        #expect(missing?.code == .invalidConfiguration && missing?.reason.hasPrefix("proxy-ca ") == true)
        front.stop()
        proxy.stop()
    }

    @Test("Redirects go through the proxy too")
    func redirected() async throws {
        let listener = try await registry.listen("ws://127.0.0.1:0")
        let target = "ws://127.0.0.1:\(try #require(listener.endpoint.port))/"
        let server = try RawServer(.http("HTTP/1.1 307 X\r\nLocation: \(target)\r\n\r\n"))
        let proxy = try ProxyServer()
        let url = "ws://127.0.0.1:\(server.port)/?redirects=1&proxy=http://127.0.0.1:\(proxy.port)"
        let connection = try await connect(url)
        #expect(proxy.count == 2)
        await connection.close()
        await listener.close()
        server.stop()
        proxy.stop()
    }

    @Test("A listener has no proxy", arguments: ["proxy=http://127.0.0.1:1", "proxy=environment", "proxy-ca=/ca.pem"])
    func listener(option: String) async {
        let error = await #expect(throws: TransportError.self) {
            _ = try await registry.listen("ws://127.0.0.1:0/?\(option)")
        }
        #expect(error?.code == .invalidConfiguration)
    }
}
