import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("WebSocket server handshake")
struct ServerHandshakeTests {
    static func server(_ change: (inout WebSocketConfiguration) -> Void = { _ in }) throws -> WebSocketHarness {
        var configuration = WebSocketConfiguration()
        change(&configuration)
        var harness = WebSocketHarness(try WebSocketCore(.server, configuration))
        harness.start()
        return harness
    }

    static func answer(_ harness: inout WebSocketHarness) -> String {
        String(decoding: harness.takeOutput(), as: UTF8.self)
    }

    @Test(
        "The request of RFC 6455, section 1.2, gets the answer given there, whole and byte by byte",
        arguments: [1, 6, .max]
    )
    func sample(slice: Int) throws {
        let seen = Locked<ClientRequest?>(nil)
        var server = try Self.server {
            $0.subprotocols = ["superchat", "chat"]
            $0.allowedOrigins = ["http://example.com"]
            $0.decide = { request in
                seen.withLock { $0 = request }
                return .accept
            }
        }
        let lines = ["Origin: http://example.com", "Sec-WebSocket-Protocol: chat, superchat"]
        server.feed(request(with: lines), slice: slice)
        #expect(server.isOpen == true)
        let expected = [
            "HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade",
            "Sec-WebSocket-Accept: \(sampleAccept)", "Sec-WebSocket-Protocol: superchat", "", "",
        ]
        #expect(Self.answer(&server) == expected.joined(separator: "\r\n"))
        let read = try #require(seen.withLock { $0 })
        #expect(read.path == "/chat" && read.subprotocols == ["chat", "superchat"])
        #expect(read.header("ORIGIN") == "http://example.com")
        #expect(server.core.deadline == nil)
    }

    @Test("Frames that come with the request are read", arguments: [1, .max])
    func pipelined(slice: Int) throws {
        var server = try Self.server()
        server.feed(request() + frame(to: .server, 0x81, text("hi")) + frame(to: .server, 0x82, [1]), slice: slice)
        #expect(server.messages == [Payload(text: "hi"), Payload([1])])
    }

    @Test("The query is separated from the path, and the host of an absolute target replaces that of the header")
    func targets() throws {
        let own = "server.example.com"
        for (target, path, query, host) in [
            ("/a?b=c?d", "/a", "b=c?d", own), ("/", "/", "", own), ("/?", "/", "", own), ("//a", "//a", "", own),
            ("http://h:1/a?b", "/a", "b", "h:1"), ("HTTPS://h", "/", "", "h"),
            ("http://h?token=x", "/", "token=x", "h"),
            ("http://h?a=/b", "/", "a=/b", "h"), ("http://[::1]:8/", "/", "", "[::1]:8"),
        ] {
            let seen = Locked<ClientRequest?>(nil)
            var server = try Self.server {
                $0.decide = { request in
                    seen.withLock { $0 = request }
                    return .accept
                }
            }
            server.feed(request("GET \(target) HTTP/1.1"))
            let read = try #require(seen.withLock { $0 })
            #expect(read.path == path && read.query == query && read.header("host") == host && server.isOpen)
        }
    }

    @Test(
        "A target that is neither a path nor an absolute URI with a host is rejected",
        arguments: [
            "http://", "http:///a", "http://?a", "http://h#x", "http://h/#x", "http://h?a#x", "http:/h", "h:80", "*",
            "http://:80/", "http://ann@h/", "http://h/\u{301}", "http://h\u{301}/a", "/\u{301}", "/a\u{e9}", "/\t",
        ]
    )
    func malformedTarget(target: String) throws {
        var server = try Self.server()
        server.feed(request("GET \(target) HTTP/1.1"))
        #expect(Self.answer(&server).hasPrefix("HTTP/1.1 400 ") && server.failure?.detail == 400)
    }

