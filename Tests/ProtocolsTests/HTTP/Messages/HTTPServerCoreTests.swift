import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// A core for requests alone that has started.
func httpServer(_ change: (inout HTTPServerConfiguration) -> Void = { _ in }) throws -> CoreHarness<HTTPServerCore> {
    var configuration = HTTPServerConfiguration()
    change(&configuration)
    var server = CoreHarness(try HTTPServerCore(configuration, webSocket: nil))
    server.start()
    return server
}

extension CoreHarness where Core == HTTPServerCore {
    /// The requests that were reported.
    var requests: [HTTPRequest] {
        events.compactMap { if case .signal(let signal) = $0 { signal.http } else { nil } }
    }

    var openedCount: Int { events.count { if case .opened = $0 { true } else { false } } }

    /// Answers the reported request, and reads on.
    mutating func answer(_ response: HTTPResponse = HTTPResponse(204)) {
        core.answer(response, &context)
        drain()
    }

    mutating func takeText() -> String { String(decoding: takeOutput(), as: UTF8.self) }
}

/// The head of a request with these further lines.
func head(_ lines: [String], _ first: String = "POST /p?im-at=0 HTTP/1.1") -> String {
    ([first, "Host: a"] + lines + ["", ""]).joined(separator: "\r\n")
}

@Suite("Requests at a server over HTTP")
struct HTTPServerCoreTests {
    private static let slices = [1, 2, 7, Int.max]

    @Test("A request is reported with its parts, whole and byte by byte", arguments: slices)
    func request(slice: Int) throws {
        var server = try httpServer()
        server.context.isEncrypted = true
        server.feed(text("\r\n" + head(["X-A: 1", "Content-Length: 5"]) + "hello"), slice: slice)
        let request = try #require(server.requests.first)
        #expect(request.method == "POST" && request.path == "/p" && request.query == "im-at=0")
        #expect(request.header("x-a") == "1" && request.header("Host") == "a" && request.header("b") == nil)
        #expect(request.body == text("hello") && request.isEncrypted)
        #expect(server.openedCount == 1 && server.requests.count == 1 && server.failure == nil && server.input.isEmpty)
        #expect(server.core.isAnswering)
    }

    @Test("Chunks are joined; their extensions and the trailers are ignored", arguments: slices)
    func chunks(slice: Int) throws {
        var server = try httpServer()
        let body = "3\r\nabc\r\nA;x=\"y\" ; z\r\n0123456789\r\n01 \t;q\r\nd\r\n000\r\nX: y\r\nZ:\r\n\r\n"
        server.feed(text(head(["transfer-encoding: CHUNKED"]) + body + "GET"), slice: slice)
        #expect(server.requests.first?.body == text("abc0123456789d"))
        #expect(server.failure == nil && server.input.count == 3)
    }

    @Test("A connection opens once, and serves one request after the other", arguments: slices)
    func keepAlive(slice: Int) throws {
        var server = try httpServer()
        for number in 1...3 {
            server.feed(text(head([], "GET /\(number)?im-a HTTP/1.1")), slice: slice)
            #expect(server.requests.map(\.path) == (1...number).map { "/\($0)" })
            server.answer(HTTPResponse(200, body: text("hi")))
            #expect(server.takeText() == "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
            #expect(!server.core.isAnswering)
        }
        #expect(server.openedCount == 1 && server.closeReason == nil && server.failure == nil)
    }

    @Test("Pipelined requests wait for the answer before, and are answered in their order", arguments: slices)
    func pipelined(slice: Int) throws {
        var server = try httpServer()
        let requests = (1...4).map { head(["Content-Length: 1"], "POST /\($0)?im-a HTTP/1.1") + "\($0)" }
        server.feed(text(requests.joined()), slice: slice)
        for number in 1...4 {
            #expect(server.requests.count == number && server.requests.last?.path == "/\(number)")
            #expect(server.requests.last?.body == text("\(number)"))
            server.answer()
        }
        #expect(server.requests.count == 4 && server.input.isEmpty && server.failure == nil)
    }

    @Test("A client that sends too much before its answer is ended", arguments: slices)
    func tooManyPipelined(slice: Int) throws {
        var server = try httpServer { $0.maximumHeaderBytes = 256 }
        server.feed(text(head([]) + String(repeating: "x", count: 256)), slice: slice)
        #expect(server.requests.count == 1 && server.failure == nil)
        server.feed(text("x"))
        #expect(server.failure?.code == .tooManyRequests)
    }

