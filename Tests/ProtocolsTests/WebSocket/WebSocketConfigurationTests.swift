import Testing
import TransportAPI

@testable import Protocols

@Suite("WebSocket configuration")
struct WebSocketConfigurationTests {
    @Test(
        "The Host header brackets IPv6 addresses and leaves out the default port",
        arguments: [
            ("example.com", nil, "example.com"), ("example.com", 80, "example.com"),
            ("example.com", 8080, "example.com:8080"),
            ("127.0.0.1", 9001, "127.0.0.1:9001"), ("::1", nil, "[::1]"), ("::1", 81, "[::1]:81"),
            ("fe80::1%eth0", 81, "[fe80::1]:81"),
        ] as [(String, UInt16?, String)]
    )
    func host(host: String, port: UInt16?, expected: String) {
        #expect(WebSocketConfiguration.hostHeader(host: host, port: port) == expected)
        #expect(WebSocketConfiguration(host: host, port: port).hostHeader == expected)
    }

    typealias Change = @Sendable (inout WebSocketConfiguration) -> Void

    static let wrongValues: [(key: String, change: Change)] = [
        ("maximumMessageSize", { $0.maximumMessageSize = 0 }),
        ("maximumHeaderBytes", { $0.maximumHeaderBytes = 10 }),
        ("maximumHeaderCount", { $0.maximumHeaderCount = 9 }),
        ("fragmentSize", { $0.fragmentSize = 0 }), ("handshakeTimeout", { $0.handshakeTimeout = .zero }),
        ("closeTimeout", { $0.closeTimeout = .seconds(-1) }), ("host", { $0.hostHeader = "" }),
        ("host", { $0.hostHeader = "a\r\nX: y" }), ("host", { $0.hostHeader = "münchen.de" }),
        ("host", { $0.hostHeader = "a b" }), ("path", { $0.path = "" }), ("path", { $0.path = "chat" }),
        ("path", { $0.path = "/a b" }), ("path", { $0.path = "/a HTTP/1.1\r\nX: y" }),
        ("path", { $0.path = "/a\0" }),
        ("host", { $0.hostHeader = "a\0" }), ("path", { $0.path = "/?a=\r\nX: y" }), ("path", { $0.path = "/?a=\0" }),
        ("origin", { $0.origin = "http://a\0" }), ("subprotocols", { $0.subprotocols = ["a\r\nX: y"] }),
        ("subprotocols", { $0.subprotocols = ["a\0"] }), ("path", { $0.path = "/ü" }), ("path", { $0.path = "/a#b" }),
        ("origin", { $0.origin = "http://a\nb" }),
        ("subprotocols", { $0.subprotocols = ["a b"] }), ("subprotocols", { $0.subprotocols = ["a", "a"] }),
        ("subprotocols", { $0.subprotocols = [""] }),
        ("headers", { $0.headers = [HTTPHeader(parsed: "Host", "x")] }),
        ("headers", { $0.headers = [HTTPHeader(parsed: "sec-websocket-key", "x")] }),
        ("headers", { $0.headers = Array(repeating: HTTPHeader(parsed: "authorization", "x"), count: 2) }),
        ("headers", { $0.headers = Array(repeating: HTTPHeader(parsed: "a", "x"), count: 91) }),
    ]

    @Test("A wrong value is rejected by its key when the core is created", arguments: wrongValues)
    func wrong(key: String, change: Change) {
        var configuration = WebSocketConfiguration()
        change(&configuration)
        for role in [CoreRole.client, .server] {
            #expect {
                try WebSocketCore(role, configuration)
            } throws: { error in
                let error = error as? TransportError
                return error?.code == .invalidConfiguration && error?.reason.hasPrefix(key) == true
            }
        }
    }

    @Test(
        "A header cannot carry further headers",
        arguments: [
            ("X", "a\r\nY: b"), ("X", "a\nb"), ("X", "a\0"), ("X\r\nY", "a"), ("X Y", "a"), ("", "a"), ("X:", "a"),
            ("X", " a"),
        ]
    )
    func injection(name: String, value: String) {
        #expect {
            try HTTPHeader(name, value)
        } throws: { error in
            (error as? TransportError)?.code == .invalidConfiguration
        }
    }

    @Test("The capabilities distinguish text from binary and give the configured size")
    func capabilities() throws {
        var configuration = WebSocketConfiguration()
        configuration.maximumMessageSize = 1000
        let capabilities = try WebSocketCore(.client, configuration).capabilities
        #expect(capabilities == Capabilities(distinguishesText: true, maximumMessageSize: 1000))
        #expect(capabilities.isReliable && capabilities.isOrdered && capabilities.hasNativePing)
    }
}
