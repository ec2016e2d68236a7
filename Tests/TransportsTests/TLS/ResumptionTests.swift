import EmbeddedServers
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import SocketIO
@testable import Transports

/// Sessions of TLS that later connections continue. Each test has contexts of its own, because other tests make so many that
/// the shared ones are forgotten.
@Suite("Continued TLS sessions", .enabled(if: hasOpenSSL), .timeLimit(.minutes(5)), .ownThread)
struct ResumptionTests {
    /// A server that keeps whether the handshakes of its clients were resumed.
    private final class CountingServer: Sendable {
        let listener: any Listener
        private let resumed: AsyncStream<Bool>

        init(_ scheme: String, _ registry: TransportRegistry, _ options: EndpointOptions = [:]) async throws {
            let listener = try await registry.listen(tlsEndpoint(scheme, port: 0, options))
            self.listener = listener
            let (resumed, seen) = AsyncStream.makeStream(of: Bool.self)
            self.resumed = resumed
            Task {
                while let connection = try await listener.accept() {
                    seen.yield(connection.encryption?.isResumed ?? false)
                    Task {
                        // Tickets come before the first bytes of the protocol. This one begins with a message.
                        if scheme == "tls" { _ = await connection.send(bytes("welcome")) }
                        _ = await connection.closed()
                    }
                }
            }
        }

        /// Whether each of the first handshakes was resumed, in order.
        func handshakes(_ count: Int) async -> [Bool] {
            var seen: [Bool] = []
            for await isResumed in resumed {
                seen.append(isResumed)
                if seen.count == count { break }
            }
            return seen
        }
    }

    @Test(
        "A supervisor continues its session after each cut",
        arguments: TLSConnectionTests.schemes,
        [FaultProxy.Cut.reset, .finish]
    )
    func cuts(scheme: String, cut: FaultProxy.Cut) async throws {
        #expect(try await handshakes(scheme, cut) == [false] + [Bool](repeating: true, count: 10))
    }

    @Test("A supervisor without resumption begins a session after each cut", arguments: TLSConnectionTests.schemes)
    func off(scheme: String) async throws {
        let handshakes = try await handshakes(scheme, .reset, ["resumption": "off"])
        #expect(handshakes == [Bool](repeating: false, count: 11))
    }

    @Test("A supervisor continues its session with TLS 1.2", arguments: ["wss", "tls"])
    func tls12(scheme: String) async throws {
        let issued = try ThrowAwayAuthority.selfSigned(.init("localhost", names: ["IP:127.0.0.1"]))
        let handshakes = try await handshakes(
            scheme,
            .reset,
            ["ca": issued.certificate],
            server: ["certificate": issued.certificate, "key": issued.key],
            .over(ChangedOpenSSL.tls12)
        )
        #expect(handshakes == [false] + [Bool](repeating: true, count: 10))
    }

