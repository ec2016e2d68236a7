import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("Redirects")
struct RedirectionTests {
    static func target(
        _ location: String,
        from url: String = "ws://ann:secret@a.example:81/b/c?subprotocol=s",
        query: String? = "q=1",
        speaking schemes: RedirectSchemes = .webSocket
    ) throws(TransportError) -> RedirectTarget {
        let endpoint = try Endpoint(url)
        return try Redirection(status: 307, location: location).target(from: endpoint, query: query, speaking: schemes)
    }

    @Test(
        "A Location is resolved against the URL of the request",
        arguments: [
            ("/x?y=z", "ws://a.example:81/x", "y=z"), ("x", "ws://a.example:81/b/x", nil),
            ("", "ws://a.example:81/b/c", "q=1"), ("?", "ws://a.example:81/b/c", ""), ("//b/x#y", "ws://b/x", nil),
            ("http://b:82", "ws://b:82", nil), ("https://b/", "wss://b/", nil),
            ("ws://[::1]:83/", "ws://[::1]:83/", nil),
        ] as [(String, String, String?)]
    )
    func targets(location: String, url: String, query: String?) throws {
        let target = try Self.target(location)
        var expected = try Endpoint(url)
        (expected.user, expected.password) = (target.endpoint.user, target.endpoint.password)
        #expect(target.endpoint == expected && target.query == query)
    }

    @Test(
        "User and password go only to the origin for which they are configured",
        arguments: [
            ("/x", true), ("http://A.example:81/", true), ("ws://a.example:81", true), ("//b:81/", false),
            ("//a.example:82/", false), ("//a.example/", false), ("https://a.example:81/", false),
            ("//a.example.evil:81/", false),
        ]
    )
    func credentials(location: String, areSent: Bool) throws {
        let target = try Self.target(location, from: "ws://ann:secret@a.example:81/")
        #expect((target.endpoint.user, target.endpoint.password) == (areSent ? ("ann", "secret") : (nil, nil)))
        #expect(target.isSameOrigin == areSent)
    }

    @Test("Credentials that another origin did not get do not return with a redirect back")
    func wayBack() throws {
        let elsewhere = try Self.target("//b/", from: "ws://ann:secret@a/").endpoint
        let back = try Redirection(status: 302, location: "//a/").target(
            from: elsewhere,
            query: nil,
            speaking: .webSocket
        )
        #expect(back.endpoint.user == nil && back.endpoint.description == "ws://a/")
    }

    @Test("A zone stays with its address")
    func zone() throws {
        #expect(try Self.target("/x", from: "ws://[fe80::1%25eth0]:81").endpoint.host == "fe80::1%eth0")
    }

    @Test(
        "A redirect to an invalid target is rejected with the status of the redirect",
        arguments: [
            "a b", "http:x", "http://", "http://u:p@b/", "ftp://b/", "ws://b:99999/", "mqtt://b/", "//[::1", "%zz",
        ]
    )
    func refused(location: String) {
        let error = #expect(throws: TransportError.self) { try Self.target(location) }
        #expect(error?.code == .handshakeFailed && error?.phase == .handshake && error?.detail == 307)
    }

    @Test("No redirect leads from wss to ws", arguments: ["ws://a/", "http://a/", "HTTP://b/"])
    func downgrade(location: String) throws {
        let error = #expect(throws: TransportError.self) { try Self.target(location, from: "wss://a/") }
        #expect(error?.code == .handshakeFailed && error?.reason.contains("from wss") == true)
        #expect(try Self.target("/x", from: "wss://a/").endpoint.scheme == "wss")
    }

    @Test("A damaged reference ends in an error or in an endpoint with a supported scheme")
    func damaged() throws {
        var random = RandomSource.seeded(7)
        var followed = 0
        for round in 0..<3000 {
            var bytes = text(["http://b:82/a/../b?c=d#e", "../x/%41?y", "//[::1]:83/"][round % 3])
            for _ in 0..<1 + round % 4 { mutate(&bytes, using: &random) }
            do {
                let target = try Self.target(String(decoding: bytes, as: UTF8.self)).endpoint
                #expect(["ws", "wss"].contains(target.scheme) && !target.host.isEmpty)
                followed += 1
            } catch {
                #expect(error.code == .handshakeFailed)
            }
        }
        #expect(followed > 300 && followed < 3000)
    }

    @Test(
        "The core reports the target of a redirect if it may be followed",
        arguments: [301, 302, 303, 307, 308, 300, 304, 305, 200]
    )
    func core(status: Int) throws {
        for redirects in [0, 1] {
            var client = try ClientHandshakeTests.client { $0.redirects = redirects }
            client.feed(text("HTTP/1.1 \(status) X\r\nLocation: /x\r\n\r\n"), slice: 5)
            let isFollowed = redirects > 0 && [301, 302, 303, 307, 308].contains(status)
            #expect(client.core.redirection == (isFollowed ? Redirection(status: status, location: "/x") : nil))
            #expect(client.failure == .httpStatus(status))
        }
        var twice = try ClientHandshakeTests.client { $0.redirects = 1 }
        twice.feed(text("HTTP/1.1 302 X\r\nLocation: /x\r\nLocation: /y\r\n\r\n"))
        #expect(twice.core.redirection == nil && twice.failure?.code == .handshakeFailed)
    }
}
