import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// TLS handshakes that fail for other reasons than the server's certificate, as both sides see them.
@Suite("TLS handshakes that fail", .enabled(if: hasOpenSSL), .timeLimit(.minutes(5)), .ownThread)
struct HandshakeProblemTests {
    private func expect(
        _ error: TransportError,
        _ problem: TLSProblem,
        _ code: TransportError.Code,
        phase: TransportError.Phase = .secure,
        isRetryable: Bool = false,
        _ parts: String...,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(error.tlsProblem == problem, "\(error)", sourceLocation: sourceLocation)
        #expect(error.code == code && error.phase == phase, "\(error)", sourceLocation: sourceLocation)
        #expect(error.isRetryable == isRetryable, "\(error)", sourceLocation: sourceLocation)
        for part in parts { #expect(error.reason.contains(part), "\(error)", sourceLocation: sourceLocation) }
    }

    // MARK: In common

    @Test("A client that requires TLS 1.3 refuses a server with TLS 1.2")
    func oldServer() async throws {
        let certificates = try TestCertificates()
        let host = try await TLSHost(certificates.server, registry: .over(ChangedOpenSSL.tls12))
        let (client, _) = try await host.pair(["ca": certificates.authority], registry: .standard)
        #expect(client.encryption?.version == "TLSv1.2")
        await client.close()
        let error = try await host.refusal(["ca": certificates.authority, "min-tls": "1.3"], registry: .standard)
        expect(
            error,
            .protocolVersion,
            .secureHandshakeFailed,
            "the server does not allow the TLS versions of this side"
        )
        expect(try await host.events.firstError(), .protocolVersion, .secureHandshakeFailed, "TLS 1.2 or later")
        await host.stop()
    }

    @Test("A server that requires TLS 1.3 refuses a client with TLS 1.2")
    func oldClient() async throws {
        let certificates = try TestCertificates()
        let host = try await TLSHost(certificates.server, ["min-tls": "1.3"])
        let error = try await host.refusal(["ca": certificates.authority], registry: .over(ChangedOpenSSL.tls12))
        expect(error, .protocolVersion, .secureHandshakeFailed)
        expect(
            try await host.events.firstError(),
            .protocolVersion,
            .secureHandshakeFailed,
            "the client does not speak TLS 1.3 or later"
        )
        await host.stop()
    }

    @Test("Two sides without a common cipher fail with that reason")
    func noCommonCipher() async throws {
        let certificates = try TestCertificates()
        let host = try await TLSHost(
            certificates.server,
            registry: .over(ChangedOpenSSL.cipher("ECDHE-ECDSA-AES256-GCM-SHA384"))
        )
        let error = try await host.refusal(
            ["ca": certificates.authority],
            registry: .over(ChangedOpenSSL.cipher("ECDHE-ECDSA-AES128-GCM-SHA256"))
        )
        expect(error, .noCommonAlgorithm, .secureHandshakeFailed, "TLS alert 40")
        expect(try await host.events.firstError(), .noCommonAlgorithm, .secureHandshakeFailed, "no shared cipher")
        await host.stop()
    }

    @Test("Two sides without a common application protocol fail with that reason")
    func noCommonProtocol() async throws {
        let certificates = try TestCertificates()
        let host = try await TLSHost("tls", certificates.server, ["alpn": "chat/2", "alpn": "chat/3"])
        let (client, server) = try await host.pair(["ca": certificates.authority, "alpn": "chat/1", "alpn": "chat/3"])
        #expect(client.encryption?.applicationProtocol == "chat/3")
        #expect(server.encryption?.applicationProtocol == "chat/3")
        await client.close()
        let error = try await host.refusal(["ca": certificates.authority, "alpn": "chat/1"])
        expect(error, .noCommonProtocol, .secureHandshakeFailed, "ALPN")
        expect(try await host.events.firstError(), .noCommonProtocol, .secureHandshakeFailed, "ALPN")
        await host.stop()
    }

    // MARK: Certificates of clients

    @Test(
        "A client without a certificate is refused by a server that requires one",
        arguments: ["wss", "tls"],
        [true, false]
    )
    func missingCertificate(scheme: String, isTLS12: Bool) async throws {
        let certificates = try TestCertificates()
        let host = try await TLSHost(
            scheme,
            certificates.server,
            ["ca": certificates.authority, "client-certificates": "required"],
            registry: isTLS12 ? .over(ChangedOpenSSL.tls12) : .standard
        )
        let error = try await host.refusal(["ca": certificates.authority], registry: .standard)
        expect(error, .certificateRequired, .authenticationFailed, "set certificate and key")
        expect(
            try await host.events.firstError(),
            .certificateRequired,
            .authenticationFailed,
            "the client has sent no certificate, and this server requires one"
        )
        await host.stop()
    }

    @Test("A client with a certificate of an unknown authority is refused on both sides", arguments: [true, false])
    func unknownClient(isTLS12: Bool) async throws {
        let certificates = try TestCertificates()
        let other = try ThrowAwayAuthority("Other authority").issue(.init("eve"))
        let host = try await TLSHost(
            certificates.server,
            ["ca": certificates.authority, "client-certificates": "optional"],
            registry: isTLS12 ? .over(ChangedOpenSSL.tls12) : .standard
        )
        let error = try await host.refusal(
            ["ca": certificates.authority, "certificate": other.certificate, "key": other.key],
            registry: .standard
        )
        expect(
            error,
            .certificateRefused,
            .authenticationFailed,
            "the server does not accept the certificate of this side"
        )
        expect(
            try await host.events.firstError(),
            .unknownIssuer,
            .certificateRejected,
            "the issuer of the certificate of the client, 'CN=Other authority', is not trusted",
            "subject 'CN=eve'"
        )
        await host.stop()
    }

    @Test("An expired certificate of a client is refused")
    func expiredClient() async throws {
        let authority = try ThrowAwayAuthority("Test authority")
        let server = try authority.issue(.init("localhost", names: ["IP:127.0.0.1"]))
        var request = ThrowAwayAuthority.Request("ann")
        (request.from, request.to) = (-7200, -3600)
        let client = try authority.issue(request)
        let host = try await TLSHost(server, ["ca": authority.certificate, "client-certificates": "required"])
        let options: EndpointOptions = [
            "ca": authority.certificate, "certificate": client.certificate, "key": client.key,
        ]
        expect(try await host.refusal(options), .certificateRefused, .authenticationFailed)
        expect(
            try await host.events.firstError(),
            .expired,
            .certificateRejected,
            "the certificate of the client expired on 2"
        )
        await host.stop()
    }

    // MARK: Plain text

    @Test(
        "A client of TLS recognizes a plain server",
        arguments: [
            ("wss", "ws"), ("tls", "tcp"), ("mqtts", "mqtt"), ("mqtt+wss", "mqtt+ws"), ("wss", "tcp"), ("tls", "ws"),
        ]
    )
    func plainServer(client: String, server: String) async throws {
        let events = ObservedEvents()
        let listener = try await TransportRegistry.standard.listen("\(server)://127.0.0.1:0", observer: events.observer)
        let endpoint = tlsEndpoint(client, port: listener.endpoint.port, topics(of: client))
        let error = await #expect(throws: TransportError.self) {
            try await TransportRegistry.standard.connect(endpoint)
        }
        expect(try #require(error), .plainText, .secureHandshakeFailed, "plain scheme, such as ws:// instead of wss://")
        let seen = try await events.firstError()
        #expect(seen.reason == "the client speaks TLS; this listener is plain: use \(server)://")
        #expect(seen.tlsProblem == .unexpectedTLS)
        await listener.close()
    }

    @Test("A client of TLS quotes the plain text of another server")
    func plainForeignServer() async throws {
        let server = try AnsweringServer(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
        defer { server.stop() }
        let endpoint = tlsEndpoint("wss", port: server.port)
        let error = await #expect(throws: TransportError.self) {
            try await TransportRegistry.standard.connect(endpoint)
        }
        expect(try #require(error), .plainText, .secureHandshakeFailed, "plain text (\"HTTP/1.1 400 Bad\")")
    }

    @Test(
        "A plain client recognizes a server of TLS, and its error names the scheme to use",
        arguments: [("ws", "wss"), ("tcp", "tls"), ("mqtt", "mqtts"), ("mqtt+ws", "mqtt+wss")]
    )
    func plainClient(client: String, server: String) async throws {
        let certificates = try TestCertificates()
        let host = try await TLSHost(server, certificates.server)
        var endpoint = try Endpoint("\(client)://127.0.0.1:\(host.port ?? 0)")
        endpoint.options = try TransportRegistry.standard.transport(named: client).loopback("plain")
        let outcome = try await MistakeOutcome.of(endpoint)
        #expect(!outcome.isRetried)
        #expect(outcome.error.code == .handshakeFailed && outcome.error.phase == .handshake)
        #expect(outcome.error.tlsProblem == .unexpectedTLS)
        #expect(outcome.error.reason.contains("the server speaks TLS"))
        #expect(outcome.error.reason.contains("use \(server)://, or a port of the server without TLS"))
        expect(
            try await host.events.firstError(),
            .plainText,
            .secureHandshakeFailed,
            "it must use an encrypted scheme, such as wss:// instead of ws://"
        )
        await host.stop()
    }

    @Test(
        "A server of TLS answers plain text with an alert",
        arguments: [
            "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "\0\0\0\u{5}hello", "SSH-2.0-OpenSSH_9.2\r\n", "\u{16}x",
            String(repeating: "x", count: 100_000),
        ]
    )
    func plainBytes(text: String) async throws {
        let host = try await TLSHost(try TestCertificates().server)
        #expect(try answer(of: host.port, to: Array(text.utf8)) == [21, 3, 1, 0, 2, 2, 10])
        let quoted = text.hasPrefix("GET") ? "plain text (\"GET / HTTP/1.1\")" : "plain text"
        expect(try await host.events.firstError(), .plainText, .secureHandshakeFailed, quoted)
        await host.stop()
    }

    // MARK: Cut handshakes

    @Test("A server that ends the connection within the handshake is tried again")
    func cutByServer() async throws {
        let server = try AnsweringServer([])
        defer { server.stop() }
        let endpoint = tlsEndpoint("wss", port: server.port)
        let error = await #expect(throws: TransportError.self) {
            try await TransportRegistry.standard.connect(endpoint)
        }
        expect(
            try #require(error),
            .truncated,
            .connectionLost,
            isRetryable: true,
            "the server ended the connection during the TLS handshake"
        )
    }

    @Test("A client that ends the connection within the handshake is reported", arguments: [0, 1, 5, 100])
    func cutByClient(count: Int) async throws {
        let host = try await TLSHost(try TestCertificates().server)
        let descriptor = try connectedSocket(host.port)
        let hello = Array(([22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3] + [UInt8](repeating: 7, count: 200)).prefix(count))
        _ = Foundation.send(descriptor, hello, hello.count, Int32(MSG_NOSIGNAL))
        close(descriptor)
        expect(
            try await host.events.firstError(),
            .truncated,
            .connectionLost,
            isRetryable: true,
            "the client ended the connection during the TLS handshake"
        )
        await host.stop()
    }

    @Test("A client that sends half a handshake is ended by the time limit")
    func slowClient() async throws {
        let host = try await TLSHost(try TestCertificates().server, ["tls-timeout": "100ms"])
        let descriptor = try connectedSocket(host.port)
        _ = Foundation.send(descriptor, [22, 3, 1, 0, 200, 1] as [UInt8], 6, Int32(MSG_NOSIGNAL))
        let error = try await host.events.firstError()
        #expect(error.code == .timedOut && error.phase == .secure && error.tlsProblem == nil)
        #expect(error.reason == "the TLS handshake was not complete in time")
        close(descriptor)
        await host.stop()
    }

    @Test("A client ends its attempt if the server sends nothing")
    func silentServer() async throws {
        let certificates = try TestCertificates()
        let options: EndpointOptions = ["ca": certificates.authority]
        // From now on the authority is loaded.
        let host = try await TLSHost(certificates.server)
        await (try await host.connect(options)).close()
        await host.stop()
        let server = try RawServer(.silent)
        defer { server.stop() }
        let error = await #expect(throws: TransportError.self) {
            try await TransportRegistry.standard.connect(
                tlsEndpoint("wss", port: server.port, options),
                timeout: .seconds(5)
            )
        }
        #expect(error?.code == .timedOut && error?.phase == .secure && error?.isRetryable == true)
    }

    @Test("A record that cannot be decrypted ends both sides")
    func brokenRecord() async throws {
        let engines = try RawEngines()
        let host = try await TLSHost("tls", engines.server)
        let peer = try BlockingTLS(connectingTo: host.port, try engines.engine(.client))
        try peer.handshake()
        peer.writePlainly([23, 3, 3, 0, 32] + [UInt8](repeating: 5, count: 32))
        _ = peer.readAll()
        #expect(peer.failure != nil)
        let error = try await host.events.firstError()
        expect(error, .brokenRecord, .connectionLost, phase: .open, isRetryable: true, "cannot be decrypted")
        await host.stop()
    }
}
