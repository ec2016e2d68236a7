import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// Each reason why a client does not accept the certificate of a server, as an app sees it.
@Suite("Certificates that a client refuses", .enabled(if: hasOpenSSL), .timeLimit(.minutes(5)), .ownThread)
struct CertificateProblemTests {
    private static let host = "chat.example"

    private func authority(_ name: String = "Test authority") throws -> ThrowAwayAuthority {
        try ThrowAwayAuthority(name)
    }

    private func request(_ adjust: (inout ThrowAwayAuthority.Request) -> Void = { _ in }) -> ThrowAwayAuthority.Request
    {
        var request = ThrowAwayAuthority.Request(Self.host, names: ["DNS:\(Self.host)"])
        adjust(&request)
        return request
    }

    /// Checks that the client refuses the server for this reason, and that the server learns that it was refused.
    private func expectRefusal(
        _ host: TLSHost,
        _ options: EndpointOptions,
        name: String? = CertificateProblemTests.host,
        _ problem: TLSProblem,
        _ parts: String...,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let error = try await host.refusal(options + (name.map { ["server-name": $0] } ?? [:]))
        #expect(error.tlsProblem == problem, "\(error)", sourceLocation: sourceLocation)
        #expect(
            error.code == .certificateRejected && error.phase == .secure,
            "\(error)",
            sourceLocation: sourceLocation
        )
        #expect(error.isRetryable == (problem == .notYetValid), "\(error)", sourceLocation: sourceLocation)
        for part in parts { #expect(error.reason.contains(part), "\(error)", sourceLocation: sourceLocation) }
        let seen = try await host.events.firstError()
        #expect(seen.tlsProblem == .certificateRefused, "\(seen)", sourceLocation: sourceLocation)
        #expect(seen.code == .authenticationFailed && seen.phase == .secure, "\(seen)", sourceLocation: sourceLocation)
        await host.stop()
    }

    private static let facts = "(subject 'CN=chat.example', issuer 'CN=Test authority', valid from 2"

    // MARK: Time

