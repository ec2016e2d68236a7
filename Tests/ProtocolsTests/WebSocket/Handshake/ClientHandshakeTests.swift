import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("WebSocket client handshake")
struct ClientHandshakeTests {
    static func client(_ change: (inout WebSocketConfiguration) throws -> Void = { _ in }) throws -> WebSocketHarness {
        var configuration = WebSocketConfiguration(host: "example.com", port: 9000, path: "/chat?room=1")
        try change(&configuration)
        var harness = WebSocketHarness(try WebSocketCore(.client, configuration))
        harness.start()
        return harness
    }

    @Test("The request contains everything that was configured")
    func request() throws {
        var client = try Self.client {
            $0.origin = "http://example.com"
            $0.subprotocols = ["chat.v2", "chat"]
            $0.headers = [try HTTPHeader("Authorization", "Bearer x")]
        }
        let key = client.core.key
        let expected = [
            "GET /chat?room=1 HTTP/1.1", "Host: example.com:9000", "Upgrade: websocket", "Connection: Upgrade",
            "Sec-WebSocket-Key: \(key)", "Sec-WebSocket-Version: 13", "Origin: http://example.com",
            "Sec-WebSocket-Protocol: chat.v2, chat", "Authorization: Bearer x", "", "",
        ]
        #expect(String(decoding: client.takeOutput(), as: UTF8.self) == expected.joined(separator: "\r\n"))
        #expect(HandshakeKey.isValid(key))
    }

    @Test("Cookies are sent behind the configured headers, unless these have cookies of their own")
    func cookies() throws {
        for (own, expected) in [([], ["Cookie: a=b"]), (["c=d"], ["cookie: c=d"])] {
            var configuration = WebSocketConfiguration()
            configuration.headers = try own.map { try HTTPHeader("cookie", $0) }
            var core = try WebSocketCore(.client, configuration)
            core.cookies = CookieHeader(value: "a=b")
            var client = WebSocketHarness(core)
            client.start()
            let lines = String(decoding: client.takeOutput(), as: UTF8.self).split(separator: "\r\n")
            #expect(lines.filter { $0.lowercased().hasPrefix("cookie:") }.map(String.init) == expected)
        }
    }

    @Test("The cookies of an accepted handshake and of a redirect are reported, and no others")
    func receivedCookies() throws {
        let set = "Set-Cookie: a=b\r\nset-cookie: c=d; Path=/\r\n"
        var client = try Self.client()
        client.feed(text("HTTP/1.1 103 X\r\nSet-Cookie: x=y\r\n\r\n"))
        client.feed(response(key: client.core.key, with: ["Set-Cookie: a=b", "set-cookie: c=d; Path=/"]), slice: 7)
        #expect(client.core.receivedCookies.map(\.name) == ["a", "c"])
        for (status, redirects, names) in [(302, 1, ["a", "c"]), (302, 0, []), (503, 1, []), (200, 1, [])] {
            client = try Self.client { $0.redirects = redirects }
            client.feed(text("HTTP/1.1 \(status) X\r\nLocation: /\r\n\(set)\r\n"))
            #expect(client.failure != nil && client.core.receivedCookies.map(\.name) == names)
        }
    }

    @Test("A valid response opens the connection, whole and byte by byte", arguments: [1, 5, .max])
    func opens(slice: Int) throws {
        var client = try Self.client { $0.subprotocols = ["a", "b"] }
        client.feed(response(key: client.core.key, with: ["Sec-WebSocket-Protocol: b", "X-Other: 1"]), slice: slice)
        #expect(client.isOpen && client.failure == nil)
        #expect(client.core.subprotocol == "b")
        #expect(client.core.deadline == nil)
    }

    @Test("Frames that come with the response are read", arguments: [1, .max])
    func pipelined(slice: Int) throws {
        var client = try Self.client()
        client.feed(response(key: client.core.key) + frame(to: .client, 0x81, text("hi")), slice: slice)
        #expect(client.messages == [Payload(text: "hi")])
        #expect(client.events.count == 2)
    }

    @Test(
        "A 101 with Content-Length or Transfer-Encoding has no body, so frames follow its head",
        arguments: [
            ["Content-Length: 2"], ["Content-Length: 0"], ["Transfer-Encoding: chunked"],
            ["Content-Length: 5", "Transfer-Encoding: gzip, chunked"],
        ],
        [1, .max]
    )
    func announcedBody(lines: [String], slice: Int) throws {
        var client = try Self.client()
        let bytes = response(key: client.core.key, with: lines) + frame(to: .client, 0x81, text("hi"))
        client.feed(bytes, slice: slice)
        #expect(client.failure == nil)
        #expect(client.messages == [Payload(text: "hi")])
    }

