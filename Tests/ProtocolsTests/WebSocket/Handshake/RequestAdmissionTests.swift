import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("Rules for origins and hosts")
struct RequestAdmissionTests {
    /// The status with which a server answers a request with this Host and, unless empty, this Origin.
    private func status(
        host: String,
        origin: String,
        isLocal: Bool = false,
        target: String = "/chat",
        _ change: (inout WebSocketConfiguration) -> Void = { _ in }
    ) throws -> String {
        var harness = try ServerHandshakeTests.server(change)
        harness.core.isPeerLocal = isLocal
        let lines = ["Host: \(host)"] + (origin.isEmpty ? [] : ["Origin: \(origin)"])
        harness.feed(request("GET \(target) HTTP/1.1", replacing: "Host", with: lines))
        return String(ServerHandshakeTests.answer(&harness).dropFirst("HTTP/1.1 ".count).prefix(3))
    }

    @Test(
        "By default, a server admits a page only from the host and port of the request",
        arguments: [
            ("", "chat.example", "101"), ("http://chat.example", "chat.example", "101"),
            ("http://chat.example", "chat.example:80", "101"), ("http://chat.example:80", "chat.example", "101"),
            ("ws://chat.example", "chat.example:80", "101"), ("wss://chat.example", "chat.example:443", "101"),
            ("https://chat.example", "chat.example", "101"), ("https://chat.example", "chat.example:443", "101"),
            ("https://chat.example", "chat.example:80", "403"), ("http://chat.example", "chat.example:443", "403"),
            ("HTTP://Chat.Example", "cHAT.eXAMPLE", "101"), ("http://chat.example:8080", "chat.example:8080", "101"),
            ("http://chat.example:", "chat.example:", "101"), ("http://chat.example:8080", "chat.example", "403"),
            ("http://chat.example", "chat.example:8080", "403"), ("http://evil.example", "chat.example", "403"),
            ("http://[::1]:8080", "[::1]:8080", "101"), ("http://[::1]", "[::1]", "101"),
            ("http://[::2]", "[::1]", "403"), ("null", "chat.example", "403"), ("null", "null", "403"),
            ("", "null", "101"), ("http://sub.chat.example", "chat.example", "403"),
            ("http://chat.example.evil.example", "chat.example", "403"),
            ("http://chat.example/", "chat.example", "403"),
            ("http://ann@chat.example", "chat.example", "403"), ("http://chat.example#", "chat.example", "403"),
            ("http://chat.example http://chat.example", "chat.example", "403"), ("chat.example", "chat.example", "403"),
            ("//chat.example", "chat.example", "403"), ("://chat.example", "chat.example", "403"),
            ("http:chat.example", "chat.example", "403"), ("capacitor://localhost", "localhost", "403"),
            ("file://", "chat.example", "403"), ("http://chat.example:99999", "chat.example:99999", "403"),
            ("http://chat.example:+80", "chat.example", "403"), ("http://ch\u{e4}t.example", "chat.example", "403"),
            ("http://", "chat.example", "403"), ("http://:80", "chat.example", "403"),
        ]
    )
    func same(origin: String, host: String, expected: String) throws {
        #expect(try status(host: host, origin: origin) == expected)
    }

    @Test(
        "A server admits the listed origins and no others",
        arguments: [
            (["https://chat.example"], "https://chat.example", "101"),
            (["https://chat.example"], "https://CHAT.example:443", "101"),
            (["https://chat.example:443"], "https://chat.example", "101"),
            (["https://chat.example"], "http://chat.example", "403"),
            (["https://chat.example"], "https://chat.example:8443", "403"),
            (["https://chat.example"], "http://server.example", "403"), (["https://chat.example"], "null", "403"),
            (["https://chat.example"], "", "101"), (["https://chat.example", "same"], "http://server.example", "101"),
            (["null"], "null", "101"), (["null"], "http://server.example", "403"), (["any"], "null", "101"),
            (["any"], "http://evil.example", "101"), (["any"], "not an origin", "101"), ([], "null", "403"),
            ([], "http://server.example", "403"), ([], "", "101"),
            (["capacitor://localhost"], "capacitor://localhost", "101"),
        ]
    )
    func listedOrigins(origins: [String], origin: String, expected: String) throws {
        #expect(try status(host: "server.example", origin: origin) { $0.allowedOrigins = origins } == expected)
    }

