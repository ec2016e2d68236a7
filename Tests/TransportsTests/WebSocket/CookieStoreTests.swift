import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

@Suite("Cookies of WebSocket handshakes", .timeLimit(.minutes(5)), .ownThread)
struct CookieStoreTests {
    private let registry = TransportRegistry.standard

    /// The Cookie headers of the requests; `nil` for a request without one.
    private func cookies(_ server: RawServer) -> [String?] {
        server.heads.map { head in
            head.split(separator: "\r\n").first { $0.hasPrefix("Cookie: ") }.map { String($0.dropFirst(8)) }
        }
    }

    /// Connects `count` times with one transport. Attempts may fail.
    private func connect(_ url: String, times count: Int) async throws {
        let transport = try registry.transport(for: Endpoint(url))
        for _ in 0..<count {
            if let connection = try? await transport.connect(timeout: .seconds(60)) { await connection.close() }
        }
    }

    @Test("The cookies of a handshake are sent in the next one", arguments: ["ws", "mqtt+ws"])
    func returned(scheme: String) async throws {
        let lines = ["Sec-WebSocket-Protocol: mqtt"]
        let server = try RawServer(
            .upgrade(lines + ["Set-Cookie: node=a; Path=/; HttpOnly", "Set-Cookie: x=y; Secure"]),
            .upgrade(lines + ["Set-Cookie: node=b; Path=/; Max-Age=1000"]),
            .upgrade(lines)
        )
        // Over MQTT, the attempt fails after the handshake of the WebSocket.
        let option = scheme == "ws" ? "subprotocol=mqtt" : "publish=a"
        try await connect("\(scheme)://127.0.0.1:\(server.port)/chat?\(option)", times: 4)
        #expect(cookies(server) == [nil, "node=a", "node=b", "node=b"])
        server.stop()
    }

    @Test(
        "Nothing is kept with cookies=off, and a Cookie header of the app is sent instead",
        arguments: ["ws", "mqtt+ws"]
    )
    func off(scheme: String) async throws {
        let answer = RawServer.Answer.upgrade(["Set-Cookie: a=b", "Sec-WebSocket-Protocol: mqtt"])
        for (options, expected) in [("cookies=off", [nil, nil]), ("header=Cookie:own%3D1", ["own=1", "own=1"])] {
            let server = try RawServer(answer)
            let more = scheme == "ws" ? "subprotocol=mqtt" : "publish=a"
            try await connect("\(scheme)://127.0.0.1:\(server.port)/?\(more)&\(options)", times: 2)
            #expect(cookies(server) == expected)
            server.stop()
        }
        #expect(refusedKey { try registry.transport(for: Endpoint("\(scheme)://h/?cookies=maybe")) } == "cookies")
    }

    @Test(
        "A refusal of the credentials drops the cookies, and an overloaded server does not",
        arguments: [400, 401, 403, 503]
    )
    func refused(status: Int) async throws {
        let server = try RawServer(
            .upgrade(["Set-Cookie: a=b"]),
            .http("HTTP/1.1 \(status) X\r\nSet-Cookie: c=d\r\n\r\n"),
            .upgrade([])
        )
        try await connect("ws://127.0.0.1:\(server.port)/", times: 3)
        #expect(cookies(server) == [nil, "a=b", status == 503 ? "a=b" : nil])
        server.stop()
    }

    @Test("The cookies of a redirect are sent to its host only")
    func redirects() async throws {
        let other = try RawServer(.upgrade(["Set-Cookie: other=2; Path=/"]))
        let target = "ws://localhost:\(other.port)/"
        let leave = RawServer.Answer.http("HTTP/1.1 307 X\r\nLocation: \(target)\r\nSet-Cookie: own=1; Path=/\r\n\r\n")
        let server = try RawServer(leave)
        try await connect("ws://127.0.0.1:\(server.port)/?redirects=1", times: 2)
        #expect(cookies(server) == [nil, "own=1"])
        #expect(cookies(other) == [nil, "other=2"])
        let same = try RawServer(
            .http("HTTP/1.1 307 X\r\nLocation: /b\r\nSet-Cookie: own=3; Path=/\r\n\r\n"),
            .upgrade(["Set-Cookie: b=4"])
        )
        try await connect("ws://127.0.0.1:\(same.port)/a?redirects=1", times: 1)
        #expect(cookies(same) == [nil, "own=3"])
        for server in [server, other, same] { server.stop() }
    }

    @Test("A supervisor keeps cookies over its attempts, and drops them when its preparation changes the credentials")
    func supervised() async throws {
        let server = try RawServer(.upgrade(["Set-Cookie: a=b"]))
        let token = Locked(1)
        let (supervisor, _) = try Supervisor.recorded([Endpoint("ws://127.0.0.1:\(server.port)/")]) { setup in
            setup.preparation = { endpoint, _ in
                var endpoint = endpoint
                let number = token.withLock { $0 }
                endpoint.options.append(.init(name: "header", value: "Authorization:Bearer \(number)"))
                return endpoint
            }
        }
        supervisor.connect()
        while server.heads.count < 3 { await Task.yield() }
        token.withLock { $0 = 2 }
        while !server.heads.contains(where: { $0.contains("Bearer 2") }) { await Task.yield() }
        await supervisor.close()
        let (heads, cookies) = (server.heads, cookies(server))
        let change = try #require(heads.firstIndex { $0.contains("Bearer 2") })
        #expect(Array(cookies[..<change]) == [nil] + Array(repeating: "a=b", count: change - 1))
        #expect(cookies[change] == nil)
        server.stop()
    }
}
