import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

@Suite("WebSocket options of URLs")
struct WebSocketOptionsTests {
    static let wrongEndpoints: [(key: String, change: @Sendable (inout Endpoint) -> Void)] = [
        ("host", { $0.host = "a\r\nX: y" }), ("host", { $0.host = "a\0.example" }),
        ("host", { $0.host = "::1%a\n" }),
        ("path", { $0.path = "/a\r\nX: y" }), ("path", { $0.path = "/\0" }),
        ("path", { $0.options = [.init(name: "query", value: "a\r\nX: y")] }),
        ("headers", { $0.options = [.init(name: "header", value: "X:a\r\nY: b")] }),
        ("subprotocols", { $0.options = [.init(name: "subprotocol", value: "a\nb")] }),
        ("origin", { $0.options = [.init(name: "origin", value: "http://a\nX: y")] }),
        ("user", { ($0.user, $0.password) = ("a", "b\r\n") }),
        ("max-head", { $0.options = [.init(name: "max-head", value: "255")] }),
        ("max-headers", { $0.options = [.init(name: "max-headers", value: "9")] }),
    ]

    @Test("No part of an endpoint can inject other text into the handshake", arguments: wrongEndpoints)
    func endpoints(key: String, change: @Sendable (inout Endpoint) -> Void) {
        var endpoint = Endpoint(scheme: "ws", host: "127.0.0.1")
        change(&endpoint)
        #expect(refusedKey { try TransportRegistry.standard.transport(for: endpoint) } == key)
    }

    @Test("The error of a query that cannot be sent does not show it")
    func secretQuery() {
        let endpoint = Endpoint(
            scheme: "ws",
            host: "h",
            path: "/p",
            options: [.init(name: "query", value: "t=hunter2 ")]
        )
        let error = #expect(throws: TransportError.self) { try TransportRegistry.standard.transport(for: endpoint) }
        #expect(error?.reason.contains("/p") == true && error?.description.contains("hunter2") == false)
    }

    @Test("The options of a URL reach the core, and user and password become Basic credentials")
    func options() throws {
        let url = "ws://Aladdin:open%20sesame@h:81/p?query=a%3Db&max-head=300&max-headers=10&header=X:y&subprotocol=s"
        let recipe = try #require(try TransportRegistry.standard.transport(for: Endpoint(url)) as? StreamTransport)
        let configuration = try #require(recipe.makeCore() as? WebSocketCore).configuration
        #expect(configuration.hostHeader == "h:81" && configuration.path == "/p?a=b")
        #expect(configuration.maximumHeaderBytes == 300 && configuration.maximumHeaderCount == 10)
        #expect(configuration.headers.values("X") == ["y"] && configuration.subprotocols == ["s"])
        #expect(configuration.headers.values("Authorization") == ["Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="])
    }
}