    /// Cuts ten connections of a supervisor. Returns whether each handshake was resumed.
    private func handshakes(
        _ scheme: String,
        _ cut: FaultProxy.Cut,
        _ options: EndpointOptions = [:],
        server serverOptions: EndpointOptions = [:],
        _ registry: TransportRegistry = .over(TrialTLS())
    ) async throws -> [Bool] {
        let server = try await CountingServer(scheme, registry, serverOptions)
        let proxy = try await FaultProxy.start(to: server.listener.endpoint, seed: 1, registry: registry)
        let endpoint = tlsEndpoint(scheme, port: proxy.endpoint.port, topics(of: scheme) + options)
        let recorder = Recorder()
        let whole = TransportConfiguration(endpoints: [endpoint], supervisor: .quick)
        let supervisor = try Supervisor(whole, registry: registry) { $0.observer = recorder }
        supervisor.connect()
        var messages = supervisor.messages.makeAsyncIterator()
        for round in 1...11 {
            await recorder.waitUntilOpen(round)
            if scheme == "tls" { #expect(await messages.next()?.string == "welcome") }
            if round <= 10 { await proxy.cut(cut) }
        }
        let handshakes = await server.handshakes(11)
        await supervisor.close()
        await proxy.stop()
        await server.listener.close()
        return handshakes
    }

    // MARK: Separate sessions

    @Test("A session is continued with equal settings only")
    func separate() async throws {
        let authority = try ThrowAwayAuthority("Test authority")
        let names = ["IP:127.0.0.1", "DNS:a.example", "DNS:b.example"]
        let issued = try authority.issue(.init("localhost", names: names))
        let (ann, bob) = (try authority.issue(.init("ann")), try authority.issue(.init("bob")))
        let ca = authority.certificate
        let host = try await TLSHost(
            issued,
            ["ca": ca, "client-certificates": "optional"],
            registry: .over(OpenSSL.shared)
        )

        func isResumed(_ options: EndpointOptions) async throws -> Bool {
            let (client, server) = try await host.pair(options)
            let isResumed = try #require(server.encryption).isResumed
            #expect(client.encryption?.isResumed == isResumed)
            await client.close()
            return isResumed
        }

        let base: EndpointOptions = ["ca": ca, "server-name": "a.example"]
        let (first, _) = try await host.pair(base)
        let pin = try #require(first.encryption?.peer?.pin)
        await first.close()
        #expect(try await isResumed(base))
        let others: [EndpointOptions] = [
            ["ca": ca, "server-name": "b.example"],
            ["ca": ca],
            ["ca": ca + (try ThrowAwayAuthority("Other").certificate), "server-name": "a.example"],
            base + ["pin": pin],
            base + ["pin": pin, "pin": "sha256/\(String(repeating: "A", count: 43))="],
            base + ["certificate": ann.certificate, "key": ann.key],
            base + ["certificate": bob.certificate, "key": bob.key],
            base + ["min-tls": "1.3"],
            base + ["alpn": "http/1.1", "alpn": "other"],
            base + ["crl": try authority.revoke([])],
            ["dangerously-trust-any-certificate": "on", "server-name": "a.example"],
        ]
        for options in others { #expect(try await !isResumed(options), "\(options.list)") }
        // Each of them has a session of its own now.
        for options in others { #expect(try await isResumed(options), "\(options.list)") }
        #expect(try await isResumed(base))
        await host.stop()
    }

    @Test("A session is not continued with a server on another port")
    func otherPort() async throws {
        let authority = try ThrowAwayAuthority("Test authority")
        let issued = try authority.issue(.init("localhost", names: ["IP:127.0.0.1"]))
        // Both servers have the same settings, so they could read each other's tickets.
        let registry = TransportRegistry.over(OpenSSL.shared)
        let (one, two) = (
            try await TLSHost(issued, registry: registry), try await TLSHost(issued, registry: registry)
        )
        for (host, isResumed) in [(one, false), (two, false), (one, true), (two, true)] {
            let (client, server) = try await host.pair(["ca": authority.certificate])
            #expect(server.encryption?.isResumed == isResumed)
            await client.close()
        }
        await one.stop()
        await two.stop()
    }

    // MARK: The end of certificates

    @Test("A client continues no session after the certificate of its server has expired")
    func expiredServer() async throws {
        let authority = try ThrowAwayAuthority("Test authority")
        var request = ThrowAwayAuthority.Request("localhost", names: ["IP:127.0.0.1"])
        (request.from, request.to) = (-3500, -100)
        // The certificate was valid when the client checked it.
        let registry = TransportRegistry.over(ChangedOpenSSL.checking(.client, at: -1000))
        let host = try await TLSHost(try authority.issue(request), registry: registry)
        for _ in 0..<2 {
            let (client, server) = try await host.pair(["ca": authority.certificate])
            #expect(server.encryption?.isResumed == false)
            await client.close()
        }
        await host.stop()
    }

    /// OpenSSL for a server that checks certificates of clients as 1,000 s ago, until ``isPast`` is false.
    private final class PastTLS: TLSProvider {
        private let contexts = Locked<[OpenSSLContext]>([])
        var readsFiles: Bool { true }

        func makeContext(
            _ settings: TLSSettings,
            password: (@Sendable (String) -> String?)?
        ) throws(TLSSetupError) -> any TLSContext {
            let context = try ChangedOpenSSL.checking(.server, at: -1000).makeContext(settings, password: password)
            if let context = context as? OpenSSLContext { contexts.withLock { $0.append(context) } }
            return context
        }

        /// Checks certificates as of now.
        func end() {
            for context in contexts.withLock({ $0 }) { ChangedOpenSSL.checking(.server, at: 0).change(context) }
        }
    }

    @Test(
        "A client whose certificate has expired learns it, although it could continue a session",
        arguments: ["wss", "dtls"],
        ["1.2", "1.3"]
    )
    func expiredClientLearns(scheme: String, version: String) async throws {
        guard scheme != "dtls" || version == "1.2" else { return }
        let authority = try ThrowAwayAuthority("Test authority")
        var request = ThrowAwayAuthority.Request("ann")
        (request.from, request.to) = (-3500, -100)
        let ann = try authority.issue(request)
        let provider = PastTLS()
        let host = try await TLSHost(
            scheme,
            try authority.issue(.init("localhost", names: ["IP:127.0.0.1"])),
            ["ca": authority.certificate, "client-certificates": "required", "max-tls": version],
            registry: .over(provider)
        )
        let options: EndpointOptions = [
            "ca": authority.certificate, "certificate": ann.certificate, "key": ann.key,
        ]
        let (client, server) = try await host.pair(options)
        #expect(server.encryption?.isResumed == false)
        #expect(await server.send(Payload(text: "The client reads its session before this.")).isSuccess)
        _ = try await client.receive()
        await client.close()
        provider.end()
        for _ in 0..<2 {
            let error = try await host.refusal(options)
            #expect(error.tlsProblem == .certificateRefused && error.code == .authenticationFailed, "\(error)")
        }
        await host.stop()
    }

    @Test("A pinned key protects a continued session too")
    func pinAfterSession() async throws {
        let authority = try ThrowAwayAuthority("Test authority")
        let host = try await TLSHost(
            try authority.issue(.init("localhost", names: ["IP:127.0.0.1"])),
            registry: .over(OpenSSL.shared)
        )
        let (client, _) = try await host.pair(["ca": authority.certificate])
        await client.close()
        let error = try await host.refusal([
            "ca": authority.certificate, "pin": "sha256/\(String(repeating: "A", count: 43))=",
        ])
        #expect(error.tlsProblem == .pinMismatch)
        await host.stop()
    }

    @Test("Connections that are opened at the same time each continue a session, as far as there are sessions")
    func concurrent() async throws {
        let authority = try ThrowAwayAuthority("Test authority")
        let host = try await TLSHost(
            try authority.issue(.init("localhost", names: ["IP:127.0.0.1"])),
            registry: .over(OpenSSL.shared)
        )
        let accepting = Task {
            var resumed = 0
            while let connection = try await host.listener.accept() {
                if connection.encryption?.isResumed == true { resumed += 1 }
                _ = await connection.send(Payload(Array("welcome".utf8)))
            }
            return resumed
        }
        let options: EndpointOptions = ["ca": authority.certificate]
        for _ in 0..<3 {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<20 {
                    group.addTask {
                        let client = try await host.connect(options)
                        // TLS 1.3 gives the session after the handshake, and before the first message.
                        _ = try await client.receive()
                        await client.close()
                    }
                }
                try await group.waitForAll()
            }
        }
        await host.stop()
        // At most four sessions of a server are kept, so each later round begins with four.
        let resumed = try await accepting.value
        #expect(resumed >= 8 && resumed < 60)
    }
}
