import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// Clients that a server knows by their certificates.
@Suite("Certificates of clients", .enabled(if: hasOpenSSL), .timeLimit(.minutes(5)), .ownThread)
struct ClientCertificateTests {
    private let authority: String
    private let server: ThrowAwayAuthority.Issued
    private let client: ThrowAwayAuthority.Issued

    init() throws {
        let authority = try ThrowAwayAuthority("Test authority")
        self.authority = authority.certificate
        server = try authority.issue(.init("localhost", names: ["IP:127.0.0.1"]))
        client = try authority.issue(.init("ann", names: ["DNS:phone.ann.example"]))
    }

    private var trusting: EndpointOptions { ["ca": authority] }
    private var asAnn: EndpointOptions { ["ca": authority, "certificate": client.certificate, "key": client.key] }

    private func host(
        _ scheme: String = "wss",
        _ choice: String = "required",
        decide: (@Sendable (ClientRequest) -> ClientDecision)? = nil
    ) async throws -> TLSHost {
        // With contexts of its own, because other tests make so many that the shared ones are forgotten.
        try await TLSHost(
            scheme,
            server,
            choice == "off" ? [:] : ["ca": authority, "client-certificates": choice],
            registry: .over(OpenSSL.shared),
            decide: decide
        )
    }

    @Test(
        "The identity of a connection is the common name of its client's certificate",
        arguments: TLSConnectionTests.schemes
    )
    func identity(scheme: String) async throws {
        let host = try await host(scheme)
        for round in 0..<2 {
            let (client, server) = try await host.pair(asAnn)
            #expect(server.identity == Identity("ann", claims: ["subject": "CN=ann"]))
            let encryption = try #require(server.encryption)
            #expect(encryption.isVerified)
            #expect(encryption.peer?.commonName == "ann" && encryption.peer?.names == ["DNS:phone.ann.example"])
            // A continued session has the certificate of the session.
            #expect(encryption.isResumed == (round == 1))
            #expect(client.identity == nil && client.encryption?.peer?.commonName == "localhost")
            // The ticket has come with the first message.
            #expect(await client.send(bytes("hello")).isSuccess)
            #expect(try await server.receive()?.string == "hello")
            if scheme == "tls" {
                #expect(await server.send(bytes("hello")).isSuccess)
                #expect(try await client.receive()?.string == "hello")
            }
            await client.close()
        }
        await host.stop()
    }

    @Test(
        "A connection without a certificate has no identity if a certificate is optional",
        arguments: TLSConnectionTests.schemes
    )
    func optional(scheme: String) async throws {
        let host = try await host(scheme, "optional")
        let (first, anonymous) = try await host.pair(trusting)
        #expect(anonymous.identity == nil)
        #expect(anonymous.encryption?.isVerified == false && anonymous.encryption?.peer == nil)
        await first.close()
        let (second, known) = try await host.pair(asAnn)
        #expect(known.identity?.name == "ann")
        #expect(known.encryption?.isVerified == true)
        await second.close()
        await host.stop()
    }

    @Test("A server that requests no certificates gets none")
    func off() async throws {
        let host = try await host("wss", "off")
        let (client, server) = try await host.pair(asAnn)
        #expect(server.identity == nil && server.encryption?.peer == nil)
        await client.close()
        await host.stop()
    }