    @Test(
        "A request whose end is ambiguous gets status 400 and no second reading, whole and byte by byte",
        arguments: [
            // Both ways to end a body, in either order.
            head(["Content-Length: 6", "Transfer-Encoding: chunked"]) + "0\r\n\r\nG",
            head(["Transfer-Encoding: chunked", "Content-Length: 4"]) + "5c\r\nGET / HTTP/1.1\r\n\r\n0\r\n\r\n",
            head(["Transfer-Encoding: identity", "Content-Length: 4"]) + "abcd",
            // Lengths.
            head(["Content-Length: 5", "Content-Length: 6"]) + "hello",
            head(["Content-Length: 5", "content-length: 5"]),
            head(["Content-Length: 5, 5"]), head(["Content-Length: 5,6"]), head(["Content-Length: +5"]),
            head(["Content-Length: -5"]), head(["Content-Length: 0x5"]), head(["Content-Length: 5 5"]),
            head(["Content-Length:"]), head(["Content-Length: 5;"]), head(["Content-Length: ٥"]),
            head(["Content-Length : 5"]), head([" Content-Length: 5"]), head(["X: y", " Content-Length: 5"]),
            head(["Content-Length: 5\u{b}"]),
            // Codings.
            head(["Transfer-Encoding: xchunked"]), head(["Transfer-Encoding: chunked, identity"]),
            head(["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"]), head(["Transfer-Encoding:"]),
            head(["Transfer-Encoding: chunked", "Transfer-Encoding: identity"]), head(["Transfer-Encoding: chunked,"]),
            head(["Transfer-Encoding: \"chunked\""]), head(["Transfer-Encoding: chunked\r\n , identity"]),
            head(["Transfer-Encoding : chunked"]), head(["Transfer-Encoding: chunked;q=1"]),
            "POST /p?im-a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            // Line ends.
            "POST /p HTTP/1.1\nHost: a\n\n", "POST /p HTTP/1.1\r\nHost: a\n\r\n", "POST /p HTTP/1.1\rHost: a\r\n\r\n",
            head(["X: y\rContent-Length: 5"]), head(["X: y\nContent-Length: 5"]), head(["X: y\0"]),
            // Request lines and hosts.
            "GET /p\r\n\r\n", "GET  /p HTTP/1.1\r\nHost: a\r\n\r\n", "GET /p HTTP/1.1 \r\nHost: a\r\n\r\n",
            "GET p HTTP/1.1\r\nHost: a\r\n\r\n", "GET /p#f HTTP/1.1\r\nHost: a\r\n\r\n",
            "G(T /p HTTP/1.1\r\nHost: a\r\n\r\n",
            "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", "GET /é HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /p HTTP/1.1\r\n\r\n", "GET /p HTTP/1.1\r\nHost:\r\n\r\n",
            "GET /p HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET /p HTTP/1.1\r\nHost: a b\r\n\r\n", "GET http:///p HTTP/1.1\r\nHost: a\r\n\r\n",
        ]
    )
    func ambiguous(request: String) throws {
        for slice in Self.slices {
            var server = try httpServer()
            server.feed(text(request + "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"), slice: slice)
            #expect(server.failure?.detail == 400)
            expectOneRefusal(&server, 400)
        }
    }

    private func expectOneRefusal(_ server: inout CoreHarness<HTTPServerCore>, _ status: Int) {
        #expect(server.requests.isEmpty)
        let output = server.takeText()
        #expect(output.hasPrefix("HTTP/1.1 \(status) ") && output.hasSuffix("\r\n\r\n"))
        #expect(output.contains("\r\nConnection: close\r\n") && output.contains("\r\nContent-Length: 0\r\n"))
        #expect(output.split(separator: "HTTP/1.1 ").count == 1)
    }

