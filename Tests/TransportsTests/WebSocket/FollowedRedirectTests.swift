import TestSupport
import Testing
import TransportAPI

@testable import Transports

@Suite("Redirects on real connections", .timeLimit(.minutes(5)), .ownThread)
struct FollowedRedirectTests {
    private let registry = TransportRegistry.standard

    /// The timeout is long enough for several connections on a busy machine.
    private func connect(_ url: String) async throws -> any Connection {
        try await registry.connect(url, timeout: .seconds(60))
    }

    private func redirect(_ location: String, _ status: Int = 302) -> RawServer.Answer {
        .http("HTTP/1.1 \(status) X\r\nLocation: \(location)\r\nContent-Length: 0\r\n\r\n")
    }

    @Test("A connection opens at the redirect's target, for absolute and relative references")
    func followed() async throws {
        let listener = try await registry.listen("ws://127.0.0.1:0/chat")
        let port = try #require(listener.endpoint.port)
        let server = try RawServer(redirect("next?a=b", 308), redirect("http://127.0.0.1:\(port)/chat"))
        let url = "ws://ann:x@127.0.0.1:\(server.port)/first/?redirects=2&header=Cookie:c&header=X-Other:o"
        let connection = try await connect(url)
        let accepted = try #require(try await listener.accept())
        #expect(await connection.send(Payload(text: "hi")) == .written)
        #expect(try await accepted.receive() == Payload(text: "hi"))
        let heads = server.heads
        #expect(heads.map { $0.prefix { $0 != "\r\n" } } == ["GET /first/ HTTP/1.1", "GET /first/next?a=b HTTP/1.1"])
        #expect(heads.allSatisfy { $0.contains("Authorization: Basic") && $0.contains("Cookie: c") })
        await connection.close()
        await listener.close()
        server.stop()
    }

    @Test("The headers of a configuration go to the same origin only, and do not return with a redirect back")
    func contextHeaders() async throws {
        let other = try RawServer()
        let server = try RawServer(
            redirect("/same"),
            redirect("//127.0.0.1:\(other.port)/"),
            .http("HTTP/1.1 404 X\r\n\r\n")
        )
        other.add(redirect("//127.0.0.1:\(server.port)/back"))
        let endpoint = try Endpoint("ws://127.0.0.1:\(server.port)/?redirects=3")
        let headers = [try HTTPHeader("Authorization", "Bearer t0ken")]
        let transport = try registry.transport(for: endpoint, in: ConnectionContext(headers: headers))
        let error = await #expect(throws: TransportError.self) {
            _ = try await transport.connect(timeout: .seconds(60))
        }
        #expect(error?.code == .notFound)
        #expect(server.heads.map { $0.contains("Bearer t0ken") } == [true, true, false])
        #expect(other.heads.map { $0.contains("Authorization") } == [false])
        other.stop()
        server.stop()
    }

    @Test("Another origin does not receive the credentials")
    func otherOrigin() async throws {
        let other = try RawServer(.http("HTTP/1.1 404 X\r\n\r\n"))
        let server = try RawServer(redirect("//127.0.0.1:\(other.port)/"))
        let url = "ws://ann:x@127.0.0.1:\(server.port)/?redirects=1&header=Cookie:c&header=X-Other:o"
        let error = await #expect(throws: TransportError.self) { _ = try await connect(url) }
        #expect(error?.code == .notFound)
        #expect(server.heads.count == 1 && other.heads.count == 1)
        #expect(other.heads.allSatisfy { !$0.contains("Authorization") && !$0.contains("Cookie") })
        #expect(
            other.heads.allSatisfy { !$0.contains("X-Other") && $0.contains("Host: 127.0.0.1:\(other.port)\r\n") }
        )
        other.stop()
        server.stop()
    }

    @Test(
        "A redirect loop ends at the limit, and no redirect is followed by default",
        arguments: [("", 1), ("?redirects=3", 4)]
    )
    func loop(options: String, requests: Int) async throws {
        let server = try RawServer(redirect(""))
        let error = await #expect(throws: TransportError.self) {
            _ = try await connect("ws://127.0.0.1:\(server.port)/\(options)")
        }
        #expect(error == .httpStatus(302) && error?.isRetryable == false)
        #expect(server.heads.count == requests)
        server.stop()
    }

    @Test("An unusable redirect address is reported as an error of the server and not of the configuration")
    func unusable() async throws {
        let server = try RawServer(redirect("//b%40c/"))
        let error = await #expect(throws: TransportError.self) {
            _ = try await connect("ws://127.0.0.1:\(server.port)/?redirects=3")
        }
        #expect(error?.code == .handshakeFailed && error?.detail == 302)
        server.stop()
    }
}