    @Test("A proxy that requires a certificate of its client is named", arguments: ["1.2", "1.3"])
    func proxy(version: String) async throws {
        let proxy = try await TLSHost(
            "tls",
            server,
            ["ca": authority, "client-certificates": "required", "max-tls": version],
            registry: .over(OpenSSL.shared)
        )
        let port = try #require(proxy.port)
        let endpoint = tlsEndpoint(
            "wss",
            port: 1,
            ["ca": authority, "proxy": "https://127.0.0.1:\(port)", "proxy-ca": authority]
        )
        let error = await #expect(throws: TransportError.self) {
            try await TransportRegistry.over(OpenSSL.shared).connect(endpoint)
        }
        #expect(error?.reason == "the proxy requires a certificate of the client, which is not supported")
        #expect(error?.tlsProblem == .certificateRequired && error?.isRetryable == false)
        await proxy.stop()
    }

    @Test("The decision about a handshake sees the certificate and can replace the identity")
    func decision() async throws {
        let host = try await host("wss", "optional") { request in
            guard let certificate = request.clientCertificate else { return .refuse(status: 403) }
            return .acceptAs(Identity("user \(certificate.commonName ?? "")", claims: ["issuer": certificate.issuer]))
        }
        let (client, server) = try await host.pair(asAnn)
        #expect(server.identity == Identity("user ann", claims: ["issuer": "CN=Test authority"]))
        await client.close()
        let refused = try await host.refusal(trusting)
        #expect(refused.code == .forbidden && refused.phase == .handshake)
        await host.stop()
    }

    @Test("A decision that only accepts keeps the identity of the certificate")
    func acceptance() async throws {
        let host = try await host("wss", "required") { _ in .accept }
        let (client, server) = try await host.pair(asAnn)
        #expect(server.identity?.name == "ann")
        await client.close()
        await host.stop()
    }

    @Test("A certificate without a common name gives its subject as the identity")
    func withoutCommonName() async throws {
        let authority = try ThrowAwayAuthority("Test authority")
        let server = try authority.issue(.init("localhost", names: ["IP:127.0.0.1"]))
        let nameless = try authority.issue(.init("", names: ["DNS:phone.ann.example"]))
        let host = try await TLSHost(server, ["ca": authority.certificate, "client-certificates": "required"])
        let (client, accepted) = try await host.pair([
            "ca": authority.certificate, "certificate": nameless.certificate, "key": nameless.key,
        ])
        let identity = try #require(accepted.identity)
        #expect(identity.name == accepted.encryption?.peer?.subject)
        #expect(accepted.encryption?.peer?.commonName == nil)
        await client.close()
        await host.stop()
    }

    @Test("The names of a certificate are a list, of which each element has its kind")
    func names() async throws {
        let authority = try ThrowAwayAuthority("Test authority")
        let server = try authority.issue(.init("localhost", names: ["IP:127.0.0.1"]))
        let names = [
            "DNS:chatter.example", "IP:127.0.0.1", "IP:0:0:0:0:0:0:0:1", "email:ann@example.org",
            "URI:spiffe://example/chat",
        ]
        let own = try authority.issue(.init("ann", names: names))
        let host = try await TLSHost(server, ["ca": authority.certificate, "client-certificates": "required"])
        let (client, accepted) = try await host.pair([
            "ca": authority.certificate, "certificate": own.certificate, "key": own.key,
        ])
        let seen = try #require(accepted.encryption?.peer?.names)
        #expect(seen == names)
        #expect(!seen.contains("DNS:chat"))
        await client.close()
        await host.stop()
    }

    @Test("At most 64 names are read, and none of more than 255 bytes")
    func manyNames() async throws {
        let authority = try ThrowAwayAuthority("Test authority")
        let server = try authority.issue(.init("localhost", names: ["IP:127.0.0.1"]))
        let long = "URI:https://example.org/" + String(repeating: "x", count: 300)
        let own = try authority.issue(.init("ann", names: [long] + (0..<100).map { "DNS:h\($0).example" }))
        let host = try await TLSHost(server, ["ca": authority.certificate, "client-certificates": "required"])
        let (client, accepted) = try await host.pair([
            "ca": authority.certificate, "certificate": own.certificate, "key": own.key,
        ])
        #expect(accepted.encryption?.peer?.names == (0..<64).map { "DNS:h\($0).example" })
        await client.close()
        await host.stop()
    }

    @Test("A subject that is too long to be shown is no identity; the pin of the key is")
    func longSubject() {
        func certificate(_ subject: String) -> TLSCertificate {
            TLSCertificate(
                subject: subject,
                commonName: nil,
                names: [],
                issuer: "CN=a",
                validFrom: "",
                validTo: "",
                keyDigest: [UInt8](repeating: 7, count: 32)
            )
        }
        #expect(certificate("O=Example,OU=phones").identity.name == "O=Example,OU=phones")
        #expect(certificate("O=Example…").identity.name == "sha256/BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=")
    }
}
