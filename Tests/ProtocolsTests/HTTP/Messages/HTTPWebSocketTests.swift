import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("WebSocket and requests at the same server")
struct HTTPWebSocketTests {
    private func server(
        _ change: (inout WebSocketConfiguration) -> Void = { _ in }
    ) throws -> CoreHarness<HTTPServerCore> {
        var configuration = WebSocketConfiguration()
        change(&configuration)
        let webSocket = try WebSocketCore(.server, configuration)
        var server = CoreHarness(try HTTPServerCore(HTTPServerConfiguration(), webSocket: webSocket))
        server.start()
        return server
    }

    @Test(
        "A plain request has a known method and an item of a session, and does not ask for WebSocket",
        arguments: [
            ("GET /?im-session=a HTTP/1.1", [], true), ("POST /p?a=b&im-open=1 HTTP/1.1", [], true),
            ("HEAD /?im-x HTTP/1.1", [], true), ("OPTIONS /?%69m-open=1 HTTP/1.1", [], true),
            ("GET http://a/?im-x HTTP/1.1", [], true), ("GET /?im-x HTTP/1.0", [], true),
            ("GET /?im-x HTTP/1.1", ["Upgrade: h2c"], true), ("GET /?im-x HTTP/1.1", ["Upgrade: WebSocket"], false),
            ("GET /?im-x HTTP/1.1", ["Upgrade: h2c", "upgrade: websocket"], false), ("GET /im-x HTTP/1.1", [], false),
            ("GET /?a=im-x HTTP/1.1", [], false), ("GET / HTTP/1.1", [], false), ("PUT /?im-x HTTP/1.1", [], false),
            ("GET /?im-x", [], false), ("GET ?im-x HTTP/1.1", [], false), ("\u{e9}", [], false),
        ] as [(String, [String], Bool)]
    )
    func plain(first: String, lines: [String], isPlain: Bool) throws {
        var input = ByteBuffer()
        input.append(utf8: head(lines, first))
        var reader = HTTPHeadReader(maximumBytes: 1000)
        #expect(HTTPServerCore.isPlain(try #require(try reader.next(&input))) == isPlain)
    }

    @Test("A WebSocket behaves as without HTTP, whole and byte by byte", arguments: [1, 3, .max])
    func upgrade(slice: Int) throws {
        var alone = CoreHarness(try WebSocketCore(.server, WebSocketConfiguration()))
        alone.start()
        var server = try server()
        let bytes = request() + frame(to: .server, 0x82, [1, 2, 3]) + frame(to: .server, 0x89, [7])
        alone.feed(bytes, slice: slice)
        server.feed(bytes, slice: slice)
        #expect(server.core.isWebSocket && server.isOpen && server.messages.map(\.bytes) == [[1, 2, 3]])
        #expect(try server.send(Payload([9])) == .written)
        #expect(try alone.send(Payload([9])) == .written)
        try server.core.ping(&server.context)
        try alone.core.ping(&alone.context)
        let end = frame(to: .server, 0x88, closeBody(1000))
        alone.feed(end, slice: slice)
        server.feed(end, slice: slice)
        #expect(server.takeOutput() == alone.takeOutput())
        #expect(server.events.map(describe) == alone.events.map(describe) && server.closeReason?.code == 1000)
        #expect(server.core.capabilities == alone.core.capabilities && server.core.expected == .webSocket)
    }

    @Test("The decision about a WebSocket gives its identity, and the times are those of WebSocket")
    func facts() throws {
        var server = try server {
            $0.decide = { $0.query == "who=ann" ? .acceptAs(Identity("ann")) : .refuse(status: 401) }
        }
        server.core.isPeerLocal = true
        #expect(server.core.webSocket?.isPeerLocal == true)
        server.feed(request("GET /chat?who=ann HTTP/1.1", replacing: "Host", with: ["Host: localhost"]))
        #expect(server.core.identity == Identity("ann") && server.core.deadline == nil)
        server.core.close(.user, &server.context)
        #expect(server.core.deadline != nil)
        server.advance(by: .seconds(100))
        #expect(server.closeReason?.initiator == .user)
    }

    @Test("Everything that is neither is answered as by a server of WebSocket", arguments: [1, .max])
    func others(slice: Int) throws {
        let page = try WebPage(body: text("page"))
        let inputs = [
            text("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), text("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"),
            text("GET /x HTTP/1.1\r\nHost: a\r\n\r\n"),
            text("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\na"),
            text("GET / HTTP/1.1\nHost: a\n\n"), text("GET /" + String(repeating: "x", count: 20_000)),
            text("\r\n\r\n\u{1}"),
            [0x16, 3, 1, 0, 5, 1, 0, 0, 1, 3], [0x10, 13, 0, 4, 0x4d, 0x51, 0x54, 0x54], [0, 0, 0, 5],
        ]
        for input in inputs {
            var configuration = WebSocketConfiguration()
            configuration.pages = [page]
            var alone = CoreHarness(try WebSocketCore(.server, configuration))
            alone.start()
            var server = try server { $0.pages = [page] }
            alone.feed(input, slice: slice)
            server.feed(input, slice: slice)
            #expect(server.takeOutput() == alone.takeOutput() && server.failure == alone.failure)
            #expect(server.failure != nil || server.closeReason != nil)
            #expect(server.events.map(describe) == alone.events.map(describe))
        }
    }

    @Test("A plain request is answered with a WebSocket at hand, and later the connection can become one")
    func both() throws {
        var server = try server()
        server.feed(text(head([], "POST /chat?im-open=1 HTTP/1.1")))
        #expect(server.requests.count == 1 && !server.core.isWebSocket)
        server.answer(HTTPResponse(201))
        #expect(server.takeText().hasPrefix("HTTP/1.1 201 Created\r\n"))
        server.advance(by: .seconds(30))
        server.feed(request() + frame(to: .server, 0x82, [5]))
        #expect(server.core.isWebSocket && server.takeText().hasPrefix("HTTP/1.1 101 "))
        // It opens once. The WebSocket has a signal of its own.
        #expect(server.openedCount == 1 && server.messages.map(\.bytes) == [[5]])
        let signals = server.events.compactMap { if case .signal(let signal) = $0 { signal } else { nil } }
        #expect(signals.map(\.opensWebSocket) == [false, true])
    }
}