    @Test("Interim responses are skipped")
    func interim() throws {
        var client = try Self.client()
        client.feed(text("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n") + response(key: client.core.key))
        #expect(client.isOpen == true)
    }

    @Test(
        "An invalid response fails the handshake",
        arguments: [
            ("Upgrade", []), ("Upgrade", ["Upgrade: h2c"]), ("Upgrade", ["Upgrade: websocket", "Upgrade: websocket"]),
            ("Connection", []), ("Connection", ["Connection: close"]), (nil, ["Connection: upgrade"]),
            (nil, [" folded"]),
            (nil, ["X: a\0"]), (nil, ["X: a\nY: b"]), (nil, ["X: a\rY: b"]), ("Sec-WebSocket-Accept", []),
            ("Sec-WebSocket-Accept", ["Sec-WebSocket-Accept: \(sampleAccept)"]),
            (nil, ["Sec-WebSocket-Accept: \(sampleAccept)"]), (nil, ["Sec-WebSocket-Protocol: c"]),
            (nil, ["Sec-WebSocket-Protocol: a", "Sec-WebSocket-Protocol: b"]),
            (nil, ["Sec-WebSocket-Extensions: permessage-deflate"]), (nil, ["Sec-WebSocket-Extensions:"]),
            (nil, ["Sec-WebSocket-Extensions: ;"]), (nil, ["Sec-WebSocket-Protocol:"]),
            (nil, ["Sec-WebSocket-Protocol: a, b"]),
        ] as [(String?, [String])]
    )
    func refused(name: String?, lines: [String]) throws {
        var client = try Self.client { $0.subprotocols = ["a", "b"] }
        client.feed(response(key: client.core.key, replacing: name, with: lines), slice: 9)
        #expect(client.failure?.code == .handshakeFailed && client.failure?.phase == .handshake)
        #expect(client.events.isEmpty)
    }

    @Test(
        "A first line that is not HTTP/1.1 fails the handshake",
        arguments: [
            "HTTP/1.0 101 X", "HTTP/2.1 101 X", "HTTP/1.10 101 X", "HTTP/1.1 1x1 X", "HTTP/1.1 1011 X", "HTTP/1.1",
            "SSH-2.0-x", "HTTP/1.1  101", "\r\nHTTP/1.1 101 X",
        ]
    )
    func statusLine(line: String) throws {
        var client = try Self.client()
        client.feed(response(line, key: client.core.key))
        #expect(client.failure?.code == .handshakeFailed)
    }

    @Test("An answer of a higher minor version is read as HTTP/1.1", arguments: ["HTTP/1.2", "HTTP/1.9"])
    func minorVersion(version: String) throws {
        var client = try Self.client()
        client.feed(response("\(version) 101 Switching Protocols", key: client.core.key))
        #expect(client.isOpen == true)
    }

    @Test("Tokens may differ in case and come in lists")
    func lenient() throws {
        var client = try Self.client()
        let head = [
            "HTTP/1.1 101", "UPGRADE: WebSocket", "connection: keep-alive, UPGRADE",
            "sec-websocket-accept: \(HandshakeKey.accept(for: client.core.key))", "", "",
        ]
        client.feed(text(head.joined(separator: "\r\n")))
        #expect(client.isOpen == true)
    }

    @Test(
        "Another status is reported with the value of Retry-After",
        arguments: [
            (401, .authenticationFailed), (403, .forbidden), (404, .notFound), (302, .handshakeFailed),
            (200, .handshakeFailed),
            (426, .handshakeFailed), (429, .tooManyRequests), (503, .serverUnavailable),
        ] as [(Int, TransportError.Code)]
    )
    func status(status: Int, code: TransportError.Code) throws {
        var client = try Self.client()
        client.feed(text("HTTP/1.1 \(status) Whatever\r\nRetry-After: 30\r\nContent-Length: 4\r\n\r\nbody"))
        let expected = TransportError.httpStatus(status, retryAfter: .seconds(30))
        #expect(client.failure?.reason.hasPrefix(expected.reason) == true)
        #expect(client.failure?.detail == status && client.failure?.retryAfter == .seconds(30))
        #expect(client.failure?.code == code)
    }