    @Test(
        "A malformed chunk gets status 400, whole and byte by byte",
        arguments: [
            "\r\n", "5\nhello\n0\n\n", "5\rhello", "5 \r\nhello\r\n", "+5\r\nhello\r\n", "-5\r\n", "0x5\r\nhello\r\n",
            " 5\r\nhello\r\n", "g\r\n", ";x\r\n", "5,\r\nhello\r\n", "5\u{0}\r\n", "5;\u{1}\r\n", "5;\n\r\n",
            "5;x\ry\r\n",
            "5\r\nhelloX", "5\r\nhello\n0\r\n", "5\r\nhello\rX", "5\r\nhello0\r\n\r\n", "5\r\nhello\r\n\r\n",
            "10000000000000000\r\n", "fffffffffffffffff\r\n", "ffffffffffffffff\r\n", "8000000000000000\r\n",
            "0000000000000000001\r\n", "0\r\nX\r\n\r\n", "0\r\n: y\r\n\r\n", "0\r\nX : y\r\n\r\n",
            "0\r\nX: y\r\n z\r\n\r\n",
            "0\r\nX: y\n\r\n", "0\r\nX: y\rz\r\n\r\n", "0\r\nX: \u{1}\r\n\r\n", "0\r\n\n",
            "1;\(String(repeating: "x", count: 5000))\r\nh\r\n0\r\n\r\n", "1;" + String(repeating: "x", count: 5000),
            "0\r\nX: \(String(repeating: "y", count: 20_000))\r\n\r\n",
            "0\r\nX: " + String(repeating: "y", count: 20_000),
            "0\r\n" + String(repeating: "X: y\r\n", count: 3000),
            String(repeating: "1;\(String(repeating: "x", count: 100))\r\nh\r\n", count: 50),
        ]
    )
    func malformedChunk(body: String) throws {
        for slice in [1, 3, .max] {
            var server = try httpServer()
            server.feed(text(head(["Transfer-Encoding: chunked"]) + body), slice: slice)
            #expect(server.failure?.detail == 400)
            expectOneRefusal(&server, 400)
        }
    }

    @Test("Extensions of chunks may be as long as the data, however many there are")
    func manyExtensions() throws {
        var server = try httpServer()
        let chunk = "64;\(String(repeating: "x", count: 99))\r\n\(String(repeating: "y", count: 100))\r\n"
        server.feed(text(head(["Transfer-Encoding: chunked"]) + String(repeating: chunk, count: 500) + "0\r\n\r\n"))
        #expect(server.requests.first?.body.count == 50_000 && server.failure == nil)
    }

    @Test(
        "A body over the limit gets status 413 before any of it is kept",
        arguments: [
            head(["Content-Length: 11"]), head(["Content-Length: 99999999999999999999999"]),
            head(["Content-Length: 11", "Expect: 100-continue"]), head(["Transfer-Encoding: chunked"]) + "b\r\n",
            head(["Transfer-Encoding: chunked"]) + "a\r\n0123456789\r\n1\r\n",
            head(["Transfer-Encoding: chunked"]) + "7fffffffffffffff\r\n",
            head(["Transfer-Encoding: chunked"]) + "1\r\na\r\n7fffffffffffffff\r\n",
        ]
    )
    func tooLarge(request: String) throws {
        for slice in Self.slices {
            var server = try httpServer { $0.maximumBody = 10 }
            server.feed(text(request), slice: slice)
            expectOneRefusal(&server, 413)
            #expect(server.failure?.detail == 413)
        }
    }

    @Test(
        "A body at the limit is read, and memory grows with the bytes that have arrived, not with the announced length"
    )
    func memory() throws {
        var server = try httpServer { $0.maximumBody = 1 << 30 }
        server.feed(text(head(["Content-Length: \(1 << 30)"]) + "hello"))
        #expect(server.core.bufferedBytes < 1000)
        var other = try httpServer { $0.maximumBody = 5 }
        other.feed(text(head(["Content-Length: 5"]) + "hello"))
        #expect(other.requests.count == 1)
    }

    @Test(
        "An unknown transfer coding gets 501, another version 505, an unknown expectation 417, a long head 431",
        arguments: [
            (head(["Transfer-Encoding: gzip, chunked"]), 501), ("GET /p HTTP/2.0\r\nHost: a\r\n\r\n", 505),
            (head(["Expect: 100-continue", "Expect: more"]), 417),
            (head(["X: " + String(repeating: "y", count: 300)]), 431),
            ("GET /" + String(repeating: "x", count: 300), 431), (String(repeating: "\r\n", count: 300), 431),
            (head(Array(repeating: "a: b", count: 11)), 431),
        ]
    )
    func otherRefusals(request: String, status: Int) throws {
        for slice in Self.slices {
            var server = try httpServer {
                $0.maximumHeaderBytes = 256
                $0.maximumHeaderCount = 11
            }
            server.feed(text(request), slice: slice)
            #expect(server.failure?.detail == status)
            expectOneRefusal(&server, status)
        }
    }

