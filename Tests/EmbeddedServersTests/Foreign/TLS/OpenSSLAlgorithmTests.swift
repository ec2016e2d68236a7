import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports
import TrialCertificates

/// The ciphers, groups and signatures that both sides accept of `openssl s_client` and `openssl s_server`.
@Suite(
    "The algorithms that a peer may choose",
    .enabled(if: Peers.openssl != nil && hasOpenSSL),
    .serialized,
    .timeLimit(.minutes(5)),
    .ownThread
)
struct OpenSSLAlgorithmTests {
    private let folder: ScratchFolder
    private let authority: String
    private let certificate: String
    private let key: String

    /// With an RSA key, because static RSA key transport needs one.
    init() throws {
        folder = try ScratchFolder()
        let authority = try ThrowAwayAuthority("Authority of the tests")
        var request = ThrowAwayAuthority.Request("localhost", names: ["DNS:localhost", "IP:127.0.0.1"])
        request.key = .rsa(2048)
        let server = try authority.issue(request)
        self.authority = try folder.write("authority.pem", authority.certificate)
        certificate = try folder.write("server.pem", server.certificate)
        key = try folder.write("server.key", server.key)
    }

    /// Connects the client of the openssl command, and waits for what it prints.
    private func client(_ options: [String], prints text: String) async throws {
        let listener = try await TransportRegistry.standard.listen(
            "tls://127.0.0.1:0/?certificate=\(certificate)&key=\(key)"
        )
        let port = try #require(listener.endpoint.port)
        let words = ["s_client", "-connect", "127.0.0.1:\(port)", "-CAfile", authority] + options
        let client = try Peer(try #require(Peers.openssl), words)
        let hasPrinted = try await aside { client.wait(for: text) }
        #expect(hasPrinted, "'\(text)' did not come with \(options.joined(separator: " "))")
        await listener.close()
    }

    /// Connects to a server of the openssl command. Returns the error, or `nil` if the connection opens.
    private func refusal(of options: [String], certificate: String, key: String, authority: String) async throws
        -> TransportError?
    {
        let words = ["s_server", "-accept", "127.0.0.1:0", "-cert", certificate, "-key", key] + options
        let (server, port) = try await aside {
            let peer = try Peer("/usr/bin/stdbuf", ["-oL", try #require(Peers.openssl)] + words)
            while let line = peer.line() {
                if line.hasPrefix("ACCEPT"), let port = line.split(separator: ":").last { return (peer, String(port)) }
            }
            return try #require(nil as (Peer, String)?)
        }
        defer { withExtendedLifetime(server) {} }
        do throws(TransportError) {
            let connection = try await TransportRegistry.standard.connect(
                "tls://127.0.0.1:\(port)/?framing=u32&ca=\(authority)"
            )
            await connection.close()
            return nil
        } catch {
            return error
        }
    }

    private func refusal(of options: [String]) async throws -> TransportError? {
        try await refusal(of: options, certificate: certificate, key: key, authority: authority)
    }

    // MARK: Ciphers of TLS 1.2

    /// RSA key transport, CBC with a MAC, finite fields, and a short tag.
    private static let oldCiphers = [
        "AES128-SHA", "AES256-SHA256", "AES128-GCM-SHA256", "ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES256-SHA384",
        "DHE-RSA-AES128-GCM-SHA256", "DHE-RSA-CHACHA20-POLY1305",
    ]
    private static let goodCiphers = [
        "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305",
    ]

    @Test("A server refuses ciphers without forward secrecy or authenticated encryption", arguments: oldCiphers)
    func oldCipherOfClient(cipher: String) async throws {
        try await client(["-tls1_2", "-cipher", cipher], prints: "alert handshake failure")
    }

    @Test("A server accepts ECDHE with authenticated encryption", arguments: goodCiphers)
    func goodCipherOfClient(cipher: String) async throws {
        try await client(["-tls1_2", "-cipher", cipher], prints: "Cipher is \(cipher)")
    }

    @Test("A client refuses a server that has only old ciphers", arguments: oldCiphers)
    func oldCipherOfServer(cipher: String) async throws {
        let error = try await refusal(of: ["-tls1_2", "-cipher", cipher])
        #expect(error?.tlsProblem == .noCommonAlgorithm, "\(String(describing: error))")
    }

    @Test("A client accepts ECDHE with authenticated encryption", arguments: goodCiphers)
    func goodCipherOfServer(cipher: String) async throws {
        #expect(try await refusal(of: ["-tls1_2", "-cipher", cipher]) == nil)
    }

    // MARK: Groups

    /// Groups whose key exchange costs the other side more than that of P-256, from a fifth of a millisecond to 160 ms.
    private static let expensiveGroups = ["ffdhe2048", "ffdhe4096", "ffdhe8192", "X448", "P-521"]

    @Test("A server refuses expensive groups", arguments: expensiveGroups + ["P-384"])
    func expensiveGroupOfClient(group: String) async throws {
        try await client(["-tls1_3", "-groups", group], prints: "alert handshake failure")
    }

    @Test("A server uses X25519 and P-256, also if a client prefers expensive groups", arguments: TLSVersion.allCases)
    func cheapGroups(version: TLSVersion) async throws {
        let chosen = ["X25519": "X25519", "P-256": "ECDH, prime256v1", "P-521:P-384:P-256": "ECDH, prime256v1"]
        for (groups, name) in chosen {
            try await client([version.option, "-groups", groups], prints: "Server Temp Key: \(name)")
        }
    }

    @Test("A client refuses a server that has only expensive groups", arguments: expensiveGroups)
    func expensiveGroupOfServer(group: String) async throws {
        let error = try await refusal(of: ["-tls1_3", "-groups", group])
        #expect(error?.tlsProblem == .noCommonAlgorithm, "\(String(describing: error))")
    }

    @Test("A client connects to servers that need P-384, with each version", arguments: TLSVersion.allCases)
    func ownKeyOnP384(version: TLSVersion) async throws {
        #expect(try await refusal(of: [version.option, "-groups", "P-384"]) == nil)
        let (certificate, key) = ("\(folder.path)/own.pem", "\(folder.path)/own.key")
        let words =
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384", "-nodes", "-subj",
                "/CN=localhost",
            ]
            + ["-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-out", certificate, "-keyout", key]
        #expect(try await aside { try Peer(try #require(Peers.openssl), words).finish() } == 0)
        let error = try await refusal(of: [version.option], certificate: certificate, key: key, authority: certificate)
        #expect(error == nil)
    }
}
