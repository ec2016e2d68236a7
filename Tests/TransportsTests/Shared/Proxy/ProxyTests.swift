import TestSupport
import Testing
import TransportAPI

@testable import Transports

@Suite("The URL of a proxy")
struct ProxyTests {
    static func proxy(_ url: String) throws -> Proxy { try Proxy(url, key: "proxy") }

    @Test(
        "The scheme selects the kind and the default port",
        arguments: [
            ("http://p", .http, 80), ("HTTPS://p/", .https, 443), ("socks5://p", .socks5, 1080),
            ("socks5://u:p@p:9", .socks5, 9),
        ] as [(String, Proxy.Kind, UInt16)]
    )
    func kinds(url: String, kind: Proxy.Kind, port: UInt16) throws {
        let proxy = try Self.proxy(url)
        #expect(proxy.kind == kind && proxy.host == "p" && proxy.port == port)
    }

    @Test("User and password are decoded, and the host of an IPv6 address has no brackets")
    func parts() throws {
        let proxy = try Self.proxy("http://Aladdin:open%20sesame@[::1]/")
        #expect(proxy.host == "::1" && proxy.user == "Aladdin" && proxy.password == "open sesame")
    }

    @Test(
        "An invalid URL is refused, and the error shows nothing of it",
        arguments: [
            "", "p:3128", "ftp://hunter2@p", "http://hunter2@p/path", "http://hunter2@p?a=b", "http://hunter2@p:x",
            "http://a%3Ab:hunter2@p", "http://hunter2\r\n@p", "http://", "https://a:hunter2@p#", "http://p%00q",
            "socks5://hunter2@p", "socks5://:hunter2@p", "socks5://u:hunter2\(String(repeating: "x", count: 255))@p",
            "environment ",
        ]
    )
    func wrong(url: String) {
        #expect(refusedKey { try Self.proxy(url) } == "proxy")
        let error = #expect(throws: TransportError.self) { try Self.proxy(url) }
        #expect(error?.description.contains("hunter2") == false)
    }

    @Test(
        "The error for another name of SOCKS says to write socks5",
        arguments: ["socks", "socks4", "socks4a", "socks5h"]
    )
    func otherSOCKS(scheme: String) {
        let error = #expect(throws: TransportError.self) { try Self.proxy("\(scheme)://u:hunter2@p") }
        #expect(error?.code == .invalidConfiguration && error?.reason.contains("must be socks5") == true)
    }
}