    @Test("Expect: 100-continue is answered once, before the body and only if there is one", arguments: [1, 7, .max])
    func expectation(slice: Int) throws {
        var server = try httpServer()
        for lines in [["Content-Length: 2"], ["Transfer-Encoding: chunked"]] {
            server.feed(text(head(lines + ["Expect: 100-Continue"])), slice: slice)
            #expect(server.takeText() == "HTTP/1.1 100 Continue\r\n\r\n")
            server.feed(text(lines[0].hasPrefix("C") ? "ab" : "2\r\nab\r\n0\r\n\r\n"), slice: slice)
            #expect(server.requests.last?.body == text("ab"))
            server.answer()
            #expect(server.takeText().hasPrefix("HTTP/1.1 204 "))
        }
        server.feed(text(head(["Content-Length: 0", "Expect: 100-continue"])), slice: slice)
        #expect(server.requests.count == 3 && server.takeOutput().isEmpty)
        server.answer()
        server.feed(text("POST /p HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n"))
        #expect(!server.takeText().contains("100 Continue"))
    }

    @Test("The authority of an absolute target replaces Host, and HTTP/1.0 needs no Host")
    func authority() throws {
        var server = try httpServer()
        server.feed(text(head([], "GET HTTP://b:80?im-x HTTP/1.1")))
        #expect(server.requests.last?.header("Host") == "b:80" && server.requests.last?.path == "/")
        #expect(server.requests.last?.query == "im-x")
        server.answer()
        server.feed(text("GET /q HTTP/1.0\r\n\r\n"))
        #expect(server.requests.last?.path == "/q" && server.failure == nil)
    }
}

@Suite("Answers of a server over HTTP")
struct HTTPAnswerTests {
    @Test("HEAD gets the head of the response alone, and the connection continues")
    func headRequest() throws {
        var server = try httpServer()
        server.feed(text(head([], "HEAD /p HTTP/1.1")))
        server.answer(HTTPResponse(200, body: text("hi")))
        #expect(server.takeText() == "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
        server.feed(text(head([], "HEAD /p HTTP/1.1")))
        server.core.beginAnswer(HTTPResponse(200, body: text("hi")), &server.context)
        text("there").withUnsafeBytes { server.core.sendEncoded($0, &server.context) }
        server.core.endAnswer(&server.context)
        server.drain()
        #expect(server.takeText() == "HTTP/1.1 200 OK\r\n\r\n")
        server.feed(text(head([])))
        #expect(server.requests.count == 3 && server.failure == nil)
    }

    @Test("A body in parts becomes chunks, none of them empty, and the connection continues")
    func chunks() throws {
        var server = try httpServer()
        server.feed(text(head([])))
        server.core.beginAnswer(HTTPResponse(200, body: text(": stream\n\n")), &server.context)
        #expect(server.takeText() == "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n: stream\n\n\r\n")
        [].withUnsafeBytes { server.core.sendEncoded($0, &server.context) }
        [UInt8](repeating: 0x78, count: 300).withUnsafeBytes { server.core.sendEncoded($0, &server.context) }
        #expect(server.takeText() == "12c\r\n\(String(repeating: "x", count: 300))\r\n")
        // A second answer does nothing.
        server.answer()
        #expect(server.core.isAnswering && server.takeOutput().isEmpty)
        server.core.endAnswer(&server.context)
        #expect(server.takeText() == "0\r\n\r\n" && !server.core.isAnswering)
        server.core.endAnswer(&server.context)
        text("late").withUnsafeBytes { server.core.sendEncoded($0, &server.context) }
        #expect(server.takeOutput().isEmpty)
        server.feed(text(head([])))
        #expect(server.requests.count == 2)
    }

    @Test("HTTP/1.0 gets a body that the end of the connection ends")
    func old() throws {
        var server = try httpServer()
        server.feed(text("GET /p HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"))
        server.core.beginAnswer(HTTPResponse(200), &server.context)
        text("ab").withUnsafeBytes { server.core.sendEncoded($0, &server.context) }
        text("c").withUnsafeBytes { server.core.sendEncoded($0, &server.context) }
        server.core.endAnswer(&server.context)
        server.drain()
        #expect(server.takeText() == "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc")
        #expect(server.closeReason?.initiator == .user && server.core.deadline == nil)
    }

