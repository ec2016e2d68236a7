import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("A page of a WebSocket server")
struct WebPageTests {
    private static let body = Array("<p>Grüße</p>".utf8)

    /// A server with one page at `/` and one at `/about`.
    private func server(_ change: (inout WebSocketConfiguration) -> Void = { _ in }) throws -> WebSocketHarness {
        let policy = try HTTPHeader("Content-Security-Policy", "default-src 'none'")
        let pages = [
            try WebPage(headers: [policy], body: Self.body),
            try WebPage(path: "/about", contentType: "text/plain", body: Array("about".utf8)),
        ]
        return try ServerHandshakeTests.server {
            $0.pages = pages
            change(&$0)
        }
    }

    private func get(_ line: String = "GET / HTTP/1.1", _ headers: [String] = []) -> [UInt8] {
        Array(([line, "Host: localhost"] + headers + ["", ""]).joined(separator: "\r\n").utf8)
    }

    @Test("A plain GET receives the whole page, and the connection ends without an error", arguments: [1, 7, .max])
    func answer(slice: Int) throws {
        var server = try server()
        server.feed(get(), slice: slice)
        let expected = [
            "HTTP/1.1 200 OK", "Content-Type: text/html; charset=utf-8", "Content-Length: 14", "Connection: close",
            "X-Content-Type-Options: nosniff", "Content-Security-Policy: default-src 'none'", "", "<p>Grüße</p>",
        ]
        #expect(ServerHandshakeTests.answer(&server) == expected.joined(separator: "\r\n"))
        #expect(server.failure == nil && !server.isOpen)
        #expect(server.core.deadline == nil)
    }

    @Test("HTTP/1.0 gets the same page, as nginx requests it, and nothing else")
    func old() throws {
        var old = try server()
        var new = try server()
        var other = try server()
        old.feed(get("GET / HTTP/1.0"))
        new.feed(get())
        #expect(ServerHandshakeTests.answer(&old) == ServerHandshakeTests.answer(&new))
        other.feed(get("GET /other HTTP/1.0"))
        #expect(ServerHandshakeTests.answer(&other).hasPrefix("HTTP/1.1 505 "))
    }

    @Test("HEAD gets the same head without the body, and a refusal without its text")
    func head() throws {
        var whole = try server()
        var head = try server()
        var refusing = try server()
        whole.feed(get())
        head.feed(get("HEAD / HTTP/1.1"))
        let answer = ServerHandshakeTests.answer(&head)
        #expect(answer + "<p>Grüße</p>" == ServerHandshakeTests.answer(&whole))
        #expect(head.failure == nil && !head.isOpen)
        refusing.feed(get("HEAD / HTTP/1.1", ["Origin: http://evil.example"]))
        let refusal = ServerHandshakeTests.answer(&refusing)
        #expect(refusal.hasPrefix("HTTP/1.1 403 ") && refusal.hasSuffix("\r\n\r\n"))
    }

    @Test("Answers have the date of a server that knows it")
    func date() throws {
        for request in [get(), get("POST / HTTP/1.1"), get("BREW / HTTP/1.1"), get("GET /other HTTP/1.1")] {
            var server = try server()
            server.context.unixTime = 784_111_777
            server.feed(request)
            #expect(ServerHandshakeTests.answer(&server).contains("\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"))
        }
    }

    @Test("A second request on the same connection gets no answer")
    func oneRequest() throws {
        var server = try server()
        server.feed(get() + get("GET /about HTTP/1.1"))
        let answer = ServerHandshakeTests.answer(&server)
        #expect(answer.hasSuffix("</p>") && !answer.contains("about"))
        server.feed(get("GET /about HTTP/1.1"))
        #expect(ServerHandshakeTests.answer(&server).isEmpty)
    }

    @Test("The path selects the page, the query does not, and other paths need WebSocket")
    func paths() throws {
        for (target, ending) in [("/about", "about"), ("/about?a=b", "about"), ("/?name=ann", "</p>")] {
            var server = try server()
            server.feed(get("GET \(target) HTTP/1.1"))
            let answer = ServerHandshakeTests.answer(&server)
            #expect(answer.hasPrefix("HTTP/1.1 200 ") && answer.hasSuffix(ending))
        }
        var other = try server()
        other.feed(get("GET /other HTTP/1.1"))
        #expect(ServerHandshakeTests.answer(&other).hasPrefix("HTTP/1.1 426 "))
    }

    @Test("A request for WebSocket opens a connection at the path of a page too")
    func webSocket() throws {
        var server = try server()
        server.feed(request("GET / HTTP/1.1"))
        #expect(server.isOpen && ServerHandshakeTests.answer(&server).hasPrefix("HTTP/1.1 101 "))
    }

