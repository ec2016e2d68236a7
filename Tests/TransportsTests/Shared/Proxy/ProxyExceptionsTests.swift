import TestSupport
import Testing
import TransportAPI

@testable import Transports

@Suite("The servers without a proxy")
struct ProxyExceptionsTests {
    @Test(
        "A server is in the list by its name, a suffix, its address, a network, or its port",
        arguments: [
            ("*", "a.example", 80, true), ("", "a.example", 80, false), (" , ,", "a.example", 80, false),
            ("a.example", "a.example", 80, true), ("A.Example", "a.eXample.", 80, true),
            ("a.example.", "a.example", 80, true),
            ("a.example", "b.a.example", 80, true), ("a.example", "ba.example", 80, false),
            ("a.example", "example", 80, false),
            (".a.example", "b.a.example", 80, true), (".a.example", "a.example", 80, true),
            ("*.a.example", "b.a.example", 80, true),
            ("x, y\ta.example", "a.example", 80, true), ("a.example:81", "a.example", 80, false),
            ("a.example:81", "a.example", 81, true), ("localhost", "127.0.0.1", 80, false),
            ("10.0.0.1", "10.0.0.1", 80, true), ("10.0.0.1", "10.0.0.2", 80, false),
            ("10.0.0.1:81", "10.0.0.1", 81, true),
            ("10.0.0.1:81", "10.0.0.1", 80, false), ("10.0.0.0/8", "10.255.0.1", 80, true),
            ("10.0.0.0/8", "11.0.0.1", 80, false),
            ("10.16.0.0/12", "10.31.255.255", 80, true), ("10.16.0.0/12", "10.32.0.0", 80, false),
            ("1.2.3.4/32", "1.2.3.4", 80, true), ("1.2.3.4/32", "1.2.3.5", 80, false),
            ("0.0.0.0/0", "8.8.8.8", 80, true),
            ("0.0.0.0/0", "::1", 80, false), ("0.0.0.0/0", "a.example", 80, false), ("::1", "::1", 80, true),
            ("[::1]", "0:0:0:0:0:0:0:1", 80, true), ("[::1]:81", "::1", 81, true), ("[::1]:81", "::1", 80, false),
            ("fe80::/10", "febf::1%eth0", 80, true), ("fe80::/10", "fec0::1", 80, false),
        ] as [(String, String, UInt16, Bool)]
    )
    func contains(list: String, host: String, port: UInt16, isContained: Bool) throws {
        #expect(try ProxyExceptions(list, key: "NO_PROXY").contains(host, port: port) == isContained)
    }

    @Test(
        "A wrong entry is refused, and the error has its number",
        arguments: [
            "hunter2/8", "10.0.0.0/33", "10.0.0.0/", "10.1/16", "::/129", "a:b", "a:65536", "a:", ":80", "[::1",
            "[::1]80",
            "[a", "a*b", "**", ".", "..", "http://a", "u@a",
        ]
    )
    func wrong(entry: String) {
        let error = #expect(throws: TransportError.self) { try ProxyExceptions("a, \(entry)", key: "no_proxy") }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.reason.hasPrefix("no_proxy has entry 2, ") == true)
        #expect(error?.reason.contains("hunter2") == false)
    }
}