    @Test("Connection: close ends the connection after the answer, and what follows is dropped")
    func close() throws {
        var server = try httpServer()
        server.feed(text(head(["Connection: x, Close"]) + head([])))
        server.answer(HTTPResponse(404))
        #expect(server.takeText() == "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        #expect(server.closeReason?.initiator == .user && server.requests.count == 1 && server.input.isEmpty)
    }

    @Test("204 and 304 have no length and no body", arguments: [204, 304])
    func noBody(status: Int) throws {
        var server = try httpServer()
        for begins in [false, true] {
            server.feed(text(head([])))
            let response = HTTPResponse(status, body: text("hi"))
            if begins {
                server.core.beginAnswer(response, &server.context)
                server.core.endAnswer(&server.context)
            } else {
                server.answer(response)
            }
            #expect(server.takeText() == "HTTP/1.1 \(status) \(HTTPResponse.phrase(status))\r\n\r\n")
        }
    }

    @Test("The server writes Date, which moves on, and no header of the app can change where a response ends")
    func headers() throws {
        var server = try httpServer()
        server.context.unixTime = 784_111_777
        server.feed(text(head([])))
        let own = [("Date", "x"), ("content-length", "7"), ("Transfer-Encoding", "chunked"), ("Connection", "close")]
        let headers = own.map { HTTPHeader(parsed: $0.0, $0.1) } + [HTTPHeader(parsed: "Vary", "Origin")]
        server.answer(HTTPResponse(200, headers: headers))
        let expected =
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nVary: Origin\r\nContent-Length: 0\r\n\r\n"
        #expect(server.takeText() == expected)
        server.advance(by: .seconds(50))
        server.feed(text(head([])))
        server.answer(HTTPResponse(200))
        #expect(server.takeText().contains("08:50:27"))
    }

    @Test("Without a request, an answer writes nothing")
    func noRequest() throws {
        var server = try httpServer()
        server.answer()
        server.core.beginAnswer(HTTPResponse(200), &server.context)
        server.core.endAnswer(&server.context)
        server.feed(text(head(["Content-Length: 1"])))
        server.answer()
        #expect(server.takeOutput().isEmpty && server.failure == nil)
    }
}

@Suite("Times and ends of a connection over HTTP")
struct HTTPConnectionTests {
    @Test("A silent client and a slow head get status 408", arguments: ["", "G", "GET /p HTTP/1.1\r\nHost: a\r\n"])
    func slowHead(bytes: String) throws {
        var server = try httpServer { $0.handshakeTimeout = .seconds(10) }
        server.advance(by: .seconds(9))
        server.feed(text(bytes))
        // A head has the time from its first byte.
        let rest: Duration = bytes.isEmpty ? .seconds(1) : .seconds(10)
        server.advance(by: rest - .milliseconds(1))
        // An empty line begins no head.
        server.feed(bytes.isEmpty ? text("\r\n\r") : text("x"))
        #expect(server.failure == nil)
        server.advance(by: .milliseconds(1))
        #expect(server.failure?.code == .timedOut && server.failure?.detail == 408)
        #expect(server.takeText().hasPrefix("HTTP/1.1 408 Request Timeout\r\n"))
    }

    @Test("A body that comes too slowly gets status 408, whatever is announced", arguments: [false, true])
    func slowBody(isChunked: Bool) throws {
        var server = try httpServer { $0.handshakeTimeout = .seconds(10) }
        server.feed(text(head([isChunked ? "Transfer-Encoding: chunked" : "Content-Length: 100000"])))
        for _ in 0..<20 where server.failure == nil {
            server.feed(text(isChunked ? "1\r\nx\r\n" : "x"))
            server.advance(by: .seconds(1))
        }
        #expect(server.failure?.code == .timedOut && server.context.now <= Instant.zero.advanced(by: .seconds(11)))
        #expect(server.takeText().hasPrefix("HTTP/1.1 408 "))
    }

    @Test("A body of 1 KiB per second is read to its end")
    func steadyBody() throws {
        var server = try httpServer { $0.handshakeTimeout = .seconds(10) }
        server.feed(text(head(["Content-Length: \(100 << 10)"])))
        for _ in 0..<100 {
            server.advance(by: .seconds(1))
            server.feed([UInt8](repeating: 1, count: 1 << 10))
        }
        #expect(server.requests.first?.body.count == 100 << 10 && server.failure == nil)
    }

