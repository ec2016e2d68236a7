import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests `wss` with Python's websockets. The script is `Support/websocket_tls.py`.
@Suite(
    "Python's websockets over TLS",
    .peer(Peers.webSockets),
    .enabled(if: hasOpenSSL),
    .serialized,
    .timeLimit(.minutes(5)),
    .ownThread
)
struct WebSocketTLSTests {
    private let registry = TransportRegistry.standard
    private let files: CertificateFiles

    init() throws {
        files = try CertificateFiles()
    }

    @Test(
        "A server returns every message of our client, and both sides can close",
        arguments: TLSVersion.allCases,
        ["off", "on"]
    )
    func client(version: TLSVersion, deflate: String) async throws {
        let python = try #require(Peers.pythonWithWebSockets)
        let (server, port) = try await aside { [files] in
            let script = ["\(Foreign.support)/websocket_tls.py", "server", version.rawValue]
            let server = try Peer(python, script + [files.server.certificate, files.server.key])
            return (server, try #require(server.line()?.split(separator: " ").last))
        }
        let url = "wss://127.0.0.1:\(port)/chat?deflate=\(deflate)&\(files.client())"
        let connection = try await registry.connect(url)
        #expect(connection.encryption?.version == version.rawValue)
        let large = Payload(longBytes(1 << 20))
        for payload in [Payload(text: "Grüße 👋"), Payload([0, 255, 1]), Payload([]), large] {
            #expect(await connection.send(payload) == .written)
            #expect(try await connection.receive() == payload)
        }
        #expect(try await connection.ping() > .zero)
        let left = await connection.close(CloseReason(.user, code: 4001, text: "by the client"))
        #expect(left == 0)
        #expect(try await aside { server.line() } == "\(version.rawValue) 4001 by the client")

        let closing = try await registry.connect(url)
        #expect(await closing.send(Payload(text: "close")) == .written)
        let reason = await closing.closed()
        #expect(reason.initiator == .peer && reason.code == 4002 && reason.text == "by the server", "\(reason)")
        // Our client answers a close frame with its code and without its text.
        let line = try await aside { server.line() }
        #expect(line == "\(version.rawValue) 4002 ")

        for wrong in ["ca=\(files.otherAuthority)", "\(files.client())&server-name=chat.example"] {
            let error = await #expect(throws: TransportError.self) {
                try await registry.connect("wss://127.0.0.1:\(port)/?\(wrong)")
            }
            #expect(error?.code == .certificateRejected, "\(error)")
        }
    }

    @Test(
        "A client receives every message back from our server, and both sides can close",
        arguments: TLSVersion.allCases,
        ["off", "on"]
    )
    func server(version: TLSVersion, deflate: String) async throws {
        let listener = try await registry.listen("wss://127.0.0.1:0/?deflate=\(deflate)&\(files.server())")
        let port = try #require(listener.endpoint.port)
        async let output = Foreign.run(
            "websocket_tls.py",
            with: Peers.pythonWithWebSockets,
            ["client", version.rawValue, "wss://127.0.0.1:\(port)/", files.authority]
        )
        let first = try #require(try await listener.accept())
        #expect(first.encryption?.version == version.rawValue)
        while let message = try? await first.receive() { #expect(await first.send(message) == .written) }
        let reason = await first.closed()
        #expect(reason.initiator == .peer && reason.code == 4001 && reason.text == "by the client", "\(reason)")

        let second = try #require(try await listener.accept())
        #expect(try await second.text() == "close")
        #expect(await second.close(CloseReason(.user, code: 4002, text: "by the server")) == 0)
        #expect(try await output == ["ok"])
        await listener.close()
    }
}
