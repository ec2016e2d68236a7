import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

@Suite("The handshake with a SOCKS proxy")
struct SOCKSHandshakeTests {
    static func handshake(
        to host: String = "a.example",
        port: UInt16 = 0x1234,
        user: String? = nil,
        password: String? = nil
    ) throws -> SOCKSHandshake {
        try SOCKSHandshake(to: host, port: port, user: user, password: password)
    }

    /// The request for a tunnel to the server of ``handshake(to:port:user:password:)``.
    static let request: [UInt8] = [5, 1, 0, 3, 9] + text("a.example") + [0x12, 0x34]
    /// The reply that opens a tunnel.
    static let opened: [UInt8] = [5, 0, 0, 1, 127, 0, 0, 1, 0x30, 0x39]

    /// The error of a proxy that sends these bytes.
    static func failure(_ bytes: [UInt8], slice: Int = .max, user: String? = nil) -> TransportError? {
        #expect(throws: TransportError.self) {
            try ProxyHandshakeRun(handshake(user: user, password: user.map { _ in "secret" }), bytes, slice: slice)
        }
    }

    @Test(
        "Without credentials only the method without authentication is offered, and bytes behind the reply are kept",
        arguments: [1, 3, .max]
    )
    func open(slice: Int) throws {
        let run = try ProxyHandshakeRun(try Self.handshake(), [5, 0] + Self.opened + text("hello"), slice: slice)
        #expect(run.isOpen && run.rest == text("hello"))
        #expect(run.sent == [5, 1, 0] + Self.request)
    }

    @Test("User and password are sent if the proxy chooses that method", arguments: [1, 3, .max])
    func credentials(slice: Int) throws {
        let handshake = try Self.handshake(user: "ann", password: "sécret")
        let run = try ProxyHandshakeRun(handshake, [5, 2, 1, 0] + Self.opened, slice: slice)
        #expect(run.isOpen && run.rest == [])
        #expect(run.sent == [5, 2, 0, 2, 1, 3] + text("ann") + [7] + text("sécret") + Self.request)
    }

    @Test("User and password are not sent if the proxy needs none")
    func unneededCredentials() throws {
        let run = try ProxyHandshakeRun(try Self.handshake(user: "ann", password: "secret"), [5, 0] + Self.opened)
        #expect(run.isOpen && run.sent == [5, 2, 0, 2] + Self.request)
    }

    @Test(
        "A name is sent as a name, and an address as an address without its zone",
        arguments: [
            ("localhost", [3, 9] + text("localhost")), ("127.0.0.1", [1, 127, 0, 0, 1]),
            ("::1", [4] + [UInt8](repeating: 0, count: 15) + [1]),
            ("fe80::1%eth0", [4, 0xfe, 0x80] + [UInt8](repeating: 0, count: 13) + [1]),
            (String(repeating: "a", count: 255), [3, 255] + [UInt8](repeating: 0x61, count: 255)),
        ]
    )
    func address(host: String, bytes: [UInt8]) throws {
        let run = try ProxyHandshakeRun(try Self.handshake(to: host), [5, 0] + Self.opened)
        #expect(run.sent == [5, 1, 0] + [5, 1, 0] + bytes + [0x12, 0x34])
    }

    @Test("The reply may have an address of any type", arguments: [1, .max])
    func replies(slice: Int) throws {
        let zeros = [UInt8](repeating: 0, count: 18)
        for address: [UInt8] in [
            [1] + zeros.prefix(6), [4] + zeros, [3, 0, 0, 0], [3, 255] + [UInt8](repeating: 1, count: 257),
        ] {
            let bytes = [5, 0, 5, 0, 0] + address
            let run = try ProxyHandshakeRun(try Self.handshake(), bytes + [7], slice: slice)
            #expect(run.isOpen && run.rest == [7])
            #expect(try !ProxyHandshakeRun(try Self.handshake(), bytes.dropLast(), slice: slice).isOpen)
        }
    }

    @Test(
        "The error of a refusal has the reason",
        arguments: [
            (1, .serverUnavailable), (2, .forbidden), (3, .unreachable), (4, .unreachable), (5, .refused),
            (6, .unreachable), (7, .unsupported), (8, .unsupported), (9, .handshakeFailed), (255, .handshakeFailed),
        ] as [(UInt8, TransportError.Code)]
    )
    func refused(reply: UInt8, code: TransportError.Code) {
        for rest: [UInt8] in [[], [0, 1, 0, 0, 0, 0, 0, 0]] {
            let error = Self.failure([5, 0, 5, reply] + rest)
            #expect(error?.code == code && error?.phase == .connect && error?.detail == Int(reply))
            #expect(error?.reason.hasPrefix("the proxy ") == true)
        }
    }

    @Test("Wrong credentials are refused, and so is a proxy that accepts no offered method", arguments: [1, .max])
    func authentication(slice: Int) {
        for (bytes, user, part) in [
            ([5, 2, 1, 1], "ann", "does not accept"), ([5, 255], nil, "requires user and password"),
            ([5, 255], "ann", "supports no authentication"),
        ] as [([UInt8], String?, String)] {
            let error = Self.failure(bytes, slice: slice, user: user)
            #expect(error?.code == .authenticationFailed && error?.phase == .connect)
            #expect(error?.reason.contains(part) == true && error?.reason.contains("secret") == false)
        }
    }

    @Test(
        "A method that was not offered is refused, and no credentials are sent",
        arguments: [1, 2, 3, 128] as [UInt8]
    )
    func notOffered(method: UInt8) {
        #expect(Self.failure([5, method])?.code == .handshakeFailed)
    }

    @Test(
        "An invalid answer is refused, whole and byte by byte",
        arguments: [
            [4, 0], [0], [5, 0, 4], [5, 0, 5, 0, 1], [5, 0, 5, 0, 0, 2], [5, 0, 5, 0, 0, 0], text("SSH-2.0-x\r\n"),
        ] as [[UInt8]]
    )
    func malformed(bytes: [UInt8]) {
        for slice in [1, .max] {
            let error = Self.failure(bytes, slice: slice)
            #expect(error?.code == .handshakeFailed && error?.phase == .connect)
        }
        #expect(Self.failure([5, 2, 5, 0], user: "ann")?.code == .handshakeFailed)
    }

    @Test("An HTTP proxy is recognized by its first byte", arguments: [1, .max])
    func http(slice: Int) {
        let error = Self.failure(text("HTTP/1.1 400 Bad Request\r\n\r\n"), slice: slice)
        #expect(error?.reason.contains("http://") == true)
    }

    @Test("User and password must fit into a byte's count, and the host must be a name")
    func configuration() throws {
        let long = String(repeating: "x", count: 256)
        for (user, password) in [(long, "p"), ("u", long), ("", "p"), ("u", ""), ("u", nil)] {
            #expect(refusedKey { try Self.handshake(user: user, password: password) } == "user")
        }
        let longest = String(long.dropLast())
        #expect(throws: Never.self) { try Self.handshake(user: longest, password: longest) }
        for host in [long, "", "a/b", "ü.example", "a b", "a\0b"] {
            #expect(refusedKey { try Self.handshake(to: host) } == "host")
        }
    }

    @Test("A damaged answer opens the tunnel, waits for more, or fails with an error of the phase")
    func damaged() throws {
        var random = RandomSource.seeded(7)
        var refused = 0
        for round in 0..<2000 {
            var bytes = [5, 2, 1, 0] + Self.opened + text("hello")
            for _ in 0..<1 + round % 4 { mutate(&bytes, using: &random) }
            do {
                let handshake = try Self.handshake(user: "ann", password: "secret")
                let run = try ProxyHandshakeRun(handshake, bytes, slice: 1 + round % 50)
                #expect(run.rest.count < bytes.count || !run.isOpen)
            } catch {
                #expect((error as? TransportError)?.phase == .connect)
                refused += 1
            }
        }
        #expect(refused > 300 && refused < 2000)
    }
}
