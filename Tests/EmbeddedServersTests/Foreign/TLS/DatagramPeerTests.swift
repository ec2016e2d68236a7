import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports
import TrialCertificates

/// The tool of OpenSSL as the other side of DTLS.
@Suite(
    "OpenSSL's tool over DTLS",
    .enabled(if: Peers.openssl != nil && hasOpenSSL),
    .serialized,
    .timeLimit(.minutes(5)),
    .ownThread
)
struct DatagramPeerTests {
    private struct Files {
        let folder = Result { try ScratchFolder() }
        let authority: String
        let certificate: String
        let key: String

        init() throws {
            let folder = try folder.get()
            let authority = try ThrowAwayAuthority("Test authority")
            let issued = try authority.issue(.init("localhost", names: ["IP:127.0.0.1"]))
            self.authority = try folder.write("ca.pem", authority.certificate)
            certificate = try folder.write("server.pem", issued.certificate)
            key = try folder.write("server.key", issued.key)
        }
    }

    @Test("A client exchanges plain datagrams with s_server", arguments: [false, true])
    func server(hasCookies: Bool) async throws {
        let files = try Files()
        let reserved = try ReservedPort(isDatagram: true)
        let port = reserved.port
        let arguments = [
            "s_server", "-dtls1_2", "-accept", "127.0.0.1:\(port)", "-cert", files.certificate, "-key", files.key,
        ]
        let listening = hasCookies ? ["-listen"] : []
        let peer = try Peer(try #require(Peers.openssl), arguments + listening)
        #expect(try await aside { peer.wait(for: "ACCEPT") })
        let endpoint = "dtls://127.0.0.1:\(port)?plain=on&ca=\(files.authority)"
        let client = try await TransportRegistry.standard.connect(endpoint)
        #expect(client.encryption?.version == "DTLSv1.2" && client.encryption?.isVerified == true)
        #expect(await client.send(Payload(text: "to the tool\n")).isSuccess)
        #expect(try await aside { peer.wait(for: "to the tool") })
        try await aside { try peer.write("from the tool\n") }
        #expect(try await client.receive()?.bytes == Array("from the tool\n".utf8))
        await client.close()
        try await aside { peer.destroy() }
        withExtendedLifetime(reserved) {}
    }

    @Test("s_client exchanges plain datagrams with a server")
    func client() async throws {
        let files = try Files()
        let listener = try await TransportRegistry.standard.listen(
            "dtls://127.0.0.1:0?plain=on&certificate=\(files.certificate)&key=\(files.key)"
        )
        let port = try #require(listener.endpoint.port)
        let peer = try Peer(
            try #require(Peers.openssl),
            [
                "s_client", "-dtls1_2", "-connect", "127.0.0.1:\(port)", "-CAfile", files.authority,
                "-verify_return_error", "-verify_ip", "127.0.0.1", "-quiet",
            ]
        )
        try await aside { try peer.write("to the server\n") }
        let server = try #require(try await listener.accept())
        #expect(server.encryption?.version == "DTLSv1.2")
        #expect(try await server.receive()?.bytes == Array("to the server\n".utf8))
        #expect(await server.send(Payload(text: "from the server\n")).isSuccess)
        #expect(try await aside { peer.wait(for: "from the server") })
        // Without sessions, only close_notify ends the connection.
        await server.close()
        #expect(try await aside { try peer.finish() } == 0)
        await listener.close()
    }
}
