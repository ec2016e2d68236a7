import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

@Suite("The handshake with an HTTP proxy")
struct ConnectHandshakeTests {
    static func handshake(
        to host: String = "a.example",
        port: UInt16 = 81,
        user: String? = nil,
        password: String? = nil
    ) throws -> ConnectHandshake {
        try ConnectHandshake(to: host, port: port, user: user, password: password)
    }

    /// The result of a proxy's answer, and the bytes behind it, which belong to the tunnel.
    static func answer(_ bytes: [UInt8], slice: Int = .max) throws -> (isOpen: Bool, rest: [UInt8]) {
        let result = try ProxyHandshakeRun(try handshake(), bytes, slice: slice)
        #expect(result.sent == text("CONNECT a.example:81 HTTP/1.1\r\nHost: a.example:81\r\n\r\n"))
        return (result.isOpen, result.rest)
    }

    @Test(
        "The request names the server with its port, and IPv6 addresses in brackets",
        arguments: [
            ("a.example", 80, "a.example:80"), ("127.0.0.1", 1883, "127.0.0.1:1883"), ("::1", 81, "[::1]:81"),
            ("fe80::1%eth0", 81, "[fe80::1]:81"),
        ] as [(String, UInt16, String)]
    )
    func request(host: String, port: UInt16, target: String) throws {
        let request = try Self.handshake(to: host, port: port).request
        #expect(request == "CONNECT \(target) HTTP/1.1\r\nHost: \(target)\r\n\r\n")
    }

    @Test("User and password become Basic credentials")
    func credentials() throws {
        let request = try Self.handshake(user: "Aladdin", password: "open sesame").request
        #expect(request.hasSuffix("\r\nProxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n"))
    }

    @Test(
        "A host that could be read as more than a host is refused",
        arguments: ["a/b", "ü.example", "a@b", "a b", "a\r\nX: y"]
    )
    func host(host: String) {
        #expect(refusedKey { try Self.handshake(to: host) } == "host")
    }

    @Test("An answer by TLS is recognized by its first byte", arguments: [1, .max])
    func plainToTLS(slice: Int) {
        // A fatal alert, "unexpected message".
        let error = #expect(throws: TransportError.self) { try Self.answer([21, 3, 3, 0, 2, 2, 10], slice: slice) }
        #expect(error?.code == .handshakeFailed && error?.reason.contains("https://") == true)
    }

    @Test(
        "Any success status opens the tunnel, and the bytes behind the head belong to the tunnel",
        arguments: [1, 7, .max]
    )
    func opens(slice: Int) throws {
        for head in [
            "HTTP/1.1 200 Connection established\r\n\r\n", "HTTP/1.0 200\r\n\r\n",
            "HTTP/1.1 204 X\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        ] {
            #expect(try Self.answer(text(head + "\0hello\r\n"), slice: slice) == (true, text("\0hello\r\n")))
            #expect(try Self.answer(text(String(head.dropLast(1))), slice: slice).isOpen == false)
        }
    }

    @Test(
        "The error of a refusal has the reason",
        arguments: [
            (407, .authenticationFailed), (403, .forbidden), (405, .unsupported), (501, .unsupported), (408, .timedOut),
            (504, .timedOut), (429, .tooManyRequests), (502, .unreachable), (503, .serverUnavailable),
            (500, .serverUnavailable), (302, .handshakeFailed), (400, .handshakeFailed), (401, .authenticationFailed),
        ] as [(Int, TransportError.Code)]
    )
    func refused(status: Int, code: TransportError.Code) throws {
        let head = "HTTP/1.1 \(status) X\r\nRetry-After: 3\r\nContent-Length: 4\r\n\r\nbody"
        let error = #expect(throws: TransportError.self) { try Self.answer(text(head)) }
        #expect(error?.code == code && error?.phase == .connect && error?.detail == status)
        #expect(error?.retryAfter == .seconds(3))
    }

    @Test("A proxy that asks for credentials is answered by what to do")
    func credentialsMissing() throws {
        func refusal(user: String?, _ headers: String...) throws -> TransportError {
            let head = "HTTP/1.1 407 X\r\n" + headers.map { "Proxy-Authenticate: \($0)\r\n" }.joined() + "\r\n"
            let error = #expect(throws: TransportError.self) {
                try ProxyHandshakeRun(try Self.handshake(user: user), text(head), slice: .max)
            }
            return try #require(error)
        }
        let basic = "Basic realm=\"a, Negotiate b\", charset=\"UTF-8\""
        #expect(try refusal(user: nil, basic).reason.contains("write user and password into its URL"))
        #expect(try refusal(user: "ann", basic).reason.contains("asks for other credentials"))
        #expect(try refusal(user: "ann", "Negotiate, NTLM", "bAsIc realm=x").code == .authenticationFailed)
        let other = try refusal(user: "ann", "Negotiate", "NTLM", "Digest realm=\"x\", qop=\"auth\"")
        #expect(other.code == .unsupported && other.detail == 407 && !other.isRetryable)
        #expect(other.reason.contains("Negotiate, NTLM, Digest; allowed here is only Basic"), "\(other)")
    }

    @Test(
        "An invalid answer is refused, whole and byte by byte",
        arguments: [
            "SSH-2.0-x\r\n\r\n", "HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 2000\r\n\r\n", "HTTP/1.1 101 X\r\n\r\n",
            "HTTP/1.1 999 X\r\n\r\n", "HTTP/1.1 200 OK\n\n", "HTTP/1.1 200 OK\r\n X: y\r\n\r\n",
            "HTTP/1.1 200 \0\r\n\r\n",
            "\u{5}\u{0}",
        ]
    )
    func malformed(answer: String) {
        for slice in [1, .max] {
            let error = #expect(throws: TransportError.self) { try Self.answer(text(answer), slice: slice) }
            #expect(error?.code == .handshakeFailed && error?.phase == .connect)
        }
    }

    @Test("A damaged answer opens the tunnel, waits for more, or fails with an error of the phase")
    func damaged() throws {
        var random = RandomSource.seeded(7)
        var refused = 0
        for round in 0..<2000 {
            var bytes = text("HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nX: y\r\n\r\nhello")
            for _ in 0..<1 + round % 4 { mutate(&bytes, using: &random) }
            do {
                let (isOpen, rest) = try Self.answer(bytes, slice: 1 + round % 50)
                #expect(rest.count < bytes.count || !isOpen)
            } catch {
                #expect((error as? TransportError)?.phase == .connect)
                refused += 1
            }
        }
        #expect(refused > 300 && refused < 2000)
    }

    @Test("An endless answer is refused", arguments: ["HTTP/1.1 102 X\r\n\r\n", "X: y\r\n", "x"])
    func endless(line: String) {
        let bytes = text("HTTP/1.1 102 X\r\n" + String(repeating: line, count: 16 << 10))
        for slice in [999, .max] {
            let error = #expect(throws: TransportError.self) { try Self.answer(bytes, slice: slice) }
            #expect(error?.code == .handshakeFailed)
        }
    }
}
