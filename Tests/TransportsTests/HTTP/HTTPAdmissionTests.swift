import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

@Suite("Admission to a server over HTTP", .timeLimit(.minutes(5)), .ownThread)
struct HTTPAdmissionTests {
    @Test("A session that does not exist is unknown, however its token looks")
    func guessing() async throws {
        let host = try await HTTPHost()
        let (client, _) = try await host.open()
        let changed = String(client.token.dropLast()) + (client.token.hasSuffix("A") ? "Q" : "A")
        var bodies: Set<[UInt8]> = []
        for token in [
            "", "x", String(repeating: "A", count: 22), changed, client.token + "A", client.token.lowercased(),
        ]
        where token != client.token {
            for (method, rest) in [("GET", "im-receive=poll&im-from=0"), ("POST", "im-at=0&im-received=0")] {
                let response = try await host.ask(method, "/?im-session=\(token)&\(rest)")
                #expect(response.status == 404)
                bodies.insert(response.body)
            }
        }
        #expect(bodies.count == 1)
        await host.listener.close()
    }

    @Test("A client cannot choose the token of its session")
    func fixation() async throws {
        let host = try await HTTPHost()
        let token = String(repeating: "A", count: 22)
        #expect(try await host.ask("POST", "/?im-open=1&im-session=\(token)").status == 400)
        #expect(try await host.ask("GET", "/?im-session=\(token)&im-receive=poll&im-from=0").status == 404)
        await host.listener.close()
    }

    @Test("A session is closed to requests with another Origin or other credentials")
    func binding() async throws {
        let host = try await HTTPHost("origins=https://a.example,https://b.example")
        let (origin, credentials) = ("Origin: https://a.example", "Authorization: Bearer x")
        let (client, app) = try await host.open(headers: [origin, credentials])
        let others = [
            ["Origin: https://b.example", credentials], [origin, "Authorization: Bearer y"], [origin], [credentials],
            [origin, credentials, credentials],
        ]
        for headers in others {
            let response = try await host.ask("POST", client.sending(at: 0), headers, RawSession.frame([1]))
            #expect(response.status == 403)
        }
        let stranger = try await host.ask("GET", client.receiving(.events), ["Origin: https://b.example", credentials])
        #expect(stranger.status == 403 && stranger.headers["access-control-allow-origin"] == "https://b.example")
        try await client.post("mine")
        #expect(try await app.receiveText() == "mine")
        // A browser sends no Origin with a GET to the server of its own page.
        #expect(try await host.ask("GET", client.receiving(.poll), [credentials]).status == 204)
        await host.listener.close()
    }

    @Test("Only admitted origins get the headers of CORS")
    func cors() async throws {
        let host = try await HTTPHost("origins=https://a.example", path: "/chat")
        let asking = ["Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type"]
        let preflight = try await host.ask("OPTIONS", "/chat?im-open=1", ["Origin: https://a.example"] + asking)
        #expect(preflight.status == 204 && preflight.headers["access-control-allow-methods"] == "GET, POST")
        #expect(preflight.headers["access-control-allow-headers"] == "Content-Type, Authorization, Last-Event-ID")
        for response in [
            preflight, try await host.ask("POST", "/chat?im-open=1", ["Origin: https://a.example"]),
            try await host.ask("GET", "/chat?im-session=x&im-receive=sse&im-from=0", ["Origin: https://a.example"]),
        ] {
            #expect(response.headers["access-control-allow-origin"] == "https://a.example")
            #expect(response.headers["access-control-allow-credentials"] == "true")
            #expect(response.headers["vary"] == "Origin" && response.headers["cache-control"] == "no-store")
            #expect(response.headers["x-content-type-options"] == "nosniff")
        }
        for (method, target) in [("OPTIONS", "/chat?im-open=1"), ("POST", "/chat?im-open=1")] {
            let refused = try await host.ask(method, target, ["Origin: https://evil.example"] + asking)
            #expect(refused.status == 403 && refused.headers["access-control-allow-origin"] == nil)
        }
        #expect(try await host.events.first().reason.error?.reason.contains("evil.example") == true)
        #expect(try await host.ask("POST", "/other?im-open=1").status == 404)
        await host.listener.close()
    }