    @Test("A page is served beside the paths of the WebSocket, and without a decision about the client")
    func independent() throws {
        var server = try server {
            $0.allowedPaths = ["/socket"]
            $0.decide = { _ in .refuse(status: 401) }
        }
        server.feed(get())
        #expect(ServerHandshakeTests.answer(&server).hasPrefix("HTTP/1.1 200 "))
    }

    @Test(
        "The rules for requests apply to pages",
        arguments: [
            (403, "GET / HTTP/1.1", ["Origin: http://evil.example"]), (405, "POST / HTTP/1.1", []),
            (501, "BREW / HTTP/1.1", []), (405, "HEAD /other HTTP/1.1", []),
            (400, "GET / HTTP/1.1", ["Content-Length: 5"]),
            (400, "GET / HTTP/1.1", ["Transfer-Encoding: chunked"]), (400, "GET / HTTP/1.1", ["Host: b"]),
            (400, "GET / HTTP/1.1", ["Origin: a", "Origin: b"]), (505, "GET / HTTP/2.0", []),
            (400, "GET /\u{e9} HTTP/1.1", []), (431, "GET / HTTP/1.1", ["X: " + String(repeating: "y", count: 20_000)]),
        ] as [(Int, String, [String])]
    )
    func refused(status: Int, line: String, headers: [String]) throws {
        var server = try server()
        server.feed(get(line, headers), slice: 1000)
        #expect(ServerHandshakeTests.answer(&server).hasPrefix("HTTP/1.1 \(status) "))
        #expect(server.failure?.detail == status)
    }

    @Test("A client on the server's machine must name a loopback host")
    func rebinding() throws {
        for (host, status) in [("evil.example", 403), ("127.0.0.1:80", 200), ("a.localhost", 200)] {
            var configuration = WebSocketConfiguration()
            configuration.pages = [try WebPage(body: Self.body)]
            var core = try WebSocketCore(.server, configuration)
            core.isPeerLocal = true
            var server = WebSocketHarness(core)
            server.start()
            server.feed(Array("GET / HTTP/1.1\r\nHost: \(host)\r\n\r\n".utf8))
            #expect(ServerHandshakeTests.answer(&server).hasPrefix("HTTP/1.1 \(status) "))
        }
    }

    @Test("A request that is not complete in time gets 408")
    func late() throws {
        var server = try server { $0.handshakeTimeout = .seconds(2) }
        server.feed(Array("GET / HTTP/1.1\r\n".utf8))
        server.advance(by: .seconds(3))
        #expect(ServerHandshakeTests.answer(&server).hasPrefix("HTTP/1.1 408 "))
    }

    @Test("A page with a wrong part is refused, and the error names the part and the value")
    func wrong() throws {
        func reason(_ make: () throws(TransportError) -> WebPage) -> String? {
            do throws(TransportError) {
                _ = try make()
                return nil
            } catch {
                return error.code == .invalidConfiguration ? error.reason : nil
            }
        }
        for path in ["", "about", "/a?b", "/a#b", "/a b", "/\u{e9}"] {
            #expect(
                reason { () throws(TransportError) in try WebPage(path: path, body: []) }?.hasPrefix("path ") == true
            )
        }
        let large = [UInt8](repeating: 0, count: WebPage.largestBody + 1)
        let tooLarge = reason { () throws(TransportError) in try WebPage(body: large) }
        #expect(tooLarge == "body has 1048577 bytes; allowed are 1048576")
        #expect(reason { () throws(TransportError) in try WebPage(contentType: "a\r\nb: c", body: []) } != nil)
        for name in ["content-length", "Connection", "Transfer-Encoding", "CONTENT-TYPE"] {
            let header = try HTTPHeader(name, "1")
            let reason = reason { () throws(TransportError) in try WebPage(headers: [header], body: []) }
            #expect(reason == "headers may not set '\(name)', which the page sets")
        }
    }

    @Test("A server takes at most 64 pages, with different paths")
    func pages() throws {
        var configuration = WebSocketConfiguration()
        configuration.pages = try (0..<65).map { try WebPage(path: "/\($0)", body: []) }
        var error = #expect(throws: TransportError.self) { try configuration.validate() }
        #expect(error?.reason == "pages are 65; allowed are 64")
        configuration.pages = [try WebPage(body: []), try WebPage(body: [])]
        error = #expect(throws: TransportError.self) { try configuration.validate() }
        #expect(error?.reason == "pages have the path '/' more than once")
    }
}
