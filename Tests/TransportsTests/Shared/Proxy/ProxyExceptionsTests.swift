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
            ("169.254/16", "169.254.1.2", 80, true), ("169.254/16", "169.255.1.2", 80, false),
            ("10/8", "10.1.2.3", 80, true), ("172.16/12", "172.31.0.1", 80, true),
            ("172.16/12", "172.32.0.1", 80, false), ("127.*", "127.1.2.3", 80, true),
            ("127.*", "128.0.0.1", 80, false), ("127.*.*.*", "127.1.2.3", 80, true),
            ("192.168.*", "192.168.7.7", 80, true), ("192.168.*", "192.169.7.7", 80, false),
            ("10.1.2.*", "10.1.2.3", 80, true), ("10.1.2.*:81", "10.1.2.3", 80, false),
            ("10.1.2.*:81", "10.1.2.3", 81, true), ("127.*", "127.example", 80, false),
        ] as [(String, String, UInt16, Bool)]
    )
    func contains(list: String, host: String, port: UInt16, isContained: Bool) {
        #expect(ProxyExceptions(list).contains(host, port: port) == isContained)
    }

    @Test(
        "An entry that is not clear contains no server, and the entries around it apply",
        arguments: [
            "hunter2/8", "10.0.0.0/33", "10.0.0.0/", "10.1/17", "10/9", "::/129", "1:2/16", "a:b", "a:65536", "a:",
            ":80", "[::1", "[::1]80", "[a", "a*b", "**", ".", "..", "http://a", "u@a", "10.*.0.0", "10.0.0.0.*", "*.*",
            "256.*", "10.1*", ".*", "10.*.*.*.*", "10.0.0.0.0/8", "10./8", "10..*",
        ]
    )
    func unclear(entry: String) {
        let list = ProxyExceptions("b.example, \(entry) 11.0.0.0/8")
        for host in ["a.example", "a", "10.1.2.3", "::1", "hunter2", "0.0.0.0", "10.0.0.0"] {
            #expect(!list.contains(host, port: 80))
        }
        #expect(list.contains("b.example", port: 80) && list.contains("11.1.1.1", port: 80))
    }
}