    @Test("A Host header that the server does not serve is refused")
    func hosts() async throws {
        let host = try await HTTPHost("hosts=chat.example")
        let connection = try RawHTTPConnection(port: host.port)
        let request = "POST /?im-open=1 HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\n\r\n"
        try await connection.send(Array(request.replacing("HOST", with: "evil.example").utf8))
        #expect(try await connection.response().status == 403)
        try await connection.send(Array(request.replacing("HOST", with: "chat.example").utf8))
        #expect(try await connection.response().status == 201)
        await host.listener.close()
    }

    @Test("The app decides about the request that opens a session, and gives it an identity")
    func decide() async throws {
        let host = try await HTTPHost { request in
            #expect(request.query == "room=a&x=%20" || request.query == "room=b")
            guard request.query.hasPrefix("room=a"), request.header("Authorization") == "Bearer good" else {
                let header = HTTPHeader(parsed: "WWW-Authenticate", "Bearer")
                return .refuse(status: 401, headers: [header, HTTPHeader(parsed: "Content-Length", "7")])
            }
            return .acceptAs(Identity("ann"))
        }
        let refused = try await host.ask("POST", "/?room=b&im-open=1", ["Authorization: Bearer good"])
        #expect(refused.status == 401 && refused.headers["www-authenticate"] == "Bearer" && refused.body.isEmpty)
        #expect(try await host.events.first().reason.error?.detail == 401)
        let (_, app) = try await host.open("room=a&x=%20&im-interval=100&", headers: ["Authorization: Bearer good"])
        #expect(app.identity == Identity("ann"))
        await host.listener.close()
    }

    @Test("No part of a request adds a header to the response")
    func splitting() async throws {
        let host = try await HTTPHost("origins=any")
        let (client, _) = try await host.open()
        let injected = "%0d%0aX-Injected:%20yes%0d%0a%0d%0a"
        for target in [
            "/?im-open=1&im-interval=1\(injected)", "/?im-open=\(injected)",
            "/?im-session=\(injected)&im-at=0&im-received=0",
            client.sending(at: 0) + "&im-end=\(injected)", "/\(injected)?im-open=1",
        ] {
            let response = try await host.ask("POST", target, ["Origin: x\(injected)"])
            #expect(response.headers["x-injected"] == nil)
            #expect(response.headers["access-control-allow-origin"] == "x\(injected)" || response.status == 404)
        }
        // A bare CR or LF in a value ends the connection.
        for bytes in ["Origin: x\rX-Injected: yes", "Origin: x\nX-Injected: yes", "Origin: x\u{0}"] {
            let connection = try RawHTTPConnection(port: host.port)
            try await connection.send(RawHTTPConnection.request("POST", "/?im-open=1", [bytes]))
            let answer = String(decoding: try await connection.rest(), as: UTF8.self)
            #expect(answer.hasPrefix("HTTP/1.1 400 ") && !answer.contains("Injected"))
        }
        await host.listener.close()
    }

    @Test("A request that comes too slowly, or whose head does not end, is refused")
    func slowRequests() async throws {
        let host = try await HTTPHost("handshake-timeout=50ms&max-head=1KiB")
        let (client, _) = try await host.open()
        let head = "POST \(client.sending(at: 0)) HTTP/1.1\r\nHost: localhost\r\n"
        for (bytes, status) in [
            (head, 408), (head + "Content-Length: 1000\r\n\r\nabc", 408),
            (head + String(repeating: "X-Long: 0123456789\r\n", count: 100), 431),
        ] {
            let connection = try RawHTTPConnection(port: host.port)
            try await connection.send(Array(bytes.utf8))
            let answer = String(decoding: try await connection.rest(), as: UTF8.self)
            #expect(answer.hasPrefix("HTTP/1.1 \(status) "))
        }
        try await client.post("the session lives on")
        await host.listener.close()
    }

    // MARK: Limits

