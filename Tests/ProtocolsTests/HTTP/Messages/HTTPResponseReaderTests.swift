import TestSupport
import Testing

@testable import Protocols

@Suite("Responses at a client over HTTP")
struct HTTPResponseReaderTests {
    private static let slices = [1, 2, 7, Int.max]

    /// What was read of one response.
    struct Read: Equatable {
        var statuses: [Int] = []
        var body: [UInt8] = []
        var isComplete = false
        var isReusable = false
        var left = 0
        var error: HTTPMessageError?
    }

    static func read(_ bytes: [UInt8], slice: Int, ends: Bool = false, limit: Int = 1024) -> Read {
        var reader = HTTPResponseReader(maximumHeaderBytes: limit, maximumHeaderCount: 10)
        var (read, rest) = (Read(), bytes[...])
        var input = ByteBuffer()
        do throws(HTTPMessageError) {
            while !rest.isEmpty {
                input.append(contentsOf: Array(rest.prefix(slice)))
                rest = rest.dropFirst(slice)
                while let event = try reader.next(&input) { note(event, &read) }
            }
            if ends, let event = try reader.inputEnded() { note(event, &read) }
        } catch {
            read.error = error
        }
        (read.isReusable, read.left) = (reader.isReusable, input.count)
        return read
    }

    private static func note(_ event: HTTPResponseReader.Event, _ read: inout Read) {
        switch event {
        case .head(_, let status): read.statuses.append(status)
        case .body(let bytes):
            #expect(!bytes.isEmpty && !read.isComplete)
            read.body += bytes
        case .end: read.isComplete = true
        }
    }

