import Foundation
import FoundationSupport
import Testing

@Suite("Values of Foundation")
struct ValueTests {
    @Test("A payload is made of data and gives its bytes as data")
    func data() {
        let payload = Payload(Data([1, 2, 3]), topic: "lunch", qos: .atLeastOnce)
        #expect(payload == Payload([1, 2, 3], topic: "lunch", qos: .atLeastOnce))
        #expect(payload.data == Data([1, 2, 3]))
        // A slice whose first index is not 0.
        #expect(Payload(Data([1, 2, 3]).dropFirst(), kind: .text).bytes == [2, 3])
    }

    @Test("An endpoint is made of a URL")
    func endpoint() throws {
        let url = try #require(URL(string: "wss://ann:secret@[::1]:8443/chat?ping-interval=20s"))
        let endpoint = try Endpoint(url)
        #expect(endpoint.host == "::1" && endpoint.port == 8443 && endpoint.password == "secret")
        #expect(endpoint.options == [.init(name: "ping-interval", value: "20s")])
        let server = try Endpoint(server: try #require(URL(string: "wss://chat.example/socket?token=abc")))
        #expect(server.options == [.init(name: "query", value: "token=abc")])
        let file = try #require(URL(string: "mailto:ann@chat.example"))
        let error = #expect(throws: TransportError.self) { try Endpoint(file) }
        #expect(error?.code == .invalidConfiguration && error.map { "\($0)" }?.contains("ann") == false)
    }

    @Test("The URL of an endpoint has no secrets")
    func secrets() throws {
        let endpoint = try Endpoint(
            "wss://ann:secret@chat.example/a?header=Authorization:%20Bearer%20secret&deflate=on"
        )
        #expect(endpoint.url?.absoluteString == "wss://chat.example/a?header=Authorization&deflate=on")
        #expect(try Endpoint("tcp://[fe80::1%25eth0]:9400").url != nil)
    }

    @Test("A date of a chat message has whole milliseconds, and saturates")
    func date() {
        var message = ChatMessage()
        message.sentAt = Date(timeIntervalSince1970: 1_767_225_600.25)
        #expect(message.sentAtMs == 1_767_225_600_250)
        #expect(message.sentAt == Date(timeIntervalSince1970: 1_767_225_600.25))
        message.sentAt = Date(timeIntervalSince1970: .infinity)
        #expect(message.sentAtMs == .max)
        message.sentAt = Date(timeIntervalSince1970: -1e300)
        #expect(message.sentAtMs == .min)
    }
}