    @Test(
        "An invalid request is refused with the matching status",
        arguments: [
            (400, "GET /", nil, []), (400, "GET  / HTTP/1.1", nil, []), (400, "GET a HTTP/1.1", nil, []),
            (400, "GET /#a HTTP/1.1", nil, []), (400, "GET / SIP/2", nil, []), (505, "GET / HTTP/1.0", nil, []),
            (505, "GET / HTTP/2.1", nil, []), (505, "GET / HTTP/0.9", nil, []), (400, "GET / HTTP/1.10", nil, []),
            (400, "GET / HTTP/1", nil, []), (400, "GET / HTTP/1.x", nil, []), (400, "GET / http/1.1", nil, []),
            (405, "POST / HTTP/1.1", nil, []), (405, "HEAD / HTTP/1.1", nil, []), (501, "get / HTTP/1.1", nil, []),
            (501, "BREW / HTTP/1.1", nil, []), (400, "", "Host", []), (400, "", "Host", ["Host:"]),
            (400, "", nil, ["Host: b"]), (400, "", "Host", ["Host: a b"]), (400, "", "Host", ["Host: a/b"]),
            (400, "", "Host", ["Host: ann@b"]), (400, "", nil, ["Upgrade: websocket"]),
            (400, "", nil, ["Upgrade: h2c"]),
            (400, "", "Upgrade", ["Upgrade: websocket, websocket"]), (400, "", nil, ["Connection: upgrade"]),
            (400, "", nil, ["Content-Length: 0", "Content-Length: 0"]), (400, "", nil, ["X: a\0"]),
            (400, "", nil, ["X: a\nY: b"]), (400, "", nil, ["X: a\rY: b"]), (426, "", "Upgrade", []),
            (426, "", "Upgrade", ["Upgrade: h2c"]),
            (426, "", "Connection", []), (426, "", "Connection", ["Connection: keep-alive"]),
            (400, "", "Sec-WebSocket-Key", []), (400, "", "Sec-WebSocket-Key", ["Sec-WebSocket-Key: abc"]),
            (400, "", "Sec-WebSocket-Key", ["Sec-WebSocket-Key: c2hvcnQ="]),
            (400, "", nil, ["Sec-WebSocket-Key: \(sampleKey)"]), (400, "", "Sec-WebSocket-Version", []),
            (426, "", "Sec-WebSocket-Version", ["Sec-WebSocket-Version: 8"]),
            (400, "", nil, ["Sec-WebSocket-Version: 13"]),
            (400, "", nil, ["Content-Length: 5"]), (400, "", nil, ["Transfer-Encoding: chunked"]),
            (400, "", nil, ["Origin: a", "Origin: b"]), (400, "", nil, [" folded"]),
        ] as [(Int, String, String?, [String])]
    )
    func refused(status: Int, line: String, name: String?, lines: [String]) throws {
        for slice in [1, .max] {
            var server = try Self.server()
            server.feed(request(line.isEmpty ? "GET / HTTP/1.1" : line, replacing: name, with: lines), slice: slice)
            let answer = Self.answer(&server)
            #expect(answer.hasPrefix("HTTP/1.1 \(status) "))
            #expect(answer.contains("Content-Length: 0\r\n") && answer.hasSuffix("close\r\n\r\n"))
            #expect(answer.contains("Sec-WebSocket-Version: 13\r\n") == (status == 426))
            #expect(answer.contains("Upgrade: websocket\r\n") == (status == 426))
            #expect(server.failure?.code == .handshakeFailed && server.failure?.detail == status)
            #expect(server.events.isEmpty)
        }
    }

    @Test("A request of a higher minor version is served as HTTP/1.1", arguments: ["HTTP/1.1", "HTTP/1.2", "HTTP/1.9"])
    func minorVersions(version: String) throws {
        var server = try Self.server()
        server.feed(request("GET /chat \(version)"))
        #expect(server.isOpen && Self.answer(&server).hasPrefix("HTTP/1.1 101 "))
    }

    @Test("Empty lines before the request are skipped, and count towards the limit", arguments: [1, 3, .max])
    func emptyLines(slice: Int) throws {
        var server = try Self.server()
        server.feed(text("\r\n\r\n") + request() + frame(to: .server, 0x81, text("hi")), slice: slice)
        #expect(server.isOpen && server.messages == [Payload(text: "hi")])
        var other = try Self.server { $0.maximumHeaderBytes = 256 }
        other.feed(text(String(repeating: "\r\n", count: 100)) + request(), slice: slice)
        #expect(Self.answer(&other).hasPrefix("HTTP/1.1 431 "))
        for broken in ["\n", "\r\r\n", " \r\n", "\r\n\n"] {
            var refusing = try Self.server()
            refusing.feed(text(broken) + request(), slice: slice)
            #expect(Self.answer(&refusing).hasPrefix("HTTP/1.1 400 "))
        }
    }

