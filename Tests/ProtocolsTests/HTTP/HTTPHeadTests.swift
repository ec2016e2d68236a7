import TestSupport
import Testing

@testable import Protocols

@Suite("Heads of HTTP messages")
struct HTTPHeadTests {
    static func read(
        _ bytes: [UInt8],
        limit: Int = 1024,
        slice: Int = .max,
        skipsEmptyLines: Bool = false
    ) throws(HTTPHeadError) -> HTTPHead? {
        var reader = HTTPHeadReader(maximumBytes: limit, skipsEmptyLines: skipsEmptyLines)
        var input = ByteBuffer()
        var rest = bytes[...]
        while !rest.isEmpty {
            input.append(contentsOf: Array(rest.prefix(slice)))
            rest = rest.dropFirst(slice)
            if let head = try reader.next(&input) { return head }
        }
        return nil
    }

    @Test("A head is read whole and byte by byte", arguments: [1, 2, 7, .max])
    func whole(slice: Int) throws {
        let head = try Self.read(
            text("GET / HTTP/1.1\r\nHost: a\r\nX-Empty:\r\nX-Space: \t b c \t\r\n\r\n"),
            slice: slice
        )
        #expect(head?.startLine == "GET / HTTP/1.1")
        #expect(head?.headers.map(\.name) == ["Host", "X-Empty", "X-Space"])
        #expect(head?.headers.map(\.value) == ["a", "", "b c"])
    }

    @Test("The bytes after a head stay in the input")
    func rest() throws {
        var reader = HTTPHeadReader(maximumBytes: 1024)
        var input = ByteBuffer()
        input.append(utf8: "HTTP/1.1 101 X\r\n\r\nrest")
        #expect(try reader.next(&input)?.startLine == "HTTP/1.1 101 X")
        #expect(input.count == 4)
    }

