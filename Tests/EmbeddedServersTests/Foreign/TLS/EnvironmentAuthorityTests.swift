import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests the variables of OpenSSL that name the authorities of a program, in place of those of the system.
@Suite(
    "The authorities in the environment of a program",
    .enabled(if: Peers.closeAndExit != nil && hasOpenSSL),
    .timeLimit(.minutes(5)),
    .ownThread
)
struct EnvironmentAuthorityTests {
    private let files: CertificateFiles

    init() throws {
        files = try CertificateFiles()
    }

    /// Starts a program with these variables that connects to a server, sends messages and closes. Returns its first
    /// line, which is 0 or an error.
    private func line(_ variables: [String]) async throws -> String {
        let program = try #require(Peers.closeAndExit)
        let listener = try await TransportRegistry.standard.listen("tls://127.0.0.1:0/?\(files.server())")
        let port = try #require(listener.endpoint.port)
        let removed = ["SSL_CERT_FILE", "SSL_CERT_DIR"].flatMap { ["-u", $0] }
        let words = removed + variables + [program, "tls://127.0.0.1:\(port)/", "100000"]
        let output = try await aside {
            let peer = try Peer("/usr/bin/env", words)
            return peer.line()
        }
        await listener.close()
        return try #require(output)
    }

    private func expectRefusal(_ variables: [String]) async throws {
        let line = try await line(variables)
        #expect(line.contains("is not trusted"), "\(variables): \(line)")
    }

    @Test("A client trusts the authority in the file of SSL_CERT_FILE")
    func file() async throws {
        try await expectRefusal([])
        try await expectRefusal(["SSL_CERT_FILE=\(files.otherAuthority)"])
        let line = try await line(["SSL_CERT_FILE=\(files.authority)"])
        #expect(line == "0")
    }

    @Test("A client trusts the authorities in the directory of SSL_CERT_DIR", .enabled(if: Peers.openssl != nil))
    func directory() async throws {
        let folder = try ScratchFolder()
        let variable = "SSL_CERT_DIR=\(folder.path)"
        try await expectRefusal([variable])
        let openssl = try #require(Peers.openssl)
        let authority = files.authority
        // OpenSSL finds a certificate by a name that is the hash of its subject.
        let hash = try await aside {
            let peer = try Peer(openssl, ["x509", "-hash", "-noout", "-in", authority])
            return try #require(peer.line())
        }
        _ = try folder.write("\(hash).0", try String(contentsOfFile: authority, encoding: .utf8))
        let line = try await line([variable])
        #expect(line == "0")
    }
}