    @Test("A refusal for credentials says whether the request had any")
    func missingCredentials() throws {
        var without = try Self.client()
        without.feed(text("HTTP/1.1 401 Unauthorized\r\n\r\n"))
        let missing = try #require(without.failure?.reason)
        #expect(missing.contains("no Authorization header was sent: set it in headers or in the preparation"))
        #expect(missing.contains("USER:PASSWORD@"))
        var with = try Self.client { $0.headers = [try HTTPHeader("authorization", "Bearer secret")] }
        with.feed(text("HTTP/1.1 401 Unauthorized\r\n\r\n"))
        #expect(with.failure == .httpStatus(401))
    }

    @Test("A refusal of a path quotes it without its query, and shortens it", arguments: [404, 410])
    func unknownPath(status: Int) throws {
        var client = try Self.client()
        client.feed(text("HTTP/1.1 \(status) Gone\r\n\r\n"))
        #expect(client.failure?.reason.hasSuffix("HTTP \(status); the path of the request is '/chat'") == true)
        var long = try Self.client { $0.path = "/" + String(repeating: "x", count: 500) + "?token=secret" }
        long.feed(text("HTTP/1.1 \(status) Gone\r\n\r\n"))
        #expect(long.failure?.reason.hasSuffix("xxx...'") == true && (long.failure?.reason.count ?? 500) < 200)
    }

    @Test(
        "A date of Retry-After is relative to the Date of the answer, and one in the past means now",
        arguments: [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 37), ("Sunday, 06-Nov-94 08:50:00 GMT", 60),
            ("Sun Nov  6 09:49:00 1994", 3600), ("Sat, 05 Nov 1994 08:49:37 GMT", 0),
            ("Sun, 06 Nov 1994 08:49:00 GMT", 0),
        ]
    )
    func retryDate(date: String, seconds: Int) throws {
        var client = try Self.client()
        let date = "Date: Sun, 06 Nov 1994 08:49:00 GMT\r\nRetry-After: \(date)\r\n"
        client.feed(text("HTTP/1.1 503 Busy\r\n\(date)\r\n"))
        #expect(client.failure == .httpStatus(503, retryAfter: .seconds(seconds)))
    }

    @Test("A head beyond the limit fails the handshake")
    func tooLarge() throws {
        var client = try Self.client { $0.maximumHeaderBytes = 256 }
        client.feed(response(key: client.core.key, with: ["X: " + String(repeating: "y", count: 256)]), slice: 50)
        #expect(client.failure?.code == .handshakeFailed)
    }

    @Test("More headers than allowed fail the handshake, and so do interim responses without an end")
    func tooMany() throws {
        var client = try Self.client { $0.maximumHeaderCount = 10 }
        client.feed(response(key: client.core.key, with: Array(repeating: "X: y", count: 7)))
        #expect(client.isOpen == true)
        client = try Self.client { $0.maximumHeaderCount = 10 }
        client.feed(response(key: client.core.key, with: Array(repeating: "X: y", count: 8)))
        #expect(client.failure?.code == .handshakeFailed)
        client = try Self.client()
        for _ in 0..<1000 { client.feed(text("HTTP/1.1 102 Processing\r\n\r\n")) }
        #expect(client.failure?.code == .handshakeFailed)
    }

    @Test("A handshake that the server does not answer fails after the timeout, and not before")
    func timeout() throws {
        var client = try Self.client { $0.handshakeTimeout = .seconds(3) }
        client.feed(text("HTTP/1.1 101 Swi"))
        client.advance(by: .milliseconds(2999))
        #expect(client.failure == nil)
        client.advance(by: .milliseconds(1))
        #expect(client.failure?.code == .timedOut && client.failure?.phase == .handshake)
    }

    @Test("The end of the input within the handshake loses the connection")
    func ended() throws {
        var client = try Self.client()
        client.feed(text("HTTP/1.1 101"))
        client.endInput()
        #expect(client.failure?.code == .connectionLost && client.failure?.phase == .handshake)
    }

    @Test("Closing within the handshake sends nothing and ends at once")
    func closing() throws {
        var client = try Self.client()
        _ = client.takeOutput()
        client.core.close(.user, &client.context)
        client.drain()
        #expect(client.closeReason == .user)
        #expect(client.takeOutput().isEmpty)
        #expect(client.core.deadline == nil)
    }

    @Test("Nothing can be sent before the connection is open")
    func sendEarly() throws {
        var client = try Self.client()
        let before = client.context.output.count
        #expect {
            try client.send(Payload(text: "x"))
        } throws: { error in
            (error as? TransportError)?.code == .wouldBlock
        }
        #expect(client.context.output.count == before)
    }
}