    @Test(
        "A malformed head is rejected, whole and byte by byte",
        arguments: [
            "GET / HTTP/1.1\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\n",
            "GET / HTTP/1.1\rHost: a\r\n\r\n", "\r\nGET / HTTP/1.1\r\n\r\n", "\nGET", "GET\0",
            "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\tb\r\n\r\n",
            "GET / HTTP/1.1\r\n Host: a\r\n\r\n", "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost\r\n\r\n",
            "GET / HTTP/1.1\r\n: a\r\n\r\n", "GET / HTTP/1.1\r\nH(st: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\u{1}\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\u{7f}\r\n\r\n", "GET / HTTP/1.1\r\nHöst: a\r\n\r\n", "\u{16}\u{3}\u{1}",
        ]
    )
    func malformed(head: String) {
        for slice in [1, 3, .max] {
            #expect {
                try Self.read(text(head), slice: slice)
            } throws: { error in
                if case .malformed? = error as? HTTPHeadError { true } else { false }
            }
        }
    }

    @Test(
        "Empty lines before a head are skipped on request, and count towards the limit",
        arguments: [1, 2, 3, .max]
    )
    func emptyLines(slice: Int) throws {
        let head = text("\r\n\r\nX\r\nA: b\r\n\r\n")
        let read = try Self.read(head, limit: head.count, slice: slice, skipsEmptyLines: true)
        #expect(read?.startLine == "X" && read?.headers.count == 1)
        #expect(throws: HTTPHeadError.tooLarge) {
            try Self.read(head, limit: head.count - 1, slice: slice, skipsEmptyLines: true)
        }
        let lines = text(String(repeating: "\r\n", count: 200))
        #expect(throws: HTTPHeadError.tooLarge) {
            try Self.read(lines, limit: 99, slice: slice, skipsEmptyLines: true)
        }
    }

    @Test("The limit counts all bytes, and a head that reaches it without its end is rejected")
    func limit() throws {
        let head = text("GET / HTTP/1.1\r\nA: b\r\n\r\n")
        #expect(try Self.read(head, limit: head.count) != nil)
        for slice in [1, .max] {
            #expect(throws: HTTPHeadError.tooLarge) { try Self.read(head, limit: head.count - 1, slice: slice) }
        }
        #expect(throws: HTTPHeadError.tooLarge) { try Self.read([UInt8](repeating: 0x41, count: 300), limit: 256) }
    }

    @Test("A hundred headers are read, and one more is rejected")
    func count() throws {
        let lines = String(repeating: "a: b\r\n", count: 100)
        #expect(try Self.read(text("X\r\n\(lines)\r\n"))?.headers.count == 100)
        #expect(throws: HTTPHeadError.tooLarge) { try Self.read(text("X\r\n\(lines)a: b\r\n\r\n")) }
    }

    @Test("The limit on the number of headers can be changed")
    func ownCount() throws {
        var reader = HTTPHeadReader(maximumBytes: 1024, maximumCount: 2)
        var input = ByteBuffer()
        input.append(utf8: "X\r\na: b\r\na: b\r\n\r\nX\r\na: b\r\na: b\r\na: b\r\n\r\n")
        #expect(try reader.next(&input)?.headers.count == 2)
        #expect(throws: HTTPHeadError.tooLarge) { try reader.next(&input) }
    }

    @Test("Heads that follow one another share the limit")
    func several() throws {
        var reader = HTTPHeadReader(maximumBytes: 19)
        var input = ByteBuffer()
        input.append(utf8: String(repeating: "X\r\na:b\r\n\r\n", count: 2))
        #expect(try reader.next(&input) != nil)
        #expect(throws: HTTPHeadError.tooLarge) { try reader.next(&input) }
    }

    @Test(
        "A body is announced by its length or its encoding",
        arguments: [
            ([], true), ([("Content-Length", "0")], true), ([("content-length", "5")], false),
            ([("Content-Length", "")], false),
            ([("Content-Length", "0"), ("Content-Length", "0")], false), ([("Content-Length", "0, 0")], false),
            ([("Transfer-Encoding", "identity")], false),
        ] as [([(String, String)], Bool)]
    )
    func body(headers: [(String, String)], isMissing: Bool) {
        #expect(headers.map { HTTPHeader(parsed: $0.0, $0.1) }.announceNoBody == isMissing)
    }

    @Test("Credentials become Base64 (RFC 7617, section 2), and ambiguous ones are rejected")
    func basic() throws {
        #expect(try HTTPHeader.basic(user: "Aladdin", password: "open sesame") == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
        for (user, password) in [("a:b", "c"), ("a", "b\r\n"), ("a\0", "b")] {
            #expect(refusedKey { try HTTPHeader.basic(user: user, password: password) } == "user")
        }
    }

    @Test("A list may be spread over several headers, and names have no case")
    func lists() throws {
        let headers = [
            try HTTPHeader("Connection", "keep-alive, Upgrade"), try HTTPHeader("connection", "x,,y"),
            try HTTPHeader("Other", "z"),
        ]
        for (member, count) in [("upgrade", 1), ("KEEP-ALIVE", 1), ("x", 1), ("y", 1), ("", 0), ("z", 0)] {
            #expect(headers.list("Connection", count: member) == count)
        }
    }

    @Test(
        "Names are compared without the case of ASCII letters, and of no other letters",
        arguments: [
            ("Upgrade", "uPGRADE", true), ("", "", true), ("a-z", "A-Z", true), ("Upgrade", "Upgrad", false),
            ("[", "{", false), ("@", "`", false), ("É", "é", false), ("a", "b", false),
        ]
    )
    func names(left: String, right: String, areEqual: Bool) {
        #expect(HTTPSyntax.equalIgnoringCase(left, right) == areEqual)
        let behind = "x\(left)"
        #expect(HTTPSyntax.equalIgnoringCase(behind.dropFirst(), right) == areEqual)
    }

    @Test("A separator is recognized even if a combining accent follows it")
    func separators() throws {
        let headers = [try HTTPHeader("Connection", "x,\u{301}y, Upgrade,\u{301}")]
        for member in ["x", "\u{301}y", "Upgrade", "\u{301}"] {
            #expect(headers.list("Connection", count: member) == 1)
        }
        #expect(HTTPSyntax.status("HTTP/1.1 101 \u{301}") == 101 && HTTPSyntax.status("HTTP/1.1 101") == 101)
        for line in [
            "HTTP/1.1 \u{301}101 x", "HTTP/1.1  101", "HTTP/1.1 1\u{301} x", "HTTP/1.1 099 x", "HTTP/2 200",
            "HTTP/1.0 200 x",
        ] {
            #expect(HTTPSyntax.status(line) == nil)
        }
    }

    @Test("Retry-After is read as seconds, of which at most eight digits count")
    func seconds() {
        #expect(HTTPSyntax.seconds("120") == .seconds(120))
        #expect(HTTPSyntax.seconds("0") == .zero)
        for most in ["99999999", "100000000", "99999999999999999999"] {
            #expect(HTTPSyntax.seconds(most) == .seconds(99_999_999))
        }
        for other in ["", "-1", "1.5", "Fri, 31 Dec 1999 23:59:59 GMT", "9999999999999999999x"] {
            #expect(HTTPSyntax.seconds(other) == nil)
        }
    }
}
