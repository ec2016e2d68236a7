import EmbeddedServers
import TestSupport
import Testing
import TransportAPI
import Transports

@Suite("Admission by the owner of a server", .timeLimit(.minutes(5)), .ownThread)
struct AdmissionTests {
    @Test(
        "A WebSocket server accepts the handshakes that its owner accepts, and refuses others with the owner's status"
    )
    func decide() async throws {
        let server = try await EmbeddedServer.start(
            "ws://127.0.0.1:0",
            decide: { request in
                request.header("Authorization") == "Bearer good" ? .accept : .refuse(status: 401)
            }
        )
        let port = try #require(server.endpoint.port)
        let url = "ws://127.0.0.1:\(port)/?header=Authorization:Bearer%20"
        let error = await #expect(throws: TransportError.self) {
            try await TransportRegistry.standard.connect("\(url)bad")
        }
        #expect(error?.code == .authenticationFailed && error?.detail == 401)
        let connection = try await TransportRegistry.standard.connect("\(url)good")
        #expect(await connection.send(Payload(text: "1")).isSuccess)
        #expect(try await connection.receive()?.bytes == Array("1".utf8))
        await connection.close()
        await server.stop()
    }

    @Test("A server without WebSocket handshakes refuses a `decide` closure", arguments: ["tcp", "mqtt", "udp"])
    func nothingToDecide(scheme: String) async throws {
        let error = await #expect(throws: TransportError.self) {
            try await EmbeddedServer.start("\(scheme)://127.0.0.1:0", decide: { _ in .accept })
        }
        #expect(error?.code == .unsupported)
    }

    @Test("The printed form of credentials does not show the password")
    func printed() {
        let credentials = BrokerCredentials(clientID: "c", user: "ann", password: Array("secret".utf8), peer: "p")
        var dumped = ""
        dump(credentials, to: &dumped)
        for text in ["\(credentials)", String(reflecting: credentials), dumped] {
            #expect(text.contains("ann") && !text.contains("secret"))
        }
        // The bytes of an array are dumped as numbers.
        #expect(!dumped.contains("115"))
        #expect(credentials.match(user: "ann", password: "secret"))
        for (user, password) in [("bob", "secret"), ("ann", "secreT"), ("ann", "secret1"), ("ann", "")] {
            #expect(!credentials.match(user: user, password: password))
        }
        #expect(!BrokerCredentials(clientID: "c", user: "ann").match(user: "ann", password: ""))
    }
}