    @Test("A request has no time limit while it is answered; then the idle time begins")
    func idle() throws {
        var server = try httpServer { $0.idleTimeout = .seconds(60) }
        server.feed(text(head([])))
        server.advance(by: .seconds(1000))
        #expect(server.core.deadline == nil)
        server.answer()
        _ = server.takeOutput()
        server.advance(by: .seconds(59))
        #expect(server.closeReason == nil)
        server.advance(by: .seconds(1))
        #expect(server.closeReason?.initiator == .user && server.failure == nil && server.takeOutput().isEmpty)
    }

    @Test("The end of the input between two requests is clean, and in the middle of one it is a loss")
    func inputEnds() throws {
        var idle = try httpServer()
        idle.feed(text(head([])))
        idle.answer()
        idle.endInput()
        #expect(idle.closeReason == CloseReason(.peer))
        for bytes in ["", "G", head(["Content-Length: 5"]) + "hell", head(["Transfer-Encoding: chunked"]) + "0\r\n"] {
            var server = try httpServer()
            server.feed(text(bytes))
            server.endInput()
            #expect(server.failure?.code == .connectionLost)
        }
        var waiting = try httpServer()
        waiting.feed(text(head([])))
        waiting.endInput()
        #expect(waiting.closeReason == CloseReason(.peer))
        waiting.answer()
        #expect(waiting.takeOutput().isEmpty)
    }

    @Test("A close by this side ends the connection at once, and nothing is written after it")
    func closed() throws {
        var server = try httpServer()
        server.feed(text(head([]) + head([])))
        server.core.close(CloseReason(.user, text: "enough"), &server.context)
        server.answer()
        #expect(server.closeReason?.text == "enough" && server.takeOutput().isEmpty && server.input.isEmpty)
    }

    @Test("A connection for requests carries no messages and no pings")
    func unsupported() throws {
        var server = try httpServer()
        server.feed(text(head([])))
        #expect(codeOf { () throws(TransportError) in try server.send(Payload([1])) } == .unsupported)
        #expect(codeOf { () throws(TransportError) in try server.core.ping(&server.context) } == .unsupported)
        #expect(server.takeOutput().isEmpty)
    }

    @Test("A client of TLS gets an alert, and the error names the scheme")
    func foreign() throws {
        var server = try httpServer()
        server.feed([0x16, 3, 1, 0, 5, 1, 0, 0, 1, 3])
        #expect(server.takeOutput().starts(with: [0x15, 3, 1]))
        #expect(server.failure?.reason.contains("use http://") == true)
    }

    @Test("A wrong limit is refused")
    func limits() throws {
        #expect(refusedKey { _ = try httpServer { $0.maximumHeaderBytes = 255 } } == "maximumHeaderBytes")
        #expect(refusedKey { _ = try httpServer { $0.maximumHeaderCount = 9 } } == "maximumHeaderCount")
        #expect(refusedKey { _ = try httpServer { $0.maximumBody = -1 } } == "maximumBody")
        #expect(refusedKey { _ = try httpServer { $0.handshakeTimeout = .zero } } == "handshakeTimeout")
        #expect(refusedKey { _ = try httpServer { $0.idleTimeout = .zero } } == "idleTimeout")
    }

    @Test(
        "Damaged requests end in requests or one refusal, the same whole and in pieces",
        arguments: 0..<300 as Range<UInt64>
    )
    func damaged(seed: UInt64) throws {
        var random = RandomSource.seeded(seed)
        let body = "3;a=b\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nX: y\r\n\r\n"
        var bytes = text(head(["Transfer-Encoding: chunked"]) + body + head(["Content-Length: 5"]) + "hello")
        for _ in 0...random.next() % 3 { mutate(&bytes, using: &random) }
        var seen: [String] = []
        for slice in [Int.max, 1, 5] {
            var server = try httpServer()
            server.feed(bytes, slice: slice)
            while server.core.isAnswering { server.answer() }
            let bodies = server.requests.map(\.body)
            // How a peer of another protocol is described depends on how many of its bytes have arrived.
            let failure = server.failure.map { "\($0.code) \($0.detail ?? 0)" } ?? "no failure"
            seen.append("\(bodies), \(failure), \(server.takeText())")
        }
        #expect(seen[1] == seen[0])
        #expect(seen[2] == seen[0])
    }
}