    @Test("A certificate that has expired is refused", arguments: TLSConnectionTests.schemes + ["dtls"])
    func expired(scheme: String) async throws {
        let authority = try authority()
        let host = try await TLSHost(scheme, try authority.issue(request { ($0.from, $0.to) = (-7200, -3600) }))
        let error = try await host.refusal(["ca": authority.certificate, "server-name": Self.host])
        #expect(error.reason.contains(/certificate of chat.example expired on \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/))
        #expect(
            error.reason.contains(/valid from \d{4}-\d\d-\d\d \d\d:\d\d:\d\d to \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\)/)
        )
        try await expectRefusal(host, ["ca": authority.certificate], .expired, Self.facts)
    }

    @Test("A certificate that is not valid yet is refused, and a supervisor tries again")
    func notYetValid() async throws {
        let authority = try authority()
        let host = try await TLSHost(try authority.issue(request { ($0.from, $0.to) = (3600, 7200) }))
        var configuration = SupervisorConfiguration()
        configuration.backoff = .fixed(.seconds(3600))
        let endpoint = tlsEndpoint("wss", port: host.port, ["ca": authority.certificate, "server-name": Self.host])
        let (supervisor, recorder) = try Supervisor.recorded([endpoint], configuration)
        supervisor.connect()
        await recorder.wait { $0.contains { if case .state(.waiting) = $0 { true } else { false } } }
        await supervisor.close()
        try await expectRefusal(
            host,
            ["ca": authority.certificate],
            .notYetValid,
            "is not valid before 2",
            "check the clock of this machine",
            Self.facts
        )
    }

    @Test("A supervisor does not try again after another problem of a certificate")
    func notRetried() async throws {
        let authority = try authority()
        let host = try await TLSHost(try authority.issue(request()))
        let (supervisor, recorder) = try Supervisor.recorded([tlsEndpoint("wss", port: host.port)])
        supervisor.connect()
        await recorder.wait { $0.contains { if case .state(.closed) = $0 { true } else { false } } }
        #expect(
            recorder.states.contains {
                if case .closed(let reason) = $0 { reason.error?.code == .certificateRejected } else { false }
            }
        )
        await host.stop()
    }

    // MARK: Names

    @Test("A certificate for another name is refused, and the sentence has its names")
    func wrongHost() async throws {
        let authority = try authority()
        let host = try await TLSHost(
            try authority.issue(.init("chat.example", names: ["DNS:mail.example", "DNS:www.example"]))
        )
        try await expectRefusal(
            host,
            ["ca": authority.certificate],
            .wrongHost,
            "not for chat.example, but for DNS:mail.example, DNS:www.example",
            Self.facts
        )
    }

    @Test("The common name of a certificate does not count")
    func commonName() async throws {
        let authority = try authority()
        let host = try await TLSHost(try authority.issue(.init("chat.example")))
        try await expectRefusal(
            host,
            ["ca": authority.certificate],
            .wrongHost,
            "but for no name",
            "the common name does not count",
            Self.facts
        )
    }

    @Test(
        "A wildcard stands for one whole label only",
        arguments: [
            ("*.chat.example", "a.chat.example", true), ("f*.chat.example", "foo.chat.example", false),
            ("*o.chat.example", "foo.chat.example", false), ("*.chat.example", "a.b.chat.example", false),
            ("*.chat.example", "chat.example", false), ("*.chat.example", "A.Chat.Example", true),
            ("chat.example", "chat.example.", true), ("*.example", "chat.example", false), ("*", "example", false),
        ]
    )
    func wildcard(pattern: String, name: String, isAccepted: Bool) async throws {
        let authority = try authority()
        let host = try await TLSHost(try authority.issue(.init("chat.example", names: ["DNS:\(pattern)"])))
        guard isAccepted else {
            return try await expectRefusal(host, ["ca": authority.certificate], name: name, .wrongHost, name, pattern)
        }
        let (client, server) = try await host.pair(["ca": authority.certificate, "server-name": name])
        #expect(client.encryption?.isVerified == true && server.encryption != nil)
        await client.close()
        await host.stop()
    }

    @Test(
        "An address in the URL must be in the certificate as an address",
        arguments: [["DNS:localhost"], ["IP:127.0.0.2"], ["DNS:127.0.0.1"], []]
    )
    func wrongAddress(names: [String]) async throws {
        let authority = try authority()
        let host = try await TLSHost(try authority.issue(.init("127.0.0.1", names: names)))
        let seen = names.first ?? "no name"
        try await expectRefusal(
            host,
            ["ca": authority.certificate],
            name: nil,
            .wrongAddress,
            "not for the address 127.0.0.1, but for \(seen)",
            "subject 'CN=127.0.0.1'"
        )
    }

    @Test("An address in the certificate is accepted", arguments: ["127.0.0.1", "::1"])
    func address(name: String) async throws {
        let authority = try authority()
        let names = ["IP:127.0.0.1", "IP:0:0:0:0:0:0:0:1"]
        let host = try await TLSHost(try authority.issue(.init("host", names: names)))
        let (client, _) = try await host.pair(["ca": authority.certificate, "server-name": name])
        #expect(client.encryption?.peer?.names.contains("IP:127.0.0.1") == true)
        await client.close()
        await host.stop()
    }

    // MARK: The chain

    @Test("A certificate of an unknown authority is refused")
    func unknownIssuer() async throws {
        let (known, other) = (try authority("Known authority"), try authority())
        let host = try await TLSHost(try other.issue(request()))
        try await expectRefusal(
            host,
            ["ca": known.certificate],
            .unknownIssuer,
            "the issuer of the certificate of chat.example, 'CN=Test authority', is not trusted",
            Self.facts
        )
    }

    @Test("An authority with the name of a known one, and another key, is not known")
    func forgedAuthority() async throws {
        let (known, forged) = (try authority(), try authority())
        let host = try await TLSHost(try forged.issue(request()))
        let error = try await host.refusal(["ca": known.certificate, "server-name": Self.host])
        #expect(error.code == .certificateRejected && !error.isRetryable)
        #expect([TLSProblem.unknownIssuer, .invalidCertificate].contains { $0 == error.tlsProblem }, "\(error)")
        #expect(error.reason.contains(Self.facts))
        await host.stop()
    }

    @Test("The authorities of the system do not include one of a test")
    func systemAuthorities() async throws {
        let host = try await TLSHost(try authority().issue(request()))
        try await expectRefusal(host, [:], .unknownIssuer, "name the file of its authority with ca")
    }

    @Test("A certificate that has signed itself is refused, unless it is trusted itself")
    func selfSigned() async throws {
        let issued = try ThrowAwayAuthority.selfSigned(request())
        let host = try await TLSHost(issued)
        let (client, _) = try await host.pair(["ca": issued.certificate, "server-name": Self.host])
        await client.close()
        try await expectRefusal(
            host,
            ["ca": try authority().certificate],
            .selfSigned,
            "the certificate of chat.example has signed itself and is not trusted",
            "issuer 'CN=chat.example'"
        )
    }

    @Test("An unknown authority that the server sends is refused")
    func selfSignedAuthority() async throws {
        let authority = try authority()
        let host = try await TLSHost(try authority.issue(request()), chain: [authority.certificate])
        try await expectRefusal(
            host,
            ["ca": try self.authority("Known authority").certificate],
            .selfSigned,
            "the authority in the chain of chat.example is not trusted",
            "subject 'CN=Test authority', issuer 'CN=Test authority'"
        )
    }

    @Test("A server that does not send the certificate of its issuer is refused with that reason")
    func incompleteChain() async throws {
        let root = try authority("Root")
        let middle = try ThrowAwayAuthority("Test authority", under: root)
        let issued = try middle.issue(request { $0.namesIssuerFile = true })
        let whole = try await TLSHost(issued, chain: [middle.certificate])
        let (client, _) = try await whole.pair(["ca": root.certificate, "server-name": Self.host])
        await client.close()
        await whole.stop()
        let host = try await TLSHost(issued)
        try await expectRefusal(
            host,
            ["ca": root.certificate],
            .incompleteChain,
            "sent without the certificate of its issuer 'CN=Test authority': the peer must send its whole chain",
            Self.facts
        )
    }

    @Test("A certificate that an end entity has issued is refused")
    func issuedByLeaf() async throws {
        // The authority in the middle is none: a leaf with its name is sent in its place.
        let root = try authority("Root")
        let middle = try ThrowAwayAuthority("Middle", under: root)
        let issued = try middle.issue(request())
        let false509 = try root.issue(.init("Middle"))
        let host = try await TLSHost(issued, chain: [false509.certificate])
        let error = try await host.refusal(["ca": root.certificate, "server-name": Self.host])
        #expect(error.code == .certificateRejected && !error.isRetryable, "\(error)")
        await host.stop()
    }

    // MARK: Revocation

    @Test("A revoked certificate is refused, and another one of the same authority is not")
    func revoked() async throws {
        let authority = try authority()
        let (bad, good) = (try authority.issue(request()), try authority.issue(request()))
        let options: EndpointOptions = ["ca": authority.certificate, "crl": try authority.revoke([bad.serial, 12345])]
        let accepting = try await TLSHost(good)
        let (client, _) = try await accepting.pair(options + ["server-name": Self.host])
        await client.close()
        await accepting.stop()
        try await expectRefusal(
            try await TLSHost(bad),
            options,
            .revoked,
            "the issuer has revoked the certificate of chat.example",
            Self.facts
        )
    }

    @Test("A revoked authority in the chain is refused if there is a list of its issuer")
    func revokedAuthority() async throws {
        let root = try authority("Root")
        let middle = try ThrowAwayAuthority("Test authority", under: root)
        let host = try await TLSHost(try middle.issue(request()), chain: [middle.certificate])
        let lists = try middle.revoke([])
        let (client, _) = try await host.pair(["ca": root.certificate, "crl": lists, "server-name": Self.host])
        await client.close()
        try await expectRefusal(
            host,
            ["ca": root.certificate, "crl": lists + (try root.revoke([middle.serial]))],
            .revoked,
            "certificate 1 in the chain of chat.example"
        )
    }

    @Test("A certificate whose issuer has no list among the revocation lists is refused")
    func noRevocationList() async throws {
        let authority = try authority()
        try await expectRefusal(
            try await TLSHost(try authority.issue(request())),
            ["ca": authority.certificate, "crl": try self.authority("Other").revoke([1])],
            .noRevocationList,
            "the file of crl has no valid list of the issuer 'CN=Test authority'",
            Self.facts
        )
    }

    // MARK: Weak keys

    @Test("A certificate with an RSA key of 1024 bits is refused")
    func weakKey() async throws {
        let authority = try authority()
        let weak = try authority.issue(request { $0.key = .rsa(1024) })
        let strong = try authority.issue(request { $0.key = .rsa(2048) })
        let host = try await TLSHost(strong, registry: .over(ChangedOpenSSL.weak(weak)))
        try await expectRefusal(
            host,
            ["ca": authority.certificate],
            .weakKey,
            "the certificate of chat.example has a key or a signature that is too weak",
            Self.facts
        )
    }

    @Test("An authority with an RSA key of 1024 bits is refused")
    func weakAuthority() async throws {
        let authority = try ThrowAwayAuthority("Test authority", isWeak: true)
        try await expectRefusal(
            try await TLSHost(try authority.issue(request())),
            ["ca": authority.certificate],
            .weakKey,
            "certificate 1 in the chain of chat.example",
            "subject 'CN=Test authority'"
        )
    }

    // MARK: Pins

    @Test("A pin of the certificate or of the authority is accepted, and another one is refused with the seen pins")
    func pins() async throws {
        let authority = try authority()
        let host = try await TLSHost(try authority.issue(request()))
        let trusting: EndpointOptions = ["ca": authority.certificate, "server-name": Self.host]
        let (first, _) = try await host.pair(trusting)
        let own = try #require(first.encryption?.peer?.pin)
        await first.close()
        let other = "sha256/\(String(repeating: "A", count: 43))="
        let error = try await host.refusal(trusting + ["pin": other])
        let seen = error.reason.matches(of: /[A-Za-z0-9+\/]{43}=/).map { "sha256/\($0.output)" }
        #expect(seen.count == 2 && seen.first == own)
        let ofAuthority = try #require(seen.last)
        for pins: EndpointOptions in [["pin": own], ["pin": ofAuthority], ["pin": other, "pin": own]] {
            let (client, _) = try await host.pair(trusting + pins)
            await client.close()
        }
        try await expectRefusal(
            host,
            ["ca": authority.certificate, "pin": other],
            .pinMismatch,
            "none of the keys in the certificate chain of chat.example is pinned",
            Self.facts,
            String(own.dropFirst(7))
        )
    }

    // MARK: No checks

    @Test("A client that trusts any certificate is not verified, and says so")
    func trustsAny() async throws {
        let host = try await TLSHost(try ThrowAwayAuthority.selfSigned(.init("any.example")))
        let (client, _) = try await host.pair(["dangerously-trust-any-certificate": "on"])
        #expect(client.encryption?.isVerified == false)
        #expect(client.encryption?.peer?.commonName == "any.example")
        await client.close()
        await host.stop()
    }

    @Test("A supervisor reports for each connection that the certificate was not checked")
    func uncheckedConnections() async throws {
        let host = try await TLSHost(try ThrowAwayAuthority.selfSigned(.init("any.example")))
        let endpoint = tlsEndpoint("wss", port: host.port, ["dangerously-trust-any-certificate": "on"])
        let (supervisor, recorder) = try Supervisor.recorded([endpoint])
        supervisor.connect()
        let first = try #require(try await host.listener.accept())
        await recorder.waitUntilOpen()
        await first.close()
        let second = try #require(try await host.listener.accept())
        await recorder.waitUntilOpen(2)
        let events = recorder.events
        let checks = events.compactMap { event -> Bool? in
            if case .encrypted(endpoint, let encryption) = event { encryption.isVerified } else { nil }
        }
        #expect(checks == [false, false], "\(events)")
        await supervisor.close()
        await second.close()
        await host.stop()
    }
}