    @Test("A server that is full refuses a session, until one ends")
    func full() async throws {
        let host = try await HTTPHost("sessions=1")
        let (client, app) = try await host.open()
        _ = try await client.poll(0, .poll)
        #expect(try await host.ask("GET", client.receiving(.poll)).status == 204)
        let refused = try await host.ask("POST", "/?im-open=1")
        #expect(refused.status == 503 && refused.headers["retry-after"] == "2")
        try await client.post(bytes: [], isLast: true)
        _ = await app.closed()
        var status = 503
        while status == 503 { status = try await host.ask("POST", "/?im-open=1").status }
        #expect(status == 201)
        await host.listener.close()
    }

    @Test("The limit of one address counts its sessions")
    func perAddress() async throws {
        let host = try await HTTPHost("max-per-address=2")
        let connection = try RawHTTPConnection(port: host.port)
        for status in [201, 201, 503] { #expect(try await connection.ask("POST", "/?im-open=1").status == status) }
        await host.listener.close()
    }

    @Test("What sessions keep counts towards the limit of the server, and the largest is ended")
    func memory() async throws {
        let host = try await HTTPHost("max-buffered=1MiB&window=1MiB&write-buffer=1MiB")
        let (small, smallApp) = try await host.open()
        let (_, largeApp) = try await host.open()
        #expect(await smallApp.send(Payload(longBytes(1000))).isSuccess)
        let sending = Task {
            while await largeApp.send(Payload(longBytes(100_000))).isSuccess {}
        }
        #expect(await largeApp.closed().error?.code == .resourcesExhausted)
        await sending.value
        #expect(try await small.poll(1004).count == 1004)
        await host.listener.close()
    }

    // MARK: Pages and WebSockets

    @Test("Pages are served beside sessions, over connections that are kept")
    func pages() async throws {
        let page = try WebPage(headers: [HTTPHeader("X-Page", "1")], body: Array("<p>hi</p>".utf8))
        let host = try await HTTPHost(pages: [page])
        let connection = try RawHTTPConnection(port: host.port)
        for _ in 0..<2 {
            let response = try await connection.ask("GET", "/?a=b")
            #expect(response.status == 200 && response.text == "<p>hi</p>" && response.headers["x-page"] == "1")
            #expect(response.headers["content-type"] == "text/html; charset=utf-8")
            #expect(try await connection.ask("HEAD", "/").headers["content-length"] == "9")
        }
        #expect(try await connection.ask("GET", "/", ["Origin: https://evil.example"]).status == 403)
        #expect(try await connection.ask("POST", "/").status == 405)
        #expect(try await connection.ask("POST", "/?im-open=1").status == 201)
        await host.listener.close()
    }

    @Test("Sessions share the port and the path of a WebSocket server")
    func fallback() async throws {
        let page = try WebPage(body: Array("page".utf8))
        let host = try await HTTPHost("fallback=on&hold=1s", scheme: "ws", path: "/", pages: [page])
        async let connecting = HTTPHost.registry.connect("ws://127.0.0.1:\(host.port)")
        let app = try #require(try await host.listener.accept())
        let webSocket = try await connecting
        #expect(await webSocket.send(Payload(text: "over WebSocket")).isSuccess)
        #expect(try await app.receiveText() == "over WebSocket")
        let (client, sessionApp) = try await host.open()
        try await client.post("over HTTP")
        #expect(try await sessionApp.receiveText() == "over HTTP")
        #expect(try await host.ask("GET", "/").text == "page")
        #expect(try await host.ask("GET", "/other").status == 426)
        await host.listener.close()
        #expect(await app.send(Payload(text: "lives on")).isSuccess)
        #expect(try await webSocket.receiveText() == "lives on")
        await webSocket.close()
    }

    @Test("A WebSocket server without fallback offers no sessions, and refuses their settings")
    func withoutFallback() async throws {
        let host = try await HTTPHost(scheme: "ws")
        #expect(try await host.ask("GET", "/?im-session=x&im-receive=poll&im-from=0").status == 426)
        await host.listener.close()
        for setting in ["window=1KiB", "hold=1s", "session-timeout=1s", "sessions=2"] {
            let error = await #expect(throws: TransportError.self) {
                try await HTTPHost.registry.listen("ws://127.0.0.1:0/?\(setting)")
            }
            #expect(error?.code == .invalidConfiguration && error?.reason.contains("fallback=on") == true)
        }
    }
}
