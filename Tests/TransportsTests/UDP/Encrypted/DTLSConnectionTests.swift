import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// Connections over DTLS between a client and a server of this package.
@Suite("Encrypted datagrams", .enabled(if: hasOpenSSL), .timeLimit(.minutes(5)), .ownThread)
struct DTLSConnectionTests {
    static let modes: [EndpointOptions] = [[:], ["reliable": "ordered"], ["reliable": "unordered"]]

    private func certificates() throws -> (authority: ThrowAwayAuthority, server: ThrowAwayAuthority.Issued) {
        let authority = try ThrowAwayAuthority("Test authority")
        return (authority, try authority.issue(.init("localhost", names: ["IP:127.0.0.1", "DNS:localhost"])))
    }

    @Test("A connection carries messages in both directions and closes cleanly", arguments: modes)
    func echo(mode: EndpointOptions) async throws {
        let registry = TransportRegistry.available
        let listener = try await registry.listen("dtls://127.0.0.1:0")
        var endpoint = listener.endpoint
        endpoint.options = mode.list
        async let accepted = listener.accept()
        let client = try await registry.connect(endpoint)
        let server = try #require(try await accepted)
        let encryption = try #require(client.encryption)
        #expect(encryption.version == "DTLSv1.2" && encryption.isVerified)
        #expect(encryption.cipher.contains("GCM") || encryption.cipher.contains("CHACHA20"))
        #expect(server.encryption?.version == "DTLSv1.2")
        let sizes = mode.list.isEmpty ? [0, 1, 125, 1163] : [0, 1, 125, 4096, 70_000, 1 << 20]
        for size in sizes {
            let bytes = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31) }
            async let received = server.receive()
            #expect(await client.send(Payload(bytes)).isSuccess)
            #expect(try await received?.bytes == bytes)
            async let returned = client.receive()
            #expect(await server.send(Payload(bytes)).isSuccess)
            #expect(try await returned?.bytes == bytes)
        }
        #expect(try await client.ping() > .zero)
        // Three for DTLS, and two for the session. Under load, datagrams are repeated.
        #expect(await client.statistics().handshakeRoundTrips >= 5)
        let (sent, served) = (await client.statistics(), await server.statistics())
        #expect(sent.tlsBytesSent > 0 && sent.tlsBytesSent < sent.bytesSent)
        #expect(served.tlsBytesSent > 0 && served.tlsBytesSent < served.bytesSent)
        #expect(await client.close() == 0)
        #expect(await server.closed().error == nil)
        await listener.close()
    }

    @Test("A server that closes ends the connection of its client", arguments: modes + [["plain": "on"]])
    func closedByServer(mode: EndpointOptions) async throws {
        let registry = TransportRegistry.available
        let isPlain = mode.list.first?.name == "plain"
        let listener = try await registry.listen("dtls://127.0.0.1:0" + (isPlain ? "?plain=on" : ""))
        var endpoint = listener.endpoint
        endpoint.options = mode.list
        async let accepted = listener.accept()
        let client = try await registry.connect(endpoint)
        #expect(await client.send(Payload(text: "hello")).isSuccess)
        let server = try #require(try await accepted)
        #expect(try await server.receive()?.bytes == Array("hello".utf8))
        await server.close()
        // Without sessions, only close_notify says so.
        #expect(try await client.receive() == nil)
        #expect(await client.closed().initiator == .peer)
        await listener.close()
    }

    @Test("The messages before a close arrive in the reliable mode")
    func lastMessages() async throws {
        let registry = TransportRegistry.available
        let listener = try await registry.listen("dtls://127.0.0.1:0")
        var endpoint = listener.endpoint
        endpoint.options = [.init(name: "reliable", value: "ordered")]
        async let accepted = listener.accept()
        let client = try await registry.connect(endpoint)
        let server = try #require(try await accepted)
        for number in 0..<100 as Range<UInt8> { #expect(await server.send(Payload([number])).isSuccess) }
        async let closed = server.close()
        for number in 0..<100 as Range<UInt8> { #expect(try await client.receive()?.bytes == [number]) }
        #expect(try await client.receive() == nil)
        #expect(await closed == 0)
        await listener.close()
    }

    @Test("A second connection continues the session of the first, unless resumption is off")
    func resumption() async throws {
        let (authority, issued) = try certificates()
        // Tests that run at the same time displace the contexts of the shared registry.
        let host = try await TLSHost("dtls", issued, registry: .over(OpenSSL.shared))
        for (options, isResumed) in [([:], [false, true, true]), (["resumption": "off"], [false, false])]
            as [(EndpointOptions, [Bool])]
        {
            for expected in isResumed {
                let (client, server) = try await host.pair(["ca": authority.certificate] + options)
                #expect(client.encryption?.isResumed == expected && server.encryption?.isResumed == expected)
                #expect(await client.send(Payload(text: "hello")).isSuccess)
                #expect(try await server.receive()?.bytes == Array("hello".utf8))
                await client.close()
            }
        }
        await host.stop()
    }

    @Test("An application protocol is agreed on")
    func applicationProtocol() async throws {
        let (authority, issued) = try certificates()
        let host = try await TLSHost("dtls", issued, ["alpn": "chat/2"])
        let (client, server) = try await host.pair(["ca": authority.certificate, "alpn": "chat/1", "alpn": "chat/2"])
        #expect(client.encryption?.applicationProtocol == "chat/2")
        #expect(server.encryption?.applicationProtocol == "chat/2")
        await client.close()
        let error = try await host.refusal(["ca": authority.certificate, "alpn": "chat/1"])
        #expect(error.tlsProblem == .noCommonProtocol && error.code == .secureHandshakeFailed)
        await host.stop()
    }

    @Test("The certificate of a client is its identity")
    func identity() async throws {
        let (authority, issued) = try certificates()
        let ann = try authority.issue(.init("ann"))
        let host = try await TLSHost(
            "dtls",
            issued,
            ["ca": authority.certificate, "client-certificates": "required"],
            registry: .over(OpenSSL.shared)
        )
        let own: EndpointOptions = [
            "ca": authority.certificate, "certificate": ann.certificate, "key": ann.key, "reliable": "ordered",
        ]
        // The second handshake continues a session, whose ticket contains the certificate.
        for isResumed in [false, true] {
            let (client, server) = try await host.pair(own)
            #expect(client.encryption?.isResumed == isResumed)
            #expect(server.identity?.name == "ann")
            #expect(server.encryption?.peer?.commonName == "ann" && server.encryption?.isVerified == true)
            await client.close()
        }
        let error = try await host.refusal(["ca": authority.certificate])
        #expect(error.tlsProblem == .certificateRequired && error.code == .authenticationFailed, "\(error)")
        await host.stop()
    }

    @Test("Fifty clients can connect at the same time")
    func concurrentClients() async throws {
        let (authority, issued) = try certificates()
        let trusted = authority.certificate
        let host = try await TLSHost("dtls", issued)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<50 {
                group.addTask {
                    let client = try await host.connect(["ca": trusted])
                    #expect(client.encryption?.version == "DTLSv1.2")
                    await client.close()
                }
            }
            try await group.waitForAll()
        }
        await host.stop()
    }

    // MARK: Sizes

    @Test("A full message fits into the same datagram as without encryption", arguments: modes)
    func fullDatagrams(mode: EndpointOptions) async throws {
        let (authority, issued) = try certificates()
        let host = try await TLSHost("dtls", issued)
        let relay = try DatagramRelay(to: host.port)
        async let accepted = host.listener.accept()
        let endpoint = tlsEndpoint("dtls", port: relay.port, ["ca": authority.certificate] + mode)
        let client = try await TransportRegistry.standard.connect(endpoint)
        let server = try #require(try await accepted)
        let size = mode.list.isEmpty ? 1163 : 20_000
        #expect(await client.send(Payload([UInt8](repeating: 1, count: size))).isSuccess)
        #expect(try await server.receive()?.bytes.count == size)
        // 1200 bytes in the reliable mode, and 1200 with a header of 16 bytes otherwise.
        let longest = relay.seen.map { $0.datagram.count }.max()
        #expect(longest == (mode.list.isEmpty ? 1216 : 1200))
        await client.close()
        relay.stop()
        await host.stop()
    }

    @Test("A longer message is refused, unless both sides allow it")
    func largestMessage() async throws {
        let (authority, issued) = try certificates()
        let host = try await TLSHost("dtls", issued, ["max-message": "16368"])
        let (client, first) = try await host.pair(["ca": authority.certificate])
        let outcome = await client.send(Payload([UInt8](repeating: 1, count: 1164)))
        #expect(outcome.error?.code == .messageTooLarge)
        await client.close()
        await first.close()
        let (other, server) = try await host.pair(["ca": authority.certificate, "max-message": "16368"])
        #expect(await other.send(Payload([UInt8](repeating: 1, count: 16_368))).isSuccess)
        #expect(try await server.receive()?.bytes.count == 16_368)
        await other.close()
        await host.stop()
        let error = #expect(throws: TransportError.self) {
            try TransportRegistry.standard.transport(for: Endpoint("dtls://host?max-message=16369"))
        }
        #expect(error?.code == .invalidConfiguration && error?.reason.contains("max-message") == true)
    }

    // MARK: Configuration

    @Test("TLS 1.3 cannot be required, because DTLS has version 1.2")
    func version() async throws {
        let client = #expect(throws: TransportError.self) {
            try TransportRegistry.standard.transport(for: Endpoint("dtls://host?min-tls=1.3"))
        }
        let server = await #expect(throws: TransportError.self) {
            try await TransportRegistry.standard.listen("dtls://127.0.0.1:0?min-tls=1.3")
        }
        for error in [client, server] {
            #expect(error?.code == .invalidConfiguration)
            #expect(error?.reason.contains("min-tls is 1.3, but DTLS has version 1.2 here") == true)
        }
        _ = try TransportRegistry.standard.transport(for: Endpoint("dtls://host?min-tls=1.2"))
    }
}

extension SendOutcome {
    fileprivate var error: TransportError? {
        if case .rejected(let error) = self { error } else { nil }
    }
}
