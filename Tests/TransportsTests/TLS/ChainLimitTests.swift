import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// The limits on the certificates of a peer, which are in force before it is known.
@Suite("Limits of certificate chains", .enabled(if: hasOpenSSL), .timeLimit(.minutes(5)), .ownThread)
struct ChainLimitTests {
    static let versions = [("tls", "1.2"), ("tls", "1.3"), ("dtls", "1.2")]

    private let authority: ThrowAwayAuthority
    private let server: ThrowAwayAuthority.Issued
    private let client: ThrowAwayAuthority.Issued

    init() throws {
        authority = try ThrowAwayAuthority("Test authority")
        server = try authority.issue(.init("localhost", names: ["IP:127.0.0.1"]))
        client = try authority.issue(.init("ann"))
    }

    /// Certificates of another authority.
    private func foreign(_ count: Int, names: [String] = []) throws -> [String] {
        let other = try ThrowAwayAuthority("Another authority")
        return try (0..<count).map { try other.issue(.init("foreign \($0)", names: names)).certificate }
    }

    /// About 2.2 kB in a certificate.
    private static let longNames = (0..<10).map { "DNS:" + String(repeating: "x", count: 200) + "\($0).example" }

    private func host(_ scheme: String, chain: [String] = []) async throws -> TLSHost {
        let options: EndpointOptions = ["ca": authority.certificate, "client-certificates": "required"]
        return try await TLSHost(scheme, server, chain: chain, options, registry: .over(OpenSSL.shared))
    }

    private func options(_ version: String, chain: [String] = []) -> EndpointOptions {
        [
            "ca": authority.certificate, "certificate": ([client.certificate] + chain).joined(), "key": client.key,
            "max-tls": version,
        ]
    }

    @Test("A server refuses a client that sends more than three certificates", arguments: versions)
    func manyOfClient(scheme: String, version: String) async throws {
        let host = try await host(scheme)
        let foreign = try foreign(3)
        let (accepted, _) = try await host.pair(options(version, chain: Array(foreign.dropLast())))
        await accepted.close()
        _ = try await host.refusal(options(version, chain: foreign))
        let error = try await host.events.firstError()
        #expect(error.tlsProblem == .invalidCertificate, "\(error)")
        #expect(error.reason.contains("the client has sent 4 certificates; at most 3 are accepted"), "\(error)")
        await host.stop()
    }

    @Test("A client refuses a server that sends more than ten certificates", arguments: versions)
    func manyOfServer(scheme: String, version: String) async throws {
        let foreign = try foreign(10)
        let usual = try await host(scheme, chain: Array(foreign.dropLast()))
        let (accepted, _) = try await usual.pair(options(version))
        await accepted.close()
        await usual.stop()
        let host = try await host(scheme, chain: foreign)
        let error = await #expect(throws: TransportError.self) { try await host.connect(options(version)) }
        #expect(error?.tlsProblem == .invalidCertificate, "\(String(describing: error))")
        #expect(error?.reason.contains("the server has sent 11 certificates; at most 10 are accepted") == true)
        await host.stop()
    }

    @Test("Neither side accepts certificates of more than 18 KiB", arguments: versions)
    func long(scheme: String, version: String) async throws {
        let foreign = try foreign(9, names: Self.longNames)
        let host = try await host(scheme)
        // About 20 kB.
        _ = try await host.refusal(options(version, chain: foreign))
        let error = try await host.events.firstError()
        #expect(error.tlsProblem == .brokenRecord, "\(error)")
        // For datagrams, OpenSSL gives no reason.
        #expect(error.reason.contains("18 KiB") || scheme == "dtls", "\(error)")
        await host.stop()
        // About 15 kB, and then 20 kB.
        let usual = try await self.host(scheme, chain: Array(foreign.prefix(6)))
        let (accepted, _) = try await usual.pair(options(version))
        await accepted.close()
        await usual.stop()
        let other = try await self.host(scheme, chain: foreign)
        let refusal = await #expect(throws: TransportError.self) { try await other.connect(options(version)) }
        #expect(refusal?.tlsProblem == .brokenRecord, "\(String(describing: refusal))")
        await other.stop()
    }
}