    @Test(
        "On its own machine, a server admits only requests for loopback names and IP addresses, whatever the origin",
        arguments: [
            ("localhost", true), ("LOCALHOST:8080", true), ("localhost.", true), ("chat.localhost", true),
            ("127.0.0.1", true), ("127.8.9.10:80", true), ("[::1]", true), ("[::1]:80", true),
            ("[0:0:0:0:0:0:0:1]", true), ("[::ffff:127.0.0.1]", true), ("[::ffff:7f00:1]", true),
            ("evil.example", false), ("evil.example:8080", false), ("localhost.evil.example", false),
            ("notlocalhost", false), ("127.0.0.1.evil.example", false), ("127.0.0.1.", false), ("127.1", false),
            ("128.0.0.1", true), ("10.0.0.1:80", true), ("[::]", true), ("[::2]", true), ("[::11]", true),
            ("[fe80::1]", true), ("[::ffff:10.0.0.1]", true), ("127.0.0.256", false), ("2130706433", false),
            ("10.0.0.1.evil.example", false), ("10.0.0.01", false), ("0x7f.0.0.1", false), ("10.0.0.1.", false),
        ]
    )
    func loopback(host: String, isAdmitted: Bool) throws {
        let expected = isAdmitted ? "101" : "403"
        #expect(try status(host: host, origin: "", isLocal: true) == expected)
        #expect(try status(host: host, origin: "http://\(host)", isLocal: true) == expected)
        #expect(try status(host: host, origin: "", isLocal: true) { $0.allowedOrigins = ["any"] } == expected)
        #expect(try status(host: host, origin: "http://\(host)", isLocal: false) == "101")
        // The host of an absolute URI replaces that of the header.
        let target = "http://\(host)/"
        #expect(try status(host: "localhost", origin: "", isLocal: true, target: target) == expected)
    }

    @Test(
        "A server admits the listed hosts and no others, on loopback and elsewhere",
        arguments: [
            (["chat.example"], "chat.example", "101"), (["chat.example"], "CHAT.example:8080", "101"),
            (["chat.example:8080"], "chat.example:8080", "101"), (["chat.example:8080"], "chat.example", "403"),
            (["chat.example"], "localhost", "403"), (["chat.example", "loopback"], "localhost", "101"),
            (["loopback"], "chat.example", "403"), (["any"], "evil.example", "101"), ([], "localhost", "403"),
            (["loopback"], "10.0.0.1", "403"), (["address"], "10.0.0.1", "101"), (["address"], "[fe80::1]:80", "101"),
            (["address"], "localhost", "403"), (["address"], "evil.example", "403"),
        ]
    )
    func listedHosts(hosts: [String], host: String, expected: String) throws {
        for isLocal in [true, false] {
            #expect(try status(host: host, origin: "", isLocal: isLocal) { $0.allowedHosts = hosts } == expected)
        }
    }

    @Test("The response and the error name the value, the allowed values and the setting to change")
    func explained() throws {
        for (origin, host, seen) in [
            ("http://evil.example", "localhost", ["Origin", "'http://evil.example'", "'localhost'", "'origins'"]),
            ("", "evil.example", ["Host", "'evil.example'", "loopback", "'hosts'"]),
        ] {
            var harness = try ServerHandshakeTests.server()
            harness.core.isPeerLocal = true
            let lines = ["Host: \(host)"] + (origin.isEmpty ? [] : ["Origin: \(origin)"])
            harness.feed(request(replacing: "Host", with: lines))
            let answer = ServerHandshakeTests.answer(&harness)
            let failure = harness.failure
            let error = try #require(failure)
            #expect(error.code == .handshakeFailed && error.detail == 403)
            let parts = answer.components(separated: "\r\n\r\n")
            #expect(parts.count == 2 && parts[0].contains("Content-Length: \(parts[1].utf8.count)"))
            for word in seen { #expect(parts[1].contains(word) && error.reason.contains(word)) }
        }
    }

    @Test("The response contains only the printable ASCII characters of a header")
    func shown() throws {
        var harness = try ServerHandshakeTests.server()
        let long = "http://\u{1b}[31m\u{e4}\u{301}\t" + String(repeating: "x", count: 5000)
        harness.feed(request(with: ["Origin: \(long.replacing("\u{1b}", with: "\u{9b}"))"]))
        let answer = ServerHandshakeTests.answer(&harness)
        #expect(answer.hasPrefix("HTTP/1.1 403 ") && answer.utf8.count < 700)
        #expect(answer.utf8.allSatisfy { $0 < 0x7f })
    }

    @Test("A wrong rule is rejected by the name of its setting")
    func wrongRules() throws {
        for (origins, hosts, name) in [
            (["chat.example"], nil, "allowedOrigins"), (["https://chat.example/"], nil, "allowedOrigins"),
            (["https://*"], nil, nil), ([""], nil, "allowedOrigins"), (["same"], ["http://a"], "allowedHosts"),
            (["same"], [""], "allowedHosts"), (["same"], ["a:b"], "allowedHosts"),
        ] as [([String], [String]?, String?)] {
            var configuration = WebSocketConfiguration()
            configuration.allowedOrigins = origins
            configuration.allowedHosts = hosts
            let result = Result { () throws(TransportError) in try configuration.validate() }
            switch result {
            case .success: #expect(name == nil)
            case .failure(let error): #expect(error.reason.hasPrefix(name ?? "-"))
            }
        }
    }
}

extension String {
    fileprivate func components(separated separator: String) -> [Substring] {
        guard let range = firstRange(of: separator) else { return [self[...]] }
        return [self[..<range.lowerBound], self[range.upperBound...]]
    }
}