    @Test(
        "Malformed lists of subprotocols and extensions are rejected, whether or not one would be chosen",
        arguments: [
            ("Protocol", ["a b"], false), ("Protocol", [""], false), ("Protocol", [" , ,"], false),
            ("Protocol", ["a/b"], false), ("Protocol", ["a;b"], false), ("Protocol", ["\"a\""], false),
            ("Protocol", ["a, a"], false), ("Protocol", ["a", "b, a"], false), ("Protocol", ["a\u{e4}"], false),
            ("Protocol", ["a, A"], true), ("Protocol", [", a,, b ,", "c"], true),
            ("Extensions", [""], false), ("Extensions", [","], false), ("Extensions", ["a b"], false),
            ("Extensions", ["a;"], false), ("Extensions", ["a; b="], false), ("Extensions", ["a; =b"], false),
            ("Extensions", ["; b"], false), ("Extensions", ["a; b=\"c"], false),
            ("Extensions", ["a; b=\"c d\""], false),
            ("Extensions", ["a; b=\"\""], false), ("Extensions", ["a; b=\"c\"d"], false),
            ("Extensions", ["a; b=\"c\\"], false), ("Extensions", ["a; b=c=d"], false),
            ("Extensions", ["a; b;; c"], false),
            ("Extensions", ["a/b"], false), ("Extensions", ["a;\u{301}b"], false), ("Extensions", ["a", "b;"], false),
            ("Extensions", ["a;b;c=d,,e; f = \"g\"", " ,h ;\ti=\"\\j\""], true),
        ]
    )
    func lists(name: String, values: [String], isProper: Bool) throws {
        let lines = values.map { "Sec-WebSocket-\(name): \($0)" }
        var server = try Self.server()
        server.feed(request(with: lines))
        #expect(server.isOpen == isProper)
        #expect(Self.answer(&server).hasPrefix(isProper ? "HTTP/1.1 101 " : "HTTP/1.1 400 "))
    }

    @Test("A head beyond the limits is refused with 431")
    func tooLarge() throws {
        var server = try Self.server { $0.maximumHeaderBytes = 300 }
        server.feed(request(with: ["X: " + String(repeating: "y", count: 300)]), slice: 100)
        #expect(Self.answer(&server).hasPrefix("HTTP/1.1 431 "))
        var other = try Self.server()
        other.feed(request(with: Array(repeating: "a: b", count: 100)))
        #expect(Self.answer(&other).hasPrefix("HTTP/1.1 431 "))
        for (count, status) in [(5, 101), (6, 431)] {
            var few = try Self.server { $0.maximumHeaderCount = 10 }
            few.feed(request(with: Array(repeating: "a: b", count: count)))
            #expect(Self.answer(&few).hasPrefix("HTTP/1.1 \(status) "))
        }
    }

    @Test("Only the allowed paths are served")
    func paths() throws {
        for (line, status) in [("GET /chat?x HTTP/1.1", 101), ("GET /other HTTP/1.1", 404)] {
            var server = try Self.server { $0.allowedPaths = ["/chat"] }
            server.feed(request(line))
            #expect(Self.answer(&server).hasPrefix("HTTP/1.1 \(status) "))
        }
    }

    @Test("The hook decides by the contents of the request")
    func hook() throws {
        let challenge = try HTTPHeader("WWW-Authenticate", "Bearer")
        for (token, status) in [("good", 101), ("bad", 401)] {
            var server = try Self.server {
                $0.decide = { request in
                    request.header("authorization") == "Bearer good"
                        ? .accept : .refuse(status: 401, headers: [challenge])
                }
            }
            server.feed(request(with: ["Authorization: Bearer \(token)"]))
            let answer = Self.answer(&server)
            #expect(answer.hasPrefix("HTTP/1.1 \(status) "))
            #expect(answer.contains("WWW-Authenticate: Bearer\r\n") == (status == 401))
        }
        var own = try Self.server {
            $0.decide = { _ in .refuse(status: 403, headers: [HTTPHeader(parsed: "content-length", "9"), challenge]) }
        }
        own.feed(request())
        let answer = Self.answer(&own)
        #expect(!answer.contains("content-length: 9") && answer.contains("WWW-Authenticate"))
        var odd = try Self.server { $0.decide = { _ in .refuse(status: 101) } }
        odd.feed(request())
        #expect(Self.answer(&odd).hasPrefix("HTTP/1.1 500 "))
    }

    @Test("The client receives the status and the delay of a refusal")
    func seenByClient() throws {
        let delay = try HTTPHeader("Retry-After", "7")
        var server = try Self.server { $0.decide = { _ in .refuse(status: 503, headers: [delay]) } }
        var client = try ClientHandshakeTests.client()
        exchange(&client, &server, slice: 1)
        #expect(client.failure == .httpStatus(503, retryAfter: .seconds(7)))
    }

    @Test("A slow request is answered with 408 after the timeout")
    func timeout() throws {
        var server = try Self.server { $0.handshakeTimeout = .seconds(2) }
        for _ in 0..<4 {
            server.feed(text("X"))
            server.advance(by: .milliseconds(499))
        }
        #expect(server.failure == nil)
        server.advance(by: .milliseconds(4))
        #expect(server.failure?.code == .timedOut)
        #expect(Self.answer(&server).hasPrefix("HTTP/1.1 408 "))
    }

    @Test("A server chooses no subprotocol if none of its own is offered")
    func noSubprotocol() throws {
        var server = try Self.server { $0.subprotocols = ["a"] }
        server.feed(request(with: ["Sec-WebSocket-Protocol: b"]))
        #expect(server.isOpen && server.core.subprotocol == nil)
        #expect(!Self.answer(&server).contains("Sec-WebSocket-Protocol"))
    }
}