    @Test(
        "A response is read to its end, whole and byte by byte, and what follows stays in the input",
        arguments: [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", true),
            ("HTTP/1.1 201 \r\nContent-Length: 0\r\n\r\n", 201, "", true),
            ("HTTP/1.1 204 No Content\r\n\r\n", 204, "", true),
            ("HTTP/1.1 304 X\r\nContent-Length: 7\r\n\r\n", 304, "", true),
            ("HTTP/1.1 204 X\r\nTransfer-Encoding: chunked\r\n\r\n", 204, "", true),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x\r\nllo\r\n0\r\nA: b\r\n\r\n", 200,
                "hello", true
            ),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 409 X\r\nContent-Length: 1\r\n\r\nx",
                409, "x", true
            ),
            ("HTTP/1.1 200 OK\r\nConnection: a, Close\r\nContent-Length: 1\r\n\r\nx", 200, "x", false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x", false),
        ]
    )
    func complete(response: String, status: Int, body: String, isReusable: Bool) {
        for slice in Self.slices {
            let read = Self.read(text(response + "rest"), slice: slice)
            let expected = Read(
                statuses: [status],
                body: text(body),
                isComplete: true,
                isReusable: isReusable,
                left: 4
            )
            #expect(read == expected)
            for end in [false, true] {
                var whole = expected
                whole.left = 0
                #expect(Self.read(text(response), slice: slice, ends: end) == whole)
            }
        }
    }

    @Test("Bytes of a body are reported as they arrive")
    func pieces() throws {
        var reader = HTTPResponseReader()
        var input = ByteBuffer()
        input.append(utf8: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n5\r\nhe")
        guard case .head(let head, 200)? = try reader.next(&input) else { return #expect(Bool(false)) }
        #expect(head.headers.values("a") == ["b"])
        #expect(try reader.next(&input) == .body(text("he")))
        #expect(try reader.next(&input) == nil && input.isEmpty)
        input.append(utf8: "llo\r\n1\r\n!\r\n")
        #expect(try reader.next(&input) == .body(text("llo!")))
        #expect(try reader.next(&input) == nil && !reader.isReusable)
        input.append(utf8: "0\r\n\r\n")
        #expect(try reader.next(&input) == .end)
        #expect(try reader.next(&input) == nil && reader.isReusable)
    }

    @Test("Without a length, the end of the connection ends the body", arguments: slices)
    func untilEnd(slice: Int) {
        let bytes = text("HTTP/1.1 200 OK\r\n\r\nhello")
        #expect(!Self.read(bytes, slice: slice).isComplete)
        let read = Self.read(bytes, slice: slice, ends: true)
        #expect(read == Read(statuses: [200], body: text("hello"), isComplete: true))
    }

    @Test(
        "An end before that is an error",
        arguments: [
            "", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        ]
    )
    func incomplete(bytes: String) {
        for slice in Self.slices {
            #expect(Self.read(text(bytes), slice: slice).error == nil)
            #expect(Self.read(text(bytes), slice: slice, ends: true).error == .incomplete)
        }
    }

    @Test(
        "A malformed response is refused, whole and byte by byte",
        arguments: [
            "HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "ICY 200 OK\r\n\r\n", "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 101 X\r\n\r\n", "\r\nHTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\nA: b\n\n",
            "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\(String(repeating: "A: b\r\n", count: 200))",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;\(String(repeating: "x", count: 5000))",
        ]
    )
    func malformed(response: String) {
        for slice in Self.slices {
            let error = Self.read(text(response), slice: slice).error
            if case .malformed? = error { continue }
            Issue.record("\(response.debugDescription) in pieces of \(slice): \(String(describing: error))")
        }
    }

    @Test("Endless heads are refused, and so are other transfer codings", arguments: slices)
    func limits(slice: Int) {
        let interim = String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 100)
        #expect(Self.read(text(interim), slice: slice).error == .headTooLarge)
        let long = "HTTP/1.1 200 OK\r\nA: " + String(repeating: "x", count: 2000)
        #expect(Self.read(text(long), slice: slice).error == .headTooLarge)
        let many = "HTTP/1.1 200 OK\r\n\(String(repeating: "A: b\r\n", count: 11))\r\n"
        #expect(Self.read(text(many), slice: slice).error == .headTooLarge)
        let coded = Self.read(text("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"), slice: slice)
        if case .unsupported? = coded.error {} else { Issue.record("\(coded)") }
    }

    @Test("Our client reads what our server answers, whole and byte by byte", arguments: slices)
    func ownServer(slice: Int) throws {
        var server = try httpServer()
        var output = ByteBuffer()
        HTTPRequestHead.write(
            method: "POST",
            target: "/p?im-open=1",
            headers: [HTTPHeader(parsed: "Host", "a")],
            bodyLength: 2,
            to: &output
        )
        output.append(utf8: "ab")
        let request = output.bytes(at: 0, count: output.count) ?? []
        server.feed(request, slice: slice)
        #expect(server.requests.last?.body == text("ab"))
        server.answer(HTTPResponse(201, body: text("session")))
        let whole = Self.read(server.takeOutput(), slice: slice)
        #expect(whole == Read(statuses: [201], body: text("session"), isComplete: true, isReusable: true))
        server.feed(request, slice: slice)
        server.core.beginAnswer(HTTPResponse(200, body: text("a")), &server.context)
        text("bc").withUnsafeBytes { server.core.sendEncoded($0, &server.context) }
        server.core.endAnswer(&server.context)
        let chunked = Self.read(server.takeOutput(), slice: slice)
        #expect(chunked == Read(statuses: [200], body: text("abc"), isComplete: true, isReusable: true))
    }
}

@Suite("Heads of requests over HTTP")
struct HTTPRequestHeadTests {
    @Test("A head has its headers in their order, and a length only if there is a body")
    func written() {
        let headers = [HTTPHeader(parsed: "Host", "a:1"), HTTPHeader(parsed: "Cookie", "b=c")]
        for (length, line) in [(nil, ""), (0, "Content-Length: 0\r\n"), (12, "Content-Length: 12\r\n")]
            as [(Int?, String)]
        {
            var output = ByteBuffer()
            HTTPRequestHead.write(method: "GET", target: "/x?y", headers: headers, bodyLength: length, to: &output)
            let written = String(decoding: output.bytes(at: 0, count: output.count) ?? [], as: UTF8.self)
            #expect(written == "GET /x?y HTTP/1.1\r\nHost: a:1\r\nCookie: b=c\r\n\(line)\r\n")
        }
    }
}
