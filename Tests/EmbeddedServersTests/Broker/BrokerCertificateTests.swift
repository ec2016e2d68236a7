import EmbeddedServers
import TestSupport
import Testing
import TransportAPI
import Transports

/// Clients of a broker that has asked for their certificates.
@Suite("Certificates of a broker's clients", .enabled(if: hasOpenSSL), .timeLimit(.minutes(5)), .ownThread)
struct BrokerCertificateTests {
    @Test("The decision about a client sees its certificate", arguments: ["mqtts", "mqtt+wss"])
    func authentication(scheme: String) async throws {
        let files = try CertificateFiles()
        let broker = try await EmbeddedServer.startBroker(
            "\(scheme)://127.0.0.1:0/?\(files.server(requiresCertificate: true))",
            authenticate: { credentials in
                credentials.clientID == credentials.certificate?.commonName ? .accept : .refuseIdentifier
            }
        )
        let port = try #require(broker.endpoint.port)
        func url(_ name: String) -> String {
            "\(scheme)://127.0.0.1:\(port)/?client-id=\(name)&\(files.client(files.ann))"
        }
        let connection = try await TransportRegistry.standard.connect(url("ann"))
        await connection.close()
        let error = await #expect(throws: TransportError.self) {
            try await TransportRegistry.standard.connect(url("bob"))
        }
        #expect(error?.phase == .handshake && error?.isRetryable == false, "\(error)")
        await broker.stop()
    }
}
